package leapgate_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

// own replaces the flow rules of a resource that have no source.
func own(name string, rules ...flow.Rule) func(*leapgate.Rules) error {
	return func(all *leapgate.Rules) error {
		all.Flow = slices.DeleteFunc(all.Flow, func(r flow.Rule) bool { return r.Resource == name && r.Source == "" })
		for _, r := range rules {
			r.Resource = name
			all.Flow = append(all.Flow, r)
		}
		return nil
	}
}

func TestRules_ComeBackAsTheyWereLoaded(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	require.Zero(t, g.Rules().Len())
	rules := leapgate.Rules{
		Flow: []flow.Rule{{Resource: "orders", Threshold: 5, Interval: time.Second, Buckets: 10}},
		Isolation: []isolation.Rule{
			{Resource: "orders", MaxInFlight: 2},
			{ID: "wait", Resource: "orders", MaxInFlight: 3, MaxWait: time.Second, Mode: rule.Shadow},
			{Match: rule.Default, MaxInFlight: 4},
		},
		Breaker: []breaker.Rule{{
			Resource: "orders", Interval: time.Second, Buckets: 5, MinCalls: 20, ErrorRatio: 0.5, OpenFor: time.Second, Probes: 2,
		}},
	}
	require.NoError(t, g.LoadRules(rules))
	require.Empty(t, rules.Isolation[0].ID, "the caller's list is not written to")
	rules.Flow[0].ID, rules.Isolation[0].ID, rules.Isolation[2].ID, rules.Isolation[2].Resource = "orders/1", "orders/1", "*/1", "*"
	rules.Breaker[0].ID = "orders/1"
	require.Equal(t, rules, g.Rules())
	require.Equal(t, 5, g.Rules().Len())
	require.Equal(t, rules.Flow, g.FlowRules())
	bad := leapgate.Rules{Isolation: []isolation.Rule{{Resource: "orders"}}}
	require.Error(t, g.LoadRules(bad))
	require.Equal(t, bad.Validate(), g.LoadRules(bad))
	require.NoError(t, rules.Validate())
	require.Equal(t, rules, g.Rules())
	require.NoError(t, g.LoadRules(g.Rules()))
	require.Equal(t, rules, g.Rules())
	require.NoError(t, g.LoadFlowRules(nil))
	require.Equal(t, leapgate.Rules{Flow: []flow.Rule{}, Isolation: rules.Isolation, Breaker: rules.Breaker}, g.Rules(), "rules of other kinds stay")
	require.NoError(t, g.LoadRules(leapgate.Rules{}))
	require.Zero(t, g.Rules().Len())
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.LoadRules(rules), leapgate.ErrClosed)
}

func TestEditRules_ChangesThoseOfOneResource(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	file := isolation.Rule{ID: "file", Resource: "orders", MaxInFlight: 9, Source: "rules.yaml"}
	cart := isolation.Rule{ID: "cart/1", Resource: "cart", MaxInFlight: 1}
	every := isolation.Rule{ID: "every", Match: rule.Default, Resource: "*", MaxInFlight: 5}
	few := isolation.Rule{ID: "few", Resource: "orders", MaxInFlight: 2}
	require.NoError(t, g.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{file, few, cart, every}}))
	first, err := g.Entry("orders")
	require.NoError(t, err)
	few.MaxInFlight = 1
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{file, cart, every, few}))
	require.Equal(t, []isolation.Rule{file, cart, every, few}, g.Rules().Isolation)
	require.False(t, gates.Enter(t, g, "orders")) // its place is taken still
	require.True(t, gates.Enter(t, g, "cart"))
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{file, cart, every}))
	require.True(t, gates.Enter(t, g, "orders"))
	first.Exit()
}

func TestReplaceRules_AllOrNoneOfBothKinds(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{ID: "own", Resource: "orders", Threshold: 5})
	require.EqualError(t, g.ReplaceRules("", leapgate.Rules{}), "leapgate: the source of rules is empty; want a name")
	require.NoError(t, g.ReplaceRules("a.yaml", leapgate.Rules{
		Flow: []flow.Rule{{ID: "a", Resource: "a", Threshold: 1}}, Isolation: []isolation.Rule{{ID: "a", Resource: "a", MaxInFlight: 1}},
	}))
	require.NoError(t, g.ReplaceRules("b.yaml", leapgate.Rules{Flow: []flow.Rule{{ID: "b", Resource: "b", Threshold: 1}}}))
	flows, isolations := g.FlowRules(), g.Rules().Isolation
	require.Len(t, flows, 3)
	require.Equal(t, "b.yaml", flows[2].Source)
	err := g.ReplaceRules("a.yaml", leapgate.Rules{Flow: []flow.Rule{{Resource: "a", Threshold: -1}}, Isolation: []isolation.Rule{{Resource: "a"}}})
	require.EqualError(t, err, `flow rule 2 ("a/1" on "a"): Threshold is -1; want a finite number of at least 0
isolation rule 0 ("a/1" on "a"): MaxInFlight is 0; want 1 to 1000000000`)
	require.ErrorIs(t, err, rule.ErrFault)
	require.Error(t, g.ReplaceRules("a.yaml", leapgate.Rules{Isolation: []isolation.Rule{{Resource: "a"}}}))
	require.Error(t, g.ReplaceRules("a.yaml", leapgate.Rules{Flow: []flow.Rule{{}}}))
	require.Equal(t, flows, g.FlowRules())
	require.Equal(t, isolations, g.Rules().Isolation)
	require.NoError(t, g.ReplaceRules("a.yaml", leapgate.Rules{}))
	require.Equal(t, []string{"own", "b"}, []string{g.FlowRules()[0].ID, g.FlowRules()[1].ID})
	require.Empty(t, g.Rules().Isolation)
}

// Rules without IDs from several places: each is loaded again as it was, in any order.
func TestReplaceRules_WithoutIDsBesideOthersOfTheSameResource(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	file := func() error {
		return g.ReplaceRules("rules.yaml", leapgate.Rules{
			Flow: []flow.Rule{{Resource: "orders", Threshold: 5}}, Isolation: []isolation.Rule{{Resource: "orders", MaxInFlight: 5}},
		})
	}
	program := func() error {
		return g.EditRules(func(all *leapgate.Rules) error {
			all.Isolation = slices.DeleteFunc(all.Isolation, func(r isolation.Rule) bool { return r.Source == "" })
			all.Isolation = append(all.Isolation, isolation.Rule{Resource: "orders", MaxInFlight: 3}, isolation.Rule{Resource: "orders", MaxInFlight: 4})
			return nil
		})
	}
	require.NoError(t, file())
	require.NoError(t, g.EditRules(own("orders", flow.Rule{Threshold: 7})))
	require.NoError(t, program())
	held, err := g.Entry("orders")
	require.NoError(t, err)
	defer held.Exit()
	ids := func() map[string]int64 {
		ids := map[string]int64{}
		for _, r := range g.Rules().Isolation {
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
		require.NoError(t, g.EditRules(own("orders", flow.Rule{Threshold: 7})))
	}
}

// All ways of loading at once, beside calls: in the end the rules are those that
// were loaded last by each, and bound.
func TestRules_LoadedInAllWaysAtOnce(t *testing.T) {
	t.Parallel()
	const rounds = 200
	c := gatetest.NewClock()
	g := gates.New(t, c)
	var wg sync.WaitGroup
	for _, load := range []func(i int) error{
		func(i int) error {
			return g.EditRules(func(all *leapgate.Rules) error {
				all.Isolation = slices.DeleteFunc(all.Isolation, func(r isolation.Rule) bool { return r.ID == "few" })
				all.Isolation = append(all.Isolation, isolation.Rule{ID: "few", Resource: "orders", MaxInFlight: int64(1 + i%7)})
				return nil
			})
		},
		func(i int) error { return g.EditRules(own("orders", flow.Rule{ID: "qps", Threshold: float64(i)})) },
		func(i int) error {
			return g.ReplaceRules("file", leapgate.Rules{
				Flow:      []flow.Rule{{ID: "f", Resource: "cart", Threshold: float64(i)}},
				Isolation: []isolation.Rule{{ID: "all", Match: rule.Default, MaxInFlight: int64(1 + i)}},
			})
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
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []string{"qps", "few"}, []string{s.Rules[0].ID, s.Rules[1].ID}) // Default does not bind it
	require.Equal(t, []float64{rounds - 1, 1 + (rounds-1)%7}, []float64{s.Rules[0].Threshold, s.Rules[1].Threshold})
	require.True(t, gates.Enter(t, g, "new"))
	s = gates.Snapshot(t, g, "new")
	require.Equal(t, []any{"all", float64(rounds)}, []any{s.Rules[0].ID, s.Rules[0].Threshold})
	require.Len(t, gates.Snapshot(t, g, "cart").Rules, 2) // no isolation rule names it
}

func TestEditRules_ChangesWhatEditSaw(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{ID: "qps", Resource: "orders", Threshold: 5}, flow.Rule{ID: "file", Resource: "cart", Threshold: 5, Source: "f"})
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{ID: "few", Resource: "orders", MaxInFlight: 2}}))
	require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
		require.Equal(t, g.Rules(), *all)
		all.Flow[0].Threshold = 7
		all.Flow = append(all.Flow, flow.Rule{Resource: "orders", Threshold: 9})
		all.Isolation = append(all.Isolation, isolation.Rule{Match: rule.Default, MaxInFlight: 1})
		return nil
	}))
	flows, isolations := g.FlowRules(), g.Rules().Isolation
	require.Equal(t, []any{"qps", 7.0, "file", "f", "orders/2", 9.0}, []any{flows[0].ID, flows[0].Threshold, flows[1].ID, flows[1].Source, flows[2].ID, flows[2].Threshold})
	require.Equal(t, []string{"few", "*/1"}, []string{isolations[0].ID, isolations[1].ID})
	require.Len(t, gates.Snapshot(t, g, "orders").Rules, 3)

	// With a fault in any rule, or an error of edit, all stay.
	err := g.EditRules(func(all *leapgate.Rules) error {
		all.Flow[0].Threshold, all.Isolation[1].MaxInFlight = 8, 0
		return nil
	})
	require.EqualError(t, err, `isolation rule 1 ("*/1" on "*"): MaxInFlight is 0; want 1 to 1000000000`)
	require.ErrorIs(t, g.EditRules(func(all *leapgate.Rules) error {
		all.Flow = all.Flow[:1]
		return leapgate.ErrCount
	}), leapgate.ErrCount)
	require.Panics(t, func() { _ = g.EditRules(func(*leapgate.Rules) error { panic("oh") }) })
	require.Equal(t, flows, g.FlowRules())
	require.Equal(t, isolations, g.Rules().Isolation)
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.EditRules(nil), leapgate.ErrClosed)
}

// Each edit adds one to what it sees; other ways of loading come between. None is lost.
func TestEditRules_AtOnce(t *testing.T) {
	t.Parallel()
	const editors, rounds = 8, 100
	g := gates.New(t, gatetest.NewClock(), flow.Rule{ID: "sum", Resource: "orders"})
	var wg sync.WaitGroup
	for range editors {
		wg.Go(func() {
			for i := range rounds {
				assert.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
					for i := range all.Flow {
						if all.Flow[i].ID == "sum" {
							all.Flow[i].Threshold++
						}
					}
					return nil
				}))
				assert.NoError(t, g.EditRules(own("cart", flow.Rule{Threshold: float64(i)})))
				assert.NoError(t, g.ReplaceRules("file", leapgate.Rules{Flow: []flow.Rule{{ID: "file", Resource: "cart"}}}))
			}
		})
	}
	wg.Wait()
	require.Len(t, g.FlowRules(), 3)
	require.Equal(t, float64(editors*rounds), gates.Snapshot(t, g, "orders").Rules[0].Threshold)
}

// Rules of both kinds in shadow, of which only some want to know when calls end.
func TestShadow_RulesOfBothKindsBesideEachOther(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{ID: "qps", Resource: "orders", Threshold: 3, Mode: rule.Shadow},
		flow.Rule{ID: "more", Resource: "orders", Threshold: 100, Mode: rule.Shadow})
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{ID: "few", Resource: "orders", MaxInFlight: 1, Mode: rule.Shadow}}))
	figures := func(i int) []int64 {
		r := gates.Snapshot(t, g, "orders").Rules[i]
		return []int64{r.Admitted, r.WouldBlock, r.Blocked}
	}
	first, err := g.Entry("orders")
	require.NoError(t, err)
	for range 4 { // each ends, and is not the one that holds the place
		require.True(t, gates.Enter(t, g, "orders"))
	}
	require.Equal(t, []int64{1, 4, 0}, figures(2))
	first.Exit()
	require.True(t, gates.Enter(t, g, "orders"))
	require.Equal(t, []int64{2, 4, 0}, figures(2))
	require.Equal(t, []int64{3, 3, 0}, figures(0))
	require.Equal(t, []int64{6, 0, 0}, figures(1))
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{6, 0, 5}, []int64{s.Pass, s.Block, s.WouldBlock}) // each call once
}

// A list that a program keeps is its own: loads read it.
func TestRules_ListsOfTheProgramStayAsTheyAre(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{})
	lists := leapgate.Rules{
		Flow:      []flow.Rule{{Resource: "a", Threshold: 1}, {Resource: "a", Threshold: 2}},
		Isolation: []isolation.Rule{{Resource: "a", MaxInFlight: 1}},
		Breaker:   []breaker.Rule{{Resource: "a", ErrorRatio: 0.5}},
	}
	want := leapgate.Rules{
		Flow: slices.Clone(lists.Flow), Isolation: slices.Clone(lists.Isolation), Breaker: slices.Clone(lists.Breaker),
	}
	require.NoError(t, g.LoadRules(lists))
	require.NoError(t, g.ReplaceRules("file", lists))
	require.NoError(t, g.LoadFlowRules(lists.Flow))
	require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
		*all = lists
		return nil
	}))
	require.Equal(t, want, lists)
	require.Equal(t, "a/1", g.Rules().Breaker[0].ID)
}
