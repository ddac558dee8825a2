package resource_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

func totalsOf(t testing.TB, g *leapgate.Gate, name string) resource.Totals {
	t.Helper()
	for _, r := range g.Totals() {
		if r.Resource == name {
			return r
		}
	}
	require.Fail(t, "there is no "+name)
	return resource.Totals{}
}

func TestTotals_AreThoseOfTheResource(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	start := time.Unix(0, c.Now())
	g := gates.Small(t, c, 2, flow.Rule{ID: "r", Resource: "a", Threshold: 2, Interval: time.Minute})
	c.Advance(time.Second)
	for range 3 {
		if e, err := g.Entry("a"); err == nil {
			c.Advance(time.Millisecond)
			e.SetError(errors.New("it broke"))
			e.Exit()
		}
	}
	open, err := g.Entry("b")
	require.NoError(t, err)
	all := g.Totals()
	require.Len(t, all, 3)
	a, b, other := all[0], all[1], all[2]
	require.Equal(t, []string{"a", "b", resource.Other}, []string{a.Resource, b.Resource, other.Resource})
	require.Equal(t, metric.Counts{metric.Pass: 2, metric.Block: 1, metric.Exception: 2, metric.Success: 2, metric.RT: 2e6}, a.Counts)
	require.Equal(t, metric.Latencies{First: -79, Counts: []int64{2}}, a.Latencies) // 2^(−79.7/8) s is a millisecond
	require.EqualValues(t, 1, a.Rules[0].Blocked)
	require.True(t, start.Equal(a.Since), "%v", a.Since)
	require.True(t, a.Named)
	require.False(t, b.Named)
	require.EqualValues(t, 1, b.Counts.Concurrency())
	require.Equal(t, []int64{1, 2, 3}, []int64{other.Serial, a.Serial, b.Serial})
	require.Zero(t, other.Counts)
	open.Exit()
}

// When a resource is evicted, its counts end. When its name returns, they start from zero with a new
// serial, and other has only the calls that it served.
func TestTotals_EndWithTheResource(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1, flow.Rule{ID: "all", Resource: "*", Match: rule.Glob, Threshold: 2})
	for i, name := range []string{"a", "b", "a"} {
		since := time.Unix(0, c.Now())
		require.Equal(t, 2, pass(t, g, name, 3))
		require.True(t, gates.Enter(t, g, "has no place"))
		now := totalsOf(t, g, name)
		require.Equal(t, metric.Counts{metric.Pass: 2, metric.Block: 1, metric.Success: 2}, now.Counts)
		require.EqualValues(t, 1, now.Rules[0].Blocked)
		require.EqualValues(t, 2+i, now.Serial)
		require.True(t, since.Equal(now.Since))
		require.EqualValues(t, i+1, totalsOf(t, g, resource.Other).Counts[metric.Pass])
		require.Len(t, g.Totals(), 2)
		c.Advance(gatetest.Idle)
	}
}

// A rule keeps its counts as long as its checks take them over.
func TestTotals_OfRulesThatAreReloaded(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	given := flow.Rule{ID: "r", Resource: "a", Threshold: 0}
	var want, last int64
	for _, step := range []struct {
		what   string
		change func()
		starts bool // from zero
	}{
		{"the first", func() {}, true},
		{"threshold", func() { given.Threshold = 0.5 }, false},
		{"interval", func() { given.Interval = time.Minute }, false},
		{"a pattern", func() { given.Match = rule.Glob }, false},
		{"another pattern", func() { given.Resource = "?" }, false},
		{"exact again", func() { given.Match, given.Resource = rule.Exact, "a" }, true},
		{"ID", func() { given.ID = "s" }, true},
		{"removed", func() { require.NoError(t, g.LoadFlowRules(nil)) }, true},
	} {
		step.change()
		require.NoError(t, g.LoadFlowRules([]flow.Rule{given}))
		now := totalsOf(t, g, "a")
		if step.starts {
			want = 0
		}
		require.Equal(t, want, now.Rules[0].Blocked, step.what)
		require.Equal(t, step.starts, now.RuleSerials[0] > last, step.what)
		last = now.RuleSerials[0]
		require.False(t, gates.Enter(t, g, "a"))
		want++
	}
}

// Totals are read while calls come and resources and rules come and go: within one registration no
// count goes down, and no reading has a call that did not happen.
func TestTotals_HammerWhileResourcesAndRulesComeAndGo(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 4)
	const goroutines, loads = 4, 400
	var began, loaded atomic.Int64
	var calls, readers sync.WaitGroup
	var over atomic.Bool
	for id := range goroutines {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(id)))
			for loaded.Load() < loads {
				began.Add(1)
				e, _ := g.Entry(strconv.Itoa(random.IntN(12)))
				e.Exit()
			}
		})
	}
	calls.Go(func() {
		for i := range loads {
			rules := []flow.Rule{
				{ID: "all", Resource: "*", Match: rule.Glob, Threshold: float64(i % 3), Interval: time.Duration(i%2+1) * time.Second},
				{ID: strconv.Itoa(i % 5), Resource: strconv.Itoa(i % 12), Threshold: 1},
			}
			assert.NoError(t, g.LoadFlowRules(rules[:1+i%2]))
			c.Advance(gatetest.Idle)
			loaded.Add(1)
		}
	})
	for range 2 {
		readers.Go(func() {
			seen := map[int64]metric.Counts{} // by serial
			blocked := map[int64]int64{}      // by the serial of the rule
			for !over.Load() {
				for _, r := range g.Totals() {
					for e, n := range r.Counts {
						assert.GreaterOrEqual(t, n, seen[r.Serial][e], "%s: %v", r.Resource, metric.Event(e))
					}
					seen[r.Serial] = r.Counts
					for i := range r.Rules {
						assert.GreaterOrEqual(t, r.Rules[i].Blocked, blocked[r.RuleSerials[i]], r.Resource)
						blocked[r.RuleSerials[i]] = r.Rules[i].Blocked
					}
				}
			}
			sum := int64(0)
			for _, counts := range seen {
				assert.LessOrEqual(t, counts[metric.Success], counts[metric.Pass])
				sum += counts[metric.Success] + counts[metric.Block]
			}
			assert.LessOrEqual(t, sum, began.Load())
		})
	}
	calls.Wait()
	over.Store(true)
	readers.Wait()
}
