package sentinel

import (
	"strings"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/rule"
)

// breakerOf has what every rule of a test has in common.
func breakerOf(name string, change func(*breaker.Rule)) breaker.Rule {
	r := breaker.Rule{Resource: name, Interval: time.Second, MinCalls: 5, OpenFor: 3 * time.Second, Probes: 1}
	change(&r)
	return r
}

// The circuit breakers of sentinel-golang, as it writes them.
func TestParse_GoBreakers(t *testing.T) {
	t.Parallel()
	requireSentinel(t, strings.ReplaceAll(`[
	{"resource":"a","strategy":0,"retryTimeoutMs":3000,"minRequestAmount":10,"statIntervalMs":5000,"maxAllowedRtMs":50,"threshold":0.5},
	{"id": "all", "resource": "b", "strategy": 1, "retryTimeoutMs": 3000, "minRequestAmount": 5, "statIntervalMs": 1000, "maxAllowedRtMs": 0,
	 "statSlidingWindowBucketCount": 4, "threshold": 1, "probeNum": 1},
	{"resource": "c", "strategy": 2, ?, "threshold": 50, "statSlidingWindowBucketCount": 3, "maxAllowedRtMs": 100},
	{"resource": "d", "strategy": 2, ?, "threshold": 1.9, "statSlidingWindowBucketCount": 0, "probeNum": 0},
	{"resource": "e", "strategy": 1, "retryTimeoutMs": 3000, "minRequestAmount": 0, "statIntervalMs": 1000, "threshold": 0.5, "probeNum": 2},
	{"resource": "f", "strategy": 1, ?, "threshold": 0.5, "probeNum": 4},
	{"resource": "g", "strategy": 2, ?, "threshold": 5, "probeNum": 4},
	{"resource": "h", ?, "threshold": 1e-3, "maxAllowedRtMs": 1000, "statSlidingWindowBucketCount": 2000},
	{"resource": "i.*", "strategy": 1, ?, "threshold": 0.5, "regex": true},
	{"resource": "j", "strategy": 1, "retryTimeoutMs": 3000, "minRequestAmount": 5, "statIntervalMs": 7, "threshold": 0.5},
	{"resource": "k", "strategy": 1, "retryTimeoutMs": 3000, "minRequestAmount": 5, "statIntervalMs": 7, "threshold": 0.5, "statSlidingWindowBucketCount": 7},
	{"id": "all", "resource": "l", "strategy": 1, ?, "threshold": 0.5, "new": 1}
]`, "?", `"retryTimeoutMs": 3000, "minRequestAmount": 5, "statIntervalMs": 1000`), leapgate.Rules{Breaker: []breaker.Rule{
		{Resource: "a", SlowRatio: 0.5, SlowAfter: 50 * time.Millisecond, OpenFor: 3 * time.Second, MinCalls: 10, Interval: 5 * time.Second, Probes: 1},
		breakerOf("b", func(r *breaker.Rule) { r.ID, r.ErrorRatio, r.Buckets = "all", 1, 4 }),
		breakerOf("c", func(r *breaker.Rule) { r.ErrorCount, r.Buckets = 50, 1 }),
		breakerOf("d", func(r *breaker.Rule) { r.ErrorCount = 1 }),
		breakerOf("e", func(r *breaker.Rule) { r.ErrorRatio, r.MinCalls, r.Probes = 0.5, 1, 2 }),
		breakerOf("f", func(r *breaker.Rule) { r.ErrorRatio, r.Probes = 0.5, 4 }),
		breakerOf("g", func(r *breaker.Rule) { r.ErrorCount, r.Probes = 5, 4 }),
		breakerOf("h", func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter, r.Buckets = 1e-3, time.Second, 1 }),
		breakerOf("i.*", func(r *breaker.Rule) { r.ErrorRatio, r.Match = 0.5, rule.Regexp }),
		breakerOf("j", func(r *breaker.Rule) { r.ErrorRatio, r.Interval, r.Buckets = 0.5, 7*time.Millisecond, 7 }),
		breakerOf("k", func(r *breaker.Rule) { r.ErrorRatio, r.Interval, r.Buckets = 0.5, 7*time.Millisecond, 7 }),
		breakerOf("l", func(r *breaker.Rule) { r.ErrorRatio = 0.5 }),
	}},
		`s.json:5:155: changed: breaker rule on "c": the window has one bucket, as with Sentinel: 3 do not divide 1000 ms`,
		`s.json:8:136: changed: breaker rule on "f": Sentinel opens again when one of the probes fails or is slow; Leapgate when as many do as reach the threshold`,
		`s.json:10:166: changed: breaker rule on "h": the window has one bucket, as with Sentinel: 2000 do not divide 1000 ms`,
		`s.json:11:135: changed: breaker rule on "i.*": the pattern must match the whole name, not a part of it; put .* around it if need be`,
		`s.json:12:100: changed: breaker rule on "j": the window of 7ms has 7 buckets; the shortest is 1ms`,
		`s.json:14:9: changed: breaker rule on "l": id is "all", as that of a rule before; it gets another`,
		`s.json:14:137: ignored: breaker rule on "l": unknown field "new"`,
	)
}

// The circuit breakers of the Java edition, as its dashboard writes them.
func TestParse_JavaBreakers(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"id": 7, "app": "shop", "ip": "10.0.0.1", "port": 8719, "resource": "a", "limitApp": "default", "count": 200.0, "timeWindow": 3, "grade": 0,
	 "minRequestAmount": 10, "slowRatioThreshold": 0.6, "statIntervalMs": 2000, "gmtCreate": null, "gmtModified": null},
	{"resource": "b", "grade": 1, "count": 0.5, "timeWindow": 3},
	{"resource": "c", "grade": 2, "count": 10, "timeWindow": 3, "limitApp": "x", "slowRatioThreshold": 1.0},
	{"resource": "d", "grade": 2, "count": 2.5, "timeWindow": 3},
	{"resource": "e", "count": 49.6, "timeWindow": 3},
	{"resource": "f.*", "grade": 1, "count": 0.5, "timeWindow": 3, "regex": true, "statIntervalMs": 4}
]`, leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "7", Resource: "a", SlowRatio: 0.6, SlowAfter: 200 * time.Millisecond, OpenFor: 3 * time.Second, MinCalls: 10, Interval: 2 * time.Second, Probes: 1},
		breakerOf("b", func(r *breaker.Rule) { r.ErrorRatio = 0.5 }),
		breakerOf("c", func(r *breaker.Rule) { r.ErrorCount = 10 }),
		breakerOf("d", func(r *breaker.Rule) { r.ErrorCount = 3 }),
		breakerOf("e", func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = 1, 50*time.Millisecond }),
		breakerOf("f.*", func(r *breaker.Rule) {
			r.ErrorRatio, r.Match, r.Interval, r.Buckets = 0.5, rule.Regexp, 4*time.Millisecond, 4
		}),
	}},
		`s.json:3:49: changed: breaker rule on "a": Sentinel opens above slowRatioThreshold, Leapgate at it`,
		`s.json:4:41: changed: breaker rule on "b": Sentinel opens above count, Leapgate at it`,
		`s.json:5:41: changed: breaker rule on "c": Sentinel opens above count, Leapgate at it`,
		`s.json:5:74: ignored: breaker rule on "c": limitApp is "x"; it does nothing in a circuit breaker`,
		`s.json:8:43: changed: breaker rule on "f.*": Sentinel opens above count, Leapgate at it`,
		`s.json:8:98: changed: breaker rule on "f.*": the window of 4ms has 4 buckets; the shortest is 1ms`,
	)
}

// Everything that is wrong with a circuit breaker is told at once, in the words of its file.
func TestParse_BadBreakers(t *testing.T) {
	t.Parallel()
	requireSentinel(t, strings.ReplaceAll(`[
|{"resource": "a", "strategy": 3, "threshold": 0.5, "retryTimeoutMs": 0, "statIntervalMs": 0, "probeNum": 1001, "minRequestAmount": 1e10},
|{"strategy": -1, "threshold": "x", "retryTimeoutMs": "3s", "statIntervalMs": 90000000, "statSlidingWindowBucketCount": -1},
|{"resource": "c", "strategy": 0, "threshold": 1.5, "retryTimeoutMs": 86400001, "statIntervalMs": 1000, "maxAllowedRtMs": 86400001},
|{"resource": "d", "strategy": 0, "threshold": -0.5, "retryTimeoutMs": 1, "statIntervalMs": 1},
|{"resource": "e", "strategy": 1, "threshold": 0, "retryTimeoutMs": 1, "statIntervalMs": 1, "maxAllowedRtMs": 1e300},
|{"resource": "f", "strategy": 2, "threshold": 0.5, "retryTimeoutMs": 1, "statIntervalMs": 1, "statSlidingWindowBucketCount": 1e12},
|{"resource": "g", "strategy": 2, "threshold": 1e300, "retryTimeoutMs": 1, "statIntervalMs": 4294967296},
|{"resource": "h", "strategy": 2, "threshold": 1e999, "retryTimeoutMs": 1.5, "statIntervalMs": 1},
|{"resource": "i", "strategy": 0, "minRequestAmount": 1},
|{"resource": "j", "strategy": 1, "threshold": 0.5, "retryTimeoutMs": 1, "statIntervalMs": 7, "statSlidingWindowBucketCount": 11, "probeNum": -1},
|{"resource": "k", "strategy": 1, "threshold": 0.5, "retryTimeoutMs": 1, "statIntervalMs": 10000, "statSlidingWindowBucketCount": 5000},
|{"resource": "l", "grade": -1, "count": 0.5, "timeWindow": 0, "minRequestAmount": 0, "statIntervalMs": 0},
|{"resource": "m", "grade": 0, "timeWindow": 86401, "slowRatioThreshold": 0},
|{"resource": "n", "grade": 0, "count": 0.4, "timeWindow": 1, "slowRatioThreshold": 1.1, "limitApp": 5},
|{"resource": "o", "grade": 1, "count": 0, "timeWindow": -1},
|{"resource": "p", "grade": 2, "count": 1e10},
|{"resource": "q", "grade": 0, "count": 1e300, "timeWindow": 99999999999, "regex": "yes"},
|{"resource": "(", "grade": 1, "count": true, "timeWindow": 1, "regex": true}
]`, "|", ""), leapgate.Rules{},
		`s.json:2:31: skipped: breaker rule on "a": strategy is 3; want a whole number from 0 to 2`,
		`s.json:2:70: skipped: breaker rule on "a": retryTimeoutMs is 0; want a whole number from 1 to 86400000`,
		`s.json:2:91: skipped: breaker rule on "a": statIntervalMs is 0; want a whole number from 1 to 86400000`,
		`s.json:2:106: skipped: breaker rule on "a": probeNum is 1001; want a whole number from 0 to 1000`,
		`s.json:2:132: skipped: breaker rule on "a": minRequestAmount is 1e10; want a whole number from 0 to 1000000000`,
		`s.json:3:14: skipped: breaker rule: strategy is -1; want a whole number from 0 to 2`,
		`s.json:3:54: skipped: breaker rule: retryTimeoutMs is "3s"; want a whole number from 1 to 86400000`,
		`s.json:3:78: skipped: breaker rule: statIntervalMs is 90000000; want a whole number from 1 to 86400000`,
		`s.json:3:120: skipped: breaker rule: statSlidingWindowBucketCount is -1; want a whole number from 0 to 2147483647`,
		`s.json:4:47: skipped: breaker rule on "c": threshold is 1.5; want more than 0 and at most 1`,
		`s.json:4:70: skipped: breaker rule on "c": retryTimeoutMs is 86400001; want a whole number from 1 to 86400000`,
		`s.json:4:122: skipped: breaker rule on "c": maxAllowedRtMs is 86400001; want a whole number from 1 to 86400000`,
		`s.json:5:1: skipped: breaker rule on "d": maxAllowedRtMs is missing`,
		`s.json:5:47: skipped: breaker rule on "d": threshold is -0.5; want more than 0 and at most 1`,
		`s.json:6:47: skipped: breaker rule on "e": threshold is 0; want more than 0 and at most 1`,
		`s.json:7:47: skipped: breaker rule on "f": threshold is 0.5; want 1 to 1000000000`,
		`s.json:7:126: skipped: breaker rule on "f": statSlidingWindowBucketCount is 1e12; want a whole number from 0 to 2147483647`,
		`s.json:8:47: skipped: breaker rule on "g": threshold is 1e300; want 1 to 1000000000`,
		`s.json:8:93: skipped: breaker rule on "g": statIntervalMs is 4294967296; want a whole number from 1 to 86400000`,
		`s.json:9:47: skipped: breaker rule on "h": threshold is 1e999; want a number`,
		`s.json:9:72: skipped: breaker rule on "h": retryTimeoutMs is 1.5; want a whole number from 1 to 86400000`,
		`s.json:10:1: skipped: breaker rule on "i": statIntervalMs is missing`,
		`s.json:10:1: skipped: breaker rule on "i": retryTimeoutMs is missing`,
		`s.json:10:1: skipped: breaker rule on "i": threshold is missing`,
		`s.json:10:1: skipped: breaker rule on "i": maxAllowedRtMs is missing`,
		`s.json:11:142: skipped: breaker rule on "j": probeNum is -1; want a whole number from 0 to 1000`,
		`s.json:12:1: skipped: breaker rule on "k": buckets is 5000; want 1 to 1000`,
		`s.json:13:28: skipped: breaker rule on "l": grade is -1; want a whole number from 0 to 2`,
		`s.json:13:60: skipped: breaker rule on "l": timeWindow is 0; want a whole number from 1 to 86400`,
		`s.json:13:83: skipped: breaker rule on "l": minRequestAmount is 0; want a whole number from 1 to 1000000000`,
		`s.json:13:104: skipped: breaker rule on "l": statIntervalMs is 0; want a whole number from 1 to 86400000`,
		`s.json:14:1: skipped: breaker rule on "m": count is missing`,
		`s.json:14:45: skipped: breaker rule on "m": timeWindow is 86401; want a whole number from 1 to 86400`,
		`s.json:14:74: skipped: breaker rule on "m": slowRatioThreshold is 0; want more than 0 and at most 1`,
		`s.json:15:40: skipped: breaker rule on "n": count is 0.4; want 1 to 86400000`,
		`s.json:15:84: skipped: breaker rule on "n": slowRatioThreshold is 1.1; want more than 0 and at most 1`,
		`s.json:15:101: skipped: breaker rule on "n": limitApp is 5; want text`,
		`s.json:16:40: skipped: breaker rule on "o": count is 0; want more than 0 and at most 1`,
		`s.json:16:57: skipped: breaker rule on "o": timeWindow is -1; want a whole number from 1 to 86400`,
		`s.json:17:28: skipped: flow rule on "p": grade is 2; want 0 for threads or 1 for calls per second`,
		`s.json:18:40: skipped: breaker rule on "q": count is 1e300; want 1 to 86400000`,
		`s.json:18:61: skipped: breaker rule on "q": timeWindow is 99999999999; want a whole number from 1 to 86400`,
		`s.json:18:83: skipped: breaker rule on "q": regex is "yes"; want true or false`,
		`s.json:19:40: skipped: breaker rule on "(": count is true; want a number`,
	)
}
