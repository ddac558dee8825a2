package meter

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaparray"
)

// There are several stripes then, also on a machine of one processor or two, and a
// goroutine may lose its processor between any two instructions.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("rapid.nofailfile", "true") // what fails is printed; no files in the checkout
	if flag.Lookup("test.bench").Value.String() == "" {
		runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	}
	goleak.VerifyTestMain(m)
}

// newMetric makes a metric with the window of a resource: 10 × 100 ms.
func newMetric() *Meter {
	m, err := New(10, time.Second)
	if err != nil {
		panic(err)
	}
	return m
}

// fewer returns n, or a fifth of it under the race detector, with which an atomic
// takes thirty times as long.
func fewer(n int) int {
	if gatetest.Race {
		return n / 5
	}
	return n
}

const ms = int64(time.Millisecond)

var names = [NumEvents]string{"pass", "block", "exception", "success", "rt", "occupied-pass", "would-block", "ignored", "wait"}

func plus(c, d Counts) Counts {
	for e := range c {
		c[e] += d[e]
	}
	return c
}

func minus(c, d Counts) Counts {
	for e := range c {
		c[e] -= d[e]
	}
	return c
}

func inFlight(c Counts) int64 { return c[Pass] - c[Success] }

func TestNew_BadConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		buckets  int
		interval time.Duration
		right    string
	}{
		{0, time.Second, "want 1 to 65536"},
		{10, 0, "want more than 0"},
		{7, time.Second, "8 buckets would do"},
	} {
		m, err := New(c.buckets, c.interval)
		require.Nil(t, m)
		require.ErrorIs(t, err, leaparray.ErrConfig)
		require.ErrorContains(t, err, c.right)
	}
	m, err := New(4, 2*time.Second)
	require.NoError(t, err)
	require.Equal(t, 500*time.Millisecond, m.ring.Length())
}

func TestMetric_NoEvents(t *testing.T) {
	t.Parallel()
	m := newMetric()
	check := func(now int64) {
		for e := range uint8(NumEvents) {
			require.Zero(t, m.Sum(now, e), names[e])
			require.Zero(t, m.QPS(now, e), names[e])
			require.Zero(t, m.Total(e), names[e])
		}
		require.Equal(t, Counts{}, m.Window(now))
		require.Equal(t, Counts{}, m.Totals())
		require.Zero(t, m.AvgRT(now))
		require.Zero(t, m.MinRT(now))
		require.Zero(t, m.Concurrency())
		require.Zero(t, m.MaxConcurrency(now))
		m.Trim(now)
		end := m.LastBucket()
		require.Equal(t, int64(math.MinInt64), end, "looking opens nothing")
	}
	for _, now := range []int64{0, -1, 5e9, math.MaxInt64, math.MinInt64} {
		check(now)
	}
}

func TestAdd_NothingToAdd(t *testing.T) {
	t.Parallel()
	m := newMetric()
	for e := range uint8(NumEvents) {
		for _, n := range []int64{0, -1, math.MinInt64} {
			m.Add(0, e, n)
		}
	}
	for _, e := range []uint8{NumEvents, NumEvents + 1, 255} {
		m.Add(0, e, 1)
		require.Zero(t, m.Total(e))
		require.Zero(t, m.Sum(0, e))
		require.Zero(t, m.QPS(0, e))
	}
	require.Equal(t, Counts{}, m.Totals())
	end := m.LastBucket()
	require.Equal(t, int64(math.MinInt64), end)
}

func TestAdd_EachEvent(t *testing.T) {
	t.Parallel()
	for e := range uint8(NumEvents) {
		m := newMetric()
		// Long ago, so that an exception is one of a completed call.
		before := Counts{Pass: 50, Success: 50}
		m.Add(-10_000*ms, Pass, 50)
		m.Add(-10_000*ms, Success, 50)
		want := Counts{}
		m.Add(50*ms, e, 3)
		m.Add(250*ms, e, 4)
		want[e] = 7
		require.Equal(t, plus(want, before), m.Totals(), names[e])
		require.Equal(t, want, m.Window(250*ms), names[e])
		require.EqualValues(t, before[e]+7, m.Total(e), names[e])
		require.EqualValues(t, 7, m.Sum(999*ms, e), names[e])
		require.EqualValues(t, 7.0, m.QPS(999*ms, e), names[e])
		require.EqualValues(t, 4, m.Sum(1000*ms, e), names[e])
		require.EqualValues(t, 4, m.Sum(1199*ms, e), names[e])
		require.EqualValues(t, 0, m.Sum(1200*ms, e), names[e])
		m.Add(1150*ms, e, 5)
		want[e] = 9
		require.Equal(t, want, m.Window(1150*ms), names[e])
		require.EqualValues(t, before[e]+12, m.Total(e), names[e])
	}
}

// Successes come from AddRT and Complete, out of the histogram, and from Add.
func TestAdd_SuccessWithoutResponseTime(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.Add(0, Success, 3)
	require.EqualValues(t, 3, m.Total(Success))
	require.Zero(t, m.AvgRT(0))
	require.Zero(t, m.MinRT(0))
	m.AddRT(0, 4*time.Second)
	require.EqualValues(t, 4, m.Total(Success))
	require.EqualValues(t, 4, m.Sum(0, Success))
	require.Equal(t, time.Second, m.AvgRT(0))
	require.Equal(t, 4*time.Second, m.MinRT(0))
	require.EqualValues(t, 1, sumOf(m.Latencies()), "of the others nobody knows how long they took")
}

func TestQPS_IntervalsOtherThanASecond(t *testing.T) {
	t.Parallel()
	half, err := New(5, 500*time.Millisecond)
	require.NoError(t, err)
	half.Add(0, Pass, 3)
	require.EqualValues(t, 6.0, half.QPS(499*ms, Pass))
	require.EqualValues(t, 0.0, half.QPS(500*ms, Pass))

	minute, err := New(60, time.Minute)
	require.NoError(t, err)
	minute.Add(0, Pass, 3)
	require.EqualValues(t, 0.05, minute.QPS(59_999*ms, Pass))
}

func TestRT_ThreeCompletions(t *testing.T) {
	t.Parallel()
	m := newMetric()
	require.Zero(t, m.AvgRT(0))
	require.Zero(t, m.MinRT(0))
	for _, rt := range []time.Duration{20, 10, 40} {
		m.AddRT(0, rt*time.Millisecond)
	}
	require.Equal(t, 23_333_333*time.Nanosecond, m.AvgRT(0))
	require.Equal(t, 10*time.Millisecond, m.MinRT(0))
	require.EqualValues(t, 3, m.Total(Success))
	require.EqualValues(t, 70*ms, m.Total(RT))
	require.Zero(t, m.AvgRT(1000*ms), "out of the window")
	require.Zero(t, m.MinRT(1000*ms))
}

func TestRT_NegativeCountsAsZero(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.AddRT(0, -time.Second)
	m.AddRT(0, math.MinInt64)
	require.EqualValues(t, 2, m.Total(Success))
	require.Zero(t, m.Total(RT))
	require.Zero(t, m.AvgRT(0))
	require.Zero(t, m.MinRT(0))
}

func TestMinRT_LeavesWithItsBucket(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.AddRT(0, 5)
	m.AddRT(100*ms, 3)
	m.AddRT(200*ms, 9)
	for now, want := range map[int64]time.Duration{
		200 * ms: 3, 1099 * ms: 3, 1100 * ms: 9, 1199 * ms: 9, 1200 * ms: 0,
		100 * ms: 3, -5: 3, // older
	} {
		require.Equal(t, want, m.MinRT(now), "at %v", time.Duration(now))
	}
}

func TestComplete_BatchCountsPerCall(t *testing.T) {
	t.Parallel()
	m := newMetric()
	stripe := m.Pass(0, 3)
	require.EqualValues(t, 3, m.Total(Pass))
	require.EqualValues(t, 3, m.Concurrency())
	m.Complete(30*ms, stripe, 3, 30*ms, false)
	require.Equal(t, Counts{Pass: 3, Success: 3, RT: 90 * ms}, m.Totals())
	require.Equal(t, 30*time.Millisecond, m.AvgRT(30*ms))
	require.Equal(t, 30*time.Millisecond, m.MinRT(30*ms))
	require.EqualValues(t, 3, sumOf(m.Latencies()))
	require.Zero(t, m.Concurrency())

	m.Complete(40*ms, m.Pass(40*ms, 1), 1, 10*ms, true)
	require.Equal(t, 25*time.Millisecond, m.AvgRT(40*ms), "of four calls")
	require.Equal(t, Counts{Pass: 4, Success: 4, RT: 100 * ms, Exception: 1}, m.Totals())
	m.Complete(50*ms, m.Pass(50*ms, 2), 2, 10*ms, true)
	require.EqualValues(t, 3, m.Total(Exception))
}

func TestMetric_TimeGoesBack(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.Add(0, Pass, 1)
	m.Add(2000*ms, Pass, 10)
	// An older now gets the newest bucket, for writing and for reading.
	m.Add(1500*ms, Pass, 100)
	m.Add(-5, Pass, 1000)
	m.Complete(500*ms, 0, 10, 7, true)
	m.AddRT(0, 3)
	end := m.LastBucket()
	require.EqualValues(t, 2100*ms, end)
	for _, now := range []int64{2099 * ms, 2000 * ms, 1999 * ms, 1000 * ms, 0, -5, math.MinInt64} {
		require.EqualValues(t, 1110, m.Sum(now, Pass), "at %d", now)
		require.EqualValues(t, 1110.0, m.QPS(now, Pass), "at %d", now)
		require.Equal(t, Counts{Pass: 1110, Success: 11, RT: 73, Exception: 10}, m.Window(now), "at %d", now)
		require.EqualValues(t, 73/11, m.AvgRT(now), "at %d", now)
		require.EqualValues(t, 3, m.MinRT(now), "at %d", now)
	}
	require.EqualValues(t, 1110, m.Sum(2999*ms, Pass))
	require.EqualValues(t, 0, m.Sum(3000*ms, Pass))
	require.EqualValues(t, 1111, m.Total(Pass))
}

func TestLastBucket_EndsAfterEveryEvent(t *testing.T) {
	t.Parallel()
	m := newMetric()
	for _, c := range []struct{ now, end int64 }{{-1, 0}, {0, 100 * ms}, {99 * ms, 100 * ms}, {1234 * ms, 1300 * ms}, {5 * ms, 1300 * ms}} {
		m.Add(c.now, Block, 1)
		require.Equal(t, c.end, m.LastBucket(), "at %d", c.now)
	}
}

func TestMaxConcurrency_StaysForTheWindow(t *testing.T) {
	t.Parallel()
	m := newMetric()
	a := m.Pass(0, 3)
	m.Add(100*ms, Block, 1) // opens a bucket with three in flight
	m.Complete(150*ms, a, 3, 1000, false)
	require.Zero(t, m.Concurrency())
	require.EqualValues(t, 3, m.MaxConcurrency(150*ms))
	require.EqualValues(t, 3, m.MaxConcurrency(1099*ms))
	require.EqualValues(t, 0, m.MaxConcurrency(1100*ms))
}

func TestMaxConcurrency_PeakThatNobodyLookedAt(t *testing.T) {
	t.Parallel()
	m := newMetric()
	for i := range int64(3) { // a hundred calls of 2 ms, and again, within one bucket
		at := 10 * ms * i
		var stripes []int
		for range 100 {
			stripes = append(stripes, m.Pass(at, 1))
		}
		for _, stripe := range stripes {
			m.Complete(at+2*ms, stripe, 1, 2*ms, false)
		}
	}
	require.Zero(t, m.Concurrency())
	require.EqualValues(t, 100, m.MaxConcurrency(30*ms))
	m.Complete(105*ms, m.Pass(101*ms, 7), 7, 4*ms, false)
	require.EqualValues(t, 100, m.MaxConcurrency(999*ms))
	require.EqualValues(t, 7, m.MaxConcurrency(1000*ms))
	require.EqualValues(t, 0, m.MaxConcurrency(1100*ms))
}

func TestMaxConcurrency_PassesAddedAsEvents(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.Add(0, Pass, 3)
	m.AddRT(ms, time.Millisecond)
	m.AddRT(ms, time.Millisecond)
	m.AddRT(ms, time.Millisecond)
	require.EqualValues(t, 3, m.MaxConcurrency(2*ms))
	m.AddRT(3*ms, time.Millisecond) // more have completed than passed
	m.Add(4*ms, Pass, 1)
	require.EqualValues(t, 0, m.Concurrency())
	require.EqualValues(t, 3, m.MaxConcurrency(5*ms))
}

func TestMaxConcurrency_MoreCallsThanHalfAWordHolds(t *testing.T) {
	t.Parallel()
	m := newMetric()
	stripe := m.Pass(0, math.MaxUint32)
	m.Pass(0, 5)
	require.Equal(t, int64(math.MaxUint32+5), m.MaxConcurrency(0))
	m.Complete(100*ms, stripe, math.MaxUint32+5, 1, false)
	m.Pass(1100*ms, 2)
	require.EqualValues(t, 2, m.MaxConcurrency(1100*ms))
}

// The peak of a stripe is that of a bucket, however many there have been.
func TestPeak_SerialsOfBucketsWrap(t *testing.T) {
	t.Parallel()
	peak := func(serial uint32, inFlight uint64) uint64 { return uint64(serial)<<32 | inFlight }
	for _, serial := range []uint32{0, 1, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
		require.True(t, peakIsAbove(serial, 5, peak(serial, 4)))
		require.False(t, peakIsAbove(serial, 5, peak(serial, 5)))
		require.True(t, peakIsAbove(serial+1, 0, peak(serial, math.MaxUint32)), "a later bucket")
		require.False(t, peakIsAbove(serial-1, math.MaxUint32, peak(serial, 0)), "an earlier bucket")
	}
}

func TestMaxConcurrency_CallsInFlightLongerThanTheWindow(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.Pass(0, 2)
	require.EqualValues(t, 2, m.MaxConcurrency(60_000*ms))
}

func TestMark_SawTheMost(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.Pass(0, 4)
	var mark Mark
	m.Mark(&mark)
	require.EqualValues(t, 4, mark.MaxConcurrency())
	require.Equal(t, Counts{Pass: 4}, mark.Counts)
	mark.Saw(2)
	require.EqualValues(t, 4, mark.MaxConcurrency())
	var coarse Mark
	mark.LieUnder(&coarse)
	require.EqualValues(t, 4, coarse.MaxConcurrency())
	mark.Saw(9)
	require.EqualValues(t, 9, mark.MaxConcurrency())
	require.EqualValues(t, 9, coarse.MaxConcurrency())
	m.Pass(0, 1)
	require.Equal(t, Counts{Pass: 4}, mark.Counts, "a mark stays")
}

func TestWhenOpening_CalledForEveryBucket(t *testing.T) {
	t.Parallel()
	m := newMetric()
	type call struct{ start, pass, concurrency int64 }
	var calls []call
	m.WhenOpening(func(start int64, mark *Mark) {
		calls = append(calls, call{start, mark.Counts[Pass], mark.MaxConcurrency()})
	})
	stripe := m.Pass(30*ms, 2)
	m.Pass(99*ms, 1)
	m.Complete(200*ms, stripe, 2, 170*ms, false)
	m.Add(100*ms, Block, 1)
	m.AddRT(777*ms, 5)
	require.Equal(t, []call{{0, 0, 0}, {200 * ms, 3, 3}, {700 * ms, 3, 1}}, calls)
}

func TestMetric_AllocatesOnlyToOpen(t *testing.T) {
	m := newMetric()
	growFully(m)
	var sink int64
	for e := range uint8(NumEvents) {
		m.Add(0, e, 1)
	}
	for range 100 { // each stripe needs its histogram
		for i := range m.numStripes() {
			m.Complete(0, i, 1, 1000, true)
		}
	}
	for name, f := range map[string]func(){
		"Pass and Complete": func() { m.Complete(50*ms, m.Pass(50*ms, 1), 1, 1000, true) },
		"a new cell":        func() { m.Complete(50*ms, m.Pass(50*ms, 1), 1, 1000+sink%1_000_000, false); sink += 999 },
		"AddRT":             func() { m.AddRT(50*ms, time.Millisecond) },
		"an older now":      func() { m.Complete(-50*ms, m.Pass(-50*ms, 1), 1, 1000, false) },
		"QPS":               func() { sink += int64(m.QPS(50*ms, Pass)) },
		"Sum":               func() { sink += m.Sum(50*ms, Success) },
		"Sum later":         func() { sink += m.Sum(850*ms, Success) },
		"Window":            func() { sink += m.Window(50 * ms)[Pass] },
		"Total":             func() { sink += m.Total(Success) },
		"Totals":            func() { sink += m.Totals()[Pass] },
		"AvgRT and MinRT":   func() { sink += int64(m.AvgRT(50*ms) + m.MinRT(50*ms)) },
		"MaxConcurrency":    func() { sink += m.MaxConcurrency(50 * ms) },
		"Holds":             func() { m.Holds() },
		"Trim":              func() { m.Trim(50 * ms) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	for e := range uint8(NumEvents) {
		require.Zero(t, testing.AllocsPerRun(100, func() { m.Add(50*ms, e, 1) }), names[e])
	}
	// To open a bucket takes its wrap, in which the mark lies.
	now := int64(0)
	require.EqualValues(t, 1, testing.AllocsPerRun(100, func() { now += tenth; m.Add(now, Block, 1) }))
}

// A metric takes 128 bytes, its ring, its rare counters, and nothing per bucket before the first
// event.
func TestNew_Allocations(t *testing.T) {
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { newMetric() }), 5.0)
}

// What a metric says is a number whatever its window and its counts are.
func TestMetric_FiguresAreNeverNaN(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{1, time.Second, math.MaxInt64} {
		m, err := New(1, interval)
		require.NoError(t, err)
		for _, step := range []func(){
			func() {},
			func() { m.Pass(0, 1) },
			func() { m.Add(0, Success, 1) },
			func() { m.AddRT(0, 0) },
			func() { m.Trim(math.MaxInt64) },
		} {
			step()
			for _, now := range []int64{0, 1, math.MaxInt64} {
				for e := range uint8(NumEvents) {
					qps := m.QPS(now, e)
					require.False(t, math.IsNaN(qps) || math.IsInf(qps, 0) || qps < 0, "%v", qps)
				}
				require.GreaterOrEqual(t, m.AvgRT(now), time.Duration(0))
				require.GreaterOrEqual(t, m.MinRT(now), time.Duration(0))
			}
		}
	}
	require.Zero(t, AvgRT(Counts{RT: 100}))
	require.Equal(t, 33*time.Nanosecond, AvgRT(Counts{RT: 100, Success: 3}))
}

// Trim changes no figure at its now or later, and calls go on.
func TestTrim_FiguresStay(t *testing.T) {
	t.Parallel()
	m := newMetric()
	for i := range int64(25) {
		m.Complete(i*tenth, m.Pass(i*tenth, 1), 1, 1000+i, false)
	}
	figures := func(now int64) string {
		return fmt.Sprint(m.Window(now), m.MinRT(now), m.MaxConcurrency(now), m.Totals())
	}
	for _, now := range []int64{24 * tenth, 28 * tenth, 33 * tenth, 34 * tenth, 99 * tenth} {
		before := figures(now)
		m.Trim(now)
		require.Equal(t, before, figures(now))
	}
	require.Equal(t, Counts{}, m.Window(99*tenth))
	m.Add(100*tenth, Pass, 2)
	require.EqualValues(t, 2, m.Sum(100*tenth, Pass))
	require.EqualValues(t, 27, m.Total(Pass))
}

// A call writes pass, RT, exception, success; a reader must go the other way.
func TestReadOrder_IsOppositeToTheOrderOfWriting(t *testing.T) {
	t.Parallel()
	place := map[int]int{}
	for i, e := range readOrder {
		require.NotContains(t, place, e)
		place[e] = i
	}
	require.Len(t, place, striped)
	require.Less(t, place[Success], place[Exception])
	require.Less(t, place[Exception], place[RT])
	require.Less(t, place[RT], place[Pass])
}
