package meter

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWaited_CountsTimeAndCalls(t *testing.T) {
	t.Parallel()
	m := newMetric()
	require.Nil(t, m.rare.waits.Load(), "no memory before a call waits")
	require.Zero(t, m.Waiting())
	require.Zero(t, sumOf(m.Waits()))
	m.AddWaiting(0, 3)
	require.EqualValues(t, 3, m.Waiting())
	require.Nil(t, m.rare.waits.Load().latency.Load(), "no histogram before a wait ends")
	require.True(t, m.Waited(0, 2, 50*ms))
	require.True(t, m.Waited(ms, 1, 0))
	m.AddWaiting(0, -3)
	require.Zero(t, m.Waiting())
	require.Equal(t, Counts{Wait: 100 * ms}, m.Totals())
	require.Equal(t, Counts{Wait: 100 * ms}, m.Window(ms))
	l := m.Waits()
	require.Equal(t, FirstCell, l.First)
	require.EqualValues(t, 1, l.Counts[0])
	require.EqualValues(t, 2, l.Counts[cellOf(50*ms)])
	require.EqualValues(t, 3, sumOf(l))
	require.Zero(t, sumOf(m.Latencies()), "a wait is no response time")
}

func TestWaited_AfterItsMeterWasRetired(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.AddWaiting(0, 1)
	_, ok := m.Retire()
	require.True(t, ok, "a call that waits is not in flight")
	m.AddWaiting(0, -1)
	require.False(t, m.Waited(0, 1, 1000))
	require.Equal(t, Counts{}, m.Totals())
	require.Zero(t, sumOf(m.Waits()))
}

// The most that waited is remembered for the second and the one after it, whoever reads it.
func TestMaxWaiting_OfTheSecondAndTheOneBefore(t *testing.T) {
	t.Parallel()
	const second = int64(1_000_000_000)
	m := newMetric()
	require.Zero(t, m.MaxWaiting(0))
	m.AddWaiting(second, 3)
	m.AddWaiting(second+1, 4)
	m.AddWaiting(second+2, -6)
	require.EqualValues(t, 7, m.MaxWaiting(second+3))
	require.EqualValues(t, 7, m.MaxWaiting(2*second+3))
	require.EqualValues(t, 1, m.MaxWaiting(3*second), "it still waits")
	m.AddWaiting(9*second, -1)
	require.EqualValues(t, 1, m.MaxWaiting(9*second), "until now")
	m.AddWaiting(7*second, 5)
	m.AddWaiting(9*second, -5)
	require.EqualValues(t, 5, m.MaxWaiting(9*second), "it comes late, and waits now")
	require.Zero(t, m.MaxWaiting(11*second))
}

func TestMaxWaiting_HammerLosesNoPeak(t *testing.T) {
	t.Parallel()
	m := newMetric()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range int64(fewer(20_000)) {
				m.AddWaiting(i*1_000_000, 1)
			}
		})
	}
	wg.Wait()
	last := int64(fewer(20_000)-1) * 1_000_000
	require.EqualValues(t, 4*fewer(20_000), m.MaxWaiting(last))
}

// Waits end while another retires the meter again and again. What holds must be in what
// one of the meters leaves, time and calls, exactly.
func TestWaited_HammerWhatHoldsIsFinal(t *testing.T) {
	t.Parallel()
	const goroutines = 3
	calls := fewer(60_000)
	var place atomic.Pointer[Meter]
	place.Store(newMetric())
	var held, void [goroutines]int64
	var left atomic.Int64
	left.Store(goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			defer left.Add(-1)
			for i := range calls {
				m, n := place.Load(), int64(1+i%3)
				m.AddWaiting(0, n)
				if i%4 == 1 {
					runtime.Gosched() // and find it retired only now
				}
				m.AddWaiting(0, -n)
				if m.Waited(0, n, 1000+int64(i)) {
					held[g] += n * (1000 + int64(i))
				} else {
					void[g] += n
				}
			}
		})
	}
	var sum, sumCalls, wantCalls int64
	retired := 0
	for left.Load() > 0 {
		m := place.Load()
		final, ok := m.Retire()
		if !ok {
			runtime.Gosched()
			continue
		}
		retired++
		sum += final[Wait]
		sumCalls += sumOf(m.Waits())
		place.Store(newMetric())
		runtime.Gosched()
	}
	wg.Wait()
	sum += place.Load().Totals()[Wait]
	sumCalls += sumOf(place.Load().Waits())
	var want int64
	for g := range goroutines {
		want += held[g]
		wantCalls -= void[g]
		for i := range calls {
			wantCalls += int64(1 + i%3)
		}
	}
	t.Logf("%d times retired", retired)
	require.Equal(t, want, sum)
	require.Equal(t, wantCalls, sumCalls)
}
