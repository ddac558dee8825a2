package isolation

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

type registry interface {
	Find(name string) (*resource.Resource, error)
	Resource(name string) *resource.Resource
	Changed(names.Set) func()
	Close()
}

// gate is a registry with nothing but the rules of this package.
type gate struct {
	registry
	guard *ruleset.Set[Rule]
	now   atomic.Int64
}

// load loads rules, or returns all that is wrong with them.
func load(set *ruleset.Set[Rule], rules []Rule) (changes names.Set, err error) {
	load, faults := set.Prepare(rules)
	if faults != nil {
		return changes, faults
	}
	return load(), nil
}

func validate(rules []Rule) error {
	if faults := Kind.Validate(rules); faults != nil {
		return faults
	}
	return nil
}

// controllersOf returns those of a resource that has just appeared.
func controllersOf(set *ruleset.Set[Rule], name string) (controllers []*controller) {
	checks, _ := set.Bind(name, nil)
	for _, c := range checks {
		controllers = append(controllers, c.(*controller))
	}
	return controllers
}

// newGate makes a gate with a given clock, or, without one, in a bubble of synctest.
func newGate(t testing.TB, given bool, rules ...Rule) *gate {
	t.Helper()
	g := &gate{guard: ruleset.New(&Kind, ruleset.Env{})}
	g.now.Store(1_700_000_040 * int64(time.Second))
	cfg := resource.Config{Guards: []resource.Guard{g.guard}}
	if given {
		cfg.Now = g.now.Load
	}
	g.registry = resource.NewRegistry(cfg)
	g.load(t, rules...)
	return g
}

func (g *gate) load(t testing.TB, rules ...Rule) {
	t.Helper()
	changes, err := load(g.guard, rules)
	require.NoError(t, err)
	g.Changed(changes)()
}

// try makes a call that takes n places, and keeps it: nil if it was refused.
func (g *gate) try(t testing.TB, name string, n int64) *resource.Entry {
	t.Helper()
	r, err := g.Find(name)
	require.NoError(t, err)
	e, err := r.EntryContext(context.Background(), resource.WithCount(n))
	if err != nil {
		require.ErrorIs(t, err, callerror.ErrBlocked)
		return nil
	}
	return &e
}

// hold makes k calls, and keeps those that pass.
func (g *gate) hold(t testing.TB, name string, k int) (entries []*resource.Entry) {
	t.Helper()
	for range k {
		if e := g.try(t, name, 1); e != nil {
			entries = append(entries, e)
		}
	}
	return entries
}

func exit(entries ...*resource.Entry) {
	for _, e := range entries {
		e.Exit()
	}
}

// taken returns the places that are taken of a rule that names a resource.
func (g *gate) taken(t testing.TB, name, id string) int64 {
	t.Helper()
	controllers := controllersOf(g.guard, name)
	for _, c := range controllers {
		if c.rule.ID == id {
			return c.state.places.Taken()
		}
	}
	t.Fatalf("no rule %q on %q", id, name)
	return 0
}

func (g *gate) rule(t testing.TB, name, id string) stat.RuleSnapshot {
	t.Helper()
	for _, s := range g.Resource(name).Snapshot().Rules {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no rule %q on %q", id, name)
	return stat.RuleSnapshot{}
}

// totals returns pass, success, block, would-block and what is in flight.
func (g *gate) totals(name string) []int64 {
	s := g.Resource(name).Snapshot()
	return []int64{s.Pass, s.Success, s.Block, s.WouldBlock, s.Concurrency}
}

func TestRule_CallsTakePlacesAndGiveThemBack(t *testing.T) {
	t.Parallel()
	g := newGate(t, true, Rule{ID: "few", Resource: "a", MaxInFlight: 3})
	entries := g.hold(t, "a", 5)
	require.Len(t, entries, 3)
	entries[1].Exit()
	entries[1].Exit() // a second time, which gives nothing back
	require.Len(t, g.hold(t, "a", 2), 1)
	require.Equal(t, []int64{4, 1, 3, 0, 3}, g.totals("a"))
	s := g.rule(t, "a", "few")
	require.Equal(t, []int64{4, 3, 0}, []int64{s.Admitted, s.Blocked, s.WouldBlock})
	require.Equal(t, []float64{3, 3}, []float64{s.Threshold, s.Effective})
	require.Equal(t, []any{"isolation", rule.Enforce, time.Duration(0)}, []any{s.Kind, s.Mode, s.Interval})
	require.Equal(t, "isolation", g.guard.Kind())
}

func TestRule_BatchTakesAsManyPlacesAsItCounts(t *testing.T) {
	t.Parallel()
	g := newGate(t, true, Rule{Resource: "a", MaxInFlight: 3}, Rule{Resource: "b", MaxInFlight: 10})
	g.hold(t, "a", 2)
	require.Nil(t, g.try(t, "a", 2))
	require.NotNil(t, g.try(t, "a", 1))

	var held []*resource.Entry
	for range 4 {
		if e := g.try(t, "b", 8); e != nil {
			held = append(held, e)
		}
	}
	require.Len(t, held, 1)
	require.Equal(t, []int64{8, 0, 24, 0, 8}, g.totals("b"))
	exit(held...)
	require.Nil(t, g.try(t, "b", 11))
	require.NotNil(t, g.try(t, "b", 10))
	require.Equal(t, int64(10), g.taken(t, "b", "b/1"))
}

func TestRule_RefusalTellsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	g := newGate(t, true, Rule{ID: "few", Resource: "a", MaxInFlight: 10})
	g.hold(t, "a", 8)
	_, err := g.Resource("a").EntryContext(context.Background(), resource.WithCount(3), resource.WithOrigin("mobile"))
	require.EqualError(t, err, `isolation rule "few" on "a": 11 of 10 in flight`)
	var blocked *resource.BlockError
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, []any{"isolation", "few", "a", 10.0, 11.0, time.Duration(0)},
		[]any{blocked.Kind, blocked.RuleID, blocked.Resource, blocked.Threshold, blocked.Observed, blocked.RetryAfter})
	require.EqualError(t, resource.LastBlock("a", g.rule(t, "a", "few")), err.Error())
	require.Equal(t, stat.Refusal{At: time.Unix(0, g.now.Load()), Origin: "mobile", Observed: 11, Threshold: 10, Detail: " in flight"}, g.rule(t, "a", "few").LastRefusal)
}

// Each reload is made while so many calls are in flight, and shows in how many more
// are let in. In the end all exit, and all places are free.
func TestReload_WhileCallsAreInFlight(t *testing.T) {
	t.Parallel()
	three := Rule{ID: "few", Resource: "a", MaxInFlight: 3}
	limit := func(n int64) Rule { r := three; r.MaxInFlight = n; return r }
	mode := func(m rule.Mode) Rule { r := three; r.Mode = m; return r }
	type step struct {
		rule   Rule // zero: none
		admits int  // of five more, which are kept
		taken  int64
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"raised", []step{{three, 3, 3}, {limit(5), 2, 5}}},
		{"lowered", []step{{three, 3, 3}, {limit(1), 0, 3}}},
		{"lowered and raised", []step{{three, 3, 3}, {limit(1), 0, 3}, {limit(4), 1, 4}}},
		{"removed and added again", []step{{three, 3, 3}, {Rule{}, 5, 0}, {three, 3, 3}}},
		{"off, and on again", []step{{three, 3, 3}, {mode(rule.Off), 5, 3}, {three, 0, 3}}},
		{"shadow, and on again", []step{{three, 3, 3}, {mode(rule.Shadow), 5, 3}, {three, 0, 3}}},
		{"all modes", []step{{mode(rule.Shadow), 5, 3}, {mode(rule.Off), 5, 3}, {three, 0, 3}, {mode(rule.Off), 5, 3}, {mode(rule.Shadow), 5, 3}}},
		{"another ID", []step{{three, 3, 3}, {Rule{ID: "new", Resource: "a", MaxInFlight: 2}, 2, 2}}},
		{"may wait", []step{{three, 3, 3}, {Rule{ID: "few", Resource: "a", MaxInFlight: 4, MaxWait: 1}, 1, 4}}},
		{"another source", []step{{three, 3, 3}, {Rule{ID: "few", Resource: "a", MaxInFlight: 3, Source: "file"}, 0, 3}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, true)
			var held []*resource.Entry
			controllers := map[*controller]bool{}
			for i, s := range tt.steps {
				if s.rule.ID == "" {
					g.load(t)
				} else {
					g.load(t, s.rule)
				}
				entries := g.hold(t, "a", 5)
				require.Len(t, entries, s.admits, "step %d", i)
				held = append(held, entries...)
				if s.rule.ID != "" {
					require.Equal(t, s.taken, g.taken(t, "a", s.rule.ID), "step %d", i)
				}
				now := controllersOf(g.guard, "a")
				for _, c := range now {
					controllers[c] = true
				}
			}
			exit(held...)
			for c := range controllers {
				require.Zero(t, c.state.places.Taken())
			}
		})
	}
}

// Places are given back by the entries that took them: what began while the rule was
// off, or in shadow beyond its limit, gives nothing back.
func TestReload_EntriesGiveBackOnlyWhatTheyTook(t *testing.T) {
	t.Parallel()
	few := func(mode rule.Mode) Rule { return Rule{ID: "few", Resource: "a", MaxInFlight: 3, Mode: mode} }
	g := newGate(t, true, few(rule.Off))
	whileOff := g.hold(t, "a", 5)
	g.load(t, few(rule.Shadow))
	whileShadow := g.hold(t, "a", 5) // three places
	require.Len(t, whileShadow, 5)
	g.load(t, few(rule.Enforce))
	require.Empty(t, g.hold(t, "a", 1))
	exit(whileOff...)
	exit(whileShadow[3:]...)
	require.Empty(t, g.hold(t, "a", 1))
	require.Equal(t, int64(3), g.taken(t, "a", "few"))
	exit(whileShadow[0])
	enforced := g.hold(t, "a", 2)
	require.Len(t, enforced, 1)
	g.load(t, few(rule.Off))
	exit(enforced...)
	exit(whileShadow[1:]...) // also a second time
	require.Zero(t, g.taken(t, "a", "few"))
	require.Equal(t, []int64{11, 11, 3, 2, 0}, g.totals("a"))
	s := g.rule(t, "a", "few")
	require.Equal(t, []int64{4, 3, 2}, []int64{s.Admitted, s.Blocked, s.WouldBlock})
}

func TestReload_RuleGoesToAnotherResourceAndLeavesItsPlacesBehind(t *testing.T) {
	t.Parallel()
	g := newGate(t, true, Rule{ID: "few", Resource: "a", MaxInFlight: 3})
	entries := g.hold(t, "a", 3)
	g.load(t, Rule{ID: "few", Resource: "b", MaxInFlight: 3})
	require.Len(t, g.hold(t, "b", 5), 3)
	exit(entries...)
	require.Equal(t, int64(3), g.taken(t, "b", "few"))
}

// A rule that is loaded again in another place of the list, or among others, goes on.
func TestReload_OrderOfRulesDoesNotMatter(t *testing.T) {
	t.Parallel()
	a, b, c := Rule{ID: "1", Resource: "a", MaxInFlight: 3}, Rule{ID: "2", Resource: "a", MaxInFlight: 4}, Rule{ID: "3", Resource: "b", MaxInFlight: 1}
	g := newGate(t, true, a, b, c)
	entries := g.hold(t, "a", 5)
	require.Len(t, entries, 3)
	g.load(t, c, b, a)
	require.Empty(t, g.hold(t, "a", 1))
	require.Equal(t, []int64{3, 3}, []int64{g.taken(t, "a", "1"), g.taken(t, "a", "2")})
	g.load(t, b)
	require.Len(t, g.hold(t, "a", 5), 1)
	exit(entries...)
	require.Equal(t, int64(1), g.taken(t, "a", "2"))
	_, err := load(g.guard, []Rule{b, b})
	require.Error(t, err)
	require.Equal(t, []Rule{b}, g.guard.Rules())
}

func TestPattern_EveryResourceHasPlacesOfItsOwn(t *testing.T) {
	t.Parallel()
	g := newGate(t, true,
		Rule{ID: "all", Match: rule.Default, MaxInFlight: 2},
		Rule{ID: "db", Resource: "db.*", Match: rule.Glob, MaxInFlight: 3},
		Rule{ID: "one", Resource: "db.one", MaxInFlight: 1},
		Rule{ID: "tries", Resource: "tries", MaxInFlight: 1, Mode: rule.Shadow},
	)
	require.Len(t, g.hold(t, "db.query", 5), 2) // both patterns bind it
	require.Len(t, g.hold(t, "db.exec", 5), 2)
	require.Len(t, g.hold(t, "db.one", 5), 1) // Default does not, for it is named
	require.Len(t, g.hold(t, "orders", 5), 2)
	require.Len(t, g.hold(t, "tries", 5), 2) // only in shadow

	g.load(t, Rule{ID: "db", Resource: "db.*", Match: rule.Glob, MaxInFlight: 3})
	require.Len(t, g.hold(t, "db.query", 5), 1) // two of its three are taken still
	require.Len(t, g.hold(t, "db.one", 5), 2)   // one is taken still
	require.Len(t, g.hold(t, "orders", 5), 5)
	_, err := g.Resource("db.query").Entry()
	require.EqualError(t, err, `isolation rule "db" on "db.query": 4 of 3 in flight`)
}

// Reloads of other rules bind a resource anew, and its places stay.
func TestPattern_PlacesStayWhenOtherRulesAreLoaded(t *testing.T) {
	t.Parallel()
	db := Rule{ID: "db", Resource: "db.*", Match: rule.Glob, MaxInFlight: 3}
	g := newGate(t, true, db)
	entries := g.hold(t, "db.query", 3)
	for i := range int64(5) {
		g.load(t, Rule{ID: "more", Resource: "db.query", MaxInFlight: 100 + i}, db)
		require.Empty(t, g.hold(t, "db.query", 1))
	}
	db.MaxInFlight = 4
	g.load(t, db)
	require.Len(t, g.hold(t, "db.query", 5), 1)
	exit(entries...)
	require.Len(t, g.hold(t, "db.query", 5), 3)
}

func TestValidate_EveryFaultAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{Resource: "a"}, `isolation rule 0 (on "a"): MaxInFlight is 0; want 1 to 1000000000`},
		{Rule{Resource: "a", MaxInFlight: -1}, `isolation rule 0 (on "a"): MaxInFlight is -1; want 1 to 1000000000`},
		{Rule{Resource: "a", MaxInFlight: 1_000_000_001}, `isolation rule 0 (on "a"): MaxInFlight is 1000000001; want 1 to 1000000000`},
		{Rule{Resource: "a", MaxInFlight: 1, MaxWait: -1}, `isolation rule 0 (on "a"): MaxWait is -1ns; want 0 to 24h0m0s`},
		{Rule{Resource: "a", MaxInFlight: 1, MaxWait: 24*time.Hour + 1}, `isolation rule 0 (on "a"): MaxWait is 24h0m0.000000001s; want 0 to 24h0m0s`},
		{Rule{Resource: "a", MaxInFlight: 1, MaxWait: 1, MaxQueue: -1}, `isolation rule 0 (on "a"): MaxQueue is -1; want 1 to 1000000, or 0 for 1000`},
		{Rule{Resource: "a", MaxInFlight: 1, MaxWait: 1, MaxQueue: 1_000_001}, `isolation rule 0 (on "a"): MaxQueue is 1000001; want 1 to 1000000, or 0 for 1000`},
		{Rule{Resource: "a", MaxInFlight: 1, MaxQueue: 1}, `isolation rule 0 (on "a"): MaxQueue is 1; want 0, since it is for rules with MaxWait`},
		{Rule{Resource: "a", MaxInFlight: 1, Mode: 3}, `isolation rule 0 (on "a"): Mode is 3; want Enforce (0), Shadow (1) or Off (2)`},
		{Rule{Resource: "a", MaxInFlight: 1, Match: 5}, `isolation rule 0 (on "a"): Match is 5; want Exact (0), Glob (1), Regexp (2), Default (3) or All (4)`},
		{Rule{ID: "few", MaxInFlight: 1}, `isolation rule 0 ("few"): Resource is ""; want a name of 1 to 1024 bytes`},
		{Rule{Resource: "a", Match: rule.Default, MaxInFlight: 1}, `isolation rule 0 (on "a"): Resource is "a"; want "*" or nothing with Match Default or All`},
		{
			Rule{Resource: "(", Match: rule.Regexp, MaxInFlight: 1},
			"isolation rule 0 (on \"(\"): Resource is \"(\"; want a good regexp: error parsing regexp: missing closing ): `(`",
		},
		{
			Rule{Resource: long, MaxInFlight: 1},
			fmt.Sprintf(`isolation rule 0 (on "%.64s…"): Resource is "%.64s…"; want a name of 1 to 1024 bytes`, long, long),
		},
		{
			Rule{ID: long, Resource: "a", MaxInFlight: 1},
			fmt.Sprintf(`isolation rule 0 ("%.64s…" on "a"): ID is "%.64s…"; want at most 1040 bytes`, long, long),
		},
	} {
		err := validate([]Rule{tt.rule})
		require.EqualError(t, err, tt.want)
		require.ErrorIs(t, err, rule.ErrFault)
		var faults rule.Faults
		require.ErrorAs(t, err, &faults)
		require.Len(t, faults, 1)
	}
	require.NoError(t, validate(nil))
	require.NoError(t, validate([]Rule{
		{Resource: "a", MaxInFlight: MaxInFlight, MaxWait: maxMaxWait, MaxQueue: maxMaxQueue, Mode: rule.Off},
		{Resource: "a", MaxInFlight: 1},
		{Match: rule.Default, MaxInFlight: 1},
		{Resource: "*", Match: rule.Default, MaxInFlight: 1},
		{Resource: strings.Repeat("x", 1024), ID: strings.Repeat("y", rule.MaxIDLength), MaxInFlight: 1},
	}))
}

func TestValidate_AllFaultsAtOnceAndNothingIsLoaded(t *testing.T) {
	t.Parallel()
	g := newGate(t, true, Rule{Resource: "a", MaxInFlight: 3})
	before := g.guard.Rules()
	changes, err := load(g.guard, []Rule{
		{Resource: "a", MaxInFlight: 0, MaxWait: -1, Mode: 7},
		{Resource: "a", MaxInFlight: 5},
		{ID: "a/2", MaxInFlight: 1},
	})
	require.EqualError(t, err, `isolation rule 0 (on "a"): MaxInFlight is 0; want 1 to 1000000000
isolation rule 0 (on "a"): MaxWait is -1ns; want 0 to 24h0m0s
isolation rule 0 (on "a"): Mode is 7; want Enforce (0), Shadow (1) or Off (2)
isolation rule 2 ("a/2"): Resource is ""; want a name of 1 to 1024 bytes
isolation rule 2 ("a/2"): ID is "a/2"; want one that is not the ID of rule 1`)
	require.Empty(t, changes.Names)
	require.Equal(t, before, g.guard.Rules())
	require.Equal(t, func() error { _, err := load(g.guard, []Rule{{}}); return err }(), validate([]Rule{{}}))
	require.Len(t, g.hold(t, "a", 5), 3)
}

func TestRules_AreCopiesWithTheirIDs(t *testing.T) {
	t.Parallel()
	given := []Rule{
		{Resource: "a", MaxInFlight: 1},
		{ID: "own", Resource: "a", MaxInFlight: 2, MaxWait: time.Second, Mode: rule.Shadow, Source: "file"},
		{Match: rule.Default, MaxInFlight: 3},
		{Resource: "a*", Match: rule.Glob, MaxInFlight: 4},
	}
	g := newGate(t, true, given...)
	given[0].MaxInFlight = 99
	want := []Rule{
		{ID: "a/1", Resource: "a", MaxInFlight: 1},
		{ID: "own", Resource: "a", MaxInFlight: 2, MaxWait: time.Second, Mode: rule.Shadow, Source: "file"},
		{ID: "*/1", Resource: "*", Match: rule.Default, MaxInFlight: 3},
		{ID: "a*/1", Resource: "a*", Match: rule.Glob, MaxInFlight: 4},
	}
	got := g.guard.Rules()
	require.Equal(t, want, got)
	got[0].MaxInFlight = 98
	require.Equal(t, want, g.guard.Rules())
	require.Len(t, g.hold(t, "a", 5), 1)
	g.load(t, g.guard.Rules()...)
	require.Empty(t, g.hold(t, "a", 5))
	given[0].MaxInFlight = 2 // changed in place, and loaded again
	g.load(t, given...)
	require.Len(t, g.hold(t, "a", 5), 1)
}

func TestGuard_SnapshotTellsWhatIsUsed(t *testing.T) {
	t.Parallel()
	g := newGate(t, true, Rule{ID: "places", Resource: "a", MaxInFlight: 5})
	for i := range int64(3) {
		defer g.try(t, "a", 1).Exit()
		require.Equal(t, i+1, g.rule(t, "a", "places").Used)
	}
}
