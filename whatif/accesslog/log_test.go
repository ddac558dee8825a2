package accesslog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/whatif"
)

// combined is a line of a second of 20 May 2024.
func combined(second int, client, path string) string {
	at := time.Date(2024, 5, 20, 0, 0, second, 0, time.UTC).Format("02/Jan/2006:15:04:05 -0700")
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 5 \"-\" \"-\"\n", client, at, path)
}

// slow is the same as nginx writes it when it has lasted some seconds.
func slow(second int, client string, seconds float64) string {
	return strings.TrimSuffix(combined(second, client, "/a"), "\n") + fmt.Sprintf(" %.3f\n", seconds)
}

func logFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func mustOpen(t *testing.T, o Options, names ...string) *Log {
	t.Helper()
	log, err := Open(names, o)
	require.NoError(t, err)
	return log
}

func all(t *testing.T, log *Log) (requests []whatif.Request) {
	t.Helper()
	for r, err := range log.Requests {
		require.NoError(t, err)
		requests = append(requests, r)
	}
	require.True(t, slices.IsSortedFunc(requests, func(a, b whatif.Request) int { return a.At.Compare(b.At) }))
	return requests
}

// brief is the seconds and the clients of requests: "18.5 a".
func brief(requests []whatif.Request) (texts []string) {
	for _, r := range requests {
		seconds := r.At.Sub(time.Date(2024, 5, 20, 0, 0, 0, 0, time.UTC)).Seconds()
		texts = append(texts, fmt.Sprintf("%g %s", seconds, r.Key))
	}
	return texts
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestOpen_FilesInAnyOrderAreMergedByTime(t *testing.T) {
	t.Parallel()
	one := logFile(t, combined(100, "c", "/")+combined(101, "d", "/")+combined(300, "g", "/"))
	two := filepath.Join(t.TempDir(), "access.log.2.gz")
	require.NoError(t, os.WriteFile(two, gzipped(t, combined(1, "a", "/")+combined(2, "b", "/")+combined(102, "e", "/")), 0o600))
	stdin := combined(200, "f", "/")
	want := []string{"1 a", "2 b", "100 c", "101 d", "102 e", "200 f", "300 g"}
	for _, names := range [][]string{{one, two, "-"}, {"-", two, one}, {two, "-", one}} {
		log := mustOpen(t, Options{Stdin: strings.NewReader(stdin)}, names...)
		require.Equal(t, want, brief(all(t, log)))
		require.Equal(t, want, brief(all(t, log)), "and again")
		require.Zero(t, log.Seen().Jumps)
		require.Equal(t, 7, log.Seen().Requests)
	}
}

func TestOpen_AFileThatGoesBackInTime(t *testing.T) {
	t.Parallel()
	log := mustOpen(t, Options{}, logFile(t, combined(1000, "e", "/")+combined(1010, "f", "/")+
		combined(500, "c", "/")+combined(505, "d", "/")+combined(10, "a", "/")+combined(5, "", "/")+combined(600, "d", "/")))
	require.Equal(t, []string{"5 ", "10 a", "500 c", "505 d", "600 d", "1000 e", "1010 f"}, brief(all(t, log)))
	seen := log.Seen()
	require.Equal(t, 2, seen.Jumps, "five seconds are none")
	require.Equal(t, 1, seen.NoKey)
}

func TestRequests_ArriveBeforeTheirLinesAreWritten(t *testing.T) {
	t.Parallel()
	log := mustOpen(t, Options{}, logFile(t, slow(10, "a", 0)+slow(11, "b", 2.5)+slow(12, "c", 0.25)+slow(70, "d", 59)+slow(80, "e", 100)+slow(90, "f", 1)))
	require.Equal(t, []string{"-20 e", "8.5 b", "10 a", "11 d", "11.75 c", "89 f"}, brief(all(t, log)), "however long they took")
	require.Equal(t, time.Second, log.Seen().Step, "of the times in the log")
	require.Equal(t, 100*time.Second, all(t, log)[0].Duration)
}

func TestRequests_DoNotDependOnTheOrderOfTheLinesOfOneSecond(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var want []whatif.Request
	for round := range 5 {
		var text strings.Builder
		for second := range 60 {
			var lines []string
			for i := range 40 {
				lines = append(lines, combined(second, fmt.Sprint("c", i%7), fmt.Sprint("/a/", i%9)))
			}
			if round > 0 {
				random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
			}
			text.WriteString(strings.Join(lines, ""))
		}
		got := all(t, mustOpen(t, Options{}, logFile(t, text.String())))
		require.Len(t, got, 2400)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

// The order of arrival is that of all lines sorted, however they are spread over files.
func TestRequests_AreThoseOfTheLinesSorted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		texts := make([]strings.Builder, 3)
		var want []string
		for i := range texts {
			at := random.IntN(1000)
			for range 1 + random.IntN(400) {
				if random.IntN(50) == 0 {
					at = at%100 + 100*random.IntN(12)
				}
				at += random.IntN(4)
				took := random.Float64() * float64(random.IntN(55))
				took = float64(int(took*1000)) / 1000
				texts[i].WriteString(slow(at, "c", took))
				want = append(want, fmt.Sprintf("%.3f", float64(at)-took))
			}
		}
		log := mustOpen(t, Options{}, logFile(t, texts[0].String()), logFile(t, texts[1].String()), logFile(t, texts[2].String()))
		var got []string
		for _, r := range all(t, log) {
			got = append(got, fmt.Sprintf("%.3f", r.At.Sub(time.Date(2024, 5, 20, 0, 0, 0, 0, time.UTC)).Seconds()))
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, strings.Join(want, " "), strings.Join(got, " "), seed)
	}
}

func TestOpen_TellsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	good := combined(1, "a", "/")
	log := mustOpen(t, Options{}, logFile(t, good+"\n"+good+"some text\r\n"+strings.Replace(good, "20/May", "31/Feb", 1)+good+strings.Repeat("x", 3<<20)+"\n"+good))
	seen := log.Seen()
	require.Equal(t, []int{8, 4, 4}, []int{seen.Lines, seen.Requests, seen.Unreadable})
	require.Equal(t, map[Fault]int{NoField: 2, TooLong: 1, NoTime: 1}, seen.Faults)
	require.Len(t, seen.First, 4)
	require.Equal(t, "4 some text", fmt.Sprint(seen.First[1].Number, " ", seen.First[1].Text))
	require.Len(t, seen.First[3].Text, maxShown)
}

func TestOpen_LongLinesAreRead(t *testing.T) {
	t.Parallel()
	long := combined(1, "a", "/"+strings.Repeat("x", 200<<10))
	log := mustOpen(t, Options{}, logFile(t, long+combined(2, "b", "/")))
	require.Equal(t, []string{"1 a", "2 b"}, brief(all(t, log)))
}

func TestOpen_NothingToRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "is empty",
		"\x7fELF\x02\x01\x00\x00\n":       "is not a text file",
		"\x28\xb5\x2f\xfdpacked":          "decompress it with zstd",
		"once upon a time\n":              `none of its first 1 lines can be read; the first is "once upon a time"`,
		string(gzipped(t, "")):            "is empty",
		string(gzipped(t, "once upon a")): "is in no known format",
	} {
		_, err := Open([]string{logFile(t, text)}, Options{})
		require.ErrorContains(t, err, want)
	}
	f, _ := Named("caddy")
	_, err := Open([]string{logFile(t, "{\"msg\":\"starting\"}\n")}, Options{Format: f})
	require.ErrorContains(t, err, "has no request that can be read as caddy: all 1 lines are about something else")
	f, _ = Named("nginx")
	_, err = Open([]string{logFile(t, combined(1, "a", "/"))}, Options{Format: f})
	require.ErrorContains(t, err, "1 lines with a field that is missing or cannot be read")
}

func TestOpen_Faults(t *testing.T) {
	t.Parallel()
	good := logFile(t, combined(1, "a", "/"))
	folder := t.TempDir()
	_, err := Open([]string{good, good, folder, filepath.Join(folder, "none.log")}, Options{})
	require.ErrorContains(t, err, "access.log is given twice")
	require.ErrorContains(t, err, "is a folder; want the files in it")
	require.ErrorContains(t, err, "none.log: no such file")

	_, err = Open(nil, Options{})
	require.ErrorContains(t, err, "there is no file")
	broken := gzipped(t, strings.Repeat(combined(1, "a", "/"), 1000))
	_, err = Open([]string{logFile(t, string(broken[:len(broken)-20]))}, Options{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = Open([]string{good}, Options{maxRequests: 1})
	require.NoError(t, err)
	_, err = Open([]string{good, "-"}, Options{Stdin: strings.NewReader(combined(1, "a", "/")), maxRequests: 1})
	require.ErrorContains(t, err, "the log has more than 1 requests, the most that are kept in memory")
	_, err = Open([]string{good}, Options{Routes: []Route{{Pattern: "items"}, {Pattern: "/a/{"}}})
	require.ErrorContains(t, err, `the route is "items"; want a path that begins with /`)
	require.ErrorContains(t, err, `the route is "/a/{"`)
}

func TestRequests_MayBeLeftEarly(t *testing.T) {
	t.Parallel()
	log := mustOpen(t, Options{}, logFile(t, strings.Repeat(combined(1, "a", "/"), 5000)))
	n := 0
	for range log.Requests {
		if n++; n == 3 {
			break
		}
	}
	require.Equal(t, 3, n)
}

func TestOpen_KeysOfRequests(t *testing.T) {
	t.Parallel()
	text := combined(1, "192.0.2.1", "/") + combined(2, "2001:db8:1:2:3::4", "/") + combined(3, "::ffff:192.0.2.9", "/") +
		combined(4, "client.example.com", "/") + combined(5, strings.Repeat("x", 100), "/")
	keys := func(o Options) (keys []string) {
		for _, r := range all(t, mustOpen(t, o, logFile(t, text))) {
			keys = append(keys, r.Key)
		}
		return keys
	}
	got := keys(Options{})
	require.Equal(t, []string{"192.0.2.1", "2001:db8:1:2::/64", "192.0.2.9", "client.example.com"}, got[:4])
	require.Regexp(t, `^x{16}…#`, got[4], "as leaphttp counts it")
	require.Equal(t, []string{"5", "5", "5", "5", "5"}, keys(Options{Key: "body_bytes_sent"}))
	require.Equal(t, []string{"", "", "", "", ""}, keys(Options{Key: "http_referer"}))
}

func TestRealLog_IsReadWhole(t *testing.T) {
	t.Parallel()
	name := filepath.Join("..", "..", "..", "shared", "data", "access.log")
	if _, err := os.Stat(name); err != nil {
		t.Skip("the log of real traffic is not there")
	}
	log := mustOpen(t, Options{}, name)
	requests := all(t, log)
	require.Len(t, requests, 10_479)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	slices.Reverse(lines)
	require.Equal(t, requests, all(t, mustOpen(t, Options{}, logFile(t, strings.Join(lines, "")))), "backwards")
	seen := log.Seen()
	require.Equal(t, []int{16_275, 10_479, 8}, []int{seen.Lines, seen.Requests, seen.Jumps})
	require.Equal(t, time.Second, seen.Step)
}
