package sentinel

import (
	"math"
	"time"

	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/rule"
)

// What the Java edition does where a field of a breaker is missing.
const (
	javaMinRequests    = 5
	javaStatIntervalMs = 1000
	javaSlowRatio      = 1
)

// The bounds of breaker.Rule, in Sentinel's units.
const (
	maxSeconds = 86_400
	maxMillis  = 1000 * maxSeconds
	maxCalls   = 1_000_000_000
	maxProbes  = 1000
)

// goBreaker translates a circuit breaker of sentinel-golang.
func (t *translation) goBreaker() {
	r := breaker.Rule{
		ID: t.id(), Resource: t.text("resource"), Match: t.partly(),
		Interval: millis(t.positive("statIntervalMs", 0, maxMillis)),
		MinCalls: max(1, t.whole("minRequestAmount", 0, maxCalls)),
		OpenFor:  millis(t.positive("retryTimeoutMs", 0, maxMillis)),
		Probes:   max(1, t.whole("probeNum", 0, maxProbes)),
	}
	switch buckets := t.whole("statSlidingWindowBucketCount", 0, math.MaxInt32); {
	case buckets == 0 || t.isBad("statIntervalMs"):
		r.Buckets = t.fit("statIntervalMs", r.Interval)
	case r.Interval.Milliseconds()%buckets != 0:
		r.Buckets = 1
		t.lose(t.at("statSlidingWindowBucketCount"), Changed, "the window has one bucket, as with Sentinel: %d do not divide %d ms", buckets, r.Interval.Milliseconds())
	default:
		r.Buckets = int(buckets)
	}
	threshold := 0.0
	t.asked["maxAllowedRtMs"] = true // of the other strategies, too, and says nothing there
	switch strategy := t.whole("strategy", 0, 2); {
	case t.isBad("strategy"):
	case strategy == 0:
		threshold = t.share("threshold", 0)
		r.SlowRatio, r.SlowAfter = threshold, millis(t.positive("maxAllowedRtMs", 0, maxMillis))
	case strategy == 1:
		threshold = t.share("threshold", 0)
		r.ErrorRatio = threshold
	default:
		r.ErrorCount = int64(t.above("threshold", 1, maxCalls)) // Sentinel cuts it off, too
	}
	if threshold*float64(r.Probes) > 1 {
		t.lose(t.at("probeNum"), Changed, "Sentinel opens again when one of the probes fails or is slow; Leapgate when as many do as reach the threshold")
	}
	t.addBreaker(r, "ruleName")
}

// javaBreaker translates a circuit breaker of the Java edition. That admits one probe.
func (t *translation) javaBreaker() {
	r := breaker.Rule{
		ID: t.id(), Resource: t.text("resource"),
		Interval: millis(t.positive("statIntervalMs", javaStatIntervalMs, maxMillis)),
		MinCalls: t.positive("minRequestAmount", javaMinRequests, maxCalls),
		OpenFor:  time.Duration(t.positive("timeWindow", 0, maxSeconds)) * time.Second,
		Probes:   1,
	}
	r.Buckets = t.fit("statIntervalMs", r.Interval)
	if t.flag("regex") {
		r.Match = rule.Regexp
	}
	if app := t.text("limitApp"); app != "" && app != "default" {
		t.lose(t.at("limitApp"), Ignored, "limitApp is %s; it does nothing in a circuit breaker", escape.Quoted(app))
	}
	slowRatio := t.share("slowRatioThreshold", javaSlowRatio)
	opens, above := "count", true
	switch grade := t.whole("grade", 0, 2); {
	case t.isBad("grade"):
	case grade == 0:
		r.SlowRatio = slowRatio
		r.SlowAfter = millis(int64(math.Round(t.above("count", 1, maxMillis))))
		opens, above = "slowRatioThreshold", slowRatio < 1 // at 1 it opens at it, too
	case grade == 1:
		r.ErrorRatio = t.share("count", 0)
	default:
		count := t.above("count", 0, maxCalls)
		r.ErrorCount = int64(math.Ceil(count))
		above = float64(r.ErrorCount) == count
	}
	if above {
		t.lose(t.at(opens), Changed, "Sentinel opens above %s, Leapgate at it", opens)
	}
	t.addBreaker(r, bookkeeping...)
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// partly returns how a rule of sentinel-golang matches names. Its patterns match parts of them.
func (t *translation) partly() rule.Match {
	if !t.flag("regex") {
		return rule.Exact
	}
	t.lose(t.at("regex"), Changed, "the pattern must match the whole name, not a part of it; put .* around it if need be")
	return rule.Regexp
}

// share returns a ratio, or otherwise if it is missing, unless that is 0: then it must be there.
func (t *translation) share(name string, otherwise float64) float64 {
	if otherwise != 0 && !t.has(name) {
		t.asked[name] = true
		return otherwise
	}
	return t.above(name, 0, 1)
}

// above returns a number that must be there: above 0, at least so much, and at most so much. If
// it is bad, 1 takes its place, so that nothing else seems to be.
func (t *translation) above(name string, least, most float64) float64 {
	v := t.number(name)
	switch {
	case !t.has(name):
		t.skip(t.item, "%s is missing", name)
	case v > 0 && v >= least && v <= most:
		return v
	case least > 0:
		t.skip(t.at(name), "%s is %s; want %.0f to %.0f", name, t.at(name), least, most)
	default:
		t.skip(t.at(name), "%s is %s; want more than 0 and at most %.0f", name, t.at(name), most)
	}
	return 1
}

// positive returns a whole number from 1 to most, or otherwise if it is missing, unless that is
// 0: then it must be there. If it is bad, 1 takes its place.
func (t *translation) positive(name string, otherwise, most int64) int64 {
	if otherwise == 0 && !t.has(name) {
		t.skip(t.item, "%s is missing", name)
		otherwise = 1
	}
	return max(1, t.between(name, otherwise, 1, most))
}
