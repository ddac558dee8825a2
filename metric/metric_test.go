package metric

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

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
func newMetric() *Metric {
	m, err := New(10, time.Second)
	if err != nil {
		panic(err)
	}
	return m
}

// together calls f in so many goroutines, and waits for them. Each f that goes
// through many fresh metrics goes through them in the same order: they stay close to
// each other, since the first has the more to do, and one that is held up in the
// middle comes late to what the others have finished. (Waiting for each other at
// each step would cost more than the steps.)
func together(goroutines int, f func(g int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for g := range goroutines {
		wg.Go(func() {
			<-start
			f(g)
		})
	}
	close(start)
	wg.Wait()
}

// fewer gives n, or a fifth of it under the race detector, with which an atomic
// takes thirty times as long.
func fewer(n int) int {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return n / 5
	}
	return n
}

const ms = int64(time.Millisecond)

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
	require.Equal(t, 2*time.Second, m.Interval())
}

func TestMetric_NoEvents(t *testing.T) {
	t.Parallel()
	m := newMetric()
	check := func(now int64) {
		for e := range numEvents {
			require.Zero(t, m.Sum(now, e), e.String())
			require.Zero(t, m.QPS(now, e), e.String())
			require.Zero(t, m.Total(e), e.String())
		}
		require.Equal(t, Counts{}, m.Window(now))
		require.Equal(t, Counts{}, m.Totals())
		require.Zero(t, m.AvgRT(now))
		require.Zero(t, m.MinRT(now))
		require.Zero(t, m.Concurrency())
		require.Zero(t, m.MaxConcurrency(now))
		m.Trim(now)
		_, opened := m.LastBucket()
		require.False(t, opened, "looking opens nothing")
	}
	for _, now := range []int64{0, -1, 5e9, math.MaxInt64, math.MinInt64} {
		check(now)
	}
}

func TestAdd_NothingToAdd(t *testing.T) {
	t.Parallel()
	m := newMetric()
	for e := range numEvents {
		for _, n := range []int64{0, -1, math.MinInt64} {
			m.Add(0, e, n)
		}
	}
	for _, e := range []Event{numEvents, numEvents + 1, 255} {
		m.Add(0, e, 1)
		require.Zero(t, m.Total(e))
		require.Zero(t, m.Sum(0, e))
		require.Zero(t, m.QPS(0, e))
	}
	require.Equal(t, Counts{}, m.Totals())
	_, opened := m.LastBucket()
	require.False(t, opened)
}

func TestAdd_EachEvent(t *testing.T) {
	t.Parallel()
	for e := range numEvents {
		m := newMetric()
		// Long ago, so that an exception is one of a completed call.
		before := Counts{Pass: 50, Success: 50}
		m.Add(-10_000*ms, Pass, 50)
		m.Add(-10_000*ms, Success, 50)
		want := Counts{}
		m.Add(50*ms, e, 3)
		m.Add(250*ms, e, 4)
		want[e] = 7
		require.Equal(t, want.Plus(before), m.Totals(), e.String())
		require.Equal(t, want, m.Window(250*ms), e.String())
		require.EqualValues(t, before[e]+7, m.Total(e), e.String())
		require.EqualValues(t, 7, m.Sum(999*ms, e), e.String())
		require.EqualValues(t, 7.0, m.QPS(999*ms, e), e.String())
		require.EqualValues(t, 4, m.Sum(1000*ms, e), e.String())
		require.EqualValues(t, 4, m.Sum(1199*ms, e), e.String())
		require.EqualValues(t, 0, m.Sum(1200*ms, e), e.String())
		m.Add(1150*ms, e, 5)
		want[e] = 9
		require.Equal(t, want, m.Window(1150*ms), e.String())
		require.EqualValues(t, before[e]+12, m.Total(e), e.String())
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
	require.EqualValues(t, 1, m.Latencies().Count(), "of the others nobody knows how long they took")
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

// VW-10.
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

// SC-09.
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
	require.EqualValues(t, 3, m.Latencies().Count())
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
	end, _ := m.LastBucket()
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
	_, ok := m.LastBucket()
	require.False(t, ok)
	for _, c := range []struct{ now, end int64 }{{-1, 0}, {0, 100 * ms}, {99 * ms, 100 * ms}, {1234 * ms, 1300 * ms}, {5 * ms, 1300 * ms}} {
		m.Add(c.now, Block, 1)
		end, ok := m.LastBucket()
		require.True(t, ok)
		require.Equal(t, c.end, end, "at %d", c.now)
	}
}

func TestMaxConcurrency_SeenWhenABucketOpens(t *testing.T) {
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

func TestMaxConcurrency_SeenWhenRead(t *testing.T) {
	t.Parallel()
	m := newMetric()
	a := m.Pass(0, 5)
	require.EqualValues(t, 5, m.MaxConcurrency(10*ms))
	m.Complete(20*ms, a, 5, 1000, false)
	require.EqualValues(t, 5, m.MaxConcurrency(30*ms), "it was seen")
	require.EqualValues(t, 0, m.MaxConcurrency(1000*ms))

	// It is a sample: what nobody looked at is not known.
	m = newMetric()
	m.Complete(20*ms, m.Pass(0, 5), 5, 1000, false)
	require.EqualValues(t, 0, m.MaxConcurrency(30*ms))
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
	mark := m.Mark()
	require.EqualValues(t, 4, mark.MaxConcurrency())
	require.Equal(t, Counts{Pass: 4}, mark.Counts)
	mark.Saw(2)
	require.EqualValues(t, 4, mark.MaxConcurrency())
	mark.Saw(9)
	require.EqualValues(t, 9, mark.MaxConcurrency())
	m.Pass(0, 1)
	require.Equal(t, Counts{Pass: 4}, mark.Counts, "a mark stays")
}

// All raise the maximum of one mark, all the time. With load-then-store it would
// fall now and then.
func TestSaw_HammerHighestIsKept(t *testing.T) {
	t.Parallel()
	const goroutines = 4
	raises := fewer(500_000)
	mark := newMetric().Mark()
	together(goroutines, func(g int) {
		for i := range raises {
			n := int64(i*goroutines + g)
			mark.Saw(n)
			if got := mark.MaxConcurrency(); got < n {
				t.Errorf("%d was seen, and the highest is %d", n, got)
				return
			}
		}
	})
	require.EqualValues(t, goroutines*raises-1, mark.MaxConcurrency())
}

// All lower the minimum of one bucket, all the time. With load-then-store it would
// rise now and then.
func TestMinRT_HammerCompletes(t *testing.T) {
	t.Parallel()
	const goroutines = 4
	completes := fewer(100_000)
	m := newMetric()
	m.Pass(0, int64(goroutines*completes))
	var next atomic.Int64
	next.Store(int64(goroutines*completes) + 1_000_000)
	together(goroutines, func(int) {
		for range completes {
			rt := next.Add(-1)
			m.Complete(0, 0, 1, rt, false)
			if got := m.MinRT(0); int64(got) > rt {
				t.Errorf("a call took %d, and the minimum is %d", rt, got)
				return
			}
		}
	})
	require.EqualValues(t, 1_000_000, m.MinRT(0))
	require.EqualValues(t, goroutines*completes, m.Total(Success))
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

// An opener is held up between reading its mark and publishing its bucket, while
// others open that bucket, and later ones, and add. Its mark is stale then, and must
// not be used: a bucket would be negative, or count what another one counts too.
func TestOpen_HeldUpBetweenMarkAndPublishing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		others  []int64 // when others add one, in ms
		buckets []int64 // what each live bucket counts in the end
	}{
		{"another opens the same bucket", []int64{100, 150}, []int64{10, 2 + 1}},
		{"another opens the next bucket", []int64{200}, []int64{10, 1 + 1}},
		{"others open both", []int64{100, 199, 200, 201, 202}, []int64{10, 2, 3 + 1}},
		{"others open many, and the slot is used again", []int64{100, 200, 300, 1100, 1200}, []int64{1, 1, 1 + 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMetric()
			arrived, released := make(chan struct{}), make(chan struct{})
			var first atomic.Bool
			first.Store(true)
			m.WhenOpening(func(start int64, mark *Mark) {
				if start == 100*ms && first.CompareAndSwap(true, false) {
					close(arrived)
					<-released
				}
			})
			m.Add(0, Pass, 10)
			done := make(chan struct{})
			go func() {
				defer close(done)
				m.Add(100*ms, Pass, 1)
			}()
			<-arrived
			for _, at := range c.others {
				m.Add(at*ms, Pass, 1)
			}
			close(released)
			<-done

			total := int64(10 + len(c.others) + 1)
			require.Equal(t, total, m.Total(Pass))
			var buckets []int64
			var before *Counts
			newest := m.ring.Newest().Start()
			for w := range m.ring.Live(newest) {
				mark := &w.Value().Counts
				if before != nil {
					buckets = append(buckets, mark.Minus(*before)[Pass])
				}
				before = mark
			}
			buckets = append(buckets, m.Totals().Minus(*before)[Pass])
			require.Equal(t, c.buckets, buckets)
			var sum int64
			for _, n := range buckets {
				sum += n
			}
			require.Equal(t, sum, m.Sum(newest, Pass))
		})
	}
}

// linked is a mark that knows the one before, so that all can be walked.
type linked struct {
	counts Counts
	prev   *leaparray.WindowWrap[linked]
}

// markRing makes a ring of marks that follows the metric's.
func markRing(t *testing.T, m *Metric, buckets int, interval time.Duration) *leaparray.LeapArray[linked] {
	t.Helper()
	marks, err := leaparray.New(buckets, interval, func(start int64, prev *leaparray.WindowWrap[linked]) *linked {
		return &linked{m.Mark().Counts, prev}
	})
	require.NoError(t, err)
	m.WhenOpening(func(start int64, _ *Mark) { marks.Current(start) })
	return marks
}

// sumOfBuckets walks all buckets that ever were, and gives the sum of their counts,
// after a look that none is negative.
func sumOfBuckets(t *testing.T, m *Metric, marks *leaparray.LeapArray[linked]) (sum Counts, buckets int) {
	t.Helper()
	after, start := m.Totals(), int64(math.MaxInt64)
	for w := marks.Newest(); w != nil; w = w.Value().prev {
		if w.Start() >= start {
			t.Fatalf("bucket %d before bucket %d", w.Start(), start)
		}
		bucket := after.Minus(w.Value().counts)
		for e, n := range bucket {
			if n < 0 {
				t.Fatalf("bucket %d: %d × %v", w.Start(), n, Event(e))
			}
		}
		sum = sum.Plus(bucket)
		after, start = w.Value().counts, w.Start()
		buckets++
	}
	require.Equal(t, Counts{}, after, "nothing was counted before the first bucket")
	return sum, buckets
}

// Eight goroutines count, and with each call comes a new bucket.
func TestMetric_HammerNothingLostInRollOvers(t *testing.T) {
	t.Parallel()
	const goroutines = 8
	rollovers := fewer(200_000)
	m, err := New(10, 10*time.Millisecond)
	require.NoError(t, err)
	marks := markRing(t, m, 10, 10*time.Millisecond)

	var clock atomic.Int64
	var wg sync.WaitGroup
	added := [goroutines]Counts{}
	for g := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			var mine Counts
			for range rollovers / goroutines {
				now := clock.Add(ms)
				n := 1 + random.Int64N(3)
				switch random.IntN(4) {
				case 0:
					m.Add(now, Block, n)
					mine[Block] += n
				case 1:
					m.Add(now, WouldBlock, n)
					mine[WouldBlock] += n
				default:
					rt := 1000 + random.Int64N(200) // few cells, so that reading the totals is quick
					failed := random.IntN(2) == 0
					stripe := m.Pass(now, n)
					m.Complete(now-random.Int64N(3)*ms, stripe, n, rt, failed)
					mine = mine.Plus(Counts{Pass: n, Success: n, RT: n * rt})
					if failed {
						mine[Exception] += n
					}
				}
			}
			added[g] = mine
		})
	}
	wg.Wait()

	var want Counts
	for _, c := range added {
		want = want.Plus(c)
	}
	sum, buckets := sumOfBuckets(t, m, marks)
	require.Equal(t, want, m.Totals())
	require.Equal(t, want, sum)
	require.Equal(t, want[Success], m.Latencies().Count())
	require.Greater(t, buckets, rollovers/10, "roll-overs")
}

// BT-03. They keep step by themselves: who is behind has less to do, since it finds
// the buckets open.
func TestMetric_HammerTwoRotateInLockStep(t *testing.T) {
	t.Parallel()
	rotations := fewer(300_000)
	m, err := New(2, 2*time.Millisecond)
	require.NoError(t, err)
	together(2, func(int) {
		for round := range int64(rotations) {
			m.Add(round*ms, Pass, 1)
		}
	})
	require.EqualValues(t, 2*rotations, m.Total(Pass))
}

// A writer puts the same number into each bucket while others read the window. A
// reader that is held up between the mark and the totals must notice: the totals
// would be from long after.
func TestSum_HammerTotalIsNotFromAfterTheWindow(t *testing.T) {
	t.Parallel()
	const perBucket, buckets = 3, 4
	rotations := int64(fewer(40_000))
	m, err := New(buckets, buckets*time.Millisecond)
	require.NoError(t, err)
	var clock atomic.Int64
	for i := range int64(buckets) {
		m.Add(i*ms, Pass, perBucket)
		clock.Store(i * ms)
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !over.Load() {
				now := clock.Load()
				for what, sum := range map[string]int64{"sum": m.Sum(now, Pass), "window": m.Window(now)[Pass]} {
					// A bucket less if that of now is not open yet, and what the newest has.
					if sum < (buckets-2)*perBucket || sum > buckets*perBucket {
						t.Errorf("%s at %d: %d", what, now, sum)
						return
					}
				}
				runtime.Gosched()
			}
		})
	}
	for i := int64(buckets); i < rotations; i++ {
		clock.Store(i * ms)
		for range perBucket {
			m.Add(i*ms, Pass, 1)
		}
	}
	over.Store(true)
	wg.Wait()
	require.EqualValues(t, rotations*perBucket, m.Total(Pass))
}

func TestMetric_AllocatesOnlyToOpen(t *testing.T) {
	m := newMetric()
	growFully(m)
	var sink int64
	for e := range numEvents {
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
		"Block":             func() { m.Block(50*ms, 1) },
		"Holds":             func() { m.Holds() },
		"Trim":              func() { m.Trim(50 * ms) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	for e := range numEvents {
		require.Zero(t, testing.AllocsPerRun(100, func() { m.Add(50*ms, e, 1) }), e.String())
	}
	// To open a bucket takes its wrap and its mark.
	now := int64(0)
	require.EqualValues(t, 2, testing.AllocsPerRun(100, func() { now += tenth; m.Add(now, Block, 1) }))
}

// A metric takes 128 bytes, its ring, and nothing per bucket before the first event.
func TestNew_Allocations(t *testing.T) {
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { newMetric() }), 4.0)
}

// naiveMetric keeps a log of all events, and the bucket that each was counted in.
type naiveMetric struct {
	length, interval int64
	opened           bool
	newest           int64
	log              []logged
}

type logged struct {
	bucket int64
	counts Counts
	rt     int64 // −1: not a completed call
}

func (n *naiveMetric) align(now int64) int64 {
	for ; now%n.length != 0; now-- {
	}
	return now
}

func (n *naiveMetric) add(now int64, counts Counts, rt int64) {
	if start := n.align(now); !n.opened || start > n.newest {
		n.opened, n.newest = true, start
	}
	n.log = append(n.log, logged{n.newest, counts, rt})
}

func (n *naiveMetric) total() (sum Counts) {
	for _, l := range n.log {
		sum = sum.Plus(l.counts)
	}
	return sum
}

func (n *naiveMetric) window(now int64) (sum Counts, minRT int64) {
	end := max(n.align(now), n.newest)
	minRT = math.MaxInt64
	for _, l := range n.log {
		if l.bucket > end-n.interval && l.bucket <= end {
			sum = sum.Plus(l.counts)
			if l.rt >= 0 {
				minRT = min(minRT, l.rt)
			}
		}
	}
	if minRT == math.MaxInt64 {
		minRT = 0
	}
	return sum, minRT
}

func TestMetric_AgreesWithANaiveLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		buckets := rapid.IntRange(1, 6).Draw(t, "buckets")
		length := rapid.Int64Range(1, 12).Draw(t, "length")
		model := &naiveMetric{length: length, interval: length * int64(buckets)}
		m, err := New(buckets, time.Duration(model.interval))
		require.NoError(t, err)
		type call struct {
			stripe int
			n      int64
		}
		var inFlight []call
		clock := rapid.Int64Range(-50, 50).Draw(t, "clock")
		trimmed := int64(math.MinInt64) // who looks with an older now may miss something
		step := rapid.OneOf(
			rapid.Int64Range(0, length),
			rapid.Int64Range(-model.interval, model.interval),
			rapid.Int64Range(0, 3*model.interval),
		)
		count := rapid.Int64Range(1, 5)
		rt := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 200_000_000_000))
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := Event(rapid.IntRange(0, int(numEvents)-1).Draw(t, "event"))
				n := count.Draw(t, "n")
				if total := model.total(); e == Exception && total[Exception]+n > total[Success] {
					t.Skip("exceptions are some of the completed calls")
				}
				clock += step.Draw(t, "step")
				c := Counts{}
				c[e] = n
				model.add(clock, c, -1)
				m.Add(clock, e, n)
			},
			"add rt": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				rt := rt.Draw(t, "rt")
				model.add(clock, Counts{Success: 1, RT: rt}, rt)
				m.AddRT(clock, time.Duration(rt))
			},
			"pass": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				n := count.Draw(t, "n")
				model.add(clock, Counts{Pass: n}, -1)
				inFlight = append(inFlight, call{m.Pass(clock, n), n})
			},
			"complete": func(t *rapid.T) {
				if len(inFlight) == 0 {
					t.Skip()
				}
				clock += step.Draw(t, "step")
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "call")
				c := inFlight[i]
				inFlight = append(inFlight[:i], inFlight[i+1:]...)
				rt := rt.Draw(t, "rt")
				counts := Counts{Success: c.n, RT: c.n * rt}
				failed := rapid.Bool().Draw(t, "failed")
				if failed {
					counts[Exception] = c.n
				}
				model.add(clock, counts, rt)
				m.Complete(clock, c.stripe, c.n, rt, failed)
			},
			"block": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				n := count.Draw(t, "n")
				model.add(clock, Counts{Block: n}, -1)
				require.True(t, m.Block(clock, n))
			},
			"grow": func(t *rapid.T) { m.grow(math.MaxInt64, 1) },
			"trim": func(t *rapid.T) {
				trimmed = max(trimmed, clock+step.Draw(t, "now"))
				m.Trim(trimmed)
			},
			"": func(t *rapid.T) {
				now := max(trimmed, clock+step.Draw(t, "now"))
				sum, minRT := model.window(now)
				require.Equal(t, sum, m.Window(now), "window at %d", now)
				require.EqualValues(t, minRT, m.MinRT(now))
				var avg time.Duration
				if sum[Success] > 0 {
					avg = time.Duration(sum[RT] / sum[Success])
				}
				require.Equal(t, avg, m.AvgRT(now))
				total := model.total()
				require.Equal(t, total, m.Totals())
				for e := range numEvents {
					require.Equal(t, sum[e], m.Sum(now, e), "%v at %d", e, now)
					require.Equal(t, float64(sum[e])/m.Interval().Seconds(), m.QPS(now, e), "%v at %d", e, now)
					require.Equal(t, total[e], m.Total(e))
				}
				end, ok := m.LastBucket()
				require.Equal(t, model.opened, ok)
				if ok {
					require.Equal(t, model.newest+length, end)
				}
			},
		})
	})
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
				for e := range numEvents {
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
