package meter

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaparray"
)

// All raise the maximum of one mark, all the time. With load-then-store it would
// fall now and then.
func TestSaw_HammerHighestIsKept(t *testing.T) {
	t.Parallel()
	const goroutines = 4
	raises := fewer(500_000)
	var mark Mark
	newMetric().Mark(&mark)
	gatetest.AtOnce(goroutines, func(g int) {
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
	gatetest.AtOnce(goroutines, func(int) {
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
					buckets = append(buckets, minus(*mark, *before)[Pass])
				}
				before = mark
			}
			buckets = append(buckets, minus(m.Totals(), *before)[Pass])
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
func markRing(t *testing.T, m *Meter, buckets int, interval time.Duration) *leaparray.LeapArray[linked] {
	t.Helper()
	marks, err := leaparray.New(buckets, interval, func(l *linked, start int64, prev *leaparray.WindowWrap[linked]) {
		var mark Mark
		m.Mark(&mark)
		l.counts, l.prev = mark.Counts, prev
	})
	require.NoError(t, err)
	m.WhenOpening(func(start int64, _ *Mark) { marks.Current(start) })
	return marks
}

// sumOfBuckets walks all buckets that ever were, and returns the sum of their counts,
// after a look that none is negative.
func sumOfBuckets(t *testing.T, m *Meter, marks *leaparray.LeapArray[linked]) (sum Counts, buckets int) {
	t.Helper()
	after, start := m.Totals(), int64(math.MaxInt64)
	for w := marks.Newest(); w != nil; w = w.Value().prev {
		if w.Start() >= start {
			t.Fatalf("bucket %d before bucket %d", w.Start(), start)
		}
		bucket := minus(after, w.Value().counts)
		for e, n := range bucket {
			if n < 0 {
				t.Fatalf("bucket %d: %d × %v", w.Start(), n, names[e])
			}
		}
		sum = plus(sum, bucket)
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
					mine = plus(mine, Counts{Pass: n, Success: n, RT: n * rt})
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
		want = plus(want, c)
	}
	sum, buckets := sumOfBuckets(t, m, marks)
	require.Equal(t, want, m.Totals())
	require.Equal(t, want, sum)
	require.Equal(t, want[Success], sumOf(m.Latencies()))
	require.Greater(t, buckets, rollovers/10, "roll-overs")
}

// Both keep step by themselves: the one that is behind has less to do, since it finds
// the buckets open.
func TestMetric_HammerTwoRotateInLockStep(t *testing.T) {
	t.Parallel()
	rotations := fewer(300_000)
	m, err := New(2, 2*time.Millisecond)
	require.NoError(t, err)
	gatetest.AtOnce(2, func(int) {
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

// While calls only come, the most in flight is exact, whatever stripes they are counted on.
func TestMaxConcurrency_HammerRisingIsExact(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 50
	for round := range fewer(500) {
		m := newMetric()
		growFully(m)
		var stripes [goroutines][each]int
		gatetest.AtOnce(goroutines, func(g int) {
			for i := range each {
				stripes[g][i] = m.Pass(0, 1)
			}
		})
		gatetest.AtOnce(goroutines, func(g int) {
			for _, stripe := range stripes[g] {
				m.Complete(0, stripe, 1, 1000, false)
			}
		})
		require.Zero(t, m.Concurrency())
		require.EqualValues(t, goroutines*each, m.MaxConcurrency(0), "round %d", round)
	}
}

// Calls come and go while buckets turn: the most in flight is never above what there can
// have been, in any bucket.
func TestMaxConcurrency_HammerNeverAboveTheTruth(t *testing.T) {
	t.Parallel()
	const goroutines = 8
	m := newMetric()
	growFully(m)
	var now, inside, most atomic.Int64
	gatetest.AtOnce(goroutines, func(g int) {
		for i := range fewer(20_000) {
			n := int64(1 + (g+i)%3)
			truth := inside.Add(n)
			for old := most.Load(); truth > old && !most.CompareAndSwap(old, truth); old = most.Load() {
			}
			at := now.Add(ms / 10)
			m.Complete(at, m.Pass(at, n), n, 1000, false)
			inside.Add(-n)
			if seen := m.MaxConcurrency(at); seen > most.Load() {
				t.Errorf("%d in flight were seen, and there were %d at most", seen, most.Load())
				return
			}
		}
	})
	require.Zero(t, m.Concurrency())
	require.Positive(t, m.MaxConcurrency(now.Load()))
}
