package stats

import (
	"flag"
	"math"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/stat"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.nofailfile", "true") // what fails is printed; no files in the checkout
	goleak.VerifyTestMain(m)
}

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)

	minute = 28_333_333 * 60 * sec // a whole one
)

// call counts one completed call, or a batch of n.
func call(s *Stats, now, n int64, rt time.Duration, failed bool) {
	m := s.Meter()
	m.Complete(now, m.Pass(now, n), n, int64(rt), failed)
}

func TestHistory_NeverUsed(t *testing.T) {
	t.Parallel()
	s := New()
	for _, now := range []int64{minute + 500*ms, 0, -1} {
		history := s.History(now)
		require.Len(t, history, 61)
		for i, second := range history {
			start := now - (now%sec+sec)%sec - int64(60-i)*sec
			require.Equal(t, stat.Second{Start: start}, second)
		}
		require.Zero(t, s.Recent(now).Count())
		require.Zero(t, s.Minute(now).Count())
	}
	end := s.Meter().LastBucket()
	require.Equal(t, int64(math.MinInt64), end)
	s.Trim(minute)
}

func TestHistory_SecondBySecond(t *testing.T) {
	t.Parallel()
	s := New()
	call(s, minute, 1, 10*time.Millisecond, false)
	call(s, minute+999*ms, 3, 30*time.Millisecond, true)
	s.Meter().Add(minute+999*ms, meter.Block, 5)
	// A second without calls, and one that is running.
	call(s, minute+2500*ms, 2, 7*time.Millisecond, false)
	s.Meter().Pass(minute+2600*ms, 4)

	history := s.History(minute + 2650*ms)
	require.Len(t, history, 61)
	for i, second := range history[:58] {
		require.Equal(t, stat.Second{Start: minute + int64(i-58)*sec}, second)
	}
	require.Equal(t, []stat.Second{
		{Start: minute, Pass: 4, Block: 5, Success: 4, Exception: 3, AvgRT: 25 * time.Millisecond, MaxConcurrency: 3},
		{Start: minute + sec},
		{Start: minute + 2*sec, Pass: 6, Success: 2, AvgRT: 7 * time.Millisecond, MaxConcurrency: 4},
	}, history[58:])

	// Nothing more happens: the seconds move on.
	later := s.History(minute + 10*sec)
	require.Equal(t, history[58:], later[50:53])
	for i, second := range later[53:] {
		require.Equal(t, stat.Second{Start: minute + int64(3+i)*sec, MaxConcurrency: 4}, second, "four are in flight")
	}
}

func TestHistory_OldSecondsLeave(t *testing.T) {
	t.Parallel()
	s := New()
	for i := range int64(200) {
		// In the second i, i + 1 calls.
		call(s, minute+i*sec+ms, i+1, time.Millisecond, i%2 == 0)
		history := s.History(minute + i*sec + 999*ms)
		require.Len(t, history, 61)
		for k, second := range history {
			at := i - 60 + int64(k)
			want := stat.Second{Start: minute + at*sec}
			if at >= 0 {
				want.Pass, want.Success, want.AvgRT, want.MaxConcurrency = at+1, at+1, time.Millisecond, at+1
				if at%2 == 0 {
					want.Exception = at + 1
				}
			}
			require.Equal(t, want, second)
		}
	}
	last := minute + 199*sec
	for idle := int64(1); idle <= 60; idle++ {
		history := s.History(last + idle*sec)
		require.EqualValues(t, 200, history[60-idle].Pass)
		require.Zero(t, history[60].Pass)
		require.Equal(t, last+idle*sec, history[60].Start)
	}
	for _, second := range s.History(last + 61*sec) {
		require.Equal(t, stat.Second{Start: second.Start}, second)
	}
}

func TestHistory_TimeGoesBack(t *testing.T) {
	t.Parallel()
	s := New()
	call(s, minute, 1, time.Millisecond, false)
	call(s, minute+5*sec, 2, time.Millisecond, false)
	call(s, minute+2*sec, 4, time.Millisecond, false) // the newest bucket counts
	history := s.History(minute + 5*sec)
	require.EqualValues(t, 1, history[55].Pass)
	require.EqualValues(t, 0, history[57].Pass)
	require.EqualValues(t, 6, history[60].Pass)

	// Seen from before: the seconds from then, of what is still known.
	older := s.History(minute + 3*sec + 500*ms)
	require.Equal(t, minute+3*sec, older[60].Start)
	require.EqualValues(t, 1, older[57].Pass)
	for i, second := range older {
		if i != 57 {
			require.Equal(t, stat.Second{Start: second.Start}, second)
		}
	}
	// Seen from so far before that all of it is yet to come.
	for _, second := range s.History(minute - sec) {
		require.Equal(t, stat.Second{Start: second.Start}, second)
	}
}

func TestHistory_MaxConcurrencyIsTheHighestSeen(t *testing.T) {
	t.Parallel()
	s := New()
	m := s.Meter()
	stripe := m.Pass(minute, 7)
	m.Add(minute+100*ms, meter.Block, 1) // opens a bucket: seven in flight
	m.Complete(minute+200*ms, stripe, 7, 200*ms, false)
	m.Add(minute+300*ms, meter.Block, 1)
	// A second in which three stay in flight, and only the reader looks.
	stripe = m.Pass(minute+sec, 3)
	history := s.History(minute + sec + 50*ms)
	require.EqualValues(t, 7, history[59].MaxConcurrency)
	require.EqualValues(t, 3, history[60].MaxConcurrency)
	m.Complete(minute+sec+60*ms, stripe, 3, 60*ms, false)
	history = s.History(minute + 2*sec)
	require.EqualValues(t, 7, history[58].MaxConcurrency)
	require.EqualValues(t, 3, history[59].MaxConcurrency)
	require.EqualValues(t, 0, history[60].MaxConcurrency)

	// Calls that are in flight when a second begins are in flight in it.
	m.Pass(minute+3*sec, 2)
	m.Add(minute+4*sec, meter.Block, 1)
	require.EqualValues(t, 2, s.History(minute + 4*sec)[60].MaxConcurrency)
}

// A call is in flight while nothing happens, for longer than the minute: each
// second shows it, whether a bucket opened near it or not.
func TestHistory_CallInFlightThroughSilence(t *testing.T) {
	t.Parallel()
	s := New()
	m := s.Meter()
	concurrency := func(now int64) (all [61]int64) {
		for i, second := range s.History(now) {
			all[i] = second.MaxConcurrency
		}
		return all
	}
	from := func(first int, n int64) (all [61]int64) {
		for i := first; i < 61; i++ {
			all[i] = n
		}
		return all
	}
	m.Add(minute-sec, meter.Block, 1)
	stripe := m.Pass(minute, 2)
	require.Equal(t, from(60, 2), concurrency(minute+500*ms))
	require.Equal(t, from(59, 2), concurrency(minute+sec))
	require.Equal(t, from(0, 2), concurrency(minute+60*sec))
	require.Equal(t, from(0, 2), concurrency(minute+61*sec), "the bucket in which it passed is out")
	require.Equal(t, from(0, 2), concurrency(minute+500*sec))
	m.Add(minute+530*sec, meter.Block, 1)
	require.Equal(t, from(0, 2), concurrency(minute+550*sec), "before the first bucket, in it and after it")
	m.Complete(minute+570*sec, stripe, 2, 570*sec, false)
	want := from(0, 2)
	for i := 51; i < 61; i++ {
		want[i] = 0
	}
	require.Equal(t, want, concurrency(minute+580*sec), "in flight when the second began")
	require.Equal(t, [61]int64{}, concurrency(minute+700*sec))

	// Seen from before, with buckets that are yet to come.
	for now := minute - 100*sec; now < minute+700*sec; now += 7 * sec {
		require.Len(t, s.History(now), 61)
	}
}

func TestRecent_FiveBucketsOfTwoSeconds(t *testing.T) {
	t.Parallel()
	s := New()
	for i := range int64(30) {
		call(s, minute+i*sec, 1, time.Millisecond, false)
	}
	for _, c := range []struct{ at, recent, minute int64 }{
		{29_999, 10, 30}, // the bucket that runs began at 28 s: 20 to 29
		{30_000, 8, 30},
		{31_999, 8, 30},
		{32_000, 6, 30},
		{37_999, 2, 30},
		{38_000, 0, 30},
		{59_999, 0, 30},
		{60_000, 0, 20},
		{79_999, 0, 10},
		{80_000, 0, 0},
	} {
		require.Equal(t, c.recent, s.Recent(minute+c.at*ms).Count(), "recent at %d ms", c.at)
		require.Equal(t, c.minute, s.Minute(minute+c.at*ms).Count(), "minute at %d ms", c.at)
	}
	require.EqualValues(t, 10, s.Recent(minute).Count(), "an older now")
}

func TestStat_ExtremeTimes(t *testing.T) {
	t.Parallel()
	extremes := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -1, 0, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	for _, at := range extremes {
		s := New()
		call(s, at, 1, time.Millisecond, false)
		for _, now := range extremes {
			require.Len(t, s.History(now), 61)
			for _, n := range []int64{s.Recent(now).Count(), s.Minute(now).Count(), int64(s.Snapshot(now).PassQPS)} {
				require.Contains(t, []int64{0, 1}, n)
			}
			s.Trim(now)
		}
		require.EqualValues(t, 1, s.Meter().Total(meter.Pass))
	}
}

// A resource that was busy and is not any more keeps one mark in each ring.
func TestTrim_LetsGoOfMemoryAfterIdleness(t *testing.T) {
	t.Parallel()
	s := New()
	var marks []weak.Pointer[meter.Mark]
	var latencies []weak.Pointer[times]
	for i := range int64(90) {
		call(s, minute+i*sec, 1, time.Millisecond, false)
		r := s.coarse.Load()
		if mark := weak.Make(r.seconds.Newest().Value()); i == 0 || mark != marks[len(marks)-1] {
			marks = append(marks, mark)
		}
		for _, ring := range [...]func() *times{
			func() *times { return r.recent.Newest().Value() },
			func() *times { return r.minute.Newest().Value() },
		} {
			latencies = append(latencies, weak.Make(ring()))
		}
	}
	kept := func() (seconds, windows int) {
		runtime.GC()
		for _, m := range marks {
			if m.Value() != nil {
				seconds++
			}
		}
		distinct := map[weak.Pointer[times]]bool{}
		for _, l := range latencies {
			if l.Value() != nil {
				distinct[l] = true
			}
		}
		return seconds, len(distinct)
	}
	seconds, windows := kept()
	require.Equal(t, 61, seconds)
	require.Equal(t, 5+6, windows)

	last := minute + 89*sec
	s.Trim(last)
	seconds, windows = kept()
	require.Equal(t, 61, seconds, "all are live")
	require.Equal(t, 5+6, windows)

	s.Trim(last + 11*sec)
	seconds, windows = kept()
	require.Equal(t, 50, seconds)
	require.Equal(t, 1+4, windows, "the newest of the ten seconds; of the minute those from 50 s on")

	idle := last + 200*sec
	s.Trim(idle)
	seconds, windows = kept()
	require.Equal(t, 1, seconds)
	require.Equal(t, 1+1, windows)

	require.Equal(t, stat.Snapshot{}, s.Snapshot(idle))
	require.Zero(t, s.Recent(idle).Count())
	require.Zero(t, s.Minute(idle).Count())
	for _, second := range s.History(idle) {
		require.Equal(t, stat.Second{Start: second.Start}, second)
	}
	require.Equal(t, meter.Counts{meter.Pass: 90, meter.Success: 90, meter.RT: 90 * ms}, s.Meter().Totals())

	// And it can be called again.
	call(s, idle, 2, time.Millisecond, false)
	require.EqualValues(t, 2, s.History(idle)[60].Pass)
	require.EqualValues(t, 2, s.Recent(idle).Count())
}

// Nothing is allocated for the coarse rings before the first event, and once.
func TestStat_CoarseRingsAreMadeAtFirstUse(t *testing.T) {
	t.Parallel()
	s := New()
	require.Nil(t, s.coarse.Load())
	s.History(minute)
	s.Snapshot(minute)
	s.Trim(minute)
	require.Nil(t, s.coarse.Load(), "looking makes nothing")
	s.Meter().Add(minute, meter.Block, 1)
	made := s.coarse.Load()
	require.NotNil(t, made)
	call(s, minute+100*sec, 1, time.Millisecond, false)
	require.Same(t, made, s.coarse.Load())
}
