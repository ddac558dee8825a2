package rulefile

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

func TestWrite_EveryRule(t *testing.T) {
	t.Parallel()
	yaml, err := YAML(everyRule())
	require.NoError(t, err)
	requireText(t, `flow:
  - id: a
    resource: "GET /*"
    match: glob
    origin: other
    threshold: 150
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
    highMemory: 2GiB
  - id: d
    resource: d
    threshold: 0
    associated: e
    mode: off
isolation:
  - id: i
    resource: ".*"
    match: regexp
    maxInFlight: 5
    maxWait: 1s
    maxQueue: 50
  - id: "404"
    match: default
    maxInFlight: 1000
`, string(yaml))
	text, err := JSON(leapgate.Rules{
		Flow:      []flow.Rule{{Resource: "a"}, {Resource: "b<>", Threshold: 0.25, Interval: 24 * time.Hour}},
		Isolation: everyRule().Isolation,
	})
	require.NoError(t, err)
	requireText(t, `{
  "flow": [
    {"resource": "a", "threshold": 0},
    {"resource": "b<>", "threshold": 0.25, "interval": "24h"}
  ],
  "isolation": [
    {"id": "i", "resource": ".*", "match": "regexp", "maxInFlight": 5, "maxWait": "1s", "maxQueue": 50},
    {"id": "404", "match": "default", "maxInFlight": 1000}
  ]
}
`, string(text))
	requireRoundTrip(t, everyRule())
}

func TestWrite_NoRules(t *testing.T) {
	t.Parallel()
	yaml, err := YAML(leapgate.Rules{})
	require.NoError(t, err)
	requireText(t, "flow: []\n", string(yaml))
	text, err := JSON(leapgate.Rules{})
	require.NoError(t, err)
	requireText(t, "{\"flow\": []}\n", string(text))
	requireRoundTrip(t, leapgate.Rules{})
}

// requireText demands the text, not what it means.
func requireText(t *testing.T, want, got string) {
	t.Helper()
	require.Equal(t, strings.Split(want, "\n"), strings.Split(got, "\n"))
}

// requireRoundTrip demands that rules are the same after they were written and read.
func requireRoundTrip(t require.TestingT, rules leapgate.Rules) {
	yaml, err := YAML(rules)
	require.NoError(t, err)
	back, err := Parse("r.yaml", yaml)
	require.NoError(t, err, "%s", yaml)
	require.Equal(t, rules, back, "%s", yaml)

	text, err := JSON(rules)
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	back, err = Parse("r.json", text)
	require.NoError(t, err, "%s", text)
	require.Equal(t, rules, back, "%s", text)
}

func TestWrite_AnyRulesComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringN(1, 20, 200), rapid.SampledFrom([]string{
			"true", "Off", "on", "null", "~", "404", "1s", "1e5", "0x1", "2020-01-01", "- a", "a: b", "a #b", "*", "&a", "!x", "|", "'", `"`, "\n",
			" a", "a ", "<<", "=", "?", "#", "@a", "`", "{", "[x]", "1_0", ".5", "a\u2028b", "\u007f", "\u0085", "512MiB", "y", "\ufeff", "😀", "\u0000", "/a", "..", "---",
		}))
		span := rapid.Map(rapid.Int64Range(1, int64(24*time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
		mode := rapid.SampledFrom([]rule.Mode{rule.Enforce, rule.Shadow, rule.Off})
		var rules leapgate.Rules
		ids := map[string]bool{}
		id := func() string {
			s := "id " + name.Draw(t, "id")
			if ids[s] {
				return ""
			}
			ids[s] = true
			return s
		}
		for range rapid.IntRange(0, 3).Draw(t, "flow") {
			r := flow.Rule{
				ID: id(), Resource: name.Draw(t, "resource"), Origin: name.Draw(t, "origin"), Mode: mode.Draw(t, "mode"),
				Threshold: rapid.Float64Range(0, math.MaxFloat64).Draw(t, "threshold"), Candidate: rapid.Float64Range(0, 1e6).Draw(t, "candidate"),
				Interval: max(time.Millisecond, span.Draw(t, "interval")), Buckets: 1, Strict: rapid.Bool().Draw(t, "strict"),
			}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				r.Strategy, r.WarmUpPeriod = flow.WarmUp, max(time.Second, span.Draw(t, "period"))
				r.ColdFactor = rapid.Float64Range(1.1, 1000).Draw(t, "factor")
			case 1:
				r.Strategy, r.HighMemoryThreshold = flow.MemoryAdaptive, 1e-9
				r.Threshold, r.Candidate = r.Threshold+1, 0
				r.LowMemory = rapid.Int64Range(1, 1<<50).Draw(t, "low")
				r.HighMemory = r.LowMemory + rapid.Int64Range(1, 1<<50).Draw(t, "more")
			case 2:
				r.Behavior, r.Strict, r.MaxWait = flow.Pace, false, span.Draw(t, "wait")
			}
			rules.Flow = append(rules.Flow, r)
		}
		for range rapid.IntRange(0, 3).Draw(t, "isolation") {
			r := isolation.Rule{
				ID: id(), Resource: name.Draw(t, "resource"), Mode: mode.Draw(t, "mode"),
				MaxInFlight: rapid.Int64Range(1, isolation.MaxInFlight).Draw(t, "places"), MaxWait: span.Draw(t, "wait"),
			}
			if r.MaxWait > 0 {
				r.MaxQueue = rapid.IntRange(0, 1_000_000).Draw(t, "queue")
			}
			rules.Isolation = append(rules.Isolation, r)
		}
		requireRoundTrip(t, rules)
	})
}

func TestWrite_WhatNoFileCanHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules leapgate.Rules
		want  string
	}{
		{leapgate.Rules{Flow: []flow.Rule{{}, {Resource: "a\xff"}}}, `leapgate: bad rule file: flow rule 1: resource is "a\xff", which is not UTF-8`},
		{leapgate.Rules{Flow: []flow.Rule{{Threshold: math.NaN()}}}, `leapgate: bad rule file: flow rule 0: threshold: NaN; want a finite number`},
		{leapgate.Rules{Isolation: []isolation.Rule{{Mode: 7}}}, `leapgate: bad rule file: isolation rule 0: mode: unknown mode 7; want 0 to 2`},
	} {
		_, err := YAML(c.rules)
		require.EqualError(t, err, c.want)
		require.ErrorIs(t, err, ErrRuleFile)
		_, err = JSON(c.rules)
		require.EqualError(t, err, c.want)
	}
}

// What is written can be a part of larger JSON.
func TestJSON_InAnAnswer(t *testing.T) {
	t.Parallel()
	type answer struct{ Rules json.RawMessage }
	rules, err := JSON(everyRule())
	require.NoError(t, err)
	text, err := json.Marshal(answer{rules})
	require.NoError(t, err)
	var back answer
	require.NoError(t, json.Unmarshal(text, &back))
	again, err := Parse("", back.Rules)
	require.NoError(t, err)
	require.Equal(t, everyRule(), again)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestYAML_EveryCharacterComesBack(t *testing.T) {
	t.Parallel()
	var name strings.Builder
	for r := range rune(0x20000) {
		if r >= 0x3000 && r < 0xfe00 { // letters, and halves of pairs
			continue
		}
		name.WriteRune(r)
		if name.Len() < 1000 {
			continue
		}
		data, err := YAML(leapgate.Rules{Flow: []flow.Rule{{Resource: name.String(), Threshold: 1}}})
		require.NoError(t, err)
		back, err := Parse("rules.yaml", data)
		require.NoError(t, err, "%s", data)
		require.Equal(t, name.String(), back.Flow[0].Resource)
		name.Reset()
	}
}
