package meter

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRetire_IdleMetric(t *testing.T) {
	t.Parallel()
	m := newMetric()
	require.True(t, m.Holds())
	m.Complete(0, m.Pass(0, 3), 3, 1000, true)
	m.Add(0, Block, 2)
	m.Add(0, WouldBlock, 1)
	want := Counts{Pass: 3, Success: 3, Exception: 3, RT: 3000, Block: 2, WouldBlock: 1}

	final, ok := m.Retire()
	require.True(t, ok)
	require.Equal(t, want, final)
	require.Equal(t, want, m.Totals())
	require.False(t, m.Holds())
	require.False(t, m.Holds(), "and it stays so")
}

func TestRetire_NeverUsed(t *testing.T) {
	t.Parallel()
	m := newMetric()
	final, ok := m.Retire()
	require.True(t, ok)
	require.Equal(t, Counts{}, final)
	m.Pass(0, 1)
	require.False(t, m.Holds())
	require.Equal(t, Counts{}, m.Totals())
}

func TestRetire_CallInFlight(t *testing.T) {
	t.Parallel()
	m := newMetric()
	stripe := m.Pass(0, 2)
	require.True(t, m.Holds())
	final, ok := m.Retire()
	require.False(t, ok)
	require.Equal(t, Counts{}, final)
	require.True(t, m.Holds())

	m.Complete(0, stripe, 2, 1000, false)
	final, ok = m.Retire()
	require.True(t, ok)
	require.Equal(t, Counts{Pass: 2, Success: 2, RT: 2000}, final)
}

func TestRetire_VoidEventsDoNotShow(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.Complete(0, m.Pass(0, 1), 1, 1000, false)
	final, ok := m.Retire()
	require.True(t, ok)

	m.Pass(0, 5)
	m.Add(0, Block, 5)
	require.False(t, m.Holds())
	require.Equal(t, final, m.Totals())
	require.Zero(t, m.Concurrency())
	require.EqualValues(t, 1, m.MaxConcurrency(0), "of what holds")
	require.Equal(t, final, m.Window(0))
	for e := range NumEvents {
		require.Equal(t, final[e], m.Total(uint8(e)), "total of %v", e)
		require.Equal(t, final[e], m.Sum(0, uint8(e)), "sum of %v", e)
	}
}

// What was void stays void: a second Retire does not bring the metric back.
func TestRetire_Twice(t *testing.T) {
	t.Parallel()
	m := newMetric()
	first, ok := m.Retire()
	require.True(t, ok)
	m.Pass(0, 1)
	require.False(t, m.Holds())
	m.Retire()
	require.False(t, m.Holds())
	require.Equal(t, first, m.Totals())
}

// The count of a call comes between Retire's second look and its end. The call
// finds the metric retiring, and stops that.
func TestHolds_StopsARetireThatIsNotOver(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.state.Store(retiring)
	m.Pass(0, 1)
	require.True(t, m.Holds())
	require.Equal(t, counting, m.state.Load())
	require.False(t, m.state.CompareAndSwap(retiring, retired), "how Retire ends")
	require.Equal(t, Counts{Pass: 1}, m.Totals())
	require.True(t, m.Holds())
}

func TestBlock_Counts(t *testing.T) {
	t.Parallel()
	m := newMetric()
	require.True(t, m.Block(50*ms, 2))
	require.True(t, m.Block(250*ms, 3))
	require.Equal(t, Counts{Block: 5}, m.Totals())
	require.EqualValues(t, 5, m.Sum(250*ms, Block))
	require.EqualValues(t, 3, m.Sum(1000*ms, Block))
	end, _ := m.LastBucket()
	require.EqualValues(t, 300*ms, end)
}

func TestBlock_OfARetiredMetricIsVoid(t *testing.T) {
	t.Parallel()
	m := newMetric()
	growFully(m)
	require.True(t, m.Block(0, 2))
	final, ok := m.Retire()
	require.True(t, ok)
	require.Equal(t, Counts{Block: 2}, final)
	for range 10 {
		require.False(t, m.Block(0, 1))
	}
	require.Equal(t, final, m.Totals())
}

// A blocked call is not in flight. If it is suspended after it counted, the metric
// may be retired with that in the final totals: then it holds, although the metric
// is retired when it asks.
func TestBlock_HeldUpUntilTheMetricIsRetired(t *testing.T) {
	t.Parallel()
	for _, grown := range []bool{false, true} {
		m := newMetric()
		if grown {
			growFully(m)
		}
		for i := range m.numStripes() {
			m.stripe(i).counts[Block].Add(10) // the goroutine that counted these was suspended at once
		}
		_, ok := m.Retire()
		require.True(t, ok)
		for i := range m.numStripes() {
			m.stripe(i).counts[Block].Add(-1) // so that the next to count is the last of the ten
		}
		require.True(t, m.Block(0, 1))
		for i := range m.numStripes() {
			m.stripe(i).counts[Block].Store(10)
		}
		require.False(t, m.Block(0, 1))
	}
}

// As TestRetire_HammerCallsThatHoldAreFinal, for blocks, which are never in flight.
func TestBlock_HammerBlocksThatHoldAreFinal(t *testing.T) {
	t.Parallel()
	const goroutines = 3
	blocks := fewer(30_000)
	var place atomic.Pointer[Meter]
	place.Store(newMetric())
	var held, void [goroutines]int64
	var left atomic.Int64
	left.Store(goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			defer left.Add(-1)
			for i := range blocks {
				m, n := place.Load(), int64(1+i%3)
				if i%64 == 0 {
					m.grow(math.MaxInt64, 1)
				}
				if m.Block(0, n) {
					held[g] += n
				} else {
					void[g] += n
				}
				if i%2 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	var sum Counts
	retired, refused := 0, 0
	for left.Load() > 0 {
		final, ok := place.Load().Retire()
		if !ok {
			if refused++; refused%64 == 0 {
				runtime.Gosched()
			}
			continue
		}
		retired++
		sum = plus(sum, final)
		place.Store(newMetric())
		runtime.Gosched()
	}
	wg.Wait()
	sum = plus(sum, place.Load().Totals())

	var wantHeld, wantVoid int64
	for g := range goroutines {
		wantHeld += held[g]
		wantVoid += void[g]
	}
	t.Logf("%d held, %d void; %d times retired, %d times refused", wantHeld, wantVoid, retired, refused)
	require.Equal(t, Counts{Block: wantHeld}, sum)
}

// Goroutines count calls while another retires the metric again and again and puts
// a fresh one in its place, as an evictor does. What holds must be in the final totals
// of one of the metrics, exactly.
func TestRetire_HammerCallsThatHoldAreFinal(t *testing.T) {
	t.Parallel()
	const goroutines = 3
	calls := fewer(60_000)
	fresh := func() *Meter {
		m := newMetric()
		growFully(m)
		slowToRead(m)
		return m
	}
	each := fresh().Totals()
	var place atomic.Pointer[Meter]
	place.Store(fresh())
	var held, void [goroutines]int64
	var left atomic.Int64
	left.Store(goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			defer left.Add(-1)
			for i := range calls {
				m, n := place.Load(), int64(1+i%3)
				if i%8 == 0 {
					runtime.Gosched() // and find the metric retired
				}
				stripe := m.Pass(0, n)
				if i%4 == 1 {
					runtime.Gosched() // and find it retired only now
				}
				if !m.Holds() {
					void[g] += n
					continue
				}
				held[g] += n
				if i%32 == 0 {
					runtime.Gosched()
				}
				m.Complete(0, stripe, n, 1000, true)
				if i%4 == 0 {
					runtime.Gosched() // and let it be retired
				}
			}
		})
	}
	var sum Counts
	retired, refused := 0, 0
	for left.Load() > 0 {
		final, ok := place.Load().Retire()
		if !ok {
			if refused++; refused%64 == 0 {
				runtime.Gosched()
			}
			continue
		}
		retired++
		sum = plus(sum, minus(final, each))
		place.Store(fresh())
		runtime.Gosched()
	}
	wg.Wait()
	sum = plus(sum, minus(place.Load().Totals(), each))

	var wantHeld, wantVoid int64
	for g := range goroutines {
		wantHeld += held[g]
		wantVoid += void[g]
	}
	t.Logf("%d held, %d void; %d times retired, %d times refused", wantHeld, wantVoid, retired, refused)
	require.Equal(t, Counts{Pass: wantHeld, Success: wantHeld, Exception: wantHeld, RT: wantHeld * 1000}, sum)
}
