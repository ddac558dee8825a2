package metric

import (
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/leaparray"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("rapid.nofailfile", "true") // what fails is printed; no files in the checkout
	goleak.VerifyTestMain(m)
}

func newMetric() *Metric {
	m, err := New(10, time.Second)
	if err != nil {
		panic(err)
	}
	return m
}

func TestNew_BadConfiguration(t *testing.T) {
	t.Parallel()
	m, err := New(7, time.Second)
	require.Nil(t, m)
	require.ErrorIs(t, err, leaparray.ErrConfig)
	require.ErrorContains(t, err, "8 buckets would do")
}

func TestMetric_FiguresOfAFewCalls(t *testing.T) {
	t.Parallel()
	m := newMetric()
	const ms = int64(time.Millisecond)
	m.Add(0, Pass, 4)
	m.AddRT(20*ms, 20*time.Millisecond)
	m.AddRT(130*ms, 40*time.Millisecond)
	m.Add(130*ms, Exception, 1)
	m.Add(130*ms, 200, 1)
	m.Add(130*ms, Pass, -1)
	require.Equal(t, Counts{Pass: 4, Success: 2, Exception: 1, RT: 60 * ms}, m.Totals())
	require.EqualValues(t, 2, m.Concurrency())
	require.Equal(t, 4.0, m.QPS(999*ms, Pass))
	require.Equal(t, 30*time.Millisecond, m.AvgRT(999*ms))
	require.Equal(t, 20*time.Millisecond, m.MinRT(999*ms))
	require.Equal(t, 40*time.Millisecond, m.AvgRT(1000*ms), "the first bucket has left")
	require.EqualValues(t, 2, m.Latencies().Count())
	require.Zero(t, m.QPS(999*ms, 200))
}

func TestMetric_HammerCallsOfManyGoroutines(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 2_000
	m := newMetric()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range int64(calls) {
				m.Add(i*1e6, Pass, 1)
				m.AddRT(i*1e6, time.Millisecond)
			}
		})
	}
	wg.Wait()
	const all = goroutines * calls
	require.Equal(t, Counts{Pass: all, Success: all, RT: all * 1e6}, m.Totals())
	require.EqualValues(t, all, m.Latencies().Count())
	require.Zero(t, m.Concurrency())
}
