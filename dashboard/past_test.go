package dashboard

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard/internal/history"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/stat"
)

// feedBusy feeds an hour of resources, each with a rule, of which all changes all the time.
func feedBusy(p *past, resources int) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]stat.Snapshot, resources)
	for i := range all {
		all[i] = stat.Snapshot{Resource: fmt.Sprintf("r%d", i), Serial: int64(i) + 1, RuleSerials: []int64{int64(i) + 1}, Rules: []stat.RuleSnapshot{{
			ID: fmt.Sprintf("rule %d", i), Kind: "flow", States: []string{"cold", "warm"}, State: "cold",
		}}}
	}
	for second := range int64(3700) {
		for i := range all {
			s := &all[i]
			s.Pass += rng.Int64N(100_000)
			s.Block += rng.Int64N(1000)
			s.Exception += rng.Int64N(100)
			s.MaxConcurrency, s.MaxWaiting = rng.Int64N(1000), rng.Int64N(100)
			s.WaitP95 = time.Duration(rng.ExpFloat64() * 1e8)
			s.P50 = time.Duration(rng.ExpFloat64() * 1e7)
			s.P95, s.P99 = 2*s.P50, 3*s.P50
			r := &s.Rules[0]
			r.Blocked, r.Threshold, r.Effective = s.Block, 100, max(1, r.Effective+rng.Float64()-0.5)
			r.CandidateWouldBlock += rng.Int64N(1000)
		}
		p.feed(time.Unix(1_700_000_000+second, 0), all)
	}
}

func stepsOf(row *history.Row) (n int) {
	for range row.From(0) {
		n++
	}
	return n
}

// Not parallel: it looks at the heap.
func TestHistory_TakesTheMemoryThatItSays(t *testing.T) {
	const resources = 100
	before := gatetest.LiveHeap()
	p := newPast(defaultHistoryBytes)
	feedBusy(p, resources)
	t.Logf("%d bytes are counted, and %d used, of each resource", p.used/resources, int64(gatetest.LiveHeap()-before)/resources)
	require.Zero(t, p.forgotten)
	for _, r := range p.resources {
		require.LessOrEqual(t, r.bytes, 32<<10+6<<10)
		require.Greater(t, r.bytes, 20<<10, "it is busy")
		require.GreaterOrEqual(t, stepsOf(r.hour), hourSteps-1)
		require.GreaterOrEqual(t, stepsOf(r.demand), hourSeconds-1)
		require.GreaterOrEqual(t, stepsOf(r.minute), minuteSeconds-1)
		for _, rule := range r.rules {
			require.GreaterOrEqual(t, stepsOf(rule.hour), hourSteps-1)
		}
	}
	gatetest.RequireHeap(t, before+resources*38<<10+64<<10)
	runtime.KeepAlive(p)

	before = gatetest.LiveHeap()
	p = newPast(minHistoryBytes)
	feedBusy(p, resources)
	require.NotZero(t, p.forgotten)
	require.LessOrEqual(t, p.used, minHistoryBytes)
	gatetest.RequireHeap(t, before+minHistoryBytes*5/4+64<<10)
	runtime.KeepAlive(p)
}
