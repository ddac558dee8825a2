package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const tinyLog = `192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/a HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/b HTTP/1.1" 200 5 "-"
 "curl"
192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/c HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:00:17 +0000] "GET /about HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/d HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:01:18 +0000] "GET /api/e HTTP/1.1" 200 5 "-" "curl"
`

// day is a log of an hour of 20 May 2024: of ten clients, the first with ten times as many requests.
func day(hour int) string {
	var b strings.Builder
	for i := range 19 * 40 {
		at := time.Date(2024, 5, 20, hour, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour / (19 * 40))
		fmt.Fprintf(&b, "192.0.2.%d - - [%s] \"GET /items/%d HTTP/1.1\" 200 5 \"-\" \"-\"\n",
			max(1, i%19-8), at.Format("02/Jan/2006:15:04:05 -0700"), i)
	}
	return b.String()
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// replayed is what -json says.
type replayed struct {
	Log    struct{ Lines, Requests, Unreadable int }
	Report struct {
		Blocked int
		Traffic struct{ Requests, Keys, Resources int }
		Rules   []struct {
			ID, Resource      string
			Requests, Blocked int
		}
	}
	Comparison struct {
		OnlyBefore, OnlyAfter, Both, Better, Worse int
	}
	Suggestion struct {
		Limits []struct {
			Limit int
			Test  *struct{ Blocked int }
		}
	}
}

// mustReplay runs the command with -json -.
func mustReplay(t *testing.T, stdin string, args ...string) (r replayed) {
	t.Helper()
	got := invoke(stdin, append([]string{"replay", "-json", "-"}, args...)...)
	require.Equal(t, 0, got.code, got.err)
	require.Empty(t, got.err)
	require.NoError(t, json.Unmarshal([]byte(got.out), &r), got.out)
	return r
}

func TestReplay_RulesOfTheCommandLine(t *testing.T) {
	t.Parallel()
	log := write(t, "access.log", tinyLog)
	r := mustReplay(t, "", "-rule", "/api=2/1m", "-rule", "/api=100/24h,strict", log)
	require.Equal(t, []int{7, 5, 2}, []int{r.Log.Lines, r.Log.Requests, r.Log.Unreadable})
	require.Len(t, r.Report.Rules, 2)
	require.Equal(t, "/api=2/1m", r.Report.Rules[0].ID)
	require.Equal(t, []int{4, 1}, []int{r.Report.Rules[0].Requests, r.Report.Rules[0].Blocked})
	require.Equal(t, 0, r.Report.Rules[1].Blocked)

	got := invoke("", "replay", "-rule", "/api=2/1m", log)
	require.Equal(t, 0, got.code)
	require.Empty(t, got.err)
	for _, want := range []string{
		"7 lines: 5 requests, 2 that cannot be read\n  2 with a field that is missing or cannot be read\n", `access.log:3: " \"curl\""`,
		"in format combined", "5 requests of 1 key", "blocked 1 of 5", "/api=2/1m",
	} {
		require.Contains(t, got.out, want)
	}
	require.Equal(t, got, invoke("", "replay", "-rule", "/api=2/1m", log), "the same log has the same result")
}

func TestReplay_LongestPrefixWins(t *testing.T) {
	t.Parallel()
	line := strings.SplitAfter(tinyLog, "\n")[0]
	var log strings.Builder
	for _, path := range []string{"/api", "/apiary", "/api/search", "/api/search/x", "/", "*"} {
		log.WriteString(strings.Replace(line, "/api/a", path, 1))
	}
	r := mustReplay(t, log.String(), "-rule", "/api=9/1s", "-rule", "/api/search=9/1s", "-rule", "/api=99/1m", "-")
	for i, want := range []int{2, 2, 2} {
		require.Equal(t, want, r.Report.Rules[i].Requests, r.Report.Rules[i].ID)
	}
}

const itemRules = `flow:
  - {id: items, resource: "GET /items/{id}", threshold: %d, interval: 1m}
limits:
  per-client: {limit: 5, window: 1m, mode: shadow}
`

func TestReplay_RulesOfAFileNameTheRoutes(t *testing.T) {
	t.Parallel()
	rules := write(t, "rules.yaml", fmt.Sprintf(itemRules, 10))
	r := mustReplay(t, day(0), "-rules", rules, "-")
	require.Equal(t, 1, r.Report.Traffic.Resources)
	require.Equal(t, 10, r.Report.Traffic.Keys)
	require.Equal(t, []string{"per-client", "items"}, []string{r.Report.Rules[0].ID, r.Report.Rules[1].ID})
	require.Equal(t, 760, r.Report.Rules[1].Requests)
	require.Positive(t, r.Report.Rules[1].Blocked)
	require.Positive(t, r.Report.Rules[0].Blocked, "in shadow")
	require.Equal(t, r.Report.Rules[0].Blocked+r.Report.Rules[1].Blocked, r.Report.Blocked, "tried as if enforced")

	r = mustReplay(t, day(0), "-rule", "/=1000/1m", "-route", "/items/{id}", "-key", "http_user_agent", "-")
	require.Equal(t, 760, r.Report.Traffic.Requests)
	require.LessOrEqual(t, r.Report.Traffic.Keys, 1)
}

func TestReplay_FilesInAnyOrder(t *testing.T) {
	t.Parallel()
	one, two, three := write(t, "access.log", day(2)), write(t, "access.log.1", day(1)), write(t, "access.log.2.gz", gzipped(t, day(0)))
	want := mustReplay(t, day(0)+day(1)+day(2), "-rule", "/items=10/1m", "-")
	require.Equal(t, 3*760, want.Log.Requests)
	for _, names := range [][]string{{one, two, three}, {three, one, two}, {two, three, one}} {
		require.Equal(t, want, mustReplay(t, "", append([]string{"-rule", "/items=10/1m"}, names...)...))
	}
	require.Equal(t, want, mustReplay(t, gzipped(t, day(1)), "-rule", "/items=10/1m", one, "-", three), "standard input is packed")
}

func TestReplay_Against(t *testing.T) {
	t.Parallel()
	rules := func(name string, threshold int) string {
		text, _, _ := strings.Cut(fmt.Sprintf(itemRules, threshold), "limits:")
		return write(t, name, text)
	}
	live, same, more := rules("live.yaml", 10), rules("same.yaml", 10), rules("new.yaml", 11)
	c := mustReplay(t, day(0), "-rules", same, "-against", live, "-").Comparison
	require.Equal(t, []int{0, 0, 0, 0}, []int{c.OnlyBefore, c.OnlyAfter, c.Better, c.Worse})
	require.Positive(t, c.Both)
	c = mustReplay(t, day(0), "-rules", more, "-against", live, "-").Comparison
	require.Positive(t, c.OnlyBefore)
	require.Zero(t, c.OnlyAfter)
	require.Zero(t, c.Worse)
}

func TestReplay_Suggest(t *testing.T) {
	t.Parallel()
	log := write(t, "access.log", day(0)+day(5))
	s := mustReplay(t, "", "-suggest", "-window", "1m", "-window", "1h", log).Suggestion
	require.Len(t, s.Limits, 2)
	require.Nil(t, s.Limits[0].Test)
	s = mustReplay(t, "", "-suggest", "-train", "2024-05-20..2024-05-20T03:00:00Z", "-test", "2024-05-20T03:00:00Z..", log).Suggestion
	require.Len(t, s.Limits, 1)
	require.NotNil(t, s.Limits[0].Test)
	require.Positive(t, s.Limits[0].Limit)
}

func TestReplay_MaxBlocked(t *testing.T) {
	t.Parallel()
	got := invoke(tinyLog, "replay", "-rule", "/api=2/1m", "-max-blocked", "1%", "-")
	require.Equal(t, 1, got.code)
	require.Equal(t, "leapgate replay: 1 of 5 requests are blocked, which is 20%; want at most 1%\n", got.err)
	require.Contains(t, got.out, "blocked 1 of 5")
	require.Equal(t, 0, invoke(tinyLog, "replay", "-rule", "/api=2/1m", "-max-blocked", "0.2", "-").code)
	require.Equal(t, 0, invoke(tinyLog, "replay", "-rule", "/api=0/1m", "-rule", "/about=0/1m", "-max-blocked", "100%", "-").code)
}

func TestReplay_MaxBlockedIncludesShadow(t *testing.T) {
	t.Parallel()
	line := strings.SplitAfter(tinyLog, "\n")[0]
	log := write(t, "access.log", strings.Repeat(line, 10))
	shadow := write(t, "shadow.yaml", `flow: [{id: s, resource: "GET /api/a", threshold: 2, interval: 1m, mode: shadow}]`)
	got := invoke("", "replay", "-rules", shadow, "-max-blocked", "1%", log)
	require.Equal(t, 1, got.code)
	require.Equal(t, "leapgate replay: 8 of 10 requests are blocked, which is 80%; want at most 1%\n", got.err)
	require.Equal(t, 0, invoke("", "replay", "-rules", shadow, "-max-blocked", "80%", log).code)

	none := write(t, "none.yaml", `flow: [{id: n, resource: "GET /none", threshold: 2}, {id: off, resource: "GET /off", threshold: 2, mode: off}]`)
	got = invoke("", "replay", "-rules", none, "-max-blocked", "1%", log)
	require.Equal(t, 0, got.code)
	require.Equal(t, "leapgate replay: warning: rule n binds no resource of the log, so -max-blocked says nothing about it\n", got.err)
}

func TestReplay_NeverOverwritesWhatItReads(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	log, other, link, hard := path("access.log"), path("access.log.1"), path("link.log"), path("hard.log")
	rules, live := path("rules.yaml"), path("live.yaml")
	texts := map[string]string{log: tinyLog, other: day(0), rules: fmt.Sprintf(itemRules, 5), live: fmt.Sprintf(itemRules, 6)}
	for name, text := range texts {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink(log, link))
	require.NoError(t, os.Link(log, hard))
	for _, flag := range []string{"-json", "-html"} {
		for _, out := range []string{log, other, link, hard, rules, live, folder + "/./access.log"} {
			got := invoke("", "replay", "-rules", rules, "-against", live, flag, out, log, other)
			require.Equal(t, 2, got.code)
			require.Empty(t, got.out)
			require.Contains(t, got.err, "leapgate replay: "+flag+" is "+out+", which is read as ")
		}
	}
	require.Contains(t, invoke("", "replay", "-html", "-", "-json", "-", log).err, "-html and -json are both -; want one for each")
	require.Contains(t, invoke("", "replay", "-html", "x", "-json", "x", log).err, "-html and -json are both x; want one for each")
	for name, text := range texts {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
}

// A report that cannot be made leaves the old one, and nothing else, behind.
func TestReplay_KeepsTheOldReportIfThereIsNoNewOne(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	html := filepath.Join(folder, "report.html")
	require.NoError(t, os.WriteFile(html, []byte("old"), 0o640))
	require.Equal(t, 2, invoke("", "replay", "-html", html, "-").code)
	data, err := os.ReadFile(html)
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
	require.Equal(t, 0, invoke(tinyLog, "replay", "-html", html, "-").code)
	info, err := os.Stat(html)
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(1000))
	require.Equal(t, os.FileMode(0o640), info.Mode())
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestReplay_PageOnStandardOutput(t *testing.T) {
	t.Parallel()
	got := invoke(tinyLog, "replay", "-html", "-", "-")
	require.Equal(t, 0, got.code, got.err)
	require.True(t, strings.HasPrefix(got.out, "<!doctype html>"), "and no text before it")
}

// What a reader must know stands in each form of the report.
func TestReplay_NotesOfRulesThatBlockNothing(t *testing.T) {
	t.Parallel()
	rules := write(t, "rules.yaml", `flow: [{id: typo, resource: "GET /itmes/{id}", threshold: 10, interval: 1m}]`)
	live := write(t, "live.yaml", `flow: [{id: old, resource: "GET /none", threshold: 10, interval: 1m}]`)
	const note = "It binds no resource of the log."
	for _, args := range [][]string{{"-rules", rules}, {"-rules", rules, "-html", "-"}, {"-rules", rules, "-json", "-"}} {
		require.Contains(t, invoke(day(0), append(append([]string{"replay"}, args...), "-")...).out, note)
	}
	got := invoke(day(0), "replay", "-rules", rules, "-against", live, "-").out
	require.Contains(t, got, "typo: "+note)
	require.Contains(t, got, "old: "+note)
	require.Contains(t, got, "760 requests of 10 keys for 1 resource")
	require.Equal(t, 2, strings.Count(invoke(day(0), "replay", "-rules", rules, "-against", live, "-html", "-", "-").out, note))
}

func TestReplay_SuggestionOfTooCoarseTimes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"-html", "-"}} {
		got := invoke(day(0), append(append([]string{"replay", "-suggest", "-window", "1s"}, args...), "-")...)
		require.Contains(t, got.out, "which is too imprecise for windows of 1s.")
		got = invoke(day(0), append(append([]string{"replay", "-suggest", "-window", "5s"}, args...), "-")...)
		require.NotContains(t, got.out, "too imprecise")
	}
	got := invoke(day(0), "replay", "-suggest", "-train", "..2024-05-20T00:40:00Z", "-test", "2024-05-20T00:20:00Z..", "-")
	require.Contains(t, got.out, "use the same period")
	got = invoke(day(0), "replay", "-suggest", "-train", "..2024-05-20T00:40:00Z", "-test", "2024-05-20T00:40:00Z..", "-")
	require.NotContains(t, got.out, "use the same period")
}

func TestReplay_LogWithoutKeys(t *testing.T) {
	t.Parallel()
	log := write(t, "log", strings.Repeat("1716163218.250 GET /a 200\n", 20))
	format := []string{"replay", "-format", "$msec $request_method $request_uri $status"}
	got := invoke("", append(format, "-suggest", log)...)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, "no limit for each key in 1m: no request has a key\n")
	require.NotContains(t, got.out, "share one")
	require.Contains(t, got.out, "20 requests without a key: limits count them as one key")
	for _, more := range [][]string{{"-suggest"}, {}} {
		html := invoke("", append(append(format, more...), "-html", "-", log)...).out
		require.Contains(t, html, "No request has a key, so there is no limit per key to suggest.")
		require.NotContains(t, html, "Suggested: 0")
	}
}

func TestReplay_WritesFiles(t *testing.T) {
	t.Parallel()
	html, js := filepath.Join(t.TempDir(), "report.html"), filepath.Join(t.TempDir(), "report.json")
	got := invoke(tinyLog, "replay", "-rule", "/api=2/1m", "-html", html, "-json", js, "-")
	require.Equal(t, 0, got.code, got.err)
	page, err := os.ReadFile(html)
	require.NoError(t, err)
	require.Contains(t, string(page), "What the rules would have blocked")
	data, err := os.ReadFile(js)
	require.NoError(t, err)
	require.True(t, json.Valid(data))

	got = invoke(tinyLog, "replay", "-html", filepath.Join(t.TempDir(), "none", "report.html"), "-")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, "no such file or directory")
}

func TestReplay_Formats(t *testing.T) {
	t.Parallel()
	r := mustReplay(t, "1716163218.250 192.0.2.1 GET /a 200\n", "-format", "$msec $remote_addr $request_method $request_uri $status", "-")
	require.Equal(t, 1, r.Log.Requests)
	r = mustReplay(t, `{"t":"2024-05-20T00:00:00Z","u":{"p":"/a"}}`+"\n", "-format", "json:end=t,uri=u.p", "-")
	require.Equal(t, 1, r.Log.Requests)
}

func TestReplay_Faults(t *testing.T) {
	t.Parallel()
	good := write(t, "access.log", tinyLog)
	folder := t.TempDir()
	for _, test := range []struct {
		name  string
		stdin string
		args  []string
		want  []string // in what goes to standard error
	}{
		{"no file", "", nil, []string{"no file; want at least one, or - for standard input\n", `Run "leapgate replay -h"`}},
		{"unknown flag", "", []string{"-x"}, []string{"leapgate replay: flag provided but not defined: -x\nRun \"leapgate replay -h\" for usage.\n"}},
		{"all at once", "", []string{"-rule", "/a", "-rule", "b=1/1s", "-test", "2024-01-01.."}, []string{`"/a"`, `"b=1/1s"`, "-test without -suggest", "no file"}},
		{"against nothing", "", []string{"-against", good, good}, []string{"-against without -rules or -rule"}},
		{"suggest and rules", "", []string{"-suggest", "-rule", "/=1/1m", good}, []string{"-suggest together with rules"}},
		{"max-blocked of nothing", "", []string{"-max-blocked", "1%", good}, []string{"-max-blocked without -rules"}},
		{"bad share", "", []string{"-max-blocked", "101%", good}, []string{"want 0% to 100%"}},
		{"share without a sign", "", []string{"-rule", "/=1/1m", "-max-blocked", "1", good}, []string{"want 0% to 100%, or a number of at least 0 below 1"}},
		{"key that no line has", "", []string{"-key", "tenant", good}, []string{`has no request with the column "tenant" for the key; want one that the format combined has`}},
		{"empty train", "", []string{"-suggest", "-train", "..2023-01-01", "-test", "2023-01-01..", good}, []string{"train has no requests; want some"}},
		{"empty test", "", []string{"-suggest", "-train", "2023-01-01..", "-test", "..2023-01-01", good}, []string{"test has no requests; want some"}},
		{"output is a folder", "", []string{"-html", folder, good}, []string{"is a directory"}},
		{"bad period", "", []string{"-suggest", "-train", "May", good}, []string{"want FROM..TO, such as 2024-05-12..2024-05-17"}},
		{"bad window", "", []string{"-suggest", "-window", "soon", good}, []string{`invalid duration "soon"`}},
		{"bad route", "", []string{"-route", "items", good}, []string{`the route is "items"; want a path that begins with /`}},
		{"bad format", "", []string{"-format", "apache", good}, []string{`no format "apache"; want one of alb, envoy`}},
		{"flag after a file", "", []string{good, "-suggest"}, []string{"-suggest comes after a file; want flags first"}},
		{"file is not there", "", []string{filepath.Join(folder, "none.log")}, []string{"none.log: no such file or directory"}},
		{"file is a folder", "", []string{folder}, []string{"is a folder; want the files in it"}},
		{"file twice", "", []string{good, good}, []string{"is given twice"}},
		{"rules are not there", "", []string{"-rules", filepath.Join(folder, "none.yaml"), good}, []string{"none.yaml"}},
		{"rules are wrong", "", []string{"-rules", write(t, "rules.yaml", "flow: [{resource: x, threshold: -1}]"), good}, []string{"rules.yaml:1:", "threshold"}},
		{"binary file", "", []string{write(t, "a.out", "\x7fELF\x00\x01\x02")}, []string{"a.out is not a text file"}},
		{"packed otherwise", "", []string{write(t, "a.zst", "\x28\xb5\x2f\xfd....")}, []string{"a.zst is compressed, and only gzip is supported; decompress it with zstd"}},
		{"empty log", "", []string{write(t, "empty.log", "")}, []string{"the log is empty"}},
		{"empty standard input", "", []string{"-"}, []string{"the log is empty"}},
		{"no log", "", []string{write(t, "poem.txt", "once upon a time\n")}, []string{"is in no known format"}},
		{"another format", "", []string{"-format", "caddy", good}, []string{"has no request that can be read as caddy: 7 lines with no JSON object"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := invoke(test.stdin, append([]string{"replay"}, test.args...)...)
			require.Equal(t, 2, got.code)
			require.Empty(t, got.out)
			for _, want := range test.want {
				require.Contains(t, got.err, want)
			}
		})
	}
	require.Contains(t, invoke("", "replay", "-h").out, "-max-blocked share")
}
