package meter

import (
	"sync"
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
	m.Waited(0, 2, 50*ms)
	m.Waited(ms, 1, 0)
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
