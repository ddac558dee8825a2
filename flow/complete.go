package flow

import (
	"fmt"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/rule"
)

// complete fills in the defaults of a rule and reports its faults.
func complete(r *Rule, report *ruleset.Report) {
	if len(r.Origin) > rule.MaxNameLength {
		report.Fault("Origin", r.Origin, fmt.Sprintf("at most %d bytes", rule.MaxNameLength))
	}
	finite(report, "Threshold", r.Threshold)
	finite(report, "Candidate", r.Candidate)
	completeWindow(r, report)
	completeStrategy(r, report)
	completeBehavior(r, report)
	if r.Associated != "" {
		completeAssociated(r, report)
	}
}

func finite(report *ruleset.Report, field string, v float64) {
	if !(v >= 0) || math.IsInf(v, 1) { // NaN compares false
		report.Fault(field, v, "a finite number of at least 0")
	}
}

func completeWindow(r *Rule, report *ruleset.Report) {
	if r.Interval == 0 {
		r.Interval = defaultInterval
	}
	if r.Buckets == 0 {
		r.Buckets = DefaultBuckets
	}
	intervalOK := r.Interval >= minBucket && r.Interval <= MaxInterval
	bucketsOK := r.Buckets >= 1 && r.Buckets <= maxBuckets
	if !intervalOK {
		report.Fault("Interval", r.Interval, fmt.Sprintf("%v to %v", minBucket, MaxInterval))
	}
	if !bucketsOK {
		report.Fault("Buckets", r.Buckets, fmt.Sprintf("1 to %d", maxBuckets))
	}
	if intervalOK && bucketsOK && r.Behavior != Pace {
		report.Buckets(r.Interval, r.Buckets, minBucket)
	}
}

func completeStrategy(r *Rule, report *ruleset.Report) {
	if r.Strategy > MemoryAdaptive {
		report.Fault("Strategy", uint8(r.Strategy), "Direct (0), WarmUp (1) or MemoryAdaptive (2)")
		return
	}
	if r.Strategy == WarmUp {
		if r.ColdFactor == 0 {
			r.ColdFactor = defaultColdFactor
		}
		if r.WarmUpPeriod < minWarmUpPeriod || r.WarmUpPeriod > maxWarmUpPeriod {
			report.Fault("WarmUpPeriod", r.WarmUpPeriod, fmt.Sprintf("%v to %v with {Strategy WarmUp}", minWarmUpPeriod, maxWarmUpPeriod))
		}
		if !(r.ColdFactor > 1 && r.ColdFactor <= maxColdFactor) {
			report.Fault("ColdFactor", r.ColdFactor, fmt.Sprintf("more than 1 and at most %d", maxColdFactor))
		}
	} else {
		ruleset.Unused(report, "WarmUpPeriod", r.WarmUpPeriod, "{Strategy WarmUp}")
		ruleset.Unused(report, "ColdFactor", r.ColdFactor, "{Strategy WarmUp}")
	}
	if r.Strategy == MemoryAdaptive {
		finite(report, "HighMemoryThreshold", r.HighMemoryThreshold)
		least, name := r.Threshold, "Threshold"
		if r.Candidate > 0 && r.Candidate < least {
			least, name = r.Candidate, "Candidate"
		}
		if r.HighMemoryThreshold >= least {
			report.Fault("HighMemoryThreshold", r.HighMemoryThreshold, fmt.Sprintf("less than {%s}, which is %v", name, least))
		}
		if r.LowMemory < 1 {
			report.Fault("LowMemory", r.LowMemory, "1 byte or more")
		}
		if r.HighMemory <= r.LowMemory {
			report.Fault("HighMemory", r.HighMemory, fmt.Sprintf("more than {LowMemory}, which is %d", r.LowMemory))
		}
	} else {
		ruleset.Unused(report, "HighMemoryThreshold", r.HighMemoryThreshold, "{Strategy MemoryAdaptive}")
		ruleset.Unused(report, "LowMemory", r.LowMemory, "{Strategy MemoryAdaptive}")
		ruleset.Unused(report, "HighMemory", r.HighMemory, "{Strategy MemoryAdaptive}")
	}
}

func completeBehavior(r *Rule, report *ruleset.Report) {
	longest := maxMaxWait
	switch {
	case r.Behavior > Pace:
		report.Fault("Behavior", uint8(r.Behavior), "Reject (0) or Pace (1)")
	case r.Behavior == Reject && r.Interval > 0:
		longest = r.Interval
	case r.Behavior == Pace && r.Strict:
		report.Fault("Strict", r.Strict, "false with {Behavior Pace}, which has no window")
	}
	if r.MaxWait < 0 || r.MaxWait > longest {
		want := fmt.Sprintf("0 to %v", longest)
		if r.Behavior == Reject {
			want += "; is behavior: pace meant?"
		}
		report.Fault("MaxWait", r.MaxWait, want)
	}
}

func completeAssociated(r *Rule, report *ruleset.Report) {
	if names.Check(r.Associated) != nil {
		report.Fault("Associated", r.Associated, fmt.Sprintf("a name of at most %d bytes", rule.MaxNameLength))
	}
	if r.Associated == r.Resource && r.Match == rule.Exact {
		report.Fault("Associated", r.Associated, "another resource than the rule's own")
	}
	if r.Interval != time.Second {
		report.Fault("Interval", r.Interval, "1s with {Associated}")
	}
	if r.Strategy != Direct {
		report.Fault("Strategy", r.Strategy, "{ Direct} with {Associated}")
	}
	if r.Behavior != Reject {
		report.Fault("Behavior", r.Behavior, "{ Reject} with {Associated}")
	}
	ruleset.Unused(report, "Strict", r.Strict, "rules without {Associated}")
	ruleset.Unused(report, "MaxWait", r.MaxWait, "rules without {Associated}")
}
