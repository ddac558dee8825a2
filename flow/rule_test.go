package flow_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// bad rules, and what must be said of each, after "flow rule N".
var bad = []struct {
	rule flow.Rule
	want []string
}{
	{flow.Rule{Threshold: 1}, []string{`: Resource is ""; want a name of 1 to 1024 bytes`}},
	{flow.Rule{ID: "nowhere", Threshold: 1}, []string{` ("nowhere"): Resource is ""; want a name of 1 to 1024 bytes`}},
	{
		flow.Rule{Resource: strings.Repeat("r", 1025)},
		[]string{` (on "` + strings.Repeat("r", 64) + `…"): Resource is "` + strings.Repeat("r", 64) + `…"; want a name of 1 to 1024 bytes`},
	},
	{
		flow.Rule{ID: strings.Repeat("i", 2000), Resource: "a"},
		[]string{` ("` + strings.Repeat("i", 64) + `…" on "a"): ID is "` + strings.Repeat("i", 64) + `…"; want at most 1040 bytes`},
	},
	{flow.Rule{ID: "x", Resource: "a", Threshold: math.NaN()}, []string{` ("x" on "a"): Threshold is NaN; want a finite number of at least 0`}},
	{flow.Rule{Resource: "a", Threshold: math.Inf(1)}, []string{` (on "a"): Threshold is +Inf; want a finite number of at least 0`}},
	{flow.Rule{Resource: "a", Threshold: math.Inf(-1)}, []string{` (on "a"): Threshold is -Inf; want a finite number of at least 0`}},
	{flow.Rule{Resource: "a", Threshold: -1}, []string{` (on "a"): Threshold is -1; want a finite number of at least 0`}},
	{flow.Rule{Resource: "a", Threshold: -math.SmallestNonzeroFloat64}, []string{` (on "a"): Threshold is -5e-324; want a finite number of at least 0`}},
	{flow.Rule{Resource: "a", Mode: 3}, []string{` (on "a"): Mode is 3; want Enforce (0), Shadow (1) or Off (2)`}},
	{flow.Rule{Resource: "a", Mode: 255}, []string{` (on "a"): Mode is 255; want Enforce (0), Shadow (1) or Off (2)`}},
	{flow.Rule{Resource: "a", Interval: -time.Second}, []string{` (on "a"): Interval is -1s; want 1ms to 24h0m0s`}},
	{flow.Rule{Resource: "a", Interval: ms - 1, Buckets: 1}, []string{` (on "a"): Interval is 999.999µs; want 1ms to 24h0m0s`}},
	{flow.Rule{Resource: "a", Interval: 24*time.Hour + 1}, []string{` (on "a"): Interval is 24h0m0.000000001s; want 1ms to 24h0m0s`}},
	{flow.Rule{Resource: "a", Buckets: -1}, []string{` (on "a"): Buckets is -1; want 1 to 1000`}},
	{flow.Rule{Resource: "a", Buckets: 1001}, []string{` (on "a"): Buckets is 1001; want 1 to 1000`}},
	{flow.Rule{Resource: "a", Buckets: 7}, []string{` (on "a"): Buckets is 7; want a number that divides 1s into buckets of at least 1ms, such as 5`}},
	{flow.Rule{Resource: "a", Interval: 5 * ms}, []string{` (on "a"): Buckets is 10; want a number that divides 5ms into buckets of at least 1ms, such as 5`}},
	{flow.Rule{Resource: "a", Interval: ms + 1, Buckets: 2}, []string{` (on "a"): Buckets is 2; want a number that divides 1.000001ms into buckets of at least 1ms, such as 1`}},
	{
		flow.Rule{ID: "all", Resource: "", Threshold: -1, Mode: 9, Interval: -1, Buckets: -1},
		[]string{
			` ("all"): Resource is ""; want a name of 1 to 1024 bytes`,
			` ("all"): Threshold is -1; want a finite number of at least 0`,
			` ("all"): Interval is -1ns; want 1ms to 24h0m0s`,
			` ("all"): Buckets is -1; want 1 to 1000`,
			` ("all"): Mode is 9; want Enforce (0), Shadow (1) or Off (2)`,
		},
	},
}

func TestRule_EachFaultAlone(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("kept", 1))
	before := g.FlowRules()
	for _, c := range bad {
		err := g.LoadFlowRules([]flow.Rule{c.rule})
		require.EqualError(t, err, "flow rule 0"+strings.Join(c.want, "\nflow rule 0"))
		require.NotErrorIs(t, err, leapgate.ErrBlocked)
	}
	require.Equal(t, before, g.FlowRules())
}

func TestRule_AllFaultsOfAListAtOnce(t *testing.T) {
	t.Parallel()
	list := []flow.Rule{two("fine", 1)}
	var want []string
	for i, c := range bad {
		list = append(list, c.rule)
		for _, text := range c.want {
			want = append(want, "flow rule "+itoa(i+1)+text)
		}
	}
	// Duplicates: of an explicit ID, of an automatic one, and by an automatic one.
	list = append(list,
		flow.Rule{ID: "x2", Resource: "b"}, flow.Rule{ID: "x2", Resource: "c"},
		flow.Rule{ID: "fine/1", Resource: "c"},
		flow.Rule{ID: "c/4", Resource: "d"}, flow.Rule{Resource: "c"}, flow.Rule{Resource: "c"})
	n := len(bad) + 1
	want = append(want,
		"flow rule "+itoa(n+1)+` ("x2" on "c"): ID is "x2"; want one that is not the ID of rule `+itoa(n),
		"flow rule "+itoa(n+2)+` ("fine/1" on "c"): ID is "fine/1"; want one that is not the ID of rule 0`,
		"flow rule "+itoa(n+5)+` (on "c"): ID is "c/4"; want one that is not the ID of rule `+itoa(n+3))

	g := newGate(t)
	err := g.LoadFlowRules(list)
	require.EqualError(t, err, strings.Join(want, "\n"))
	require.Empty(t, g.FlowRules())
	require.Empty(t, g.Snapshot(), "no resource appears for a rule that was refused")

	var faults rule.Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, len(want))
	var first *rule.Fault
	require.ErrorAs(t, err, &first)
	const name = "a name of 1 to 1024 bytes"
	require.Equal(t, &rule.Fault{
		Kind: "flow", Index: 1, Field: "Resource", Value: "", Code: rule.Invalid, Want: name, FileField: "resource", FileWant: name,
	}, first)
}

func itoa(n int) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}[max(0, 1-n/10):]) }

func TestRule_OfEveryBoundIsLoaded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("r", 1024)
	given := []flow.Rule{
		{Resource: "a"},
		{Resource: "a", Threshold: math.Copysign(0, -1)},
		{Resource: "a", Threshold: math.MaxFloat64, Mode: rule.Off},
		{Resource: "a", Interval: ms, Buckets: 1, Mode: rule.Shadow},
		{Resource: "a", Interval: time.Second, Buckets: 1000},
		{Resource: "a", Interval: 24 * time.Hour, Buckets: 1000, Strict: true},
		{Resource: "a", Interval: ms + 1, Buckets: 1},
		{ID: long, Resource: long},
		{Resource: "\x00\xff\n"},
		{Resource: "a", Interval: ms, Behavior: flow.Pace}, // it has no buckets
		{Resource: "a", Interval: time.Second / 3, Buckets: 7, Behavior: flow.Pace, Strategy: flow.WarmUp, WarmUpPeriod: time.Second},
	}
	g := newGate(t, given...)
	rules := g.FlowRules()
	require.Len(t, rules, len(given))
	require.Equal(t, flow.Rule{ID: "a/1", Resource: "a", Interval: time.Second, Buckets: flow.DefaultBuckets}, rules[0])
	require.Equal(t, flow.Rule{ID: "a/4", Resource: "a", Interval: ms, Buckets: 1, Mode: rule.Shadow}, rules[3])
	require.Equal(t, flow.Rule{ID: "a/6", Resource: "a", Interval: flow.MaxInterval, Buckets: 1000, Strict: true}, rules[5])
	require.Equal(t, flow.Rule{ID: long, Resource: long, Interval: time.Second, Buckets: 10}, rules[7])
	require.NoError(t, g.LoadFlowRules(rules))
	require.Equal(t, rules, g.FlowRules())
}

// FlowRules fills in IDs; what it returns must be good to load, whatever the name.
func TestRule_AutomaticIDOfTheLongestNameCanBeLoadedAgain(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("r", rule.MaxNameLength)
	g := newGate(t, two(long, 3), two(long, 5))
	require.Equal(t, 2, g.try(t, long, 2))
	rules := g.FlowRules()
	require.Equal(t, long+"/1", rules[0].ID)
	require.NoError(t, g.LoadFlowRules(rules))
	require.Equal(t, rules, g.FlowRules())
	require.Equal(t, 1, g.try(t, long, 2), "the same rule, the same window")
}
