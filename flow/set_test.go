package flow_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// ids are those of the flow rules of a gate, in their order.
func (g *gate) ids() (all []string) {
	for _, r := range g.FlowRules() {
		all = append(all, r.ID)
	}
	return all
}

// set replaces the rules that name a resource exactly and have no source, and leaves all
// others.
func (g *gate) set(name string, rules ...flow.Rule) error {
	return g.EditRules(func(all *leapgate.Rules) error {
		all.Flow = slices.DeleteFunc(all.Flow, func(r flow.Rule) bool {
			return r.Resource == name && r.Match == rule.Exact && r.Source == ""
		})
		all.Flow = append(all.Flow, rules...)
		return nil
	})
}

func TestEdit_RulesOfOneResource(t *testing.T) {
	t.Parallel()
	glob := flow.Rule{ID: "glob", Resource: "a*", Match: rule.Glob, Threshold: 100}
	g := newGate(t, two("a", 3), two("b", 3), glob)
	require.Equal(t, 3, g.try(t, "a", 9))
	require.Equal(t, 3, g.try(t, "b", 9))
	require.NoError(t, g.set("a", two("a", 5), flow.Rule{Resource: "a", Threshold: 4}))
	require.Equal(t, []string{"b/1", "glob", "a/1", "a/2"}, g.ids())
	require.Equal(t, 2, g.try(t, "a", 9), "the window of a/1 goes on")
	require.Zero(t, g.try(t, "b", 9))

	require.ErrorContains(t, g.set("", two("", 1)), `flow rule 4: Resource is ""`, "after those that stay")
	require.NoError(t, g.set("a"))
	require.Equal(t, []string{"b/1", "glob"}, g.ids(), "the pattern stays, and b")
	require.Equal(t, 9, g.try(t, "a", 9))
	require.Zero(t, g.try(t, "b", 9), "with its window")
	require.NoError(t, g.set("nowhere"))
	require.Equal(t, []string{"b/1", "glob"}, g.ids())
}

// Rules without ID have the numbers that they have in the list of a file, but for those
// that are taken.
func TestSet_Numbers(t *testing.T) {
	t.Parallel()
	named := two("a", 1)
	named.ID = "first"
	rules := []flow.Rule{named, two("a", 2), {Match: rule.Default, Threshold: 3}, two("a", 4)}
	g := newGate(t, rules...)
	want := []string{"first", "a/2", "*/1", "a/3"}
	require.Equal(t, want, g.ids())
	require.NoError(t, g.LoadFlowRules(nil))
	require.NoError(t, g.ReplaceRules("file", leapgate.Rules{Flow: rules}))
	require.Equal(t, want, g.ids())
	require.NoError(t, g.ReplaceRules("other", leapgate.Rules{Flow: []flow.Rule{two("a", 5), two("a", 6), two("a", 7)}}))
	require.Equal(t, append(want, "a/1", "a/4", "a/5"), g.ids())
	require.NoError(t, g.ReplaceRules("file", leapgate.Rules{Flow: rules}))
	require.Equal(t, append([]string{"a/1", "a/4", "a/5"}, want...), g.ids())
}

// Rules that a file owns are its own: they stay, and neither side gets in the way of
// the other, though the file tells no IDs.
func TestEdit_BesideThoseOfAFile(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 3))
	file := func(rules ...flow.Rule) error { return g.ReplaceRules("file", leapgate.Rules{Flow: rules}) }
	require.NoError(t, file(two("a", 7)))
	require.Equal(t, []string{"a/1", "a/2"}, g.ids())
	for threshold := range 3 {
		require.NoError(t, g.set("a", flow.Rule{ID: "a/1", Resource: "a", Threshold: float64(4 + threshold), Buckets: 2}))
		require.Equal(t, []string{"a/2", "a/1"}, g.ids())
		require.Equal(t, "file", g.FlowRules()[0].Source)
		require.Equal(t, []int{4, 1, 1}[threshold], g.try(t, "a", 20), "the window goes on")
	}
	require.NoError(t, g.set("a"))
	require.Equal(t, []string{"a/2"}, g.ids())
	require.NoError(t, file(two("a", 8)))
	require.NoError(t, g.set("a", two("a", 5)))
	require.NoError(t, file(two("a", 8), two("a", 9)))
	require.NoError(t, g.set("a", two("a", 5), two("a", 6)))
	require.Len(t, g.FlowRules(), 4)
}

// All or nothing, over both kinds; and the rules that others made stay.
func TestReplace_AllOrNothing(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 3))
	require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{ID: "own", Resource: "a", MaxInFlight: 9}}
		return nil
	}))
	files := func() (all []string) {
		for _, r := range g.FlowRules() {
			all = append(all, r.Source+":"+r.ID)
		}
		for _, r := range g.Rules().Isolation {
			all = append(all, r.Source+":"+r.ID)
		}
		return all
	}
	require.NoError(t, g.ReplaceRules("x", leapgate.Rules{Flow: []flow.Rule{{ID: "fx", Resource: "b", Source: "is set"}}, Isolation: []isolation.Rule{{ID: "ix", Resource: "b", MaxInFlight: 1}}}))
	require.NoError(t, g.ReplaceRules("y", leapgate.Rules{Flow: []flow.Rule{{ID: "fy", Resource: "b"}}}))
	want := []string{":a/1", "x:fx", "y:fy", ":own", "x:ix"}
	require.Equal(t, want, files())

	for _, err := range []error{
		g.ReplaceRules("x", leapgate.Rules{Flow: []flow.Rule{{ID: "new", Resource: "b"}}, Isolation: []isolation.Rule{{Resource: "b"}}}),
		g.ReplaceRules("x", leapgate.Rules{Flow: []flow.Rule{{ID: "new", Resource: "b", Threshold: -1}}, Isolation: []isolation.Rule{{Resource: "b", MaxInFlight: 5}}}),
		g.ReplaceRules("x", leapgate.Rules{Flow: []flow.Rule{{ID: "a/1", Resource: "b"}}}),
		g.ReplaceRules("x", leapgate.Rules{Isolation: []isolation.Rule{{ID: "own", Resource: "b", MaxInFlight: 1}}}),
	} {
		require.ErrorIs(t, err, rule.ErrFault)
		require.Equal(t, want, files())
	}
	err := g.ReplaceRules("x", leapgate.Rules{Flow: []flow.Rule{{Resource: "b", Threshold: -1}}, Isolation: []isolation.Rule{{Resource: "c"}}})
	require.ErrorContains(t, err, `flow rule 2 ("b/1" on "b"): Threshold is -1`, "after the two that stay")
	require.ErrorContains(t, err, `isolation rule 1 ("c/1" on "c"): MaxInFlight is 0`)
	require.Error(t, g.ReplaceRules("", leapgate.Rules{}))
	require.Equal(t, want, files())

	require.NoError(t, g.ReplaceRules("x", leapgate.Rules{Isolation: []isolation.Rule{{Resource: "c", MaxInFlight: 1}}}))
	require.Equal(t, []string{":a/1", "y:fy", ":own", "x:c/1"}, files())
	e, err := g.Entry("c")
	require.NoError(t, err)
	require.Equal(t, "isolation", g.blocked(t, "c", 1).Kind)
	e.Exit()
}

func TestLoad_ClosedGate(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	require.NoError(t, g.Rebind("a"))
	require.ErrorIs(t, g.Rebind("a", ""), leapgate.ErrName)
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.Rebind("a"), leapgate.ErrClosed)
	require.ErrorIs(t, g.Rebind(), leapgate.ErrClosed)
	require.ErrorIs(t, g.LoadFlowRules(nil), leapgate.ErrClosed)
	require.ErrorIs(t, g.ReplaceRules("x", leapgate.Rules{}), leapgate.ErrClosed)
	require.ErrorIs(t, g.LoadRules(leapgate.Rules{}), leapgate.ErrClosed)
}

// slow is a guard without checks whose Bind is held up once.
type slow struct {
	held atomic.Bool
	hold chan struct{}
}

func (*slow) Kind() string { return "slow" }

func (s *slow) Bind(string, []resource.Check) ([]resource.Check, bool) {
	if s.held.CompareAndSwap(true, false) {
		<-s.hold
	}
	return nil, false
}

// A load whose rules are loaded already, but not bound yet by the load that brought them, returns
// when they are: also if it fails, and if it loads nothing at all.
func TestLoad_OverlapsWithOneThatIsHeldUp(t *testing.T) {
	t.Parallel()
	rules := []flow.Rule{
		{ID: "exact", Resource: "a", Threshold: 0},
		{ID: "glob", Resource: "b*", Match: rule.Glob, Threshold: 0},
	}
	for name, second := range map[string]func(g *leapgate.Gate) error{
		"the same rules": func(g *leapgate.Gate) error { return g.LoadFlowRules(rules) },
		"others besides": func(g *leapgate.Gate) error { return g.LoadFlowRules(append(rules, two("c", 1))) },
		"bad ones": func(g *leapgate.Gate) error {
			if g.LoadFlowRules([]flow.Rule{{}}) == nil {
				return errors.New("they are loaded")
			}
			return nil
		},
		"of another kind": func(g *leapgate.Gate) error { return g.ReplaceRules("file", leapgate.Rules{}) },
		"a rebinding":     func(g *leapgate.Gate) error { return g.Rebind("c") },
		"editing them":    func(g *leapgate.Gate) error { return g.EditRules(func(*leapgate.Rules) error { return nil }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{hold: make(chan struct{})}
			g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{s}})
			for _, name := range []string{"a", "b"} {
				e, err := g.Entry(name)
				require.NoError(t, err)
				e.Exit()
			}
			s.held.Store(true)
			var first atomic.Bool
			go func() {
				err := g.LoadFlowRules(rules)
				first.Store(err == nil)
			}()
			synctest.Wait()
			require.False(t, first.Load(), "it is held up")
			require.NoError(t, second(g), name)
			for _, resource := range []string{"a", "b"} {
				_, err := g.Entry(resource)
				require.ErrorIs(t, err, leapgate.ErrBlocked, "%s: %q is not bound", name, resource)
			}
			require.False(t, first.Load())
			close(s.hold)
			synctest.Wait()
			require.True(t, first.Load())
			_, err := g.Entry("a")
			require.ErrorIs(t, err, leapgate.ErrBlocked, name)
		})
	}
}

// An older binding that is held up does not undo a newer load.
func TestLoad_HeldUpBindingIsStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{hold: make(chan struct{})}
		g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{s}})
		others := flow.Rule{ID: "others", Resource: "a", Origin: flow.OtherOrigins, Threshold: 0}
		s.held.Store(true)
		go g.LoadFlowRules([]flow.Rule{others, {ID: "r", Resource: "a", Threshold: 0}})
		synctest.Wait()
		require.NoError(t, g.LoadFlowRules([]flow.Rule{others, {ID: "r", Resource: "a", Threshold: 1e9}, {ID: "us", Resource: "a", Origin: "us", Threshold: 1e9}}))
		us := leapgate.WithOrigin("us")
		e, err := g.EntryContext(t.Context(), "a", us)
		require.NoError(t, err)
		e.Exit()
		close(s.hold)
		synctest.Wait()
		time.Sleep(time.Second)
		e, err = g.EntryContext(t.Context(), "a", us)
		require.NoError(t, err)
		e.Exit()
		_, err = g.Entry("a")
		require.ErrorIs(t, err, leapgate.ErrBlocked)
	})
}

// Nor does it bring rules back that a newer load has taken from a resource which had
// none before.
func TestLoad_HeldUpBindingOfRulesThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{hold: make(chan struct{})}
		g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{s}})
		e, err := g.Entry("a")
		require.NoError(t, err)
		e.Exit()
		s.held.Store(true)
		go g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "a", Threshold: 0}})
		synctest.Wait()
		require.NoError(t, g.LoadFlowRules(nil))
		close(s.hold)
		synctest.Wait()
		e, err = g.Entry("a")
		require.NoError(t, err)
		e.Exit()
	})
}
