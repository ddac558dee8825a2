package resource_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
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

// sums is what must never go down: events, cells, and what rules refused by guard.
type sums struct {
	counts metric.Counts
	cells  map[int]int64
	rules  map[string]resource.RuleTotals
}

func sumsOf(all []resource.Totals) sums {
	s := sums{cells: map[int]int64{}, rules: map[string]resource.RuleTotals{}}
	for _, t := range all {
		s.counts = s.counts.Plus(t.Counts)
		for i, n := range t.Latencies.Counts {
			s.cells[t.Latencies.First+i] += n
		}
		for i := range t.Rules {
			r := &t.Rules[i]
			s.add(r.Kind, resource.RuleTotals{Blocked: r.Blocked, WouldBlock: r.WouldBlock, CandidateWouldBlock: r.CandidateWouldBlock})
		}
		for kind, sum := range t.FormerRules {
			s.add(kind, sum)
		}
	}
	return s
}

func (s sums) add(kind string, more resource.RuleTotals) {
	sum := s.rules[kind]
	sum.Blocked += more.Blocked
	sum.WouldBlock += more.WouldBlock
	sum.CandidateWouldBlock += more.CandidateWouldBlock
	s.rules[kind] = sum
}

// after tells what has gone down since.
func (s sums) after(before sums) (fault string) {
	for e := range s.counts {
		if s.counts[e] < before.counts[e] {
			fault += fmt.Sprintf("%v from %d to %d; ", metric.Event(e), before.counts[e], s.counts[e])
		}
	}
	for i, n := range before.cells {
		if s.cells[i] < n {
			fault += fmt.Sprintf("cell %d from %d to %d; ", i, n, s.cells[i])
		}
	}
	for kind, t := range before.rules {
		u := s.rules[kind]
		if u.Blocked < t.Blocked || u.WouldBlock < t.WouldBlock || u.CandidateWouldBlock < t.CandidateWouldBlock {
			fault += fmt.Sprintf("%s from %+v to %+v; ", kind, t, u)
		}
	}
	return fault
}

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
	require.Nil(t, other.FormerRules)
	open.Exit()
	require.Nil(t, a.FormerRules)
}

func TestTotals_OfWhatIsGoneAreInOther(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1, flow.Rule{ID: "all", Resource: "*", Match: rule.Glob, Threshold: 2, Candidate: 1})
	for i := range 3 {
		for range 3 {
			gates.Enter(t, g, "r"+strconv.Itoa(i))
		}
		c.Advance(gatetest.Idle)
	}
	now := totalsOf(t, g, "r2")
	require.EqualValues(t, 2, now.Counts[metric.Pass])
	require.EqualValues(t, 4, now.Serial, "the third that came after other")
	other := totalsOf(t, g, resource.Other)
	require.Equal(t, metric.Counts{metric.Pass: 4, metric.Block: 2, metric.Success: 4}, other.Counts)
	require.EqualValues(t, 4, other.Latencies.Count())
	want := map[string]resource.RuleTotals{"flow": {Blocked: 2, CandidateWouldBlock: 4}}
	require.Equal(t, want, other.FormerRules)
	collect(t, g)
	require.Equal(t, want, totalsOf(t, g, resource.Other).FormerRules, "settled")
}

// collect lets the garbage collector find out that no call holds what rules have left.
func collect(t testing.TB, g *leapgate.Gate) {
	t.Helper()
	for range 3 {
		runtime.GC()
		g.Totals()
	}
}

// A rule whose counts go on is not in the past; one whose counts do not is.
func TestTotals_OfRulesThatAreReloaded(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	given := flow.Rule{ID: "r", Resource: "a", Threshold: 0}
	blocked := func() (now, past int64) {
		for _, r := range totalsOf(t, g, "a").Rules {
			now += r.Blocked
		}
		return now, totalsOf(t, g, resource.Other).FormerRules["flow"].Blocked
	}
	total := int64(0)
	for i, step := range []struct {
		what   string
		change func()
		starts bool // anew
		none   bool // there is no rule then
	}{
		{"the first", func() {}, true, false},
		{"threshold", func() { given.Threshold = 0.5 }, false, false},
		{"interval", func() { given.Interval = time.Minute }, false, false},
		{"a pattern", func() { given.Match = rule.Glob }, false, false},
		{"another pattern", func() { given.Resource = "?" }, false, false},
		{"exact again", func() { given.Match, given.Resource = rule.Exact, "a" }, true, false},
		{"ID", func() { given.ID = "s" }, true, false},
		{"resource", func() { given.Resource = "b" }, true, true},
		{"back", func() { given.Resource = "a" }, true, false},
	} {
		step.change()
		require.NoError(t, g.LoadFlowRules([]flow.Rule{given}))
		now, past := blocked()
		require.Equal(t, total, now+past, step.what)
		if step.starts {
			require.Zero(t, now, step.what)
		} else {
			require.Equal(t, total, now+past, step.what)
		}
		if !step.none {
			require.False(t, gates.Enter(t, g, "a"))
			total++
		}
		if i%2 == 0 {
			collect(t, g)
		}
	}
	require.NoError(t, g.LoadFlowRules(nil))
	now, past := blocked()
	require.Equal(t, []int64{0, total}, []int64{now, past})
}

// A call that holds the rules of before may be refused by one of them long after it was
// removed. It is counted all the same.
func TestTotals_RefusalByARuleThatIsGone(t *testing.T) {
	t.Parallel()
	rules := []flow.Rule{
		{ID: "r", Resource: "a", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Hour},
		{ID: "s", Resource: "a", Threshold: 9},
	}
	var g *leapgate.Gate
	g = leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now, Sleep: func(context.Context, time.Duration) error {
		assert.NoError(t, g.LoadFlowRules(rules)) // r stays, in a set that the call does not hold
		assert.NoError(t, g.LoadFlowRules(nil))
		collect(t, g)
		assert.Zero(t, totalsOf(t, g, resource.Other).FormerRules["flow"].Blocked)
		return context.Canceled
	}})
	require.NoError(t, g.LoadFlowRules(rules[:1]))
	require.True(t, gates.Enter(t, g, "a"))
	_, err := g.Entry("a")
	require.ErrorIs(t, err, context.Canceled)
	for range 2 {
		require.EqualValues(t, 1, totalsOf(t, g, resource.Other).FormerRules["flow"].Blocked)
		collect(t, g)
	}
}

func TestTotals_NeverGoDown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := gatetest.NewClock()
		g := leapgate.Must(leapgate.Config{Now: c.Now, MaxResources: rapid.IntRange(1, 4).Draw(t, "places")})
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", resource.Other})
		var want metric.Counts
		var refusals int64 // by rules
		var open []*resource.Entry
		before := sumsOf(g.Totals())
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				now := sumsOf(g.Totals())
				if fault := now.after(before); fault != "" {
					t.Fatalf("went down: %s", fault)
				}
				for e := range want {
					if metric.Event(e) != metric.RT && metric.Event(e) != metric.WouldBlock && now.counts[e] != want[e] {
						t.Fatalf("%v is %d, want %d", metric.Event(e), now.counts[e], want[e])
					}
				}
				sum := int64(0)
				for _, r := range now.rules {
					sum += r.Blocked
				}
				if sum != refusals {
					t.Fatalf("rules have blocked %d, want %d", sum, refusals)
				}
				before = now
			},
			"call": func(t *rapid.T) {
				n := rapid.Int64Range(1, 3).Draw(t, "n")
				e, err := g.EntryContext(t.Context(), name.Draw(t, "name"), leapgate.WithCount(n))
				if err != nil {
					want[metric.Block] += n
					refusals += n
					return
				}
				want[metric.Pass] += n
				if rapid.Bool().Draw(t, "stays") {
					open = append(open, &e)
					return
				}
				e.Exit()
				want[metric.Success] += n
			},
			"rules": func(t *rapid.T) {
				var rules []flow.Rule
				for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
					r := flow.Rule{
						ID: strconv.Itoa(rapid.IntRange(0, 1).Draw(t, "ID")*3 + i), Resource: name.Draw(t, "name"),
						Threshold: float64(rapid.IntRange(0, 3).Draw(t, "threshold")),
						Interval:  time.Duration(rapid.IntRange(1, 2).Draw(t, "s")) * time.Second,
						Mode:      rapid.SampledFrom([]rule.Mode{rule.Enforce, rule.Shadow, rule.Off}).Draw(t, "mode"),
						Candidate: float64(rapid.IntRange(0, 1).Draw(t, "candidate")),
						Match:     rapid.SampledFrom([]rule.Match{rule.Exact, rule.Glob, rule.Default}).Draw(t, "match"),
					}
					if r.Match == rule.Default {
						r.Resource = ""
					}
					rules = append(rules, r)
				}
				if err := g.LoadFlowRules(rules); err != nil {
					t.Fatal(err)
				}
				var places []isolation.Rule
				if rapid.Bool().Draw(t, "isolation") {
					places = []isolation.Rule{{ID: "0", Resource: name.Draw(t, "name"), MaxInFlight: 2}}
				}
				if err := gates.LoadIsolation(g, places); err != nil {
					t.Fatal(err)
				}
			},
			"time": func(*rapid.T) { c.Advance(gatetest.Idle) },
			"collect": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "now") == 0 { // it takes its time
					runtime.GC()
				}
			},
		})
		for i := range open {
			open[i].Exit()
		}
	})
}

// Calls, scrapes, reloads and evictions at once: no sum goes down, and in the end every
// refusal is in a rule, once.
func TestTotals_HammerWhileResourcesAndRulesComeAndGo(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 4)
	const goroutines, loads = 4, 400
	var passed, blocked, loaded atomic.Int64
	var calls, others sync.WaitGroup
	var over atomic.Bool
	for id := range goroutines {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(id)))
			for loaded.Load() < loads {
				e, err := g.Entry(strconv.Itoa(random.IntN(12)))
				if err != nil {
					blocked.Add(1)
				} else {
					passed.Add(1)
				}
				e.Exit()
			}
		})
	}
	others.Go(func() {
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
		others.Go(func() {
			before := sumsOf(g.Totals())
			for !over.Load() {
				now := sumsOf(g.Totals())
				if !assert.Empty(t, now.after(before)) {
					return
				}
				before = now
				runtime.GC()
			}
		})
	}
	calls.Wait()
	over.Store(true)
	others.Wait()
	collect(t, g)
	end := sumsOf(g.Totals())
	require.Equal(t, passed.Load(), end.counts[metric.Pass])
	require.Equal(t, passed.Load(), end.counts[metric.Success])
	require.Equal(t, blocked.Load(), end.counts[metric.Block])
	require.Equal(t, blocked.Load(), end.rules["flow"].Blocked)
	require.NotZero(t, totalsOf(t, g, resource.Other).FormerRules["flow"].Blocked)
}

// What rules have left does not pile up, also if nobody reads totals.
func TestTotals_PastIsSettledWithoutReaders(t *testing.T) {
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1, flow.Rule{ID: "all", Resource: "*", Match: rule.Glob, Threshold: 1})
	churn := func(n int) {
		for i := range n {
			gates.Enter(t, g, strconv.Itoa(i))
			c.Advance(gatetest.Idle)
		}
	}
	churn(1_000)
	before := gatetest.LiveHeap()
	churn(20_000)
	gatetest.RequireHeap(t, before+2<<20)
	require.EqualValues(t, 20_999, totalsOf(t, g, resource.Other).Counts[metric.Pass], "the gate is still there")
}
