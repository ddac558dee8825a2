package flow_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	globs "github.com/leapgate-go/leapgate/internal/pattern"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

func TestPattern_EachResourceCountsForItself(t *testing.T) {
	t.Parallel()
	for _, given := range []flow.Rule{
		{Match: rule.Regexp, Resource: ".*"}, {Match: rule.Glob, Resource: "*"}, {Match: rule.Default},
	} {
		given.Threshold = 1
		g := newGate(t, given)
		for _, name := range []string{"a", "b", "GET /x", resource.Other} {
			require.Equal(t, 1, g.try(t, name, 3), name)
			require.Equal(t, figuresOf{g.FlowRules()[0].ID, 1, 2, 0}, g.rules(name)[0])
		}
	}
}

// Exact rules are asked before patterns, and each kind in the order of the list.
func TestPattern_OrderOfAsking(t *testing.T) {
	t.Parallel()
	rules := []flow.Rule{
		{ID: "glob", Resource: "a*", Match: rule.Glob, Threshold: 3},
		{ID: "default", Match: rule.Default, Threshold: 3},
		{ID: "shadow", Resource: "ab", Threshold: 3, Mode: rule.Shadow},
		{ID: "regexp", Resource: ".b", Match: rule.Regexp, Threshold: 3},
		{ID: "exact", Resource: "x", Threshold: 3},
	}
	g := newGate(t, rules...)
	ids := func(name string) (all []string) {
		for _, r := range g.rules(name) {
			all = append(all, r.id)
		}
		return all
	}
	g.try(t, "ab", 9)
	g.try(t, "x", 1)
	require.Equal(t, []string{"shadow", "glob", "default", "regexp"}, ids("ab"))
	require.Equal(t, []string{"exact"}, ids("x"))
	require.Equal(t, []string{"glob", "default", "regexp"}, ids(resource.Other))
	require.Equal(t, "glob", g.blocked(t, "ab", 1).RuleID)

	// Another order is another order, also if something else changes with it.
	rules[0], rules[3] = rules[3], rules[0]
	require.NoError(t, g.LoadFlowRules(rules))
	require.Equal(t, []string{"shadow", "regexp", "default", "glob"}, ids("ab"))
	require.Equal(t, "regexp", g.blocked(t, "ab", 1).RuleID)
	rules[0], rules[3] = rules[3], rules[0]
	rules = append(rules, flow.Rule{ID: "new", Resource: "y*", Match: rule.Glob, Threshold: 1})
	require.NoError(t, g.LoadFlowRules(rules))
	require.Equal(t, []string{"shadow", "glob", "default", "regexp"}, ids("ab"))
	require.EqualValues(t, 3, g.rule(t, "ab", "glob").admitted, "and what they counted is kept")
}

// Default binds where no rule in mode enforce names the resource, as rules come, go
// and change their modes.
func TestPattern_DefaultGivesWayToEnforcedRules(t *testing.T) {
	t.Parallel()
	all := flow.Rule{ID: "all", Match: rule.Default, Threshold: 2}
	exact := func(mode rule.Mode) flow.Rule {
		return flow.Rule{ID: "exact", Resource: "a", Threshold: 5, Mode: mode}
	}
	glob := flow.Rule{ID: "glob", Resource: "a", Match: rule.Glob, Threshold: 100}
	g := newGate(t, all)
	g.try(t, "b", 1)
	for i, c := range []struct {
		rules []flow.Rule
		want  int
	}{
		{[]flow.Rule{all}, 2},
		{[]flow.Rule{all, exact(rule.Enforce)}, 5},
		{[]flow.Rule{all, exact(rule.Shadow)}, 2},
		{[]flow.Rule{all, exact(rule.Off)}, 2},
		{[]flow.Rule{all, exact(rule.Enforce)}, 5},
		{[]flow.Rule{all}, 2},
		{[]flow.Rule{all, glob}, 2}, // which does not name it
		{[]flow.Rule{all, {ID: "us", Resource: "a", Origin: "us", Threshold: 0}}, 9},
		{[]flow.Rule{exact(rule.Shadow)}, 9},
		{[]flow.Rule{exact(rule.Shadow), all}, 2},
	} {
		require.NoError(t, g.LoadFlowRules(c.rules))
		g.clock.Add(int64(time.Second))
		require.Equal(t, c.want, g.try(t, "a", 9), "step %d", i)
	}
	require.Equal(t, 2, g.try(t, "b", 9), "of another resource that is its own affair")
}

// What a pattern counts on a resource is kept as long as the rule keeps its ID and
// its window, whatever comes and goes beside it.
func TestPattern_Reload(t *testing.T) {
	t.Parallel()
	given := flow.Rule{ID: "p", Resource: "*", Match: rule.Glob, Threshold: 5}
	for name, c := range map[string]struct {
		change func(r *flow.Rule)
		kept   bool
	}{
		"nothing":   {func(*flow.Rule) {}, true},
		"threshold": {func(r *flow.Rule) { r.Threshold = 6 }, true},
		"mode":      {func(r *flow.Rule) { r.Mode = rule.Off }, true},
		"source":    {func(r *flow.Rule) { r.Source = "file" }, true},
		"ID":        {func(r *flow.Rule) { r.ID = "q" }, false},
		"interval":  {func(r *flow.Rule) { r.Interval = time.Minute }, false},
		"buckets":   {func(r *flow.Rule) { r.Buckets = 1 }, false},
		"strict":    {func(r *flow.Rule) { r.Strict = true }, false},
		"pattern":   {func(r *flow.Rule) { r.Resource = "?" }, false},
		"match":     {func(r *flow.Rule) { r.Match, r.Resource = rule.Default, "*" }, false},
		"exact":     {func(r *flow.Rule) { r.Match, r.Resource = rule.Exact, "a" }, false},
	} {
		g := newGate(t, given)
		require.Equal(t, 5, g.try(t, "a", 7))
		changed := given
		c.change(&changed)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{two("b", 1), changed, two("a", 100)}))
		admitted := int64(0)
		for _, r := range g.rules("a") {
			admitted = max(admitted, r.admitted)
		}
		require.Equal(t, map[bool]int64{true: 5, false: 0}[c.kept], admitted, name)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{given}))
		require.Equal(t, map[bool]int{true: 0, false: 5}[c.kept], g.try(t, "a", 7), name)
	}
	// A rule that was exact and is a pattern now is another rule.
	g := newGate(t, flow.Rule{ID: "p", Resource: "a", Threshold: 5})
	require.Equal(t, 5, g.try(t, "a", 7))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "p", Resource: "a", Match: rule.Glob, Threshold: 5}}))
	require.Equal(t, 5, g.try(t, "a", 7))
}

// It is forgotten when its resource is evicted, and not before the rule has.
func TestPattern_ForgottenWithItsResource(t *testing.T) {
	t.Parallel()
	g := newGateWith(t, leapgate.Config{MaxResources: 2},
		flow.Rule{ID: "p", Resource: "a*", Match: rule.Glob, Threshold: 5, Interval: time.Hour})
	flood := func() {
		for i := range 20 {
			g.try(t, "x"+strconv.Itoa(i), 1)
		}
	}
	require.Equal(t, 5, g.try(t, "a", 7))
	g.at(50 * time.Minute)
	flood()
	require.Zero(t, g.try(t, "a", 1))
	g.at(3 * time.Hour)
	flood()
	g.at(6 * time.Hour)
	require.Equal(t, 5, g.try(t, "a", 7))
	require.EqualValues(t, 5, g.rule(t, "a", "p").admitted, "the figures are new")
}

// While calls wait in the queue of a rule, and as long as the last of them holds the
// next one up, the resource stays: or the next would find no queue.
func TestPattern_ResourceWithAQueueIsNotEvicted(t *testing.T) {
	t.Parallel()
	q := &queue{}
	g := newGateWith(t, leapgate.Config{MaxResources: 2, Sleep: q.sleep}, flow.Rule{
		ID: "p", Resource: "a", Match: rule.Glob, Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: 10 * time.Minute,
	})
	require.Equal(t, 11, g.try(t, "a", 20))
	require.Len(t, q.taken(), 10)
	g.at(5 * time.Minute)
	for i := range 20 {
		g.try(t, "x"+strconv.Itoa(i), 1)
	}
	q.taken()
	require.Equal(t, 1, g.try(t, "a", 1))
	require.Equal(t, []time.Duration{6 * time.Minute}, q.taken())
}

// Names beyond MaxResources share what the patterns let other have: while all
// places are in use, a name that has one keeps it.
func TestPattern_OtherServesNamesWithoutAPlace(t *testing.T) {
	t.Parallel()
	g := newGateWith(t, leapgate.Config{MaxResources: 2}, flow.Rule{ID: "p", Resource: "a*", Match: rule.Glob, Threshold: 3})
	var inside []*resource.Entry
	for i := range 2 {
		e, err := g.Entry("b" + strconv.Itoa(i))
		require.NoError(t, err)
		inside = append(inside, &e)
	}
	admitted := 0
	for i := range 50 {
		admitted += g.try(t, "c"+strconv.Itoa(i), 1)
	}
	require.Equal(t, 3, admitted, "the pattern does not match them, but has to bind what it cannot tell apart")
	require.Equal(t, figuresOf{"p", 3, 47, 0}, g.rule(t, resource.Other, "p"))
	for _, e := range inside {
		e.Exit()
	}
	g.at(2 * time.Minute)
	require.Equal(t, 9, g.try(t, "c", 9), "it takes a place")
}

// Resources that were there before the pattern are bound by it, handles too; and not
// when it goes.
func TestPattern_ComesAndGoes(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	handle := g.Resource("a1")
	g.try(t, "b", 1)
	for range 2 {
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "p", Resource: "a*", Match: rule.Glob, Threshold: 0}}))
		_, err := handle.Entry()
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		require.Empty(t, g.rules("b"))
		require.NoError(t, g.LoadFlowRules(nil))
		e, err := handle.Entry()
		require.NoError(t, err)
		e.Exit()
		require.Empty(t, g.rules("a1"))
	}
}

// A resource that only patterns bind may go; one that a rule names stays.
func TestPattern_DoesNotKeepResources(t *testing.T) {
	t.Parallel()
	g := newGateWith(t, leapgate.Config{MaxResources: 3}, flow.Rule{Resource: "*", Match: rule.Glob, Threshold: 1e9})
	for i := range 100 {
		g.clock.Add(int64(2 * time.Minute))
		require.Equal(t, 1, g.try(t, fmt.Sprint(i), 1))
	}
	require.LessOrEqual(t, len(g.Snapshot()), 4)
}

// Not parallel: allocations are counted for the whole process. A pattern is compiled
// when it is loaded: neither a call nor a new resource does it again.
func TestPattern_IsCompiledOnce(t *testing.T) {
	const tried = 100
	text := `(a|b){1,30}[a-z]{1,200}(x|y|z){1,50}`
	perPattern := testing.AllocsPerRun(10, func() { _, _ = globs.Compile(rule.Regexp, text) })
	require.Greater(t, perPattern, 200.0)
	rules := []flow.Rule{{ID: "all", Match: rule.Default, Threshold: 1e9}}
	for i := range tried {
		rules = append(rules, flow.Rule{ID: strconv.Itoa(i), Resource: text, Match: rule.Regexp, Threshold: 1})
	}
	g := newGate(t, rules...)
	i := 0
	require.Less(t, testing.AllocsPerRun(20, func() {
		i++
		g.try(t, "new "+strconv.Itoa(i), 1)
	}), perPattern, "100 patterns are tried on a new name")
	handle := g.Resource("new 1")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		e, _ := handle.Entry()
		e.Exit()
	}))
}

// 10,000 rules over 10,000 resources, and 100 patterns among them.
func TestPattern_TenThousandRules(t *testing.T) {
	t.Parallel()
	var rules []flow.Rule
	for i := range 9900 {
		rules = append(rules, flow.Rule{Resource: "r" + strconv.Itoa(i), Threshold: 3})
	}
	for i := range 100 { // of the resources whose numbers end like this
		rules = append(rules, flow.Rule{ID: "p" + strconv.Itoa(i), Resource: fmt.Sprintf("r*%02d", i), Match: rule.Glob, Threshold: 2})
	}
	g := newGateWith(t, leapgate.Config{MaxResources: 20_000}, rules...)
	for i := 10; i < 10_000; i += 7 {
		name := "r" + strconv.Itoa(i)
		require.Equal(t, 2, g.try(t, name, 3), name)
		require.Equal(t, "p"+strconv.Itoa(i%100), g.blocked(t, name, 1).RuleID)
	}
	rules[9900].Threshold = 1
	require.NoError(t, g.LoadFlowRules(rules))
	require.Zero(t, g.try(t, "r500", 3), "its window is kept")
	require.Equal(t, 1, g.try(t, "r200", 3))
}
