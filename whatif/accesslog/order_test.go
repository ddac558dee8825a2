package accesslog

import (
	"fmt"
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

// The order of the lines does not matter, however many of them stand before earlier ones.
func TestRequests_AreTheSameInAnyOrderOfTheLines(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 5000 {
		lines = append(lines, combined(i*97/3, fmt.Sprint("c", i%7), "/"))
	}
	shuffled := slices.Clone(lines)
	random := rand.New(rand.NewPCG(5, 6))
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	backwards := slices.Clone(lines)
	slices.Reverse(backwards)
	var hosts []string // two, of which one is an hour behind
	for i := range 2500 {
		hosts = append(hosts, lines[2500+i], lines[i])
	}
	want := all(t, mustOpen(t, Options{}, logFile(t, strings.Join(lines, ""))))
	require.Len(t, want, 5000)
	for name, order := range map[string][]string{"shuffled": shuffled, "backwards": backwards, "two hosts": hosts} {
		for _, inMemory := range []int{0, 999, 16} {
			log := mustOpen(t, Options{inMemory: inMemory}, logFile(t, strings.Join(order, "")))
			require.Equal(t, want, all(t, log), name)
			require.Equal(t, want, all(t, log), "and again")
		}
	}
}

func TestRequests_OfCallsThatTookHours(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 60 {
		text.WriteString(slow(60*i, "a", 0.001))
	}
	text.WriteString(slow(3600, "export", 3599.5))
	requests := all(t, mustOpen(t, Options{inMemory: 8}, logFile(t, text.String())))
	require.Equal(t, []string{"-0.001 a", "0.5 export", "59.999 a"}, brief(requests[:3]))
	require.Equal(t, 3599500*time.Millisecond, requests[1].Duration)
}

// A part of an index has many places, and the last is not full.
func TestIndex_SortsWhatIsTooMuchForMemory(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, atOnce, 3 * atOnce, 3*atOnce + 1, 5000} {
		for _, most := range []int{1, 2, atOnce, atOnce + 1, 1000, maxPlaces} {
			if n/most > 1000 {
				continue
			}
			s := &spool{max: 1 << 30}
			x := index{spool: s, most: most}
			var want []place
			for i := range n {
				p := newPlace(random.Int64N(int64(n))-int64(n)/2, random.IntN(maxFiles), random.Int64N(1<<offsetBits), random.Uint32N(3), i)
				want = append(want, p)
				require.NoError(t, x.add(p))
				require.LessOrEqual(t, len(x.places), most)
			}
			require.NoError(t, x.finish())
			for range 2 {
				var got []place
				places, err := x.all()
				require.NoError(t, err)
				for {
					p, ok, err := places.next()
					require.NoError(t, err)
					if !ok {
						break
					}
					got = append(got, p)
				}
				require.True(t, slices.IsSortedFunc(got, place.compare))
				bySize := slices.Clone(got)
				slices.SortFunc(bySize, func(a, b place) int { return int(a.size) - int(b.size) })
				require.Equal(t, want, bySize, "each once")
			}
			require.NoError(t, s.close())
		}
	}
}

// Lines that are the same are one request each, and take no memory each.
func TestRequests_OfLinesThatAreTheSame(t *testing.T) {
	t.Parallel()
	log := mustOpen(t, Options{inMemory: 100}, logFile(t, strings.Repeat(combined(1, "a", "/"), 3000)))
	require.Len(t, all(t, log), 3000)
	var same alike
	for i := range 1000 {
		same.add(whatif.Request{Key: fmt.Sprint(i / 500)})
	}
	require.Len(t, same, 2)
}

// Two lines with the same time and the same sum come in the same order always.
func TestAlike_DoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	requests := []whatif.Request{{Resource: "b"}, {Resource: "a", Key: "k"}, {Resource: "a"}, {Resource: "a", Cost: 5}, {Resource: "a", Status: 200}, {Resource: "a", Refused: true}, {Resource: "b"}}
	var want []whatif.Request
	for range 20 {
		rand.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		var same alike
		for _, r := range requests {
			same.add(r)
		}
		var got []whatif.Request
		require.True(t, same.yield(func(r whatif.Request) bool { got = append(got, r); return true }))
		require.Len(t, got, len(requests))
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

// The coarsest times of all files count: what is said of limits for some seconds must hold for all.
func TestSeen_StepIsThatOfTheCoarsestFile(t *testing.T) {
	t.Parallel()
	coarse := logFile(t, combined(1, "a", "/")+combined(2, "a", "/"))
	fine := logFile(t, `{"ts":1716163218.25,"msg":"handled request","request":{"uri":"/","method":"GET","remote_ip":"192.0.2.1"},"duration":0.1,"status":200}`+"\n")
	empty := logFile(t, "")
	seen := mustOpen(t, Options{}, fine, coarse, empty).Seen()
	require.Equal(t, time.Second, seen.Step)
	require.Equal(t, []time.Duration{time.Millisecond, time.Second}, []time.Duration{seen.Files[0].Step, seen.Files[1].Step})
	require.Contains(t, strings.Join(seen.Notes, "\n"), "the times of some files are finer than those of others: all are taken for no more exact than 1s")
	require.Equal(t, time.Millisecond, mustOpen(t, Options{}, fine).Seen().Step)
}

// How exact a time is does not depend on how exact durations are.
func TestSeen_StepIsThatOfTheTimesInTheLog(t *testing.T) {
	t.Parallel()
	const line = `[2024-05-20T00:00:%02dZ] "GET /a HTTP/1.1" 200 %d` + "\n"
	for _, format := range []string{`[$start_time] "$request" $status $duration`, `[$time_iso8601] "$request" $status $duration`} {
		f, err := Template(format)
		require.NoError(t, err)
		log := mustOpen(t, Options{Format: f}, logFile(t, fmt.Sprintf(line, 1, 35)+fmt.Sprintf(line, 2, 17)))
		require.Equal(t, time.Second, log.Seen().Step, format)
	}
}

func TestSeen_DurationsThatAreTooLong(t *testing.T) {
	t.Parallel()
	notes := func(text string) string {
		return strings.Join(mustOpen(t, Options{}, logFile(t, text)).Seen().Notes, "\n")
	}
	require.Contains(t, notes(slow(1, "a", 350)+slow(2, "a", 120)+slow(3, "a", 2)), "requests that took more than a minute: 2 of 3; are their durations in another unit?")
	require.NotContains(t, notes(slow(1, "a", 350)+slow(2, "a", 1)), "unit")
}

func TestSeen_WhatWasRefusedThen(t *testing.T) {
	t.Parallel()
	log := mustOpen(t, Options{}, logFile(t, combined(1, "a", "/")+strings.Replace(combined(2, "a", "/"), " 200 ", " 429 ", 1)))
	require.Equal(t, 1, log.Seen().Refused)
	require.True(t, all(t, log)[1].Refused)
}

// There may be more files than a process can have open.
func TestOpen_ManyFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var names []string
	const files = 2*maxOpen + 10
	for i := range files {
		name := filepath.Join(folder, fmt.Sprint("access.log.", i))
		text := combined(2*i, "a", "/") + combined(2*i+2*files, "b", "/")
		if i%2 == 0 {
			require.NoError(t, os.WriteFile(name, gzipped(t, text), 0o600))
		} else {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		}
		names = append(names, name)
	}
	log := mustOpen(t, Options{}, names...)
	for i, r := range all(t, log) {
		require.Equal(t, time.Date(2024, 5, 20, 0, 0, 2*i, 0, time.UTC), r.At)
	}
	require.LessOrEqual(t, len(log.open), maxOpen)

	require.NoError(t, os.Remove(names[1]))
	require.NoError(t, os.WriteFile(names[1], []byte(combined(2, "a", "/")), 0o600))
	var last error
	for _, err := range log.Requests {
		last = err
	}
	require.ErrorIs(t, last, errChanged, "another file has its name")
}

func TestOpen_TheLargestSpool(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{1 << 20, 1<<63 - 1} {
		log := mustOpen(t, Options{Stdin: strings.NewReader(combined(1, "a", "/")), SpoolMax: most}, Stdin)
		require.Equal(t, []string{"1 a"}, brief(all(t, log)))
	}
	line := combined(1, "a", "/")
	for most, ok := range map[int]bool{len(line): true, len(line) - 1: false} {
		log, err := Open([]string{Stdin}, Options{Stdin: strings.NewReader(line), SpoolMax: int64(most)})
		if require.Equal(t, ok, err == nil); ok {
			require.NoError(t, log.Close())
		} else {
			require.ErrorIs(t, err, errSpool)
		}
	}
	_, err := Open([]string{logFile(t, strings.Repeat(line, 10))}, Options{SpoolMax: 5 * placeSize, inMemory: 2})
	require.ErrorIs(t, err, errSpool)
	require.ErrorContains(t, err, "the order of the lines")
}
