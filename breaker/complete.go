package breaker

import (
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate/internal/ruleset"
)

// complete fills in the defaults of a rule and reports its faults.
func complete(r *Rule, report *ruleset.Report) {
	completeWindow(r, report)
	orDefault(&r.MinCalls, defaultMinCalls)
	count(report, "MinCalls", r.MinCalls, 1, maxCalls)
	completeFigures(r, report)
	completeOpening(r, report)
	if r.Behavior > Throttle {
		report.Fault("Behavior", uint8(r.Behavior), "Break (0) or Throttle (1)")
	}
	if r.Behavior == Throttle {
		orDefault(&r.K, defaultK)
		orDefault(&r.MaxReject, defaultMaxReject)
	}
	if r.K != 0 && !(r.K >= 1 && r.K <= maxK) { // NaN compares false
		report.Fault("K", r.K, fmt.Sprintf("1 to %d, or 0 for %d", maxK, defaultK))
	}
	ratio(report, "MaxReject", r.MaxReject, fmt.Sprintf("0 for %v", defaultMaxReject))
	if r.Force > Closed {
		report.Fault("Force", uint8(r.Force), "None (0), Open (1) or Closed (2)")
	}
}

func orDefault[T comparable](field *T, v T) {
	if *field == *new(T) {
		*field = v
	}
}

func completeWindow(r *Rule, report *ruleset.Report) {
	orDefault(&r.Interval, defaultInterval)
	orDefault(&r.Buckets, defaultBuckets)
	intervalOK := span(report, "Interval", r.Interval)
	bucketsOK := count(report, "Buckets", int64(r.Buckets), 1, maxBuckets)
	if intervalOK && bucketsOK {
		report.Buckets(r.Interval, r.Buckets, minSpan)
	}
}

// completeFigures reports the faults of what opens a breaker.
func completeFigures(r *Rule, report *ruleset.Report) {
	ratio(report, "ErrorRatio", r.ErrorRatio, "0 for none")
	ratio(report, "SlowRatio", r.SlowRatio, "0 for none")
	count(report, "ErrorCount", r.ErrorCount, 0, maxCalls)
	count(report, "Consecutive", r.Consecutive, 0, maxCalls)
	if r.Behavior == Break && r.ErrorRatio == 0 && r.SlowRatio == 0 && r.ErrorCount == 0 && r.Consecutive == 0 {
		report.Missing("ErrorRatio", r.ErrorRatio, "more than 0 and at most 1, unless one of {SlowRatio}, {ErrorCount} and {Consecutive} is set, or {Behavior Throttle}")
	}
	switch {
	case r.SlowAfter < 0 || r.SlowAfter > maxSpan || r.SlowAfter == 0 && r.SlowRatio != 0:
		report.Fault("SlowAfter", r.SlowAfter, fmt.Sprintf("more than 0 and at most %v with {SlowRatio}", maxSpan))
	case r.SlowRatio == 0:
		ruleset.Unused(report, "SlowAfter", r.SlowAfter, "rules with {SlowRatio}")
	}
}

// completeOpening completes and checks how long a breaker is open, and how it closes.
func completeOpening(r *Rule, report *ruleset.Report) {
	orDefault(&r.OpenFor, defaultOpenFor)
	openForOK := span(report, "OpenFor", r.OpenFor)
	if r.MaxOpenFor != 0 && openForOK && (r.MaxOpenFor < r.OpenFor || r.MaxOpenFor > maxSpan) {
		report.Fault("MaxOpenFor", r.MaxOpenFor, fmt.Sprintf("{OpenFor}, which is %v, to %v, or 0 for {OpenFor}", r.OpenFor, maxSpan))
	}
	orDefault(&r.Probes, defaultProbes)
	count(report, "Probes", r.Probes, 1, maxProbes)
	if r.ProbeTimeout != 0 {
		span(report, "ProbeTimeout", r.ProbeTimeout)
	}
	if r.Ramp != 0 {
		span(report, "Ramp", r.Ramp)
	}
}

func span(report *ruleset.Report, field string, v time.Duration) (ok bool) {
	if ok = v >= minSpan && v <= maxSpan; !ok {
		report.Fault(field, v, fmt.Sprintf("%v to %v", minSpan, maxSpan))
	}
	return ok
}

func count(report *ruleset.Report, field string, v, least, most int64) (ok bool) {
	if ok = v >= least && v <= most; !ok {
		report.Fault(field, v, fmt.Sprintf("%d to %d", least, most))
	}
	return ok
}

func ratio(report *ruleset.Report, field string, v float64, zero string) {
	if !(v >= 0 && v <= 1) { // NaN compares false
		report.Fault(field, v, "more than 0 and at most 1, or "+zero)
	}
}
