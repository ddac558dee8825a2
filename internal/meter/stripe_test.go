package meter

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/leaparray"
)

func TestStripe_Layout(t *testing.T) {
	t.Parallel()
	var m Meter
	require.EqualValues(t, 64, unsafe.Sizeof(stripe{}), "a stripe is one cache line")
	require.EqualValues(t, 64, unsafe.Offsetof(m.first), "the head has a line of its own")
	require.EqualValues(t, 192, unsafe.Sizeof(m))
	var b bucket
	require.EqualValues(t, 8, unsafe.Offsetof(b.minRT), "beside the serial")
	require.Zero(t, unsafe.Sizeof(leaparray.WindowWrap[bucket]{})%64, "what a call reads of a bucket lies in its first line")
	require.Zero(t, unsafe.Offsetof(m.first.counts)%8)
}

// On 32-bit processors the runtime puts a word of its own before what is as large as a meter.
func TestStripe_Addresses(t *testing.T) {
	t.Parallel()
	onLines := unsafe.Sizeof(uintptr(0)) == 8
	metrics := make([]*Meter, 100)
	for i := range metrics {
		m := newMetric()
		metrics[i] = m // so that all of them are in memory together
		growFully(m)
		require.Equal(t, stripes.Wanted(), m.numStripes())
		if onLines {
			require.Zero(t, uintptr(unsafe.Pointer(m))%64)
		}
		for s := range m.numStripes() {
			if s > 0 || onLines {
				require.Zero(t, uintptr(unsafe.Pointer(m.stripe(s)))%64, "stripe %d", s)
			}
		}
	}
}

func TestStripe_SpanBeginsEmpty(t *testing.T) {
	t.Parallel()
	for cell := range numCells {
		require.False(t, inSpan(0, uint8(cell)), "cell %d", cell)
	}
	var s stripe
	_, cells := s.cells()
	require.Empty(t, cells)
}

func TestWiden_SpanHoldsWhatItWasAskedFor(t *testing.T) {
	t.Parallel()
	for _, a := range []int{0, 1, 100, 127, 128, numCells - 2, numCells - 1} {
		for b := 0; b < numCells; b += 5 {
			var s stripe
			s.widen(uint8(a))
			first, cells := s.cells()
			require.Equal(t, a, first)
			require.Len(t, cells, 1)
			s.widen(uint8(b))
			first, cells = s.cells()
			require.Equal(t, min(a, b), first)
			require.Len(t, cells, max(a, b)-min(a, b)+1)
			for cell := range numCells {
				require.Equal(t, cell >= min(a, b) && cell <= max(a, b), inSpan(s.span.Load(), uint8(cell)))
			}
		}
	}
}

// Several goroutines count the first calls of their cells in one stripe together:
// one histogram is kept, and the span ends up as wide as all of them need.
func TestWiden_HammerFirstCells(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 2_000
	metrics := make([]*Meter, rounds)
	for i := range metrics {
		metrics[i] = newMetric()
		metrics[i].Pass(0, 2*goroutines)
	}
	rt := func(g, round int) int64 { return int64(1000) << ((g*7 + round) % 26) }
	gatetest.AtOnce(goroutines, func(g int) {
		for round, m := range metrics {
			m.Complete(0, 0, 1, rt(g, round), false)
			m.Complete(0, 0, 1, rt(g+1, round), false)
		}
	})
	for i, m := range metrics {
		require.EqualValues(t, 2*goroutines, m.Total(Success), "round %d", i)
		require.EqualValues(t, 2*goroutines, sumOf(m.Latencies()), "round %d", i)
		var want [numCells]int64
		for g := range goroutines {
			want[cellOf(rt(g, i))]++
			want[cellOf(rt(g+1, i))]++
		}
		first, cells := m.first.cells()
		for c := range numCells {
			got := int64(0)
			if c >= first && c < first+len(cells) {
				got = cells[c-first].Load()
			}
			if got != want[c] {
				t.Fatalf("round %d: %d calls in cell %d, want %d", i, got, c, want[c])
			}
		}
	}
}

// Two widen the spans of the same stripes, one to either side. What one of them has
// reached must not be taken back by the other.
func TestWiden_HammerSpanNeverNarrows(t *testing.T) {
	t.Parallel()
	stripes := make([]stripe, fewer(5_000))
	shared := new(histogram)
	for i := range stripes {
		stripes[i].latency.Store(shared)
		stripes[i].widen(100)
	}
	gatetest.AtOnce(2, func(g int) {
		for i := range stripes {
			s := &stripes[i]
			for d := range 50 {
				cell := uint8(100 - d)
				if g == 1 {
					cell = uint8(100 + d)
				}
				s.widen(cell)
				for range 2 {
					if span := s.span.Load(); !inSpan(span, cell) {
						t.Errorf("stripe %d: %d was added, and the span is %x", i, cell, span)
						return
					}
				}
			}
		}
	})
	for i := range stripes {
		first, cells := stripes[i].cells()
		require.Equal(t, 51, first)
		require.Len(t, cells, 99)
	}
}

// growFully returns a metric all the stripes it may get.
func growFully(m *Meter) {
	for m.numStripes() < stripes.Wanted() {
		m.grow(math.MaxInt64, 1)
	}
}

// slowToRead makes reading the totals take long: each stripe gets two calls, one of
// no time and one of a very long one, so that all cells between them are read.
func slowToRead(m *Meter) {
	for i := range m.numStripes() {
		m.stripe(i).counts[Pass].Add(2)
		m.Complete(0, i, 1, 0, false)
		m.Complete(0, i, 1, 1e12, false)
	}
}

const tenth = int64(100 * time.Millisecond) // a bucket of newMetric

// hot is how many calls in one bucket of newMetric make so many stripes double.
func hot(stripes int) int64 { return int64(stripes) * hotRate / 10 }

func TestGrow_HotMetricDoublesItsStripes(t *testing.T) {
	t.Parallel()
	m := newMetric()
	now := int64(0)
	for want := 1; want < stripes.Wanted(); want *= 2 {
		m.Add(now, Block, hot(want)-1)
		now += tenth
		m.Pass(now, 0)
		require.Equal(t, want, m.numStripes(), "one call too few")
		for range hot(want) {
			m.Complete(now, m.Pass(now, 1), 1, 1000, false)
		}
		require.Equal(t, want, m.numStripes(), "not before the bucket is over")
		now += tenth
		m.Pass(now, 0)
		require.Equal(t, 2*want, m.numStripes())
	}
	for range 3 {
		m.Pass(now, 1_000_000)
		now += tenth
		m.Pass(now, 0)
		require.Equal(t, stripes.Wanted(), m.numStripes(), "as many as the processors need, and no more")
	}
	require.Equal(t, m.Total(Success)+3_000_000, m.Total(Pass))
}

func TestGrow_ColdMetricKeepsOneStripe(t *testing.T) {
	t.Parallel()
	m := newMetric()
	for i := range int64(100) {
		for range hot(1) - 1 {
			m.Complete(i*tenth, m.Pass(i*tenth, 1), 1, 1000, false)
		}
	}
	require.Equal(t, 1, m.numStripes())
	require.Nil(t, m.stripes.Load())

	// As many calls as would make it hot, but over a longer time.
	m = newMetric()
	m.Pass(0, 10*hot(1)-1)
	m.Pass(10*tenth, 1)
	require.Equal(t, 1, m.numStripes())
}

func TestGrow_BlockedCallsCountAsWell(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.Add(0, Block, hot(1)-1)
	m.Pass(0, 1)
	m.Pass(tenth, 1)
	require.Equal(t, min(2, stripes.Wanted()), m.numStripes())
}

// A call that picked its stripe before the stripes grew completes there.
func TestGrow_CallInFlight(t *testing.T) {
	t.Parallel()
	m := newMetric()
	type call struct {
		stripe int
		n      int64
	}
	var calls []call
	now := int64(0)
	for n := int64(1); m.numStripes() < stripes.Wanted(); n++ {
		calls = append(calls, call{m.Pass(now, n), n})
		calls = append(calls, call{m.Pass(now, hot(m.numStripes())), hot(m.numStripes())})
		before := m.numStripes()
		now += tenth
		m.Pass(now, 0)
		require.Equal(t, 2*before, m.numStripes())
	}
	require.Equal(t, m.Total(Pass), m.Concurrency())
	for _, c := range calls {
		before := m.stripe(c.stripe).counts[Success].Load()
		m.Complete(now, c.stripe, c.n, 1000, true)
		require.Equal(t, before+c.n, m.stripe(c.stripe).counts[Success].Load())
	}
	require.Zero(t, m.Concurrency())
	require.Equal(t, m.Total(Pass), m.Total(Success))
	require.Equal(t, m.Total(Pass), m.Total(Exception))
	require.Equal(t, m.Total(Pass)*1000, m.Total(RT))
	for i := range m.numStripes() {
		s := m.stripe(i)
		require.Equal(t, s.counts[Pass].Load(), s.counts[Success].Load(), "stripe %d", i)
	}
}

// Several openers find the metric hot at the same time. One of them grows it; a
// stripe that is there must not be replaced by that of another, which looked at the
// number of stripes before it grew.
func TestGrow_HammerStripesAreNotReplaced(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, calls = 4, 8_000, 4
	metrics := make([]*Meter, rounds)
	for i := range metrics {
		metrics[i] = newMetric()
		metrics[i].Pass(0, 0)
	}
	gatetest.AtOnce(goroutines, func(int) {
		for _, m := range metrics {
			for range calls {
				m.grow(math.MaxInt64, 1)
				m.Complete(0, m.Pass(0, 1), 1, 1000, true)
			}
		}
	})
	want := Counts{Pass: goroutines * calls, Success: goroutines * calls, Exception: goroutines * calls, RT: goroutines * calls * 1000}
	for i, m := range metrics {
		require.Equal(t, want, m.Totals(), "round %d", i)
		require.EqualValues(t, goroutines*calls, sumOf(m.Latencies()), "round %d", i)
	}
}

// A reader must find Success ≤ Pass whatever it reads between, while calls come and
// go and the stripes become more. The exception of a call that passed may be seen
// before its success, and not before its pass.
func TestTotals_HammerOrderWhileStripesGrow(t *testing.T) {
	t.Parallel()
	const writers, calls = 4, 400
	rounds := fewer(60)
	for round := range rounds {
		m := newMetric()
		var clock atomic.Int64
		var left atomic.Int64
		left.Store(writers)
		var wg sync.WaitGroup
		for g := range writers {
			wg.Go(func() {
				defer left.Add(-1)
				for i := range calls {
					// 100,000 calls per second, so that a new bucket finds the metric hot.
					now := clock.Add(10_000)
					n := int64(1 + i%3)
					stripe := m.Pass(now, n)
					if i%8 == 0 {
						runtime.Gosched()
					}
					m.Complete(now, stripe, n, 1000+int64(g), i%2 == 0)
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for left.Load() > 0 {
					c := m.Totals()
					if c[Success] > c[Pass] || c[Exception] > c[Pass] || inFlight(c) < 0 || m.Concurrency() < 0 {
						t.Errorf("round %d: exception %d, success %d, pass %d", round, c[Exception], c[Success], c[Pass])
						return
					}
					runtime.Gosched()
				}
			})
		}
		wg.Wait()
		m.Pass(clock.Add(tenth), 0)
		require.GreaterOrEqual(t, m.numStripes(), min(2, stripes.Wanted()))
		c := m.Totals()
		require.Equal(t, c[Pass], c[Success])
		require.Zero(t, inFlight(c))
		if t.Failed() {
			return
		}
	}
}

// A caller of Add and AddRT may have the success of a call counted in one stripe and
// its exception in another. It is an exception all the same.
func TestTotals_ExceptionAndSuccessInDifferentStripes(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.grow(math.MaxInt64, 1)
	last := m.numStripes() - 1
	m.Pass(0, 0)
	for first := range 2 {
		// As Add and AddRT do, on one processor and then on another.
		m.stripe(first * last).counts[Pass].Add(1)
		m.Complete(0, first*last, 1, 1000, false)
		m.stripe((1 - first) * last).counts[Exception].Add(1)
		want := int64(first + 1)
		require.Equal(t, want, m.Total(Exception))
		require.Equal(t, Counts{Pass: want, Success: want, Exception: want, RT: want * 1000}, m.Totals())
		require.Equal(t, m.Totals(), m.Window(0))
	}
}

// The same for callers of Add and AddRT, whose events of one call may go to
// different stripes, as the goroutine moves from processor to processor.
func TestTotals_HammerOrderOfAddAndAddRT(t *testing.T) {
	t.Parallel()
	const writers = 6
	for round := range 4 {
		calls := int64(fewer(20_000))
		m := newMetric()
		if round > 0 {
			growFully(m)
		}
		slowToRead(m)
		before := m.Totals()
		var left atomic.Int64
		left.Store(writers)
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				defer left.Add(-1)
				for i := range calls {
					m.Add(0, Pass, 1)
					runtime.Gosched()
					m.AddRT(0, time.Millisecond)
					runtime.Gosched()
					m.Add(0, Exception, 1)
					if i%500 == 0 {
						m.grow(math.MaxInt64, 1)
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for i := 0; left.Load() > 0; i++ {
					if c := m.Totals(); c[Success] > c[Pass] || c[Exception] > c[Pass] {
						t.Errorf("exception %d, success %d, pass %d", c[Exception], c[Success], c[Pass])
						return
					}
					if i%64 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		wg.Wait()
		all := writers * calls
		require.Equal(t, Counts{Pass: all, Success: all, Exception: all, RT: all * ms}, minus(m.Totals(), before))
	}
}
