package rulefile

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

const everyField = `
flow:
  - id: a
    resource: GET /*
    match: glob
    origin: other
    threshold: 1.5e2
    candidate: 0.5
    interval: 1m30s
    buckets: 9
    strict: true
    mode: shadow
  - id: b
    resource: b
    threshold: 100
    behavior: pace
    maxWait: 500ms
    strategy: warm-up
    warmUpPeriod: 10s
    coldFactor: 4
  - id: c
    resource: c
    threshold: 100
    strategy: memory-adaptive
    highMemoryThreshold: 10
    lowMemory: 512MiB
    highMemory: 2147483648
  - id: d
    resource: d
    threshold: 0
    associated: e
    mode: off
isolation:
  - id: i
    resource: .*
    match: regexp
    maxInFlight: 5
    maxWait: 1s
    maxQueue: 50
    mode: enforce
  - {id: "404", match: default, maxInFlight: 1e3}
`

func everyRule() leapgate.Rules {
	return leapgate.Rules{
		Flow: []flow.Rule{
			{
				ID: "a", Resource: "GET /*", Match: rule.Glob, Origin: flow.OtherOrigins, Threshold: 150, Candidate: 0.5,
				Interval: 90 * time.Second, Buckets: 9, Strict: true, Mode: rule.Shadow,
			},
			{
				ID: "b", Resource: "b", Threshold: 100, Behavior: flow.Pace, MaxWait: 500 * time.Millisecond,
				Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second, ColdFactor: 4,
			},
			{
				ID: "c", Resource: "c", Threshold: 100, Strategy: flow.MemoryAdaptive,
				HighMemoryThreshold: 10, LowMemory: 512 << 20, HighMemory: 2 << 30,
			},
			{ID: "d", Resource: "d", Associated: "e", Mode: rule.Off},
		},
		Isolation: []isolation.Rule{
			{ID: "i", Resource: ".*", Match: rule.Regexp, MaxInFlight: 5, MaxWait: time.Second, MaxQueue: 50},
			{ID: "404", Match: rule.Default, MaxInFlight: 1000},
		},
	}
}

func TestParse_EveryField(t *testing.T) {
	t.Parallel()
	rules, err := Parse("rules.yaml", []byte(everyField))
	require.NoError(t, err)
	require.Equal(t, everyRule(), rules)
	require.Equal(t, 6, rules.Len())
}

func TestParse_JSONWithTabsIsTheSame(t *testing.T) {
	t.Parallel()
	text := "\ufeff{\n\t\"flow\": [\n\t\t{\"id\":\t\"a\", \"resource\": \"GET \\/ü\", \"threshold\": 5, \"mode\": \"off\"}\n\t],\r\n\t\"isolation\": null\n}\n"
	for _, name := range []string{"rules.json", "rules.JSON", "rules.yaml", "rules", ""} {
		rules, err := Parse(name, []byte(text))
		require.NoError(t, err, name)
		require.Equal(t, leapgate.Rules{Flow: []flow.Rule{{ID: "a", Resource: "GET /ü", Threshold: 5, Mode: rule.Off}}}, rules)
	}
}

func TestParse_NoRulesOnPurpose(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"[]", "flow: []", "isolation: []", "flow: []\nisolation: []", "flow: null\nisolation: []",
		`{"flow": []}`, `{"flow": null, "isolation": []}`, "# all of them went\nflow: [] # for now\n",
	} {
		rules, err := Parse("rules.yaml", []byte(text))
		require.NoError(t, err, "%q", text)
		require.Zero(t, rules.Len())
	}
}

// A file that was emptied, or cut off, must not lift all rules.
func TestParse_NoRulesByAccident(t *testing.T) {
	t.Parallel()
	const empty, none = "f: the file is empty; want rules, or flow: [] if none are meant", "f:1:1: the file has no rules; want rules, or flow: [] if none are meant"
	for text, want := range map[string]string{
		"": empty, " \n\t\r\n": empty, "\ufeff": empty, "# nothing yet\n": empty, "---\n# nothing\n": empty, "---": empty, "null": empty, "~": empty,
		"...": empty, "{}": none, "flow: null": none, "flow: ~\nisolation: null": none, `{"flow": null}`: none,
		"flow:":                "f:1:1: flow is empty; want a list of rules, or [] if none are meant",
		"flow: []\nisolation:": "f:2:1: isolation is empty; want a list of rules, or [] if none are meant",
		"flow:\n#  - id: a\n":  "f:1:1: flow is empty; want a list of rules, or [] if none are meant",
		"rules: none":          `f:1:1: unknown field "rules"; want flow, isolation, breaker, param or system`,
		"flow: [{resource: a, threshold: 1}]\nisolation:\n": "f:2:1: isolation is empty; want a list of rules, or [] if none are meant",
	} {
		_, err := Parse("f", []byte(text))
		require.EqualError(t, err, want, "%q", text)
		require.ErrorIs(t, err, ErrRuleFile)
	}
	for _, text := range []string{"", " \n", "null"} {
		_, err := Parse("f.json", []byte(text))
		require.EqualError(t, err, "f.json: the file is empty; want rules, or flow: [] if none are meant", "%q", text)
	}
}

// What is wrong, as it is told.
func TestParse_Errors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"every kind of slip at once", `flow:
  - id: orders
    resource: GET /orders
    treshold: 3
    maxwait: 1s
    interval: 5
    mode: Off
  - id: orders
    resource: "*"
    match: glob
    threshold: -1
    buckets: 7
    coldFactor: 3
    strategy: warm-up
  - resource: x
    threshold: 1
    threshold: 2
    coldFactor: 5
    lowMemory: 5MB
    behaviour: pace
    origin:
    source: me
isolation:
  - resource: a
  - 5
  - resource: "["
    match: glob
    maxInFlight: "5"
  - resource: "b"
    maxInFlight: 0
    maxWait: 25h
  - {resource: "c", maxInFlight: 1, maxQueue: 5}
  - {resource: "d", maxInFlight: 1, maxWait: 1s, maxQueue: 1000001}
extra: 1
flow: 3
`, []string{
			`4:5: flow rule "orders": unknown field "treshold"; did you mean threshold?`,
			`5:5: flow rule "orders": unknown field "maxwait"; did you mean maxWait?`,
			`6:15: flow rule "orders": interval is 5; want a duration such as "250ms", "1s" or "1h30m"; a number has no unit`,
			`7:11: flow rule "orders": mode is "Off"; want enforce, shadow or off, in small letters`,
			`8:5: flow rule "orders": warmUpPeriod is missing; want 1s to 24h with strategy warm-up`,
			`8:9: flow rule "orders": the rule in line 2 has the same id; want another`,
			`11:16: flow rule "orders": threshold is -1; want a finite number of at least 0`,
			`12:14: flow rule "orders": buckets is 7; want a number that divides 1s into buckets of at least 1ms, such as 5`,
			`17:5: flow rule on "x": threshold is there twice, first in line 16`,
			`18:17: flow rule on "x": coldFactor is 5; want nothing, it is for strategy warm-up`,
			`19:16: flow rule on "x": lowMemory is "5MB"; want a number of bytes, or text such as "512MiB" or "2GiB"; the units are B, KiB, MiB, GiB and TiB`,
			`20:5: flow rule on "x": unknown field "behaviour"; did you mean behavior?`,
			`21:12: flow rule on "x": origin is empty; want a value, or the line left out`,
			`22:5: flow rule on "x": unknown field "source"; want one of id, resource, match, origin, threshold, candidate, interval, buckets, strict, behavior, maxWait, strategy, warmUpPeriod, coldFactor, highMemoryThreshold, lowMemory, highMemory, associated, mode`,
			`24:5: isolation rule on "a": maxInFlight is missing; want how many calls may be in flight`,
			`25:5: 5 in the list of isolation rules; want a rule: a mapping with resource and maxInFlight`,
			`26:15: isolation rule on "[": resource is "["; want a good glob: a [ without its ]`,
			`28:18: isolation rule on "[": maxInFlight is "5"; want a whole number, without quotes`,
			`30:18: isolation rule on "b": maxInFlight is 0; want 1 to 1000000000`,
			`31:14: isolation rule on "b": maxWait is "25h"; want 0 to 24h`,
			`32:47: isolation rule on "c": maxQueue is 5; want nothing, it is for rules with maxWait`,
			`33:60: isolation rule on "d": maxQueue is 1000001; want 1 to 1000000, or 0 for 1000`,
			`34:1: unknown field "extra"; want flow, isolation, breaker, param or system`,
			`35:1: flow is there twice, first in line 1`,
		}},
		{"numbers and text", `flow:
  - {resource: a, threshold: .inf}
  - {resource: a, threshold: 1_000}
  - {resource: a, threshold: 0x10}
  - {resource: a, threshold: 1e999}
  - {resource: a, threshold: 1, interval: 1d, lowMemory: 1.5GiB, highMemory: 9999999999TiB}
  - {resource: a, id: 5, threshold: '5', strict: yes, buckets: 1.5}
  - {resource: a, threshold: 1, interval: "5", buckets: 99999999999, match: 1}
  - {resource: [a], threshold: true, mode: {}}
`, []string{
			`2:30: flow rule on "a": threshold is .inf; want a decimal number, such as 100 or 0.5`,
			`3:30: flow rule on "a": threshold is 1_000; want a decimal number, such as 100 or 0.5`,
			`4:30: flow rule on "a": threshold is 0x10; want a decimal number, such as 100 or 0.5`,
			`5:30: flow rule on "a": threshold is 1e999; want a number that is not so large`,
			`6:43: flow rule on "a": interval is "1d"; want a duration such as "250ms", "1s" or "1h30m"; the largest unit is h`,
			`6:58: flow rule on "a": lowMemory is "1.5GiB"; want a number of bytes, or text such as "512MiB" or "2GiB"; whole numbers only`,
			`6:78: flow rule on "a": highMemory is "9999999999TiB"; want a number of bytes, or text such as "512MiB" or "2GiB"; whole numbers only`,
			`7:23: flow rule on "a": id is 5; want text: "5", in quotes`,
			`7:37: flow rule on "a": threshold is "5"; want a decimal number, such as 100 or 0.5, without quotes`,
			`7:50: flow rule on "a": strict is "yes"; want true or false, without quotes`,
			`7:64: flow rule on "a": buckets is 1.5; want a whole number`,
			`8:43: flow rule on "a": interval is "5"; want a duration such as "250ms", "1s" or "1h30m"; there is no unit, perhaps "5s" is meant`,
			`8:57: flow rule on "a": buckets is 99999999999; want a whole number of at most 2147483647`,
			`8:77: flow rule on "a": match is 1; want exact, glob, regexp, default or all`,
			`9:16: flow rule: resource is a list; want text`,
			`9:32: flow rule: threshold is true; want a decimal number, such as 100 or 0.5`,
			`9:44: flow rule: mode is empty; want enforce, shadow or off`,
		}},
		{"rules that contradict themselves", `flow:
  - {resource: a, threshold: 5, associated: a, maxWait: 1s, strict: true}
  - {resource: a, threshold: 5, interval: 50h}
  - {threshold: 5}
  - {resource: x, match: default, threshold: 5}
  - {resource: a, threshold: 5, strategy: memory-adaptive, highMemoryThreshold: 6, highMemory: 5}
  - {resource: "(", match: regexp, threshold: 5}
  - {resource: a, id: a/1, threshold: 5}
`, []string{
			`2:45: flow rule on "a": associated is "a"; want another resource than the rule's own`,
			`2:57: flow rule on "a": maxWait is "1s"; want nothing, it is for rules without associated`,
			`2:69: flow rule on "a": strict is true; want nothing, it is for rules without associated`,
			`3:43: flow rule on "a": interval is "50h"; want 1ms to 24h`,
			`4:5: flow rule: resource is missing; want a name of 1 to 1024 bytes`,
			`5:16: flow rule on "x": resource is "x"; want "*" or nothing with match default or all`,
			`6:5: flow rule on "a": lowMemory is missing; want 1 byte or more`,
			`6:81: flow rule on "a": highMemoryThreshold is 6; want less than threshold, which is 5`,
			"7:16: flow rule on \"(\": resource is \"(\"; want a good regexp: error parsing regexp: missing closing ): `(`",
			`8:23: flow rule "a/1": the rule in line 2 has the same id; want another`,
		}},
		{"a bound that cannot be read beside one that is too large", `system:
  - match: all
    maxCPU: 90
    maxRT: soon
    maxQPS: -1
  - match: all
    maxPressure: much
breaker:
  - resource: a
    errorRatio: 50
    slowRatio: half
  - resource: a
    slowRatio: half
    maxOpenFor: 1s
`, []string{
			`3:13: system rule: maxCPU is 90; want more than 0 and at most 1, or 0 for none`,
			`4:12: system rule: maxRT is "soon"; want a duration such as "250ms", "1s" or "1h30m"`,
			`5:13: system rule: maxQPS is -1; want 1 to 1000000000, or 0 for none`,
			`7:18: system rule: maxPressure is "much"; want a decimal number, such as 100 or 0.5`,
			`10:17: breaker rule on "a": errorRatio is 50; want more than 0 and at most 1, or 0 for none`,
			`11:16: breaker rule on "a": slowRatio is "half"; want a decimal number, such as 100 or 0.5`,
			`13:16: breaker rule on "a": slowRatio is "half"; want a decimal number, such as 100 or 0.5`,
			`14:17: breaker rule on "a": maxOpenFor is "1s"; want openFor, which is 5s, to 24h, or 0 for openFor`,
		}},
		{"it is no rule file", "- resource: x\n", []string{`1:1: a list; want a mapping with flow, isolation, breaker, param and system`}},
		{"it is Sentinel's", `[{"resource": "x", "count": 5, "grade": 1}]`, []string{
			`1:1: a list; want a mapping with flow, isolation, breaker, param and system; these look like the rules of Sentinel, which leapgate convert translates`,
		}},
		{"text alone", "hello", []string{`1:1: text; want a mapping with flow, isolation, breaker, param and system`}},
		{"no list", "flow: 3\nisolation: {}\nflows: []", []string{
			`1:7: flow is a number; want a list of rules`,
			`2:12: isolation is a mapping; want a list of rules`,
			`3:1: unknown field "flows"; want flow, isolation, breaker, param or system; did you mean flow?`,
		}},
		{"a pattern without quotes", "flow:\n  - resource: *\n", []string{`2:16: bad YAML: did not find expected alphabetic or numeric character; put text that starts with * or & in quotes`}},
		{"a control character in a name", "flow: [{resource: a, \"b\\u202e\\e[31m\": 1, threshold: 1}]", []string{
			`1:22: flow rule on "a": unknown field "b\u202e\x1b[31m"; want one of id, resource, match, origin, threshold, candidate, interval, buckets, strict, behavior, maxWait, strategy, warmUpPeriod, coldFactor, highMemoryThreshold, lowMemory, highMemory, associated, mode`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rules, err := Parse("r.yaml", []byte(c.text))
			require.Error(t, err)
			require.Zero(t, rules)
			require.ErrorIs(t, err, ErrRuleFile)
			for i, line := range c.want {
				c.want[i] = "r.yaml:" + line
			}
			require.Equal(t, c.want, strings.Split(err.Error(), "\n"))
		})
	}
}

// JSON and YAML that say the same have their errors at the same places.
func TestParse_PositionsOfJSON(t *testing.T) {
	t.Parallel()
	text := []byte("{\n\t\"flow\": [\n\t\t{\"ünit\": 1, \"resource\": \"x\", \"threshold\": -1},\n\t\t{\"resource\": \"\"}]}")
	_, asJSON := Parse("r.json", text)
	require.EqualError(t, asJSON, `r.json:3:4: flow rule on "x": unknown field "ünit"; want one of id, resource, match, origin, threshold, candidate, interval, buckets, strict, behavior, maxWait, strategy, warmUpPeriod, coldFactor, highMemoryThreshold, lowMemory, highMemory, associated, mode
r.json:3:45: flow rule on "x": threshold is -1; want a finite number of at least 0
r.json:4:3: flow rule: threshold is missing; want how many calls are admitted per interval; 0 blocks all
r.json:4:16: flow rule: resource is ""; want a name of 1 to 1024 bytes`)
	// With a comment it is YAML.
	_, asYAML := Parse("r.yaml", append(text, " # a comment"...))
	require.EqualError(t, asYAML, strings.ReplaceAll(asJSON.Error(), "r.json", "r.yaml"))
}

// A wait that only calls with priority have is rarely what is meant.
func TestParse_MaxWaitWithReject(t *testing.T) {
	t.Parallel()
	_, err := Parse("f", []byte("flow:\n- {id: a, resource: a, threshold: 1, maxWait: 2s}\n- {id: b, resource: a, threshold: 1, maxWait: 25h, behavior: pace}\n"+
		"- {id: c, resource: a, threshold: 1, maxWait: -1s, behavior: reject}"))
	require.EqualError(t, err, `f:2:47: flow rule "a": maxWait is "2s"; want 0 to 1s; is behavior: pace meant?
f:3:47: flow rule "b": maxWait is "25h"; want 0 to 24h
f:4:47: flow rule "c": maxWait is "-1s"; want 0 to 1s; is behavior: pace meant?`)
}

func TestParse_FaultsOfRulesAreFound(t *testing.T) {
	t.Parallel()
	_, err := Parse("r.yaml", []byte("flow: [{resource: a, threshold: -1}, {resource: '', threshold: 1, unknown: 5}]\nisolation: [{resource: a, maxInFlight: 0}]"))
	var fault *rule.Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "Threshold", fault.Field)
	require.ErrorIs(t, err, rule.ErrFault)
	var first *Error
	require.ErrorAs(t, err, &first)
	require.Equal(t, Error{File: "r.yaml", Line: 1, Column: 33, Field: "threshold", Message: first.Message, Err: fault}, *first)

	_, err = Parse("r.yaml", []byte("flow: 5"))
	require.NotErrorAs(t, err, &fault)
	require.NotErrorIs(t, err, rule.ErrFault)
}

func TestParse_ManyErrorsAreNotAllTold(t *testing.T) {
	t.Parallel()
	_, err := Parse("r.yaml", []byte("flow: ["+strings.Repeat("1,\n", 1000)+"]"))
	var errs Errors
	require.ErrorAs(t, err, &errs)
	require.Len(t, errs, 101)
	require.Equal(t, "r.yaml:100:1: and 900 more errors", errs[100].Error())
}

func TestParse_TooLarge(t *testing.T) {
	t.Parallel()
	_, err := Parse("r.yaml", make([]byte, document.MaxSize+1))
	require.EqualError(t, err, "r.yaml: the file is larger than 4 MiB")
	_, err = Parse("r.yaml", []byte("flow: ["+strings.Repeat("1,", document.MaxValues)+"]"))
	require.EqualError(t, err, "r.yaml: more than 250000 values; split the file")
	_, err = Parse("r.json", []byte("["+strings.Repeat("1,", document.MaxValues)+"1]"))
	require.EqualError(t, err, "r.json:1:500000: more than 250000 values; split the file")
	_, err = Parse("r.yaml", []byte(strings.Repeat("[", 1000)))
	require.EqualError(t, err, "r.yaml:1:33: bad YAML: exceeded max depth of 32")
	_, err = Parse("r.json", []byte(strings.Repeat("[", 1000)+strings.Repeat("]", 1000)))
	require.EqualError(t, err, "r.json:1:33: more than 32 lists and mappings in each other")
}

func TestError_FilesWithNamesFromOutside(t *testing.T) {
	t.Parallel()
	_, err := Parse("a\n\x1b[2J.yaml", []byte("flow: 5"))
	require.EqualError(t, err, `"a\n\x1b[2J.yaml":1:7: flow is a number; want a list of rules`)
	require.EqualError(t, &Error{Message: "no file"}, "no file")
	_, err = Parse("", []byte("flow: 5"))
	require.EqualError(t, err, "line 1, column 7: flow is a number; want a list of rules")
}

func TestNearest(t *testing.T) {
	t.Parallel()
	k := kindNamed("flow")
	for given, want := range map[string]string{
		"Threshold": "threshold", "max_wait": "maxWait", "warm-up-period": "warmUpPeriod", "count": "threshold", "limitApp": "origin",
		"treshold": "threshold", "recource": "resource", "inetrval": "interval", "strictt": "strict",
		"xyz": "", "": "", "io": "", "tershodl": "",
	} {
		require.Equal(t, want, nearest(given, k.names, k.synonyms), given)
	}
}
