package meter

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetire_UnusedMeter(t *testing.T) {
	t.Parallel()
	m := newMetric()
	require.Equal(t, int64(math.MinInt64), m.LastBucket())
	require.True(t, m.Retire(m.LastBucket()))
	require.True(t, m.Retired())
	m.Pass(0, 1)
	require.False(t, m.Holds())
	require.False(t, m.Retire(m.LastBucket()), "it was retired before")
	require.False(t, m.Holds(), "and stays so")
}

func TestRetire_RefusesWhileTheMeterIsUsed(t *testing.T) {
	t.Parallel()
	m := newMetric()
	end := m.LastBucket()
	stripe := m.Pass(0, 2)
	require.False(t, m.Retire(end), "a bucket was opened since")
	require.EqualValues(t, 100*ms, m.LastBucket())
	require.False(t, m.Retire(m.LastBucket()), "a call is in flight")
	m.Complete(0, stripe, 2, 1000, false)
	m.AddWaiting(0, 1)
	require.False(t, m.Retire(m.LastBucket()), "a call waits")
	m.AddWaiting(0, -1)
	require.True(t, m.Holds())
	require.True(t, m.Retire(m.LastBucket()))
	require.Equal(t, Counts{Pass: 2, Success: 2, RT: 2000}, m.Totals())
}

// A call is counted after Retire has read the counts. It finds the meter retiring, and stops that.
func TestHolds_StopsARetireThatIsNotOver(t *testing.T) {
	t.Parallel()
	m := newMetric()
	m.state.Store(retiring)
	m.Pass(0, 1)
	require.True(t, m.Holds())
	require.Equal(t, counting, m.state.Load())
	require.False(t, m.state.CompareAndSwap(retiring, retired), "how Retire ends")
}

// Goroutines count calls and blocks while another retires the meter again and again, if its last bucket
// is old, and puts a fresh one in its place. What holds is in a meter that was read after the last bucket
// had ended, exactly.
func TestRetire_HammerWhatHoldsWasVisible(t *testing.T) {
	t.Parallel()
	const goroutines, idle = 3, int64(time.Second)
	calls := fewer(60_000)
	var now atomic.Int64
	var place atomic.Pointer[Meter]
	place.Store(newMetric())
	var held, blocked, left atomic.Int64
	left.Store(goroutines)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			defer left.Add(-1)
			for i := range calls {
				m := place.Load()
				if i%8 == 0 {
					runtime.Gosched() // and find the meter retired
				}
				if i%3 == 0 {
					m.Add(now.Load(), Block, 1)
					if m.Holds() {
						blocked.Add(1)
					}
					continue
				}
				stripe := m.Pass(now.Load(), 1)
				if i%4 == 1 {
					runtime.Gosched() // and find it retired only now
				}
				if m.Holds() {
					held.Add(1)
					m.Complete(now.Load(), stripe, 1, 1000, true)
				}
			}
		})
	}
	var seen Counts
	retired := 0
	for left.Load() > 0 {
		m := place.Load()
		end := m.LastBucket()
		if end > 0 && now.Load() < end+idle {
			now.Store(end + idle) // while they count
		}
		if m.Retire(end) {
			retired++
			seen = plus(seen, m.Totals())
			place.Store(newMetric())
		}
		runtime.Gosched()
	}
	wg.Wait()
	seen = plus(seen, place.Load().Totals())
	t.Logf("%d times retired", retired)
	require.GreaterOrEqual(t, seen[Pass], held.Load())
	require.Equal(t, held.Load(), seen[Success])
	require.GreaterOrEqual(t, seen[Block], blocked.Load())
}
