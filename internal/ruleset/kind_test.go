package ruleset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// A fault says what is wrong in the words of Go and in those of rule files.
func TestReport_InBothWords(t *testing.T) {
	t.Parallel()
	s := newSet()
	s.kind.Fields = []field.Field[limited]{
		field.Define(field.Int, func(r *limited) *int { return &r.Limit }, field.About{Name: "limit", GoName: "Limit"}),
		field.Define(field.Int, func(r *limited) *int { return &r.Size }, field.About{Name: "size", GoName: "Size"}),
	}
	s.kind.Complete = func(r *limited, report *Report) {
		report.Fault("Limit", r.Limit, "more than {Size}, which is 5, up to 24h0m0s with {Behavior WarmUp}")
		Unused(report, "Size", r.Size, "{Behavior WarmUp}")
	}
	s = set{New(s.kind, Env{})}
	_, faults := s.Prepare([]limited{{ID: "x", Resource: "{3,}[", Match: rule.Regexp, Size: 7, Mode: 9}, {ID: "x", Resource: "b"}})
	require.Len(t, faults, 6)
	bad, limit, unused, mode, twice := faults[0], faults[1], faults[2], faults[3], faults[5]
	require.Equal(t, []any{rule.BadPattern, "Resource", "resource"}, []any{bad.Code, bad.Field, bad.FileField})
	require.Equal(t, bad.Want, bad.FileWant, "with the braces of the pattern")
	require.Equal(t, []any{rule.Invalid, "Limit", "limit", 0}, []any{limit.Code, limit.Field, limit.FileField, limit.Value})
	require.Equal(t, "more than Size, which is 5, up to 24h0m0s with Behavior WarmUp", limit.Want)
	require.Equal(t, "more than size, which is 5, up to 24h with Behavior warm-up", limit.FileWant)
	require.Equal(t, rule.Unused, unused.Code)
	require.Equal(t, "0, since it is for Behavior WarmUp", unused.Want)
	require.Equal(t, "nothing, it is for Behavior warm-up", unused.FileWant)
	require.Equal(t, "mode", mode.FileField)
	require.Equal(t, []any{rule.Duplicate, 1, 0}, []any{twice.Code, twice.Index, twice.Other})
}

// A resource that a rule reads is kept as if a rule named it, and is bound anew when that
// changes.
func TestSet_ReadsOtherResources(t *testing.T) {
	t.Parallel()
	s := newSet()
	s.kind.Reads = func(r *limited) string { return r.Source }
	named := func(name string) bool {
		_, named := s.Bind(name, nil)
		return named
	}
	require.Equal(t, []string{"a", "b"}, load(t, s, limited{Resource: "a", Source: "b"}))
	require.True(t, named("b"))
	require.Equal(t, []string{"a", "b", "c"}, load(t, s, limited{Resource: "a", Source: "c"}))
	require.False(t, named("b"))
	require.True(t, named("c"))
	require.Empty(t, load(t, s, limited{Resource: "a", Source: "c"}))
	require.Equal(t, []string{"a"}, load(t, s, limited{Resource: "a", Source: "c", Limit: 3}))
	require.Equal(t, []string{"a", "c"}, load(t, s))
	require.False(t, named("c"))
}

// Checks that depend on each other are related for each resource.
func TestSet_RelatesTheChecksOfAResource(t *testing.T) {
	t.Parallel()
	s := newSet()
	s.kind.Relate = func(checks []resource.Check) {
		for i := range checks {
			checks[i] = &controller{rule: checks[i].(*controller).rule, name: "related"}
		}
	}
	load(t, s, limited{Resource: "a"}, ruleOn("", "*", rule.Glob))
	for _, c := range of(s, "a") {
		require.Equal(t, "related", c.name)
	}
	require.Equal(t, "related", of(s, "b")[0].name)
}

func TestNumber_LeavesOutWhatIsTaken(t *testing.T) {
	t.Parallel()
	k := newSet().kind
	rules := []limited{
		{ID: "a/1", Resource: "a"}, {ID: "a/3", Resource: "b"}, // they stay
		{Resource: "a"}, {Resource: "a"}, {Resource: "b"}, {Match: rule.Default}, {ID: "x", Resource: "a"}, {Resource: "a"}, {},
	}
	k.Number(rules, 2)
	var ids []string
	for _, r := range rules {
		ids = append(ids, r.ID)
	}
	require.Equal(t, []string{"a/1", "a/3", "a/2", "a/4", "b/1", "*/1", "x", "a/6", ""}, ids)
}

// The status of a refusal is that of the kind, unless the rule has one of its own.
func TestSet_RefusalsHaveTheStatusOfTheKind(t *testing.T) {
	t.Parallel()
	s := newSet()
	s.kind.Status = 429
	compile := s.kind.Compile
	s.kind.Compile = func(env *Env, r *limited, name string, before resource.Check) resource.Check {
		c := compile(env, r, name, before)
		if r.Size == 9 {
			c.Cause().Status = 503
		}
		return c
	}
	load(t, s, limited{Resource: "a"}, limited{Resource: "b", Size: 9}, ruleOn("", "*", rule.Glob))
	statuses := func(name string) (all []int) {
		for _, c := range of(s, name) {
			all = append(all, c.cause.Status)
		}
		return all
	}
	require.Equal(t, []int{429, 429}, statuses("a"))
	require.Equal(t, []int{503, 429}, statuses("b"))
	require.Equal(t, []int{429}, statuses("c"))
	load(t, s, limited{Resource: "a", Limit: 1}, limited{Resource: "b", Size: 9}, ruleOn("", "*", rule.Glob))
	require.Equal(t, 429, statuses("a")[0], "a changed rule has it too")
}
