package leapgate_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
)

func TestIsolationRules_ComeBackAsTheyWereLoaded(t *testing.T) {
	t.Parallel()
	g := newGate(t, newClock())
	require.Empty(t, g.IsolationRules())
	rules := []isolation.Rule{
		{Resource: "orders", MaxInFlight: 2},
		{ID: "wait", Resource: "orders", MaxInFlight: 3, MaxWait: time.Second, Mode: isolation.Shadow},
		{Match: isolation.Default, MaxInFlight: 4},
	}
	require.NoError(t, g.LoadIsolationRules(rules))
	rules[0].ID, rules[2].ID, rules[2].Resource = "orders/1", "*/1", "*"
	require.Equal(t, rules, g.IsolationRules())
	require.Error(t, g.LoadIsolationRules([]isolation.Rule{{Resource: "orders"}}))
	require.Equal(t, rules, g.IsolationRules())
	require.NoError(t, g.LoadIsolationRules(g.IsolationRules()))
	require.Equal(t, rules, g.IsolationRules())
	require.NoError(t, g.LoadIsolationRules(nil))
	require.Empty(t, g.IsolationRules())
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.LoadIsolationRules(rules), leapgate.ErrClosed)
}

func TestSetIsolationRules_ChangesThoseOfOneResource(t *testing.T) { // RM-02
	t.Parallel()
	g := newGate(t, newClock())
	file := isolation.Rule{ID: "file", Resource: "orders", MaxInFlight: 9, Source: "rules.yaml"}
	cart := isolation.Rule{ID: "cart/1", Resource: "cart", MaxInFlight: 1}
	every := isolation.Rule{ID: "every", Match: isolation.Default, Resource: "*", MaxInFlight: 5}
	require.NoError(t, g.LoadIsolationRules([]isolation.Rule{file, {ID: "few", Resource: "orders", MaxInFlight: 2}, cart, every}))
	first, err := g.Entry("orders")
	require.NoError(t, err)
	few := isolation.Rule{ID: "few", Resource: "orders", MaxInFlight: 1}
	require.NoError(t, g.SetIsolationRules("orders", []isolation.Rule{{ID: "few", MaxInFlight: 1}}))
	require.Equal(t, []isolation.Rule{file, cart, every, few}, g.IsolationRules())
	require.False(t, enter(t, g, "orders")) // its place is taken still
	require.True(t, enter(t, g, "cart"))
	require.NoError(t, g.SetIsolationRules("orders", nil))
	require.Equal(t, []isolation.Rule{file, cart, every}, g.IsolationRules())
	require.True(t, enter(t, g, "orders"))
	first.Exit()

	before := g.IsolationRules()
	require.ErrorIs(t, g.SetIsolationRules("", nil), leapgate.ErrName)
	err = g.SetIsolationRules("orders", []isolation.Rule{
		{Resource: "cart", MaxInFlight: 1},
		{Match: isolation.Default, MaxInFlight: 1, Source: "rules.yaml"},
	})
	require.EqualError(t, err, `isolation rule 3 (on "cart"): Resource is "cart"; want "orders", for which the rules are set, or nothing
isolation rule 4 (on "orders"): Match is default; want exact
isolation rule 4 (on "orders"): Source is "rules.yaml"; want nothing`)
	require.Error(t, g.SetIsolationRules("orders", []isolation.Rule{{}}))
	require.Equal(t, before, g.IsolationRules())
}

func TestReplaceRules_AllOrNoneOfBothKinds(t *testing.T) { // RM-03
	t.Parallel()
	g := newGate(t, newClock(), flow.Rule{ID: "own", Resource: "orders", Threshold: 5})
	require.EqualError(t, g.ReplaceRules("", nil, nil), "leapgate: the source of rules is empty; want a name")
	require.NoError(t, g.ReplaceRules("a.yaml", []flow.Rule{{ID: "a", Resource: "a", Threshold: 1}}, []isolation.Rule{{ID: "a", Resource: "a", MaxInFlight: 1}}))
	require.NoError(t, g.ReplaceRules("b.yaml", []flow.Rule{{ID: "b", Resource: "b", Threshold: 1}}, nil))
	flows, isolations := g.FlowRules(), g.IsolationRules()
	require.Len(t, flows, 3)
	require.Equal(t, "b.yaml", flows[2].Source)
	err := g.ReplaceRules("a.yaml", []flow.Rule{{Resource: "a", Threshold: -1}}, []isolation.Rule{{Resource: "a"}})
	require.EqualError(t, err, `flow rule 2 ("a/1" on "a"): Threshold is -1; want a finite number of at least 0
isolation rule 0 ("a/1" on "a"): MaxInFlight is 0; want 1 to 1000000000`)
	require.ErrorIs(t, err, flow.ErrRule)
	require.Error(t, g.ReplaceRules("a.yaml", nil, []isolation.Rule{{Resource: "a"}}))
	require.Error(t, g.ReplaceRules("a.yaml", []flow.Rule{{}}, nil))
	require.Equal(t, flows, g.FlowRules())
	require.Equal(t, isolations, g.IsolationRules())
	require.NoError(t, g.ReplaceRules("a.yaml", nil, nil))
	require.Equal(t, []string{"own", "b"}, []string{g.FlowRules()[0].ID, g.FlowRules()[1].ID})
	require.Empty(t, g.IsolationRules())
}

// Rules without IDs from several places: each is loaded again as it was, in any order.
func TestReplaceRules_WithoutIDsBesideOthersOfTheSameResource(t *testing.T) {
	t.Parallel()
	g := newGate(t, newClock())
	file := func() error {
		return g.ReplaceRules("rules.yaml", []flow.Rule{{Resource: "orders", Threshold: 5}}, []isolation.Rule{{Resource: "orders", MaxInFlight: 5}})
	}
	program := func() error {
		return g.SetIsolationRules("orders", []isolation.Rule{{MaxInFlight: 3}, {MaxInFlight: 4}})
	}
	require.NoError(t, file())
	require.NoError(t, g.SetFlowRules("orders", []flow.Rule{{Threshold: 7}}))
	require.NoError(t, program())
	held, err := g.Entry("orders")
	require.NoError(t, err)
	defer held.Exit()
	ids := func() map[string]int64 {
		ids := map[string]int64{}
		for _, r := range g.IsolationRules() {
			ids[r.ID] = r.MaxInFlight
		}
		return ids
	}
	want := ids()
	require.Len(t, want, 3)
	for range 3 {
		require.NoError(t, file())
		require.Equal(t, want, ids())
		require.NoError(t, program())
		require.Equal(t, want, ids())
		require.NoError(t, g.SetFlowRules("orders", []flow.Rule{{Threshold: 7}}))
	}
}

// RM-13. All ways of loading at once, beside calls: in the end the rules are those that
// were loaded last by each, and bound.
func TestRules_LoadedInAllWaysAtOnce(t *testing.T) {
	t.Parallel()
	const rounds = 200
	c := newClock()
	g := newGate(t, c)
	var wg sync.WaitGroup
	for _, load := range []func(i int) error{
		func(i int) error {
			return g.SetIsolationRules("orders", []isolation.Rule{{ID: "few", MaxInFlight: int64(1 + i%7)}})
		},
		func(i int) error { return g.SetFlowRules("orders", []flow.Rule{{ID: "qps", Threshold: float64(i)}}) },
		func(i int) error {
			return g.ReplaceRules("file", []flow.Rule{{ID: "f", Resource: "cart", Threshold: float64(i)}},
				[]isolation.Rule{{ID: "all", Match: isolation.Default, MaxInFlight: int64(1 + i)}})
		},
		func(i int) error { return g.Rebind("orders", "cart") },
	} {
		wg.Go(func() {
			for i := range rounds {
				assert.NoError(t, load(i))
				e, err := g.Entry("orders")
				if err != nil {
					assert.ErrorIs(t, err, leapgate.ErrBlocked)
				}
				e.Exit()
			}
		})
	}
	wg.Wait()
	c.Advance(time.Minute)
	s := snapshotOf(t, g, "orders")
	require.Equal(t, []string{"qps", "few"}, []string{s.Rules[0].ID, s.Rules[1].ID}) // Default does not bind it
	require.Equal(t, []float64{rounds - 1, 1 + (rounds-1)%7}, []float64{s.Rules[0].Threshold, s.Rules[1].Threshold})
	require.True(t, enter(t, g, "new"))
	s = snapshotOf(t, g, "new")
	require.Equal(t, []any{"all", float64(rounds)}, []any{s.Rules[0].ID, s.Rules[0].Threshold})
	require.Len(t, snapshotOf(t, g, "cart").Rules, 2) // no isolation rule names it
}

func TestEditRules_ChangesWhatEditSaw(t *testing.T) {
	t.Parallel()
	g := newGate(t, newClock(), flow.Rule{ID: "qps", Resource: "orders", Threshold: 5}, flow.Rule{ID: "file", Resource: "cart", Threshold: 5, Source: "f"})
	require.NoError(t, g.LoadIsolationRules([]isolation.Rule{{ID: "few", Resource: "orders", MaxInFlight: 2}}))
	require.NoError(t, g.EditRules(func(flows []flow.Rule, isolations []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) {
		require.Equal(t, g.FlowRules(), flows)
		flows[0].Threshold = 7
		return append(flows, flow.Rule{Resource: "orders", Threshold: 9}), append(isolations, isolation.Rule{Match: isolation.Default, MaxInFlight: 1}), nil
	}))
	flows, isolations := g.FlowRules(), g.IsolationRules()
	require.Equal(t, []any{"qps", 7.0, "file", "f", "orders/2", 9.0}, []any{flows[0].ID, flows[0].Threshold, flows[1].ID, flows[1].Source, flows[2].ID, flows[2].Threshold})
	require.Equal(t, []string{"few", "*/1"}, []string{isolations[0].ID, isolations[1].ID})
	require.Len(t, snapshotOf(t, g, "orders").Rules, 3)

	// With a fault in any rule, or an error of edit, all stay.
	err := g.EditRules(func(flows []flow.Rule, isolations []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) {
		flows[0].Threshold, isolations[1].MaxInFlight = 8, 0
		return flows, isolations, nil
	})
	require.EqualError(t, err, `isolation rule 1 ("*/1" on "*"): MaxInFlight is 0; want 1 to 1000000000`)
	require.ErrorIs(t, g.EditRules(func(flows []flow.Rule, _ []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) {
		return flows[:1], nil, leapgate.ErrCount
	}), leapgate.ErrCount)
	require.Panics(t, func() {
		_ = g.EditRules(func([]flow.Rule, []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) { panic("oh") })
	})
	require.Equal(t, flows, g.FlowRules())
	require.Equal(t, isolations, g.IsolationRules())
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.EditRules(nil), leapgate.ErrClosed)
}

// Each edit adds one to what it sees; other ways of loading come between. None is lost.
func TestEditRules_AtOnce(t *testing.T) {
	t.Parallel()
	const editors, rounds = 8, 100
	g := newGate(t, newClock(), flow.Rule{ID: "sum", Resource: "orders"})
	var wg sync.WaitGroup
	for range editors {
		wg.Go(func() {
			for i := range rounds {
				assert.NoError(t, g.EditRules(func(flows []flow.Rule, isolations []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) {
					for i := range flows {
						if flows[i].ID == "sum" {
							flows[i].Threshold++
						}
					}
					return flows, isolations, nil
				}))
				assert.NoError(t, g.SetFlowRules("cart", []flow.Rule{{Threshold: float64(i)}}))
				assert.NoError(t, g.ReplaceRules("file", []flow.Rule{{ID: "file", Resource: "cart"}}, nil))
			}
		})
	}
	wg.Wait()
	require.Len(t, g.FlowRules(), 3)
	require.Equal(t, float64(editors*rounds), snapshotOf(t, g, "orders").Rules[0].Threshold)
}

// Rules of both kinds in shadow, of which only some want to know when calls end.
func TestShadow_RulesOfBothKindsBesideEachOther(t *testing.T) {
	t.Parallel()
	g := newGate(t, newClock(), flow.Rule{ID: "qps", Resource: "orders", Threshold: 3, Mode: flow.Shadow},
		flow.Rule{ID: "more", Resource: "orders", Threshold: 100, Mode: flow.Shadow})
	require.NoError(t, g.LoadIsolationRules([]isolation.Rule{{ID: "few", Resource: "orders", MaxInFlight: 1, Mode: isolation.Shadow}}))
	figures := func(i int) []int64 {
		r := snapshotOf(t, g, "orders").Rules[i]
		return []int64{r.Admitted, r.WouldBlock, r.Blocked}
	}
	first, err := g.Entry("orders")
	require.NoError(t, err)
	for range 4 { // each ends, and is not the one that holds the place
		require.True(t, enter(t, g, "orders"))
	}
	require.Equal(t, []int64{1, 4, 0}, figures(2))
	first.Exit()
	require.True(t, enter(t, g, "orders"))
	require.Equal(t, []int64{2, 4, 0}, figures(2))
	require.Equal(t, []int64{3, 3, 0}, figures(0))
	require.Equal(t, []int64{6, 0, 0}, figures(1))
	s := snapshotOf(t, g, "orders")
	require.Equal(t, []int64{6, 0, 5}, []int64{s.Pass, s.Block, s.WouldBlock}) // each call once
}
