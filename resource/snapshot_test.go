package resource_test

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/rule"
)

func TestSnapshot_IsSortedAndValidJSON(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "b", Threshold: 1, Mode: rule.Shadow})
	g.Resource("c")
	g.Resource("a\xff\n<b>\"")
	text, err := json.Marshal(g.Snapshot())
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	require.Contains(t, string(text), `"Mode":"shadow"`)
	var names []string
	for _, s := range g.Snapshot() {
		names = append(names, s.Resource)
	}
	require.Equal(t, []string{"a\xff\n<b>\"", "b", "c"}, names)
}

// Totals in one snapshot are ordered, whatever comes and goes meanwhile.
func TestSnapshot_TotalsAreOrderedUnderFullLoad(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{})
	g.Resource("orders")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range 8 {
		wg.Go(func() {
			broken := errors.New("it broke")
			for {
				select {
				case <-stop:
					return
				default:
				}
				e, err := g.Entry("orders")
				assert.NoError(t, err)
				passed.Add(1)
				e.SetError(broken)
				e.Exit()
			}
		})
	}
	for range 2000 {
		for _, s := range g.Snapshot() {
			require.LessOrEqual(t, s.Exception, s.Success)
			require.LessOrEqual(t, s.Success, s.Pass)
			require.GreaterOrEqual(t, s.Concurrency, int64(0))
			require.GreaterOrEqual(t, s.PassQPS, 0.0)
		}
	}
	close(stop)
	wg.Wait()
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{passed.Load(), passed.Load(), passed.Load(), 0}, []int64{s.Pass, s.Success, s.Exception, s.Concurrency})
}
