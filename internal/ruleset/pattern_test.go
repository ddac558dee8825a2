package ruleset

import (
	"runtime"
	"sync"
	"testing"

	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"

	"github.com/stretchr/testify/require"
)

// idsOf are those of the rules that bind a resource, in the order of asking.
func idsOf(controllers []*controller) (ids []string) {
	for _, c := range controllers {
		ids = append(ids, c.rule.ID)
	}
	return ids
}

func ruleOn(id, text string, match rule.Match) limited {
	return limited{ID: id, Resource: text, Match: match, Limit: 1}
}

func TestSet_PatternsComeAfterExactRules(t *testing.T) {
	t.Parallel()
	s := newSet()
	changes, err := s.load([]limited{
		ruleOn("g", "a*", rule.Glob),
		{ID: "x", Resource: "ab"},
		ruleOn("d", "*", rule.Default),
		ruleOn("r", ".b", rule.Regexp),
		{ID: "y", Resource: "ab", Limit: 1},
		{ID: "z", Resource: "c"},
	})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"ab", "c"}, changes.Names)
	require.True(t, changes.Matching("anything"), "there is a default")
	for name, want := range map[string][]string{
		"ab": {"x", "y", "g", "r"}, // y is enforced
		"c":  {"z", "d"},           // z is not
		"xb": {"d", "r"},
		"q":  {"d"},
	} {
		controllers, named := forOf(s, name, nil)
		require.Equal(t, want, idsOf(controllers), name)
		require.Equal(t, name == "ab" || name == "c", named, name)
	}
}

// IDs are numbered by what a rule says in its Resource, be it a name or a pattern.
func TestSet_NumbersOfPatterns(t *testing.T) {
	t.Parallel()
	s := newSet()
	load(t, s, limited{Resource: "a"}, ruleOn("", "a", rule.Glob), limited{Resource: "a"}, ruleOn("", "a", rule.Regexp))
	var ids []string
	for _, r := range s.Rules() {
		ids = append(ids, r.ID)
	}
	require.Equal(t, []string{"a/1", "a/2", "a/3", "a/4"}, ids)
	require.Equal(t, []string{"a/1", "a/3", "a/2", "a/4"}, idsOf(of(s, "a")))
	require.Empty(t, load(t, s, s.Rules()...), "and back")
}

// Which resources are to be bound anew, by what changed among the patterns.
func TestSet_ChangesOfPatterns(t *testing.T) {
	t.Parallel()
	a, b, ab := ruleOn("a", "a*", rule.Glob), ruleOn("b", "b*", rule.Glob), ruleOn("ab", "[ab]*", rule.Glob)
	d := ruleOn("d", "*", rule.Default)
	altered := a
	altered.Limit = 2
	x := limited{ID: "x", Resource: "x", Limit: 1}
	for name, c := range map[string]struct {
		before, after []limited
		want          string // which of a1, b1 and c1
	}{
		"none":                          {[]limited{a, b, x}, []limited{x, a, b}, ""},
		"one comes":                     {[]limited{a}, []limited{a, b}, "b1"},
		"one goes":                      {[]limited{a, b}, []limited{b}, "a1"},
		"one is another":                {[]limited{a, b}, []limited{altered, b}, "a1"},
		"the order":                     {[]limited{ab, a}, []limited{a, ab}, "a1 b1 c1"},
		"the order, and one comes":      {[]limited{ab, a}, []limited{a, ab, ruleOn("c", "c*", rule.Glob)}, "a1 b1 c1"},
		"the order, and one goes":       {[]limited{ab, a, b}, []limited{a, ab}, "a1 b1 c1"},
		"one comes between":             {[]limited{ab, a}, []limited{ab, b, a}, "b1"},
		"a default comes":               {[]limited{a}, []limited{a, d}, "a1 b1 c1"},
		"a pattern becomes a name":      {[]limited{a}, []limited{{ID: "a", Resource: "a1", Limit: 1}}, "a1"},
		"an exact rule changes, no pat": {[]limited{x, a}, []limited{{ID: "x", Resource: "x", Limit: 2}, a}, ""},
	} {
		s := newSet()
		load(t, s, c.before...)
		changes, err := s.load(c.after)
		require.NoError(t, err)
		got := ""
		for _, resource := range []string{"a1", "b1", "c1"} {
			if changes.Matching != nil && changes.Matching(resource) {
				got += " " + resource
			}
		}
		require.Equal(t, c.want, trimmed(got), name)
	}
}

func trimmed(s string) string {
	if s == "" {
		return s
	}
	return s[1:]
}

// What a pattern remembers of a resource lives in the resource's controllers: a rule
// with the same ID gets the old one, and only that.
func TestSet_PatternsTakeOverFromTheResource(t *testing.T) {
	t.Parallel()
	s := newSet()
	g := ruleOn("g", "*", rule.Glob)
	load(t, s, g, ruleOn("h", "*", rule.Glob))
	a, b := of(s, "a"), of(s, "b")
	require.NotSame(t, a[0], b[0], "each resource has its own")
	again, _ := forOf(s, "a", a)
	require.Same(t, a[0], again[0])
	require.Same(t, a[1], again[1])

	g.Limit = 2
	load(t, s, ruleOn("h", "*", rule.Glob), g, limited{ID: "new", Resource: "a"})
	now, _ := forOf(s, "a", a)
	require.Equal(t, []string{"new", "h", "g"}, idsOf(now))
	require.Same(t, a[1], now[1])
	require.NotSame(t, a[0], now[2])
	require.Same(t, a[0], now[2].old, "the changed one has its predecessor at hand")
	fresh := of(s, "a")
	require.Nil(t, fresh[2].old, "a resource that has just appeared has none")

	// An exact rule that had a pattern's ID, or a pattern that had an exact one's.
	load(t, s, limited{ID: "g", Resource: "a"})
	exact := of(s, "a")
	require.Nil(t, exact[0].old)
	require.False(t, exact[0].had)
}

// A controller takes over from another what that remembers, and may change it at once:
// the limit of calls that queue, for instance. So it must not be compiled for rules that
// are gone, after it was for those that took their place.
func TestSet_PatternsAreCompiledInTheOrderOfLoads(t *testing.T) {
	t.Parallel()
	s := newSet()
	compile := s.kind.Compile
	began, done := make(chan struct{}), make(chan struct{})
	overtaken := false
	s.kind.Compile = func(env *Env, r *limited, name string, old resource.Check) resource.Check {
		if r.Limit == 1 {
			close(began)
			for i := 0; i < 100_000 && !overtaken; i++ { // long enough for the load, if it does not wait
				select {
				case <-done:
					overtaken = true
				default:
					runtime.Gosched()
				}
			}
		}
		return compile(env, r, name, old)
	}
	load(t, s, ruleOn("g", "*", rule.Glob))
	var wg sync.WaitGroup
	wg.Go(func() { of(s, "a") })
	<-began
	wg.Go(func() {
		defer close(done)
		g := ruleOn("g", "*", rule.Glob)
		g.Limit = 2
		load(t, s, g)
	})
	wg.Wait()
	require.False(t, overtaken)
}

// So does a list of many patterns: a rule file of 4 MB could take gigabytes.
func TestSet_SizeOfAllPatterns(t *testing.T) {
	t.Parallel()
	s := newSet()
	few := make([]limited, 2)
	for i := range few {
		few[i] = ruleOn("", "a{1000}", rule.Regexp)
	}
	load(t, s, few...)
	many := make([]limited, 501)
	for i := range many {
		many[i] = ruleOn("", "a{1000}", rule.Regexp)
	}
	_, err := s.load(many)
	require.EqualError(t, err, `test rule 499 (on "a{1000}"): Resource is "a{1000}"; want fewer or smaller patterns: up to this one they have 500500 steps, and may have 500000`)
	require.Len(t, s.Rules(), 2)
	load(t, s, many[:499]...)
}
