package leapgate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// held is a call in flight.
type held struct {
	name string
	n    int64
	e    resource.Entry
}

// pinned is a resource of which the rule is never changed.
var pinned = isolation.Rule{ID: "pin", Resource: "pinned", MaxInFlight: 3}

func drawIsolationRules(t *rapid.T) []isolation.Rule {
	rule := rapid.Custom(func(t *rapid.T) isolation.Rule {
		r := isolation.Rule{
			ID:          rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "id"),
			Resource:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "resource"),
			MaxInFlight: rapid.Int64Range(1, 5).Draw(t, "limit"),
			Mode:        rule.Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
		}
		if rapid.IntRange(0, 3).Draw(t, "pattern") == 0 {
			r.Resource, r.Match = "[abc]?", rule.Regexp
		}
		return r
	})
	rules := rapid.SliceOfNDistinct(rule, 0, 4, func(r isolation.Rule) string { return r.ID }).Draw(t, "isolation")
	return slices.Insert(rules, rapid.IntRange(0, len(rules)).Draw(t, "at"), pinned)
}

func drawFlowRules(t *rapid.T) []flow.Rule {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) flow.Rule {
		r := flow.Rule{
			ID:        rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "id"),
			Resource:  rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "resource"),
			Threshold: float64(rapid.IntRange(0, 9).Draw(t, "threshold")),
			Mode:      rule.Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
		}
		if rapid.IntRange(0, 3).Draw(t, "pace") == 0 {
			r.Behavior, r.MaxWait = flow.Pace, time.Second
		}
		return r
	}), 0, 3, func(r flow.Rule) string { return r.ID }).Draw(t, "flow")
}

// gateTotals are the sums over all resources.
func gateTotals(g *leapgate.Gate) (c metric.Counts, concurrency int64, negative bool) {
	for _, s := range g.Snapshot() {
		c[metric.Pass] += s.Pass
		c[metric.Block] += s.Block
		c[metric.Success] += s.Success
		c[metric.Exception] += s.Exception
		concurrency += s.Concurrency
		negative = negative || s.Concurrency < 0
		for _, r := range s.Rules {
			negative = negative || r.Admitted < 0
		}
	}
	return c, concurrency, negative
}

// allFree reports whether all places are free: as many calls as there are places get in,
// and no more.
func allFree(t require.TestingT, c *gatetest.Clock, g *leapgate.Gate) {
	require.NoError(t, g.LoadFlowRules(nil))
	for _, name := range []string{"a", "b", "c", "pinned"} {
		c.Advance(time.Hour) // so that there is a place for the name
		limit, limited := int64(1000), false
		e, err := g.Entry(name) // so that patterns bind it
		require.NoError(t, err)
		e.Exit()
		for _, r := range g.Resource(name).Snapshot().Rules {
			if r.Mode == rule.Enforce {
				limit, limited = min(limit, int64(r.Threshold)), true
			}
		}
		e, err = g.EntryContext(context.Background(), name, leapgate.WithCount(limit))
		require.NoError(t, err, name)
		more, err := g.Entry(name)
		require.Equal(t, limited, err != nil, name)
		more.Exit()
		e.Exit()
	}
}

func TestGate_AnyOrderOfCallsReloadsAndEvictions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := gatetest.NewClock()
		g := leapgate.Must(leapgate.Config{Now: c.Now, MaxResources: 2, Sleep: func(_ context.Context, d time.Duration) error {
			c.Advance(d)
			return nil
		}})
		require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{pinned}))
		var in []*held
		var want metric.Counts
		inFlight := map[string]int64{}
		total := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 12).Draw(t, "step"); {
			case step < 6:
				h := &held{
					name: rapid.SampledFrom([]string{"a", "b", "c", "ax", "bx", "pinned"}).Draw(t, "name"),
					n:    rapid.Int64Range(1, 3).Draw(t, "n"),
				}
				var err error
				h.e, err = g.EntryContext(context.Background(), h.name, leapgate.WithCount(h.n))
				if h.name == "pinned" && (err == nil) != (inFlight["pinned"]+h.n <= 3) {
					t.Fatalf("%d more, %d in flight: %v", h.n, inFlight["pinned"], err)
				}
				if err != nil {
					require.ErrorIs(t, err, leapgate.ErrBlocked)
					want[metric.Block] += h.n
					h.e.Exit()
					break
				}
				want[metric.Pass] += h.n
				inFlight[h.name] += h.n
				total += h.n
				in = append(in, h)
			case step < 9 && len(in) > 0:
				i := rapid.IntRange(0, len(in)-1).Draw(t, "who")
				h := in[i]
				h.e.Exit()
				h.e.Exit()
				want[metric.Success] += h.n
				inFlight[h.name] -= h.n
				total -= h.n
				in = slices.Delete(in, i, i+1)
			case step == 9:
				require.NoError(t, gates.LoadIsolation(g, drawIsolationRules(t)))
			case step == 10:
				require.NoError(t, g.LoadFlowRules(drawFlowRules(t)))
			case step == 11:
				c.Advance(time.Duration(rapid.SampledFrom([]int{1, 100, 1000, 100_000}).Draw(t, "ms")) * time.Millisecond)
			}
			got, concurrency, negative := gateTotals(g)
			if concurrency != total || negative {
				t.Fatalf("%d in flight (any below 0: %v); want %d", concurrency, negative, total)
			}
			for e := range got { // those of evicted resources have ended
				if got[e] > want[e] {
					t.Fatalf("%v is %d, want at most %d", metric.Event(e), got[e], want[e])
				}
			}
		}
		for _, h := range in {
			h.e.Exit()
		}
		allFree(t, c, g)
	})
}

// The same at once: nobody knows the order, but in the end all adds up.
func TestGate_HammerCallsReloadsAndEvictions(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 3000
	c := gatetest.NewClock()
	g := leapgate.Must(leapgate.Config{Now: c.Now, MaxResources: 2, Sleep: func(_ context.Context, d time.Duration) error {
		c.Advance(d)
		return nil
	}})
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{pinned}))
	all := []string{"a", "b", "c", "ax", "bx", "pinned"}
	stop := make(chan struct{})
	var loader, wg sync.WaitGroup
	loader.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			rules := []isolation.Rule{pinned}
			for id := range rng.IntN(4) {
				r := isolation.Rule{ID: fmt.Sprint(id), Resource: all[rng.IntN(3)], MaxInFlight: 1 + rng.Int64N(5), Mode: rule.Mode(rng.IntN(3))}
				if rng.IntN(3) == 0 {
					r.Resource, r.Match = "?x", rule.Glob
				}
				rules = append(rules, r)
			}
			assert.NoError(t, gates.LoadIsolation(g, rules))
			if rng.IntN(2) == 0 {
				rule := flow.Rule{ID: "f", Resource: all[rng.IntN(4)], Threshold: float64(rng.IntN(5)), Mode: rule.Mode(rng.IntN(3))}
				if rng.IntN(2) == 0 {
					rule.Behavior, rule.MaxWait = flow.Pace, time.Minute
				}
				assert.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
			}
		}
	})
	var passed, blocked, inside atomic.Int64
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			var in []*held
			leave := func(i int) {
				if in[i].name == "pinned" {
					inside.Add(-in[i].n)
				}
				in[i].e.Exit()
				in = slices.Delete(in, i, i+1)
			}
			for range each {
				h := &held{name: all[rng.IntN(len(all))], n: 1 + rng.Int64N(2)}
				var err error
				if h.e, err = g.EntryContext(context.Background(), h.name, leapgate.WithCount(h.n)); err == nil {
					passed.Add(h.n)
					in = append(in, h)
					if h.name == "pinned" {
						assert.LessOrEqual(t, inside.Add(h.n), pinned.MaxInFlight)
					}
				} else {
					assert.ErrorIs(t, err, leapgate.ErrBlocked)
					blocked.Add(h.n)
				}
				for len(in) > rng.IntN(4) {
					leave(rng.IntN(len(in)))
				}
				if rng.IntN(20) == 0 {
					c.Advance(gatetest.Idle)
				}
			}
			for len(in) > 0 {
				leave(0)
			}
		})
	}
	wg.Wait()
	close(stop)
	loader.Wait()
	got, concurrency, negative := gateTotals(g)
	require.Equal(t, []int64{got[metric.Pass], 0}, []int64{got[metric.Success], concurrency})
	require.LessOrEqual(t, got[metric.Pass], passed.Load())
	require.LessOrEqual(t, got[metric.Block], blocked.Load())
	require.False(t, negative)
	require.Positive(t, blocked.Load())
	allFree(t, c, g)
}
