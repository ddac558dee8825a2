package rulefile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/rule"
)

// As it is written, too.
const everyBreakerField = `breaker:
  - id: all
    resource: "GET /*"
    match: glob
    interval: 1m
    buckets: 6
    minCalls: 20
    errorRatio: 0.5
    slowRatio: 0.8
    slowAfter: 1.5s
    errorCount: 1000
    consecutive: 25
    openFor: 10s
    maxOpenFor: 5m
    probes: 5
    probeTimeout: 2s
    ramp: 30s
    force: open
    mode: shadow
  - id: throttle
    match: default
    behavior: throttle
    k: 1.5
    maxReject: 0.95
    force: closed
    mode: off
`

func everyBreaker() leapgate.Rules {
	return leapgate.Rules{Breaker: []breaker.Rule{
		{
			ID: "all", Resource: "GET /*", Match: rule.Glob, Interval: time.Minute, Buckets: 6, MinCalls: 20,
			ErrorRatio: 0.5, SlowRatio: 0.8, SlowAfter: 1500 * time.Millisecond, ErrorCount: 1000, Consecutive: 25,
			OpenFor: 10 * time.Second, MaxOpenFor: 5 * time.Minute, Probes: 5, ProbeTimeout: 2 * time.Second, Ramp: 30 * time.Second,
			Force: breaker.Open, Mode: rule.Shadow,
		},
		{ID: "throttle", Match: rule.Default, Behavior: breaker.Throttle, K: 1.5, MaxReject: 0.95, Force: breaker.Closed, Mode: rule.Off},
	}}
}

func TestBreakers_EveryFieldIsReadAndWritten(t *testing.T) {
	t.Parallel()
	rules, err := Parse("r.yaml", []byte(everyBreakerField))
	require.NoError(t, err)
	require.Equal(t, everyBreaker(), rules)
	text, err := YAML(rules)
	require.NoError(t, err)
	requireText(t, everyBreakerField, string(text))
	requireRoundTrip(t, rules)
}

func TestBreakers_AnyComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Map(rapid.Int64Range(int64(time.Millisecond), int64(24*time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
		long := func(name string) time.Duration {
			if rapid.Bool().Draw(t, "with "+name) {
				return span.Draw(t, name)
			}
			return 0
		}
		ratio := rapid.Float64Range(1e-300, 1)
		count := rapid.Int64Range(0, 1_000_000_000)
		r := breaker.Rule{
			Resource: "a", Interval: max(10*time.Millisecond, long("interval")).Truncate(10 * time.Millisecond), MinCalls: count.Draw(t, "minCalls"),
			ErrorRatio: ratio.Draw(t, "errorRatio"), ErrorCount: count.Draw(t, "errorCount"), Consecutive: count.Draw(t, "consecutive"),
			OpenFor: long("openFor"), Probes: rapid.Int64Range(0, 1000).Draw(t, "probes"), ProbeTimeout: long("probeTimeout"), Ramp: long("ramp"),
			Behavior: rapid.SampledFrom([]breaker.Behavior{breaker.Break, breaker.Throttle}).Draw(t, "behavior"),
			K:        rapid.Float64Range(1, 1000).Draw(t, "k"), MaxReject: ratio.Draw(t, "maxReject"),
			Force: rapid.SampledFrom([]breaker.Force{breaker.None, breaker.Open, breaker.Closed}).Draw(t, "force"),
		}
		if r.OpenFor > 0 && rapid.Bool().Draw(t, "with maxOpenFor") {
			r.MaxOpenFor = max(r.OpenFor, span.Draw(t, "maxOpenFor"))
		}
		if r.SlowAfter = long("slowAfter"); r.SlowAfter > 0 {
			r.SlowRatio = ratio.Draw(t, "slowRatio")
		}
		requireRoundTrip(t, leapgate.Rules{Breaker: []breaker.Rule{r}})
	})
}
