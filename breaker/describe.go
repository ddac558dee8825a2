package breaker

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
)

// describe says what a rule does.
func describe(r *Rule) string {
	switch {
	case r.Force == Open:
		return "forced open: blocks all"
	case r.Force == Closed:
		return "forced closed: blocks none"
	case r.Behavior == Throttle:
		return fmt.Sprintf("blocks a share, up to %s, beyond %s calls for each that succeeds in %s, from %d calls on",
			percent(r.MaxReject), figure(r.K), field.ShortDuration(r.Interval), r.MinCalls)
	}
	lasts := field.ShortDuration(r.OpenFor)
	if r.maxOpenFor() > r.OpenFor {
		lasts += " to " + field.ShortDuration(r.MaxOpenFor)
	}
	s := fmt.Sprintf("opens at %s of at least %d calls in %s; blocks for %s, then %s",
		figures(r), r.MinCalls, field.ShortDuration(r.Interval), lasts, plural(r.Probes, "probe"))
	if r.Ramp > 0 {
		s += ", ramps up in " + field.ShortDuration(r.Ramp)
	}
	return s
}

// figures says what opens a breaker.
func figures(r *Rule) string {
	var all []string
	if r.ErrorRatio > 0 {
		all = append(all, percent(r.ErrorRatio)+" failures")
	}
	if r.SlowRatio > 0 {
		all = append(all, percent(r.SlowRatio)+" slower than "+field.ShortDuration(r.SlowAfter))
	}
	if r.ErrorCount > 0 {
		all = append(all, plural(r.ErrorCount, "failure"))
	}
	if r.Consecutive > 0 {
		all = append(all, plural(r.Consecutive, "failure")+" in a row")
	}
	return strings.Join(all, " or ")
}

func percent(ratio float64) string { return figure(100*ratio) + " %" }

func figure(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// maxRate is more calls per second than any resource has.
const maxRate = 10_000_000

// warnings says what is allowed in a rule, but probably not meant.
func warnings(r *Rule) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	full := *r
	complete(&full, new(ruleset.Report))
	if rate := float64(full.MinCalls) / full.Interval.Seconds(); rate > maxRate {
		warn("minCalls is %d, and there are never so many calls in %s", full.MinCalls, field.ShortDuration(full.Interval))
	}
	if r.Behavior == Throttle {
		for _, unused := range []struct {
			name string
			set  bool
		}{
			{"errorRatio", r.ErrorRatio != 0},
			{"slowRatio", r.SlowRatio != 0},
			{"errorCount", r.ErrorCount != 0},
			{"consecutive", r.Consecutive != 0},
			{"openFor", r.OpenFor != 0 && r.OpenFor != defaultOpenFor},
			{"maxOpenFor", r.MaxOpenFor != 0},
			{"probes", r.Probes != 0 && r.Probes != defaultProbes},
			{"probeTimeout", r.ProbeTimeout != 0},
			{"ramp", r.Ramp != 0},
		} {
			if unused.set {
				warn("%s means nothing with behavior: throttle; is behavior: break meant?", unused.name)
			}
		}
		return all
	}
	if r.K != 0 || r.MaxReject != 0 {
		warn("k and maxReject mean nothing with behavior: break; is behavior: throttle meant?")
	}
	if r.Consecutive > 0 && r.Consecutive < full.MinCalls {
		warn("consecutive is %d, and nothing opens before %d calls have ended in %s; is minCalls: %d meant?",
			r.Consecutive, full.MinCalls, field.ShortDuration(full.Interval), r.Consecutive)
	}
	if r.SlowRatio > 0 && full.probeTimeout() < r.SlowAfter {
		warn("probeTimeout is %s, so a probe counts as bad before it is slow, after %s",
			field.ShortDuration(full.probeTimeout()), field.ShortDuration(r.SlowAfter))
	}
	return all
}
