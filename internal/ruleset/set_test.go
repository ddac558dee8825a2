package ruleset

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// limited is what the tests load: a limit of at least 0, and a size of at most 9
// that is 5 if it is left out.
type limited struct {
	ID, Resource, Source string
	Limit, Size          int
	Match                rule.Match
	Mode                 rule.Mode
}

// controller remembers what it was compiled from.
type controller struct {
	resource.Check // nil: nobody asks
	rule           limited
	name           string
	old            *controller
	had            bool
	cause          resource.Cause
}

func (c *controller) Cause() *resource.Cause { return &c.cause }

func (c *controller) Mode() rule.Mode {
	if c.rule.Limit > 0 {
		return rule.Enforce
	}
	return rule.Off
}

type set struct{ *Set[limited] }

func (s set) load(given []limited) (changed names.Set, err error) {
	load, faults := s.Prepare(given)
	if faults != nil {
		return changed, faults
	}
	return load(), nil
}

func newSet() set {
	return set{New(&Kind[limited]{
		Name: "test",
		Head: func(r *limited) field.Head {
			return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
		},
		Complete: complete,
		Compile: func(_ *Env, r *limited, name string, before resource.Check) resource.Check {
			old, had := before.(*controller)
			if had && old.rule == *r {
				return old
			}
			return &controller{rule: *r, name: name, old: old, had: had, cause: resource.Cause{RuleID: r.ID}}
		},
	}, Env{})}
}

func complete(r *limited, report *Report) {
	if r.Limit < 0 {
		report.Fault("Limit", r.Limit, "at least 0")
	}
	if r.Size == 0 {
		r.Size = 5
	}
	if r.Size > 9 {
		report.Fault("Size", r.Size, "at most 9")
	}
}

// forOf returns the controllers of a resource that has old ones.
func forOf(s set, name string, old []*controller) (controllers []*controller, named bool) {
	var before []resource.Check
	for _, c := range old {
		before = append(before, c)
	}
	checks, named := s.Bind(name, before)
	for _, c := range checks {
		controllers = append(controllers, c.(*controller))
	}
	return controllers, named
}

// of returns the controllers of a resource that appears.
func of(s set, name string) []*controller {
	controllers, _ := forOf(s, name, nil)
	return controllers
}

// inShort returns faults without what they say to programs.
func inShort(err error) (short rule.Faults) {
	var faults rule.Faults
	errors.As(err, &faults)
	for _, f := range faults {
		short = append(short, &rule.Fault{
			Kind: f.Kind, Index: f.Index, ID: f.ID, Resource: f.Resource, Field: f.Field, Value: f.Value, Want: f.Want,
		})
	}
	return short
}

// load loads rules that are good, and tells which resources changed, sorted.
func load(t *testing.T, s set, rules ...limited) []string {
	t.Helper()
	changed, err := s.load(rules)
	require.NoError(t, err)
	return slices.Sorted(slices.Values(changed.Names))
}

func TestSet_Empty(t *testing.T) {
	t.Parallel()
	s := newSet()
	require.Empty(t, s.Rules())
	require.Empty(t, of(s, "a"))
	require.Empty(t, load(t, s), "nil to nil")
	require.Empty(t, s.Rules())
}

func TestSet_IDsAndDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	s := newSet()
	given := []limited{{Resource: "a"}, {Resource: "b", Size: 1}, {Resource: "a", ID: "mine"}, {Resource: "a"}, {Resource: "b"}}
	require.Equal(t, []string{"a", "b"}, load(t, s, given...))
	require.Equal(t, []limited{
		{ID: "a/1", Resource: "a", Size: 5},
		{ID: "b/1", Resource: "b", Size: 1},
		{ID: "mine", Resource: "a", Size: 5},
		{ID: "a/3", Resource: "a", Size: 5},
		{ID: "b/2", Resource: "b", Size: 5},
	}, s.Rules())
	require.Empty(t, given[0].ID, "the caller's list is not written to")
	require.Zero(t, given[0].Size)
	require.Empty(t, of(s, "c"))
	require.Empty(t, of(s, ""))

	var ids []string
	for _, c := range of(s, "a") {
		require.False(t, c.had)
		ids = append(ids, c.rule.ID)
	}
	require.Equal(t, []string{"a/1", "mine", "a/3"}, ids, "in the order of the rules")

	// What Rules returns can be loaded again and is the same.
	before := of(s, "a")
	require.Empty(t, load(t, s, s.Rules()...))
	require.Equal(t, before, of(s, "a"))
}

func TestSet_AllFaultsOfAllRulesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSet()
	load(t, s, limited{Resource: "a", Limit: 1}, limited{Resource: "b", Limit: 2})
	rules, a := s.Rules(), of(s, "a")

	_, err := s.load([]limited{
		{Resource: "a", Limit: 7}, // would be a change
		{Limit: -1, Size: 10},
		{ID: "x", Resource: "b", Size: 11},
		{ID: "x", Resource: "c"},
		{ID: "c/2", Resource: "d"},
		{Resource: "c"},
		{ID: "a/1", Resource: "e"},
		{ID: "x", Resource: "e", Limit: -2},
	})
	require.Equal(t, rule.Faults{
		{Kind: "test", Index: 1, Field: "Resource", Value: "", Want: "a name of 1 to 1024 bytes"},
		{Kind: "test", Index: 1, Field: "Limit", Value: -1, Want: "at least 0"},
		{Kind: "test", Index: 1, Field: "Size", Value: 10, Want: "at most 9"},
		{Kind: "test", Index: 2, ID: "x", Resource: "b", Field: "Size", Value: 11, Want: "at most 9"},
		{Kind: "test", Index: 3, ID: "x", Resource: "c", Field: "ID", Value: "x", Want: "one that is not the ID of rule 2"},
		{Kind: "test", Index: 5, Resource: "c", Field: "ID", Value: "c/2", Want: "one that is not the ID of rule 4"},
		{Kind: "test", Index: 6, ID: "a/1", Resource: "e", Field: "ID", Value: "a/1", Want: "one that is not the ID of rule 0"},
		{Kind: "test", Index: 7, ID: "x", Resource: "e", Field: "Limit", Value: -2, Want: "at least 0"},
		{Kind: "test", Index: 7, ID: "x", Resource: "e", Field: "ID", Value: "x", Want: "one that is not the ID of rule 3"},
	}, inShort(err))

	// Nothing is half-applied.
	require.Equal(t, rules, s.Rules())
	require.Equal(t, a, of(s, "a"))
	require.Same(t, a[0], of(s, "a")[0])
	require.Empty(t, of(s, "d"))
	require.Empty(t, load(t, s, limited{Resource: "a", Limit: 1}, limited{Resource: "b", Limit: 2}), "still what is loaded")
}

// The same shape as what is loaded, so the short way is taken; with faults.
func TestSet_FaultsInRulesOfTheSameShape(t *testing.T) {
	t.Parallel()
	s := newSet()
	load(t, s, limited{Resource: "a", Limit: 1}, limited{Resource: "b", Limit: 2}, limited{Resource: "b", ID: "x"})
	a, b := of(s, "a"), of(s, "b")
	_, err := s.load([]limited{{Resource: "a", Limit: 7}, {Resource: "b", Limit: -1}, {Resource: "b", ID: "x", Limit: -2, Size: 10}})
	require.Equal(t, rule.Faults{
		{Kind: "test", Index: 1, Resource: "b", Field: "Limit", Value: -1, Want: "at least 0"},
		{Kind: "test", Index: 2, ID: "x", Resource: "b", Field: "Limit", Value: -2, Want: "at least 0"},
		{Kind: "test", Index: 2, ID: "x", Resource: "b", Field: "Size", Value: 10, Want: "at most 9"},
	}, inShort(err))
	require.Same(t, a[0], of(s, "a")[0])
	require.Same(t, b[0], of(s, "b")[0])
	require.Same(t, b[1], of(s, "b")[1])
	require.Equal(t, 1, s.Rules()[0].Limit)
}

// The ID that the second rule has had all the time is now given to the first.
func TestSet_FaultInARuleThatIsAsBefore(t *testing.T) {
	t.Parallel()
	s := newSet()
	load(t, s, limited{Resource: "b"}, limited{Resource: "a"})
	_, err := s.load([]limited{{ID: "a/1", Resource: "b"}, {Resource: "a"}})
	require.Equal(t, rule.Faults{
		{Kind: "test", Index: 1, Resource: "a", Field: "ID", Value: "a/1", Want: "one that is not the ID of rule 0"},
	}, inShort(err))
}

func TestSet_UnchangedRuleKeepsItsController(t *testing.T) {
	t.Parallel()
	list := []limited{{Resource: "a", Limit: 1}, {Resource: "b", Limit: 2}, {Resource: "b", ID: "x", Limit: 3}}
	for name, c := range map[string]struct {
		then    []limited
		changed []string
		kept    []string // IDs of rules that have the controller they had
		taken   []string // IDs of rules that were compiled with the one they had
	}{
		"none":               {list, nil, []string{"a/1", "b/1", "x"}, nil},
		"threshold changed":  {[]limited{list[0], {Resource: "b", Limit: 9}, list[2]}, []string{"b"}, []string{"a/1", "x"}, []string{"b/1"}},
		"all changed":        {[]limited{{Resource: "a"}, {Resource: "b"}, {Resource: "b", ID: "x"}}, []string{"a", "b"}, nil, []string{"a/1", "b/1", "x"}},
		"added at the end":   {append(slices.Clone(list), limited{Resource: "c"}), []string{"c"}, []string{"a/1", "b/1", "x"}, nil},
		"added in front":     {append([]limited{{Resource: "c"}}, list...), []string{"c"}, []string{"a/1", "b/1", "x"}, nil},
		"added to one":       {append(slices.Clone(list), limited{Resource: "a"}), []string{"a"}, []string{"a/1", "b/1", "x"}, nil},
		"removed":            {list[1:], []string{"a"}, []string{"b/1", "x"}, nil},
		"removed from one":   {list[:2], []string{"b"}, []string{"a/1", "b/1"}, nil},
		"all removed":        {nil, []string{"a", "b"}, nil, nil},
		"resources in order": {[]limited{list[1], list[2], list[0]}, nil, []string{"a/1", "b/1", "x"}, nil},
		"rules reordered":    {[]limited{list[0], {Resource: "b", ID: "x", Limit: 3}, {Resource: "b", ID: "b/1", Limit: 2}}, []string{"b"}, []string{"a/1", "x", "b/1"}, nil},
		"the ID spelled out": {[]limited{{Resource: "a", ID: "a/1", Limit: 1}, list[1], list[2]}, nil, []string{"a/1", "b/1", "x"}, nil},
		"moved elsewhere":    {[]limited{list[0], list[1], {Resource: "c", ID: "x", Limit: 3}}, []string{"b", "c"}, []string{"a/1", "b/1"}, []string{"x"}},
		"another ID":         {[]limited{list[0], list[1], {Resource: "b", ID: "y", Limit: 3}}, []string{"b"}, []string{"a/1", "b/1"}, nil},
		"one for another":    {[]limited{list[0], list[1], {Resource: "c"}}, []string{"b", "c"}, []string{"a/1", "b/1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSet()
			load(t, s, list...)
			old := controllersOf(s)
			require.Equal(t, c.changed, load(t, s, c.then...))
			var kept, taken []string
			for id, now := range controllersOf(s) {
				switch {
				case now == old[id]:
					kept = append(kept, id)
				case now.had:
					require.Same(t, old[id], now.old)
					taken = append(taken, id)
				default:
					require.Nil(t, now.old)
					require.NotContains(t, old, id)
				}
			}
			require.ElementsMatch(t, c.kept, kept)
			require.ElementsMatch(t, c.taken, taken)
		})
	}
}

func controllersOf(s set) map[string]*controller {
	all := make(map[string]*controller)
	for _, r := range s.Rules() {
		for _, c := range of(s, r.Resource) {
			all[c.rule.ID] = c
		}
	}
	return all
}

// A default that is spelled out says the same as one that is left out. It must not
// matter whether the list has the shape of the loaded one.
func TestSet_DefaultSpelledOutIsNoChange(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]limited{"same shape": nil, "another shape": {{Resource: "b"}}} {
		s := newSet()
		load(t, s, limited{Resource: "a"})
		before := of(s, "a")[0]
		changed := load(t, s, append([]limited{{Resource: "a", Size: 5}}, more...)...)
		require.NotContains(t, changed, "a", name)
		require.Same(t, before, of(s, "a")[0], name)
	}
}

// Compared by address, such a rule would be taken for unchanged.
func TestSet_RuleMutatedInPlaceAndLoadedAgain(t *testing.T) {
	t.Parallel()
	s := newSet()
	list := []limited{{Resource: "a", Limit: 1}, {Resource: "b", Limit: 2}}
	load(t, s, list...)
	before := of(s, "a")[0]

	list[0].Limit = 7
	require.Equal(t, 1, s.Rules()[0].Limit, "nothing changes before it is loaded")
	require.Same(t, before, of(s, "a")[0])
	changed, err := s.load(list)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, changed.Names)
	require.Equal(t, 7, s.Rules()[0].Limit)
	require.Equal(t, 7, of(s, "a")[0].rule.Limit)

	list[0].Limit = 8 // once more, after the short way
	changed, err = s.load(list)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, changed.Names)

	list[0].Resource = "c"
	changed, err = s.load(list)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "c"}, changed.Names)
}

func TestSet_RuleChangedAndChangedBack(t *testing.T) {
	t.Parallel()
	s := newSet()
	for _, limit := range []int{1, 2, 1, 1, 2} {
		before := of(s, "c")
		changed := load(t, s, limited{Resource: "a"}, limited{Resource: "b", Limit: limit}, limited{Resource: "b"}, limited{Resource: "c", Limit: limit})
		require.Equal(t, limit, s.Rules()[1].Limit)
		require.Equal(t, limit, of(s, "b")[0].rule.Limit)
		require.Equal(t, limit, of(s, "c")[0].rule.Limit)
		switch {
		case len(before) == 0:
			require.Equal(t, []string{"a", "b", "c"}, changed)
		case before[0].rule.Limit == limit:
			require.Empty(t, changed)
		default:
			require.Equal(t, []string{"b", "c"}, changed)
		}
	}
}

func TestSet_WhatIsGivenOutIsACopy(t *testing.T) {
	t.Parallel()
	s := newSet()
	load(t, s, limited{Resource: "a", Limit: 1}, limited{Resource: "a", Limit: 2})
	rules, controllers := s.Rules(), of(s, "a")
	rules[0].Limit, rules[0].Resource = 100, "z"
	first := controllers[0]
	controllers[0] = nil
	require.Equal(t, limited{ID: "a/1", Resource: "a", Limit: 1, Size: 5}, s.Rules()[0])
	require.Same(t, first, of(s, "a")[0])
	require.Empty(t, load(t, s, limited{Resource: "a", Limit: 1}, limited{Resource: "a", Limit: 2}))
}

func TestSet_NilClears(t *testing.T) {
	t.Parallel()
	s := newSet()
	load(t, s, limited{Resource: "a"}, limited{Resource: "b"})
	old := of(s, "a")[0]
	require.Equal(t, []string{"a", "b"}, load(t, s))
	require.Empty(t, s.Rules())
	require.Empty(t, of(s, "a"))
	require.Equal(t, []string{"a"}, load(t, s, limited{Resource: "a"}))
	require.NotSame(t, old, of(s, "a")[0], "what was cleared is forgotten")
	require.False(t, of(s, "a")[0].had)
}

// The race: a load against readers. They see the one list or the other, never a
// rule of each, whichever way the load takes.
func TestSet_HammerReadersAgainstLoads(t *testing.T) {
	t.Parallel()
	const loads = 3000
	for name, shape := range map[string]bool{"same shape": true, "another shape": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSet()
			lists := [2][]limited{}
			for i := range 10 {
				lists[0] = append(lists[0], limited{Resource: "a", Limit: 1})
				lists[1] = append(lists[1], limited{Resource: "a", Limit: 2})
				if !shape && i%2 == 0 {
					lists[1] = append(lists[1], limited{Resource: "b", Limit: 2})
				}
			}
			load(t, s, lists[0]...)
			var stop atomic.Bool
			var done sync.WaitGroup
			for range 4 {
				done.Go(func() {
					for !stop.Load() {
						rules, controllers := s.Rules(), of(s, "a")
						for _, r := range rules {
							if r.Limit != rules[0].Limit {
								t.Error("rules of two lists")
							}
						}
						for _, c := range controllers {
							if c.rule.Limit != controllers[0].rule.Limit {
								t.Error("controllers of two lists")
							}
						}
						if len(controllers) != 10 {
							t.Error("rules are lost")
						}
					}
				})
			}
			for i := range loads {
				if _, err := s.load(lists[(i+1)%2]); err != nil {
					t.Error(err)
				}
			}
			stop.Store(true)
			done.Wait()
		})
	}
}

// Not parallel: allocations are counted for the whole process.
func TestSet_ReloadOfALongListCostsAComparison(t *testing.T) {
	s := newSet()
	var list []limited
	for i := range 10_000 {
		list = append(list, limited{Resource: string(rune('a' + i%20)), Limit: i})
	}
	load(t, s, list...)
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() {
		if changed, err := s.load(list); changed.Names != nil || err != nil {
			t.Error(changed, err)
		}
	}), 2.0)
}
