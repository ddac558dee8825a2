package flow_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// Only the rules that are no longer in the list go; a list with a fault changes nothing.
func TestReload_RulesOfOneResourceRemoved(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 3), two("b", 3))
	require.Equal(t, 3, g.try(t, "a", 9))
	require.Equal(t, 3, g.try(t, "b", 9))
	require.ErrorContains(t, g.LoadFlowRules([]flow.Rule{two("", 1)}), `Resource is ""`)
	require.Zero(t, g.try(t, "a", 1), "the rules stay as they were")

	require.NoError(t, g.LoadFlowRules([]flow.Rule{two("b", 3)}))
	require.Equal(t, 9, g.try(t, "a", 9))
	require.Empty(t, g.rules("a"))
	require.Zero(t, g.try(t, "b", 9), "untouched, its window too")
}

// With one bad rule among good ones, nothing is applied.
func TestReload_OneBadRuleOfTwo(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]flow.Rule{
		"Threshold": {Resource: "b", Threshold: math.NaN()},
		"Mode":      {Resource: "b", Mode: 3},
		"Buckets":   {Resource: "b", Buckets: 3},
		"Interval":  {Resource: "b", Interval: -1},
		"Resource":  {},
		"ID":        {ID: "a/1", Resource: "b"},
	} {
		g := newGate(t, two("a", 3))
		require.Equal(t, 3, g.try(t, "a", 9))
		err := g.LoadFlowRules([]flow.Rule{two("a", 100), bad})
		var fault *rule.Fault
		require.ErrorAs(t, err, &fault)
		require.Equal(t, 1, fault.Index)
		require.Equal(t, name, fault.Field)
		require.Zero(t, g.try(t, "a", 9), name)
		require.Equal(t, 9, g.try(t, "b", 9), name)
		require.Equal(t, 3.0, g.FlowRules()[0].Threshold)
		require.Len(t, g.FlowRules(), 1)
	}
}

// The window goes on, so what was admitted in it still counts.
func TestReload_ChangesThatKeepTheWindow(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 3), two("b", 3))
	require.Equal(t, 3, g.try(t, "a", 9))
	change := func(r flow.Rule) { require.NoError(t, g.LoadFlowRules([]flow.Rule{r, two("b", 3)})) }

	change(two("a", 5))
	require.Equal(t, 2, g.try(t, "a", 9))
	change(two("a", 1))
	require.Zero(t, g.try(t, "a", 9))
	change(two("a", 5.5))
	require.Zero(t, g.try(t, "a", 9))
	change(flow.Rule{Resource: "a", Threshold: 6, Buckets: 2, Mode: rule.Shadow})
	require.Equal(t, 9, g.try(t, "a", 9), "1 of them counted")
	change(two("a", 7))
	require.Equal(t, 1, g.try(t, "a", 9))
	change(flow.Rule{Resource: "a", Threshold: 7, Buckets: 2, Mode: rule.Off})
	require.Equal(t, 9, g.try(t, "a", 9), "none of them counted")
	change(two("a", 8))
	require.Equal(t, 1, g.try(t, "a", 9))

	// Nor do these change anything: the same, spelled out, among others, elsewhere in the list.
	for _, list := range [][]flow.Rule{
		{two("a", 8), two("b", 3)},
		{{ID: "a/1", Resource: "a", Threshold: 8, Interval: time.Second, Buckets: 2}, two("b", 3)},
		{two("b", 3), two("c", 1), two("a", 8)},
		{two("a", 8)},
		g.FlowRules(),
	} {
		require.NoError(t, g.LoadFlowRules(list))
		require.Zero(t, g.try(t, "a", 9))
	}
	require.Equal(t, figuresOf{"a/1", 8, 6 + 7 + 9 + 9 + 8 + 8 + 5*9, 8}, g.rule(t, "a", "a/1"), "the figures go on too")
	require.Equal(t, 8, g.at(time.Second).try(t, "a", 9))
}

func TestReload_ChangesThatStartAnew(t *testing.T) {
	t.Parallel()
	rule := flow.Rule{ID: "r", Resource: "a", Threshold: 3, Interval: time.Second, Buckets: 10}
	for name, change := range map[string]func(r *flow.Rule){
		"Interval": func(r *flow.Rule) { r.Interval = 2 * time.Second },
		"Buckets":  func(r *flow.Rule) { r.Buckets = 5 },
		"Strict":   func(r *flow.Rule) { r.Strict = true },
		"Resource": func(r *flow.Rule) { r.Resource = "b" },
		"ID":       func(r *flow.Rule) { r.ID = "s" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, rule)
			require.Equal(t, 3, g.try(t, "a", 9))
			changed := rule
			change(&changed)
			require.NoError(t, g.LoadFlowRules([]flow.Rule{changed}))
			want := figuresOf{changed.ID, 0, 6, 0} // counts of refusals go on
			if changed.ID != rule.ID || changed.Resource != rule.Resource {
				want = figuresOf{changed.ID, 0, 0, 0}
			}
			require.Equal(t, []figuresOf{want}, g.rules(changed.Resource))
			require.Equal(t, 3, g.try(t, changed.Resource, 9))
			if changed.Resource != "a" {
				require.Equal(t, 9, g.try(t, "a", 9))
			}
			require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
			require.Equal(t, 3, g.try(t, "a", 9), "and back")
		})
	}
}

func TestReload_RuleRemovedAndLoadedAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 3))
	require.Equal(t, 3, g.try(t, "a", 9))
	require.NoError(t, g.LoadFlowRules(nil))
	require.Empty(t, g.FlowRules())
	require.Equal(t, 9, g.try(t, "a", 9))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{two("a", 3)}))
	require.Equal(t, 3, g.try(t, "a", 9))
}

// Rules of one resource are asked in the order of the list.
func TestReload_Reordered(t *testing.T) {
	t.Parallel()
	x := flow.Rule{ID: "x", Resource: "a", Threshold: 2}
	y := flow.Rule{ID: "y", Resource: "a", Threshold: 2}
	g := newGate(t, x, y)
	require.Equal(t, 1, g.try(t, "a", 1))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{y, x}))
	require.Equal(t, 1, g.try(t, "a", 1), "both keep their windows")
	require.Equal(t, "y", g.blocked(t, "a", 1).RuleID)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{x, y}))
	require.Equal(t, "x", g.blocked(t, "a", 1).RuleID)
	require.Equal(t, []figuresOf{{"x", 2, 1, 0}, {"y", 2, 1, 0}}, g.rules("a"))
}

// Rules are copied when they are loaded: what the caller changes later is not seen before
// the next load.
func TestReload_RuleMutatedInPlace(t *testing.T) {
	t.Parallel()
	list := []flow.Rule{two("a", 3), two("b", 3)}
	g := newGate(t, list...)
	require.NoError(t, g.LoadFlowRules(list))
	require.Empty(t, list[0].ID, "the caller's list is not written to")
	require.Zero(t, list[0].Interval)
	list[0].Threshold = 5
	require.Equal(t, 3, g.try(t, "a", 9), "not loaded yet")
	require.Equal(t, 3.0, g.FlowRules()[0].Threshold)
	require.NoError(t, g.LoadFlowRules(list))
	require.Equal(t, 2, g.try(t, "a", 9))
	require.Equal(t, 5.0, g.FlowRules()[0].Threshold)
	list[0].Threshold = 3
	require.NoError(t, g.LoadFlowRules(list))
	require.Zero(t, g.try(t, "a", 9))
	list[1].Resource = "c"
	require.NoError(t, g.LoadFlowRules(list))
	require.Equal(t, 9, g.try(t, "b", 9))
	require.Equal(t, 3, g.try(t, "c", 9))
}

func TestReload_WhatIsGivenOutIsACopy(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 3))
	g.FlowRules()[0].Threshold = 100
	require.Equal(t, 3.0, g.FlowRules()[0].Threshold)
	require.Equal(t, 3, g.try(t, "a", 9))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{two("a", 3)}))
	require.Zero(t, g.try(t, "a", 9))
}

// A call in flight ends as it began, whatever was loaded since.
func TestReload_CallsInFlight(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 3))
	var entries [3]resource.Entry
	for i := range entries {
		var err error
		entries[i], err = g.Entry("a")
		require.NoError(t, err)
		require.NoError(t, g.LoadFlowRules([][]flow.Rule{nil, {two("a", 100)}, {two("b", 1)}}[i]))
	}
	require.EqualValues(t, 3, g.Resource("a").Snapshot().Concurrency)
	g.at(500 * ms)
	for i := range entries {
		entries[i].Exit()
	}
	figures := g.Resource("a").Snapshot()
	require.Zero(t, figures.Concurrency)
	require.EqualValues(t, 3, figures.Success)
	require.Equal(t, 500*ms, figures.AvgRT)
}

// A resource is there as soon as a rule names it, and unused rules show nothing.
func TestReload_ResourceAppearsWithItsRule(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("b", 3), two("a", 3))
	var names []string
	for _, s := range g.Snapshot() {
		names = append(names, s.Resource)
		require.Len(t, s.Rules, 1)
		require.Zero(t, s.Pass)
	}
	require.Equal(t, []string{"a", "b"}, names)
}

// A rule binds the calls of a resource that was there before it, through handles too.
func TestReload_HandleFromBeforeTheRule(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	handle := g.Resource("a")
	e, err := handle.Entry()
	require.NoError(t, err)
	e.Exit()
	require.NoError(t, g.LoadFlowRules([]flow.Rule{two("a", 0)}))
	_, err = handle.Entry()
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}

func TestReload_ClosedGate(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 0))
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.LoadFlowRules(nil), leapgate.ErrClosed)
	require.Equal(t, 9, g.try(t, "a", 9), "unguarded")
}

// A threshold that is loaded alone holds at once and keeps the check as it is. So what is
// seen of it has to be new: the refusal, the snapshot, and what a call with priority may borrow.
func TestReload_ThresholdAlone(t *testing.T) {
	t.Parallel()
	for _, match := range []rule.Match{rule.Exact, rule.Glob} {
		g := newGate(t)
		seen := func(threshold float64) {
			b := g.blocked(t, "a", 10)
			require.Equal(t, []float64{threshold, 13}, []float64{b.Threshold, b.Observed})
			s := g.Resource("a").Snapshot().Rules[0]
			require.Equal(t, []float64{threshold, threshold, threshold}, []float64{s.Threshold, s.Effective, s.LastRefusal.Threshold})
		}
		change := func(threshold float64) {
			r := two("a", threshold)
			r.Match = match
			require.NoError(t, g.LoadFlowRules([]flow.Rule{r}))
		}
		change(3)
		require.Equal(t, 3, g.try(t, "a", 9))
		seen(3)
		for _, threshold := range []float64{5, 0.5, 3, 1} {
			change(threshold)
			seen(threshold)
			seen(threshold)
		}
		change(5)
		require.Equal(t, 2, g.try(t, "a", 9, leapgate.WithPriority()), "no room comes in the time of a wait")
	}
}

// Not parallel: allocations are counted for the whole process.
func TestReload_ThresholdsAloneAllocateNoChecks(t *testing.T) {
	const size = 1600
	var lists [2][]flow.Rule
	for i := range size {
		lists[0] = append(lists[0], two(fmt.Sprint("resource ", i), 10))
		lists[1] = append(lists[1], two(fmt.Sprint("resource ", i), 11))
	}
	g := newGate(t, lists[0]...)
	turn := 0
	allocs := testing.AllocsPerRun(10, func() {
		turn++
		require.NoError(t, g.LoadFlowRules(lists[turn%2]))
	})
	require.Less(t, allocs, float64(size/10))
}

// What is loaded for others does not touch a resource: its checks stay the
// very same, and so do the guards that its calls find.
func TestReload_TenThousandRulesForOthers(t *testing.T) {
	t.Parallel()
	now := func() int64 { return minute }
	guard := ruleset.New(&flow.Kind, ruleset.Env{})
	registry := resource.NewRegistry(resource.Config{Now: now, MaxResources: 10, Guards: []resource.Guard{guard}})
	ours := []flow.Rule{two("a", 3), {Resource: "a", Threshold: 5, Mode: rule.Shadow}}
	load(t, guard, registry, ours)
	before, _ := guard.Bind("a", nil)
	require.Len(t, before, 2)
	for range 3 {
		e, err := registry.Resource("a").Entry()
		require.NoError(t, err)
		e.Exit()
	}

	all := ours
	for i := range 10_000 {
		all = append(all, two(fmt.Sprint("other ", i), 10))
	}
	for round := range 3 {
		load(t, guard, registry, all)
		after, _ := guard.Bind("a", nil)
		require.Len(t, after, 2)
		require.Same(t, before[0], after[0])
		require.Same(t, before[1], after[1])
		_, err := registry.Resource("a").Entry()
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		_, err = registry.Resource("other 9999").Entry()
		require.NoError(t, err)
		all[2+round].Threshold++   // of the same shape
		all = all[:len(all)-round] // of another
	}
}

func load(t *testing.T, guard *ruleset.Set[flow.Rule], registry interface{ Changed(names.Set) func() }, rules []flow.Rule) {
	t.Helper()
	replace, faults := guard.Prepare(rules)
	require.Empty(t, faults)
	registry.Changed(replace())()
}
