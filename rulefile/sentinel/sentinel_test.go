package sentinel

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
)

func requireSentinel(t *testing.T, text string, want leapgate.Rules, notes ...string) {
	t.Helper()
	rules, got, err := Parse("s.json", []byte(text))
	require.NoError(t, err)
	require.Equal(t, want, rules)
	var lines []string
	for _, note := range got {
		lines = append(lines, note.String())
	}
	require.Equal(t, notes, lines)
	require.True(t, Detect("s.json", []byte(text)))
}

func TestParse_Nothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n", "null", "[]"} {
		rules, notes, err := Parse("s.json", []byte(text))
		require.NoError(t, err)
		require.Zero(t, rules)
		require.Empty(t, notes)
		require.False(t, Detect("s.json", []byte(text)))
	}
	rules, notes, err := Parse("", nil)
	require.NoError(t, err)
	require.Zero(t, rules)
	require.Empty(t, notes)
}

func TestParse_NoArray(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"flow": []}`:    "s.json:1:1: a mapping; want Sentinel's rules: a list",
		`[{"count": 5},]`: "s.json:1:15: bad JSON: invalid character ']' looking for beginning of value",
		`["a`:             "s.json:1:3: bad JSON: unexpected end of JSON input",
	} {
		_, _, err := Parse("s.json", []byte(text))
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, rulefile.ErrRuleFile)
		require.False(t, Detect("s.json", []byte(text)))
	}
}

// The flow rules of sentinel-golang, as it writes them.
func TestParse_GoFlow(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"id": "a", "resource": "GET /a", "tokenCalculateStrategy": 0, "controlBehavior": 0, "threshold": 100.5, "relationStrategy": 0, "refResource": "",
	 "maxQueueingTimeMs": 0, "warmUpPeriodSec": 0, "warmUpColdFactor": 0, "statIntervalInMs": 0, "lowMemUsageThreshold": 0,
	 "highMemUsageThreshold": 0, "memLowWaterMarkBytes": 0, "memHighWaterMarkBytes": 0, "regex": false},
	{"resource": "b", "controlBehavior": 1, "threshold": 10, "statIntervalInMs": 60000, "maxQueueingTimeMs": 500},
	{"resource": "c", "tokenCalculateStrategy": 1, "threshold": 10, "warmUpPeriodSec": 30, "warmUpColdFactor": 5, "maxQueueingTimeMs": 500},
	{"resource": "d", "tokenCalculateStrategy": 1, "controlBehavior": 1, "threshold": 10, "warmUpPeriodSec": 30, "statIntervalInMs": 10000},
	{"resource": "e", "tokenCalculateStrategy": 2, "threshold": 0, "lowMemUsageThreshold": 1000, "highMemUsageThreshold": 100, "memLowWaterMarkBytes": 1024, "memHighWaterMarkBytes": 2048},
	{"resource": "f", "threshold": 5, "relationStrategy": 1, "refResource": "g"},
	{"resource": "h", "threshold": 5, "statIntervalInMs": 7},
	{"resource": "p", "threshold": 5, "statIntervalInMs": 7, "controlBehavior": 1},
	{"resource": "i.*", "threshold": 5, "regex": true},
	{"id": "a", "resource": "j", "threshold": 5, "new": [1]},
	{"id": "GET /a/2", "resource": "k", "threshold": 5, "id2": null}
]`, leapgate.Rules{Flow: []flow.Rule{
		{ID: "a", Resource: "GET /a", Threshold: 100.5},
		{Resource: "b", Threshold: 10, Interval: time.Minute, Behavior: flow.Pace, MaxWait: 500 * time.Millisecond},
		{Resource: "c", Threshold: 10, Strategy: flow.WarmUp, WarmUpPeriod: 30 * time.Second, ColdFactor: 5},
		{Resource: "d", Threshold: 10, Interval: 10 * time.Second, Strategy: flow.WarmUp, Behavior: flow.Pace, WarmUpPeriod: 30 * time.Second},
		{Resource: "e", Threshold: 1000, Strategy: flow.MemoryAdaptive, HighMemoryThreshold: 100, LowMemory: 1024, HighMemory: 2048},
		{Resource: "f", Threshold: 5, Associated: "g"},
		{Resource: "h", Threshold: 5, Interval: 7 * time.Millisecond, Buckets: 7},
		{Resource: "p", Threshold: 5, Interval: 7 * time.Millisecond, Behavior: flow.Pace},
		{Resource: "i.*", Match: rule.Regexp, Threshold: 5},
		{Resource: "j", Threshold: 5},
		{Resource: "k", Threshold: 5},
	}},
		`s.json:7:131: changed: flow rule on "d": warm-up goes by the threshold per 10s; Sentinel's goes by calls per second whatever statIntervalInMs is`,
		`s.json:8:46: changed: flow rule on "e": memory in use is what the gate's Config.Memory says; without that, the threshold stays 1000`,
		`s.json:10:56: changed: flow rule on "h": the window of 7ms has 7 buckets; the shortest is 1ms`,
		`s.json:12:47: changed: flow rule on "i.*": the pattern must match the whole name, not a part of it; put .* around it if need be`,
		`s.json:13:9: changed: flow rule on "j": id is "a", as that of a rule before; it gets another`,
		`s.json:13:47: ignored: flow rule on "j": unknown field "new"`,
		`s.json:14:9: changed: flow rule on "k": id is "GET /a/2", like those that Leapgate gives; it gets another`,
	)
}

func TestParse_GoIsolation(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"resource": "a", "metricType": 0, "threshold": 100},
	{"resource": "b", "metricType": 1, "threshold": 100},
	{"resource": "c", "metricType": 0, "threshold": 0},
	{"resource": "d", "metricType": 0, "threshold": 4294967295, "regex": true}
]`, leapgate.Rules{Isolation: []isolation.Rule{
		{Resource: "a", MaxInFlight: 100},
		{Resource: "d", Match: rule.Regexp, MaxInFlight: isolation.MaxInFlight},
	}},
		`s.json:3:34: skipped: isolation rule on "b": metricType is 1; want 0, for calls in flight`,
		`s.json:4:2: skipped: isolation rule on "c": maxInFlight is 0; want 1 to 1000000000`,
		`s.json:5:50: changed: isolation rule on "d": threshold is 4.294967295e+09; the most is 1000000000`,
		`s.json:5:71: changed: isolation rule on "d": the pattern must match the whole name, not a part of it; put .* around it if need be`,
	)
}

// The flow rules of the Java edition, as its dashboard writes them.
func TestParse_JavaFlow(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"id": 1, "app": "shop", "ip": "10.0.0.1", "port": 8719, "limitApp": "default", "resource": "a", "grade": 1, "count": 20.0, "strategy": 0,
	 "refResource": null, "controlBehavior": 0, "warmUpPeriodSec": 10, "maxQueueingTimeMs": 500, "clusterMode": false,
	 "clusterConfig": {"thresholdType": 0}, "gmtCreate": 1, "gmtModified": null},
	{"resource": "b", "count": 20, "limitApp": "app1", "controlBehavior": 1},
	{"resource": "c", "count": 20, "limitApp": "other", "controlBehavior": 2, "maxQueueingTimeMs": 100},
	{"resource": "d", "count": 20, "controlBehavior": 3, "warmUpPeriodSec": 5},
	{"resource": "e", "count": 20, "grade": 0},
	{"resource": "f", "count": 0, "grade": 0},
	{"resource": "g", "count": 20, "strategy": 1, "refResource": "h"},
	{"resource": "i.*", "count": 20, "regex": true},
	{"resource": "j", "count": 20, "grade": 0, "controlBehavior": 2},
	{"resource": "k", "metricType": 1, "count": 5, "relationStrategy": 1, "refResource": "l"},
	{"resource": "m", "count": 0.25, "controlBehavior": 2, "maxQueueingTimeMs": 9000},
	{"resource": "n", "count": 0.00001, "controlBehavior": 3}
]`, leapgate.Rules{
		Flow: []flow.Rule{
			{ID: "1", Resource: "a", Threshold: 20},
			{Resource: "b", Threshold: 20, Origin: "app1", Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second},
			{Resource: "c", Threshold: 20, Origin: flow.OtherOrigins, Behavior: flow.Pace, MaxWait: 100 * time.Millisecond},
			{Resource: "d", Threshold: 20, Strategy: flow.WarmUp, WarmUpPeriod: 5 * time.Second, Behavior: flow.Pace, MaxWait: 500 * time.Millisecond},
			{Resource: "f"},
			{Resource: "g", Threshold: 20, Associated: "h"},
			{Resource: "i.*", Match: rule.Regexp, Threshold: 20},
			{Resource: "k", Threshold: 5, Associated: "l"},
			{Resource: "m", Threshold: 1, Interval: 4 * time.Second, Behavior: flow.Pace, MaxWait: 9 * time.Second},
		},
		Isolation: []isolation.Rule{{Resource: "e", MaxInFlight: 20}, {Resource: "j", MaxInFlight: 20}},
	},
		`s.json:9:29: changed: flow rule on "f": a limit of 0 threads becomes a flow rule that blocks all`,
		`s.json:12:64: ignored: flow rule on "j": controlBehavior is 2; it does nothing with a limit on threads`,
		`s.json:15:29: skipped: flow rule on "n": count is 0.00001; want 0, or one call in 24h`,
	)
}

func TestParse_WhatCannotBeTranslated(t *testing.T) {
	t.Parallel()
	requireSentinel(t, strings.ReplaceAll(`[
|{"resource": "a", "strategy": 3, "retryTimeoutMs": 3000, "minRequestAmount": 10, "statIntervalMs": 1000, "threshold": 0.5},
|{"resource": "b", "count": 0.5, "grade": 3, "timeWindow": 10},
|{"metricType": 0, "triggerCount": 5, "strategy": -1},
|{"highestSystemLoad": 15, "qps": -1},
|{"resource": "c", "metricType": 1, "paramIndex": 0, "threshold": 5},
|{"resource": "d", "count": 5, "grade": 1, "paramIdx": -1},
|{"resource": "e", "resourceMode": 0, "count": 5},
|{"resource": "f", "limitApp": "x,y", "strategy": 0},
|{"resource": "g", "count": 5, "clusterMode": true},
|{"resource": "h", "count": 5, "strategy": 2, "refResource": "web"},
|{"resource": "i", "count": 5, "grade": 0, "limitApp": "x"},
|{"resource": "j", "count": 5, "grade": 0, "strategy": 1},
|{"resource": "k", "count": "5", "grade": 1},
|{"resource": "l", "count": -5, "controlBehavior": 7},
|{"resource": "m", "threshold": 5, "tokenCalculateStrategy": 3},
|{"resource": "n", "threshold": 5, "controlBehavior": 2},
|{"resource": "o", "threshold": 5, "relationStrategy": 2},
|{"resource": "p", "threshold": 5, "relationStrategy": 1},
|{"resource": "q", "threshold": 5, "relationStrategy": 1, "refResource": "r", "statIntervalInMs": 5000},
|{"resource": "q", "threshold": 5, "relationStrategy": 1, "refResource": "r", "controlBehavior": 1},
|{"resource": "s", "threshold": 5, "statIntervalInMs": 90000000},
|{"resource": "t", "threshold": 5, "tokenCalculateStrategy": 1, "warmUpPeriodSec": 0},
|{"resource": "t", "threshold": 5, "tokenCalculateStrategy": 1},
|{"resource": "u", "threshold": 5, "tokenCalculateStrategy": 1, "warmUpPeriodSec": 10, "warmUpColdFactor": 1},
|{"resource": "v", "tokenCalculateStrategy": 2, "lowMemUsageThreshold": 5, "highMemUsageThreshold": 50, "memLowWaterMarkBytes": 1, "memHighWaterMarkBytes": 2},
|{"threshold": 5},
|{"resource": "(", "threshold": 5, "regex": true},
|{"resource": 5, "threshold": 5, "regex": 1},
|{"resource": "w", "count": 5, "strategy": 3},
|{"resource": "x", "count": 5, "grade": 2},
|{"resource": "y", "count": 5, "maxQueueingTimeMs": -1},
|{"resource": "z"},
|7
]`, "|", ""), leapgate.Rules{},
		`s.json:2:31: skipped: breaker rule on "a": strategy is 3; want a whole number from 0 to 2`,
		`s.json:3:42: skipped: breaker rule on "b": grade is 3; want a whole number from 0 to 2`,
		`s.json:4:35: skipped: system rule: it is on the load of the whole machine, which says nothing about a container; maxPressure or maxCPU with strategy limit is nearest to it`,
		`s.json:5:23: skipped: system rule: it is on the load of the whole machine, which says nothing about a container; maxPressure or maxCPU with strategy limit is nearest to it`,
		`s.json:6:1: skipped: hotspot rule on "c": durationInSec is missing`,
		`s.json:7:55: skipped: hotspot rule on "d": paramIdx is -1, which counts from the last argument; Leapgate knows arguments by their names`,
		`s.json:8:35: skipped: gateway rule on "e": there are no such rules in Leapgate`,
		`s.json:9:31: skipped: authority rule on "f": there are no such rules in Leapgate`,
		`s.json:10:46: skipped: flow rule on "g": clusterMode is true; Leapgate counts in one process`,
		`s.json:11:43: skipped: flow rule on "h": strategy is 2: it counts calls that came through "web" only, and Leapgate knows no chains of calls`,
		`s.json:12:55: skipped: flow rule on "i": a limit on threads for the caller "x"; isolation rules are for all callers`,
		`s.json:13:55: skipped: flow rule on "j": a limit on threads of another resource or chain; isolation rules count the calls of their own`,
		`s.json:14:28: skipped: flow rule on "k": count is "5"; want a number`,
		`s.json:15:51: skipped: flow rule on "l": controlBehavior is 7; want 0 to 3`,
		`s.json:16:61: skipped: flow rule on "m": tokenCalculateStrategy is 3; want 0, 1 or 2`,
		`s.json:17:54: skipped: flow rule on "n": controlBehavior is 2; want 0 or 1`,
		`s.json:18:55: skipped: flow rule on "o": relationStrategy is 2; want 0 or 1`,
		`s.json:19:1: skipped: flow rule on "p": refResource is missing`,
		`s.json:20:98: skipped: flow rule on "q": a rule on another resource counts per second; statIntervalInMs is 5000`,
		`s.json:21:73: skipped: flow rule on "q": a rule on another resource can only reject; this one also warms up, paces or goes by memory`,
		`s.json:22:1: skipped: flow rule on "s": interval is 25h0m0s; want 1ms to 24h`,
		`s.json:23:1: skipped: flow rule on "t": warmUpPeriod is 0s; want 1s to 24h with strategy warm-up`,
		`s.json:24:1: skipped: flow rule on "t": warmUpPeriod is 0s; want 1s to 24h with strategy warm-up`,
		`s.json:25:1: skipped: flow rule on "u": coldFactor is 1; want more than 1 and at most 1000`,
		`s.json:26:1: skipped: flow rule on "v": highMemoryThreshold is 50; want less than threshold, which is 5`,
		`s.json:27:1: skipped: flow rule: resource is ""; want a name of 1 to 1024 bytes`,
		"s.json:28:1: skipped: flow rule on \"(\": resource is \"(\"; want a good regexp: error parsing regexp: missing closing ): `(`",
		`s.json:29:14: skipped: flow rule: resource is 5; want text`,
		`s.json:29:42: skipped: flow rule: regex is 1; want true or false`,
		`s.json:30:43: skipped: flow rule on "w": strategy is 3; want 0, 1 or 2`,
		`s.json:31:40: skipped: flow rule on "x": grade is 2; want 0 for threads or 1 for calls per second`,
		`s.json:32:52: skipped: flow rule on "y": maxQueueingTimeMs is -1; want a whole number from 0 to 2147483647`,
		`s.json:33:1: skipped: rule on "z": none of its fields tells what kind of rule it is`,
		`s.json:34:1: skipped: rule: it is 7; want a rule`,
	)
}

func TestDetect_RuleFilesAreNot(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"flow: [{count: 5}]", "- resource: a\n", "[1, 2]", "[[{count: 1}]]", "}"} {
		require.False(t, Detect("r.yaml", []byte(text)), text)
	}
}
