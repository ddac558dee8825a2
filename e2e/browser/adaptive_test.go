//go:build e2e

package browser

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/isolation"
)

// TestAdaptive_LimitIsALineThatMoves: calls that take as long as ever make the limit rise.
func TestAdaptive_LimitIsALineThatMoves(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{
		ID: "search-places", Resource: "search", Strategy: isolation.Adaptive, MinInFlight: 2, InitialInFlight: 2, MaxInFlight: 12, Tolerance: 10,
	}}}))
	p := open(t, serve(t, gate, dashboard.Config{}).url+"#/resource/search")
	flight := `document.querySelectorAll(".chart")[2]`
	p.until("the first limit", flight+`?.querySelector("text.threshold")?.textContent === "search-places 2"`)

	stop := make(chan struct{})
	var callers sync.WaitGroup
	t.Cleanup(callers.Wait)
	t.Cleanup(func() { close(stop) })
	for range 20 {
		callers.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				e, err := gate.Entry("search")
				if err == nil {
					time.Sleep(10 * time.Millisecond)
				}
				e.Exit()
			}
		})
	}
	p.until("a line that moves", `/L/.test(`+flight+`.querySelector("path.threshold")?.getAttribute("d"))`)
	p.until("the largest limit", flight+`.querySelector("text.threshold").textContent === "search-places 12"`)
	p.until("its state", `/ceiling/.test(document.querySelector(".rule").textContent)`)
	p.until("and the state's numbers", `/limit 12; calls took [\d.]+ms on average/.test(document.querySelector(".rule").textContent)`)
	p.shoot("adaptive")
}
