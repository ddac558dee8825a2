package stats

import (
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

func TestSnapshot_Scripted(t *testing.T) {
	t.Parallel()
	s := New()
	m := s.Meter()
	call(s, minute+20*ms, 1, 20*time.Millisecond, false)
	call(s, minute+150*ms, 2, 50*time.Millisecond, true)
	m.Add(minute+300*ms, meter.Block, 3)
	m.Add(minute+310*ms, meter.OccupiedPass, 4)
	stripe := m.Pass(minute+900*ms, 1)
	m.Add(minute+900*ms, meter.WouldBlock, 1)

	fifty := metric.Latencies(m.Latencies()).Quantile(0.95)
	require.InDelta(t, 50*ms, int64(fifty), 0.0443*50*float64(ms))
	require.Equal(t, stat.Snapshot{
		PassQPS: 4, BlockQPS: 3, SuccessQPS: 3, ExceptionQPS: 2,
		AvgRT: 40 * time.Millisecond, MinRT: 20 * time.Millisecond,
		P50: fifty, P95: fifty, P99: fifty, MaxConcurrency: 2,
	}, s.Snapshot(minute+999*ms), "totals, rules and names are the caller's")

	// The first tenth of a second leaves the second, but not the ten seconds.
	require.Equal(t, stat.Snapshot{
		PassQPS: 3, BlockQPS: 3, SuccessQPS: 2, ExceptionQPS: 2,
		AvgRT: 50 * time.Millisecond, MinRT: 50 * time.Millisecond,
		P50: fifty, P95: fifty, P99: fifty, MaxConcurrency: 2,
	}, s.Snapshot(minute+1000*ms))

	require.Equal(t, stat.Snapshot{PassQPS: 1, P50: fifty, P95: fifty, P99: fifty, MaxConcurrency: 1}, s.Snapshot(minute+1899*ms))

	full := s.Snapshot(minute + 1900*ms)
	SetTotals(&full, m.Totals())
	require.Equal(t, stat.Snapshot{
		P50: fifty, P95: fifty, P99: fifty, Concurrency: 1, MaxConcurrency: 1,
		Pass: 4, Block: 3, Success: 3, Exception: 2, OccupiedPass: 4, WouldBlock: 1,
	}, full)

	// The one in flight completes, slower than all before.
	m.Complete(minute+3000*ms, stripe, 1, 2100*ms, false)
	last := s.Snapshot(minute + 3000*ms)
	SetTotals(&last, m.Totals())
	require.Zero(t, last.Concurrency)
	require.EqualValues(t, 1, last.SuccessQPS)
	require.Equal(t, 2100*time.Millisecond, last.AvgRT)
	require.Equal(t, 2100*time.Millisecond, last.MinRT)
	require.Equal(t, fifty, last.P50)
	require.InDelta(t, 2100*ms, int64(last.P95), 0.0443*2100*float64(ms))
	require.Equal(t, last.P95, last.P99)

	// After ten seconds there is nothing left but the totals.
	require.Equal(t, stat.Snapshot{}, s.Snapshot(minute+12_000*ms))
}

func TestSnapshot_Percentiles(t *testing.T) {
	t.Parallel()
	s := New()
	rt := func(i int) float64 { return float64(ms) * math.Pow(1.1, float64(i)) }
	for i := 100; i >= 1; i-- { // so far apart that each is in a cell of its own
		call(s, minute, 1, time.Duration(rt(i)), false)
	}
	snapshot := s.Snapshot(minute)
	require.InEpsilon(t, rt(50), float64(snapshot.P50), 0.0443)
	require.InEpsilon(t, rt(95), float64(snapshot.P95), 0.0443)
	require.InEpsilon(t, rt(99), float64(snapshot.P99), 0.0443)
}

// A steady 50 a second reads between 45 and 50: the running tenth is not over.
func TestSnapshot_SteadyRate(t *testing.T) {
	t.Parallel()
	s := New()
	for i := range int64(150) {
		now := minute + i*20*ms
		s.Meter().Pass(now, 1)
		if i < 50 {
			continue
		}
		// In the running tenth i%5 + 1 came, and five in each of nine before.
		require.EqualValues(t, 45+i%5+1, s.Snapshot(now).PassQPS, "call %d", i)
		if i%5 == 4 {
			require.EqualValues(t, 45, s.Snapshot(now+20*ms).PassQPS, "the next tenth has begun")
		}
	}
}

func TestSnapshot_NeverUsed(t *testing.T) {
	t.Parallel()
	require.Equal(t, stat.Snapshot{}, New().Snapshot(minute))
	var s stat.Snapshot
	SetTotals(&s, metric.Counts{})
	require.Equal(t, stat.Snapshot{}, s)
}

func TestSetTotals_EachEventToItsField(t *testing.T) {
	t.Parallel()
	var s stat.Snapshot
	SetTotals(&s, metric.Counts{
		metric.Pass: 100, metric.Block: 2, metric.Exception: 3, metric.Success: 40,
		metric.RT: 5, metric.OccupiedPass: 6, metric.WouldBlock: 7,
	})
	require.Equal(t, stat.Snapshot{Pass: 100, Block: 2, Exception: 3, Success: 40, OccupiedPass: 6, WouldBlock: 7, Concurrency: 60}, s)
}

// An exception may be seen before the success it belongs to.
func TestSetTotals_ExceptionBeforeItsSuccess(t *testing.T) {
	t.Parallel()
	var s stat.Snapshot
	SetTotals(&s, metric.Counts{metric.Pass: 10, metric.Success: 4, metric.Exception: 5})
	require.Equal(t, stat.Snapshot{Pass: 10, Success: 4, Exception: 4, Concurrency: 6}, s)
}

// Snapshots taken while eight goroutines call and the clock goes on.
func TestSnapshot_HammerTotalsAreOrdered(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 3_000
	s := New()
	m := s.Meter()
	var clock atomic.Int64
	clock.Store(minute)
	var left atomic.Int64
	left.Store(goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			defer left.Add(-1)
			for i := range int64(calls) {
				n := 1 + i%3
				stripe := m.Pass(clock.Add(40_000), n)
				if i%16 == 0 {
					m.Add(clock.Load(), meter.Block, 1)
				}
				m.Complete(clock.Load(), stripe, n, 1000+int64(g), i%2 == 0)
			}
		})
	}
	var last stat.Snapshot
	for taken := 0; left.Load() > 0 || taken == 0; taken++ {
		snapshot := s.Snapshot(clock.Load())
		SetTotals(&snapshot, m.Totals())
		if snapshot.Exception > snapshot.Success || snapshot.Success > snapshot.Pass || snapshot.Concurrency < 0 {
			t.Fatalf("exception %d, success %d, pass %d", snapshot.Exception, snapshot.Success, snapshot.Pass)
		}
		if snapshot.Pass < last.Pass || snapshot.Success < last.Success || snapshot.Exception < last.Exception || snapshot.Block < last.Block {
			t.Fatalf("totals went back: %+v, after %+v", snapshot, last)
		}
		if snapshot.PassQPS < 0 || snapshot.SuccessQPS < 0 || snapshot.ExceptionQPS < 0 || snapshot.BlockQPS < 0 || snapshot.AvgRT < 0 {
			t.Fatalf("negative: %+v", snapshot)
		}
		last = snapshot
	}
	wg.Wait()
	SetTotals(&last, m.Totals())
	require.EqualValues(t, goroutines*calls*2, last.Pass)
	require.EqualValues(t, goroutines*calls*2, last.Success)
	require.EqualValues(t, goroutines*calls, last.Exception)
	require.EqualValues(t, goroutines*((calls+15)/16), last.Block)
	require.Zero(t, last.Concurrency)
}

func TestSnapshot_JSON(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]stat.Snapshot{
		"zero":       {},
		"never used": New().Snapshot(minute),
		"full": {
			Resource: "GET /<\"orders\">", At: time.Unix(0, minute).UTC(),
			PassQPS: 1.5, AvgRT: time.Millisecond, P99: time.Second, Concurrency: 3, Pass: 7,
			Rules: []stat.RuleSnapshot{
				{ID: "a/1", Kind: "flow", Mode: rule.Shadow, Threshold: 0.9, Admitted: 1, Blocked: 2, WouldBlock: 3},
				{ID: "a/2", Kind: "flow"},
			},
		},
	} {
		text, err := json.Marshal(s)
		require.NoError(t, err, name)
		require.True(t, json.Valid(text), name)
		require.NotContains(t, string(text), "NaN", name)
		var back stat.Snapshot
		require.NoError(t, json.Unmarshal(text, &back), name)
		require.Equal(t, s, back, name)
	}
	text, err := json.Marshal(stat.RuleSnapshot{Mode: rule.Shadow})
	require.NoError(t, err)
	require.Contains(t, string(text), `"Mode":"shadow"`)
	_, err = json.Marshal(stat.RuleSnapshot{Mode: 3})
	require.ErrorContains(t, err, "unknown mode 3")
}
