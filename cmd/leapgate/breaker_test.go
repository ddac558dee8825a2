package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck_BreakerThatNothingOpensIsAFault(t *testing.T) {
	t.Parallel()
	got := invoke("breaker:\n  - {resource: a}\n  - {resource: b, slowRatio: 0.5}\n  - {resource: c, minCalls: -1, errorRatio: 1.5, k: .inf}\n"+
		"  - {resource: d, errorRatio: 2, buckets: 7, probes: 1001}\n", "check", "-")
	require.Equal(t, result{1, "", `<standard input>:2:5: breaker rule on "a": errorRatio is missing; want more than 0 and at most 1, unless one of slowRatio, errorCount and consecutive is set, or behavior throttle
<standard input>:3:5: breaker rule on "b": slowAfter is missing; want more than 0 and at most 24h with slowRatio
<standard input>:4:29: breaker rule on "c": minCalls is -1; want 1 to 1000000000
<standard input>:4:45: breaker rule on "c": errorRatio is 1.5; want more than 0 and at most 1, or 0 for none
<standard input>:4:53: breaker rule on "c": k is .inf; want a decimal number, such as 100 or 0.5
<standard input>:5:31: breaker rule on "d": errorRatio is 2; want more than 0 and at most 1, or 0 for none
<standard input>:5:43: breaker rule on "d": buckets is 7; want a number that divides 10s into buckets of at least 1ms, such as 5
<standard input>:5:54: breaker rule on "d": probes is 1001; want 1 to 1000
`}, got)
}

// Whether there can be so many calls is known from the flow rules that hold for the same resource.
func TestCheck_WarnsOfMinCallsThatAreNeverReached(t *testing.T) {
	t.Parallel()
	const limits = `
flow:
  - {id: db-qps, resource: db, threshold: 5}
  - {id: bounded-qps, resource: bounded, threshold: 1e6}
  - {id: shadowed, resource: shadow, threshold: 5, mode: shadow}
  - {id: one, resource: origin, threshold: 5, origin: x}
  - {id: associated, resource: associated, threshold: 5, associated: db}
  - {id: blocks, resource: blocked, threshold: 0}
  - {id: gets, resource: "GET /*", match: glob, threshold: 1, interval: 1m}
  - {id: "memo\nry", resource: memory, threshold: 5, strategy: memory-adaptive, lowMemory: 1B, highMemory: 2B, behavior: pace}
isolation:
  - {resource: isolated, maxInFlight: 1}
breaker:
`
	for rule, want := range map[string]string{
		"resource: db, errorRatio: 0.5, minCalls: 100":                        "minCalls is 100 in 10s, and flow rule db-qps admits at most 5 in 1s; is a longer interval or a smaller minCalls meant?",
		"resource: db, errorCount: 1, minCalls: 56":                           "minCalls is 56 in 10s, and flow rule db-qps admits at most 5 in 1s; is a longer interval or a smaller minCalls meant?",
		"resource: db, errorCount: 1, minCalls: 55":                           "", // eleven seconds that are not aligned
		"resource: db, behavior: throttle, minCalls: 100":                     "minCalls is 100 in 10s, and flow rule db-qps admits at most 5 in 1s; is a longer interval or a smaller minCalls meant?",
		"resource: db, slowRatio: 0.5, slowAfter: 1s, minCalls: 100":          "", // calls that hang count for as long as they do
		"resource: db, errorRatio: 0.5, minCalls: 100, mode: off":             "",
		"resource: db, errorRatio: 0.5, minCalls: 100, force: open":           "",
		"resource: db, errorRatio: 0.5, minCalls: 100, mode: shadow":          "minCalls is 100 in 10s, and flow rule db-qps admits at most 5 in 1s; is a longer interval or a smaller minCalls meant?",
		"resource: db, errorRatio: 0.5, interval: 24h, minCalls: 432000":      "",
		"resource: bounded, errorRatio: 0.5, minCalls: 1e7":                   "",
		"resource: bounded, errorRatio: 0.5, minCalls: 1e8":                   "minCalls is 100000000 in 10s, and flow rule bounded-qps admits at most 1000000 in 1s; is a longer interval or a smaller minCalls meant?",
		"resource: shadow, errorRatio: 0.5, minCalls: 100":                    "",
		"resource: origin, errorRatio: 0.5, minCalls: 100":                    "",
		"resource: associated, errorRatio: 0.5, minCalls: 100":                "",
		"resource: blocked, errorRatio: 0.5, minCalls: 100":                   "",
		"resource: isolated, errorRatio: 0.5, minCalls: 1e6":                  "", // calls may be very short
		"resource: GET /orders, errorRatio: 0.5":                              "minCalls is 10 in 10s, and flow rule gets admits at most 1 in 1m; is a longer interval or a smaller minCalls meant?",
		`resource: "GET /*", match: glob, errorRatio: 0.5`:                    "minCalls is 10 in 10s, and flow rule gets admits at most 1 in 1m; is a longer interval or a smaller minCalls meant?",
		`resource: "GET /o*", match: glob, errorRatio: 0.5`:                   "",
		"match: default, errorRatio: 0.5":                                     "",
		"resource: memory, errorRatio: 0.5, minCalls: 100":                    "minCalls is 100 in 10s, and flow rule \"memo\\nry\" admits at most 5 in 1s; is a longer interval or a smaller minCalls meant?",
		"resource: free, errorRatio: 0.5, minCalls: 1e7, interval: 1s":        "",
		"resource: free, errorRatio: 0.5, minCalls: 10000001, interval: 1s":   "minCalls is 10000001, and there are never so many calls in 1s",
		"resource: free, errorRatio: 0.5, consecutive: 9":                     "consecutive is 9, and nothing opens before 10 calls have ended in 10s; is minCalls: 9 meant?",
		"resource: free, behavior: throttle, errorRatio: 0.5":                 "errorRatio means nothing with behavior: throttle; is behavior: break meant?",
		"resource: free, slowRatio: 0.5, slowAfter: 2s, probeTimeout: 1999ms": "probeTimeout is 1.999s, so a probe counts as bad before it is slow, after 2s",
	} {
		if want != "" {
			want = "<standard input>: warning: breaker rule b: " + want + "\n"
		}
		require.Equal(t, result{0, "", want}, invoke(limits+"  - {id: b, "+rule+"}\n", "check", "-q", "-"), rule)
	}
}

func TestConvert_BreakersOfSentinel(t *testing.T) {
	t.Parallel()
	got := invoke(`[{"resource":"a","strategy":0,"retryTimeoutMs":3000,"minRequestAmount":10,"statIntervalMs":5000,"maxAllowedRtMs":50,"threshold":0.5},
{"resource": "b", "grade": 1, "count": 0.5, "timeWindow": 3}]`, "convert", "-")
	require.Equal(t, result{0, `breaker:
  - resource: a
    interval: 5s
    minCalls: 10
    slowRatio: 0.5
    slowAfter: 50ms
    openFor: 3s
    probes: 1
  - resource: b
    interval: 1s
    minCalls: 5
    errorRatio: 0.5
    openFor: 3s
    probes: 1
`, "<standard input>:2:40: changed: breaker rule on \"b\": Sentinel opens above count, Leapgate at it\n"}, got)
}
