package flow_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// with returns a rule of the resource a, changed.
func with(change func(r *flow.Rule)) flow.Rule {
	r := flow.Rule{Resource: "a", Threshold: 10}
	change(&r)
	return r
}

func warmUp(change func(r *flow.Rule)) flow.Rule {
	return with(func(r *flow.Rule) {
		r.Strategy, r.WarmUpPeriod = flow.WarmUp, time.Minute
		change(r)
	})
}

func byMemory(change func(r *flow.Rule)) flow.Rule {
	return with(func(r *flow.Rule) {
		r.Strategy, r.HighMemoryThreshold, r.LowMemory, r.HighMemory = flow.MemoryAdaptive, 5, 100, 200
		change(r)
	})
}

func pattern(match rule.Match, text string) flow.Rule {
	return flow.Rule{Resource: text, Match: match, Threshold: 10}
}

const finite = "a finite number of at least 0"

// faulty are rules with one fault each.
var faulty = []struct {
	rule        flow.Rule
	field, want string
}{
	{with(func(r *flow.Rule) { r.Match = 5 }), "Match", "5; want Exact (0), Glob (1), Regexp (2), Default (3) or All (4)"},
	{pattern(rule.Default, "a"), "Resource", `"a"; want "*" or nothing with Match Default or All`},
	{pattern(rule.Glob, ""), "Resource", `""; want a name of 1 to 1024 bytes`},
	{pattern(rule.Regexp, ""), "Resource", `""; want a name of 1 to 1024 bytes`},
	{pattern(rule.Glob, "a["), "Resource", `"a["; want a good glob: a [ without its ]`},
	{pattern(rule.Glob, `a\`), "Resource", `"a\\"; want a good glob: a \ with nothing after it`},
	{pattern(rule.Glob, "[z-a]"), "Resource", `"[z-a]"; want a good glob: a class of characters that cannot be`},
	{pattern(rule.Regexp, "a("), "Resource", `"a("; want a good regexp: error parsing regexp: missing closing ): ` + "`a(`"},
	{pattern(rule.Regexp, "a)|(?:b"), "Resource", `"a)|(?:b"; want a good regexp: error parsing regexp: unexpected ): ` + "`a)|(?:b`"},
	{pattern(rule.Regexp, "(\x1b[31m\n"), "Resource", `"(\x1b[31m\n"; want a good regexp: "error parsing regexp: missing closing ]: ` + "`[31m\\n`\""},
	{pattern(rule.Regexp, "a{1000}b{1000}"), "Resource", `"a{1000}b{1000}"; want a good regexp: it has 2002 steps when all repetitions are written out; want at most 2000`},
	{with(func(r *flow.Rule) { r.Origin = strings.Repeat("o", 1025) }), "Origin", `"` + strings.Repeat("o", 64) + `…"; want at most 1024 bytes`},
	{with(func(r *flow.Rule) { r.Candidate = -1 }), "Candidate", "-1; want " + finite},
	{with(func(r *flow.Rule) { r.Candidate = math.NaN() }), "Candidate", "NaN; want " + finite},
	{with(func(r *flow.Rule) { r.Candidate = math.Inf(1) }), "Candidate", "+Inf; want " + finite},
	{with(func(r *flow.Rule) { r.Strategy = 3 }), "Strategy", "3; want Direct (0), WarmUp (1) or MemoryAdaptive (2)"},
	{with(func(r *flow.Rule) { r.Behavior = 2 }), "Behavior", "2; want Reject (0) or Pace (1)"},
	{with(func(r *flow.Rule) { r.MaxWait = -1 }), "MaxWait", "-1ns; want 0 to 1s; is behavior: pace meant?"},
	{with(func(r *flow.Rule) { r.MaxWait = time.Second + 1 }), "MaxWait", "1.000000001s; want 0 to 1s; is behavior: pace meant?"},
	{with(func(r *flow.Rule) { r.Behavior, r.MaxWait = flow.Pace, -1 }), "MaxWait", "-1ns; want 0 to 24h0m0s"},
	{with(func(r *flow.Rule) { r.Behavior, r.MaxWait = flow.Pace, 24*time.Hour+1 }), "MaxWait", "24h0m0.000000001s; want 0 to 24h0m0s"},
	{with(func(r *flow.Rule) { r.Behavior, r.Strict = flow.Pace, true }), "Strict", "true; want false with Behavior Pace, which has no window"},
	{warmUp(func(r *flow.Rule) { r.WarmUpPeriod = 0 }), "WarmUpPeriod", "0s; want 1s to 24h0m0s with Strategy WarmUp"},
	{warmUp(func(r *flow.Rule) { r.WarmUpPeriod = time.Second - 1 }), "WarmUpPeriod", "999.999999ms; want 1s to 24h0m0s with Strategy WarmUp"},
	{warmUp(func(r *flow.Rule) { r.WarmUpPeriod = 24*time.Hour + 1 }), "WarmUpPeriod", "24h0m0.000000001s; want 1s to 24h0m0s with Strategy WarmUp"},
	{warmUp(func(r *flow.Rule) { r.ColdFactor = 1 }), "ColdFactor", "1; want more than 1 and at most 1000"},
	{warmUp(func(r *flow.Rule) { r.ColdFactor = 1001 }), "ColdFactor", "1001; want more than 1 and at most 1000"},
	{warmUp(func(r *flow.Rule) { r.ColdFactor = -3 }), "ColdFactor", "-3; want more than 1 and at most 1000"},
	{warmUp(func(r *flow.Rule) { r.ColdFactor = math.NaN() }), "ColdFactor", "NaN; want more than 1 and at most 1000"},
	{with(func(r *flow.Rule) { r.WarmUpPeriod = time.Minute }), "WarmUpPeriod", "1m0s; want 0s, since it is for Strategy WarmUp"},
	{with(func(r *flow.Rule) { r.ColdFactor = 3 }), "ColdFactor", "3; want 0, since it is for Strategy WarmUp"},
	{byMemory(func(r *flow.Rule) { r.ColdFactor = 3 }), "ColdFactor", "3; want 0, since it is for Strategy WarmUp"},
	{with(func(r *flow.Rule) { r.HighMemoryThreshold = 3 }), "HighMemoryThreshold", "3; want 0, since it is for Strategy MemoryAdaptive"},
	{warmUp(func(r *flow.Rule) { r.LowMemory = 3 }), "LowMemory", "3; want 0, since it is for Strategy MemoryAdaptive"},
	{with(func(r *flow.Rule) { r.HighMemory = 3 }), "HighMemory", "3; want 0, since it is for Strategy MemoryAdaptive"},
	{byMemory(func(r *flow.Rule) { r.HighMemoryThreshold = 10 }), "HighMemoryThreshold", "10; want less than Threshold, which is 10"},
	{byMemory(func(r *flow.Rule) { r.Candidate = 5 }), "HighMemoryThreshold", "5; want less than Candidate, which is 5"},
	{byMemory(func(r *flow.Rule) { r.HighMemoryThreshold = -1 }), "HighMemoryThreshold", "-1; want " + finite},
	{byMemory(func(r *flow.Rule) { r.HighMemoryThreshold = math.NaN() }), "HighMemoryThreshold", "NaN; want " + finite},
	{byMemory(func(r *flow.Rule) { r.LowMemory = 0 }), "LowMemory", "0; want 1 byte or more"},
	{byMemory(func(r *flow.Rule) { r.HighMemory = 100 }), "HighMemory", "100; want more than LowMemory, which is 100"},
	{with(func(r *flow.Rule) { r.Associated = "a" }), "Associated", `"a"; want another resource than the rule's own`},
	{with(func(r *flow.Rule) { r.Associated = strings.Repeat("b", 1025) }), "Associated", `"` + strings.Repeat("b", 64) + `…"; want a name of at most 1024 bytes`},
	{with(func(r *flow.Rule) { r.Associated, r.Interval = "b", time.Minute }), "Interval", "1m0s; want 1s with Associated"},
	{warmUp(func(r *flow.Rule) { r.Associated = "b" }), "Strategy", "warm-up; want Direct with Associated"},
	{with(func(r *flow.Rule) { r.Associated, r.Behavior = "b", flow.Pace }), "Behavior", "pace; want Reject with Associated"},
	{with(func(r *flow.Rule) { r.Associated, r.Strict = "b", true }), "Strict", "true; want false, since it is for rules without Associated"},
	{with(func(r *flow.Rule) { r.Associated, r.MaxWait = "b", ms }), "MaxWait", "1ms; want 0s, since it is for rules without Associated"},
}

func TestRule_EachFaultOfTheOtherFieldsAlone(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("kept", 1))
	before := g.FlowRules()
	for _, c := range faulty {
		err := g.LoadFlowRules([]flow.Rule{c.rule})
		require.EqualError(t, err, `flow rule 0`+onOf(c.rule)+": "+c.field+" is "+c.want)
		require.EqualError(t, leapgate.Rules{Flow: []flow.Rule{c.rule}}.Validate(), err.Error())
	}
	require.Equal(t, before, g.FlowRules())
}

func onOf(r flow.Rule) string {
	if r.Resource == "" {
		return ""
	}
	return ` (on ` + strconv.Quote(r.Resource) + `)`
}

func TestRule_AllFaultsOfTheOtherFieldsAtOnce(t *testing.T) {
	t.Parallel()
	var rules []flow.Rule
	var want []string
	for i, c := range faulty {
		c.rule.ID = "r" + itoa(i)
		rules = append(rules, c.rule)
		want = append(want, c.field)
	}
	var faults rule.Faults
	require.ErrorAs(t, newGate(t).LoadFlowRules(rules), &faults)
	var got []string
	for i, f := range faults {
		require.Equal(t, i, f.Index)
		got = append(got, f.Field)
	}
	require.Equal(t, want, got)

	// And all that can be wrong with one rule.
	err := leapgate.Rules{Flow: []flow.Rule{{
		ID: strings.Repeat("i", 1041), Resource: "x[", Match: rule.Glob, Origin: strings.Repeat("o", 1025), Threshold: -1,
		Candidate: -1, Interval: time.Hour, Buckets: 7, Strict: true, Mode: 3, Strategy: flow.WarmUp, Behavior: flow.Pace,
		MaxWait: -1, WarmUpPeriod: -1, ColdFactor: -1, HighMemoryThreshold: 1, LowMemory: 1, HighMemory: 1, Associated: "b",
	}}}.Validate()
	require.ErrorAs(t, err, &faults)
	got = nil
	for _, f := range faults {
		got = append(got, f.Field)
	}
	require.Equal(t, []string{
		"ID", "Resource", "Origin", "Threshold", "Candidate", "WarmUpPeriod", "ColdFactor",
		"HighMemoryThreshold", "LowMemory", "HighMemory", "Strict", "MaxWait", "Interval", "Strategy", "Behavior", "Strict", "MaxWait", "Mode",
	}, got)
}

// What FlowRules returns is good to load, and is the same then.
func TestRule_OfEveryKindGoesRoundAndRound(t *testing.T) {
	t.Parallel()
	given := []flow.Rule{
		with(func(r *flow.Rule) { r.Origin, r.Source = flow.OtherOrigins, "rules.yaml" }),
		with(func(r *flow.Rule) { r.Candidate, r.MaxWait = 3.5, time.Second }),
		with(func(r *flow.Rule) { r.Behavior, r.MaxWait = flow.Pace, 24*time.Hour }),
		warmUp(func(*flow.Rule) {}),
		warmUp(func(r *flow.Rule) {
			r.Behavior, r.ColdFactor, r.WarmUpPeriod = flow.Pace, 1000, 24*time.Hour
		}),
		warmUp(func(r *flow.Rule) { r.ColdFactor, r.WarmUpPeriod = math.Nextafter(1, 2), time.Second }),
		byMemory(func(r *flow.Rule) { r.HighMemoryThreshold = 0 }),
		byMemory(func(r *flow.Rule) { r.LowMemory, r.HighMemory = math.MaxInt64-1, math.MaxInt64 }),
		with(func(r *flow.Rule) { r.Associated = "b" }),
		pattern(rule.Glob, "GET /*"), pattern(rule.Regexp, "(a|b)+"), pattern(rule.Default, ""), pattern(rule.Default, "*"),
		{Match: rule.Glob, Resource: "*", Associated: "b", Mode: rule.Off},
	}
	g := newGate(t, given...)
	rules := g.FlowRules()
	require.Equal(t, 3.0, rules[3].ColdFactor)
	require.Equal(t, "*", rules[11].Resource)
	require.Equal(t, []string{"a/1", "GET /*/1", "(a|b)+/1", "*/1", "*/2", "*/3"},
		[]string{rules[0].ID, rules[9].ID, rules[10].ID, rules[11].ID, rules[12].ID, rules[13].ID})
	require.NoError(t, leapgate.Rules{Flow: rules}.Validate())
	require.NoError(t, g.LoadFlowRules(rules))
	require.Equal(t, rules, g.FlowRules())
	for i := range given {
		given[i].ID, given[i].Resource = rules[i].ID, rules[i].Resource
		given[i].Interval, given[i].Buckets, given[i].ColdFactor = rules[i].Interval, rules[i].Buckets, rules[i].ColdFactor
	}
	require.Equal(t, given, rules, "and nothing else was filled in")
}

// The names of the enumerations, which rule files and JSON have.
func TestRule_NamesOfEnumerations(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"direct", "warm-up", "memory-adaptive"} {
		var s flow.Strategy
		require.NoError(t, s.UnmarshalText([]byte(name)))
		require.Equal(t, flow.Strategy(i), s)
		text, err := s.MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
		require.Equal(t, name, s.String())
	}
	for i, name := range []string{"reject", "pace"} {
		var b flow.Behavior
		require.NoError(t, b.UnmarshalText([]byte(name)))
		require.Equal(t, flow.Behavior(i), b)
		text, err := b.MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
		require.Equal(t, name, b.String())
	}
	var s flow.Strategy
	var b flow.Behavior
	require.ErrorContains(t, s.UnmarshalText([]byte("x")), "direct, warm-up or memory-adaptive")
	require.ErrorContains(t, b.UnmarshalText([]byte("")), "reject or pace")
}
