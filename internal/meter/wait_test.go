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
	m.AddWaiting(3)
	require.EqualValues(t, 3, m.Waiting())
	require.Nil(t, m.rare.waits.Load().latency.Load(), "no histogram before a wait ends")
	require.True(t, m.Waited(0, 2, 50*ms))
	require.True(t, m.Waited(ms, 1, 0))
	m.AddWaiting(-3)
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
	m.AddWaiting(1)
	_, ok := m.Retire()
	require.True(t, ok, "a call that waits is not in flight")
	m.AddWaiting(-1)
	require.False(t, m.Waited(0, 1, 1000))
	require.Equal(t, Counts{}, m.Totals())
	require.Zero(t, sumOf(m.Waits()))
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
				m.AddWaiting(n)
				if i%4 == 1 {
					runtime.Gosched() // and find it retired only now
				}
				m.AddWaiting(-n)
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
