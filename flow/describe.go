package flow

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
)

func describe(r *Rule) string {
	var s strings.Builder
	switch r.Origin {
	case "":
	case OtherOrigins:
		s.WriteString("from callers that no rule names, ")
	default:
		fmt.Fprintf(&s, "from caller %s, ", escape.Text(r.Origin))
	}
	switch {
	case r.Associated != "":
		fmt.Fprintf(&s, "none while %s passes more than %s per second; blocks", escape.Text(r.Associated), figure(r.Threshold))
	case r.Behavior == Pace:
		pace(&s, r)
	default:
		admission(&s, r)
		s.WriteString("; blocks")
		if r.MaxWait > 0 {
			fmt.Fprintf(&s, ", with priority after waiting up to %s", span(r.MaxWait))
		}
	}
	if r.Candidate > 0 {
		fmt.Fprintf(&s, "; tries %s beside it", figure(r.Candidate))
	}
	return s.String()
}

// admission says how much a rule that rejects admits.
func admission(s *strings.Builder, r *Rule) {
	most := figure(r.Threshold)
	if whole := math.Floor(r.Threshold); whole != r.Threshold && r.Strategy == Direct {
		most = figure(whole) // fractions do not count
	}
	window := fmt.Sprintf("in any aligned %s of %s", span(r.Interval), buckets(r.Buckets))
	if r.Strict {
		window = fmt.Sprintf("in any %s, wherever it begins", span(r.Interval))
	}
	if r.Threshold < 1 { // the most that the other strategies come to
		s.WriteString("none")
		return
	}
	fmt.Fprintf(s, "at most %s %s", most, window)
	strategy(s, r, 1)
}

// pace says how far apart the calls of a rule that paces are.
func pace(s *strings.Builder, r *Rule) {
	if r.Threshold < 1 { // a call is more than that
		s.WriteString("none; blocks")
		return
	}
	fmt.Fprintf(s, "one every %s", span(time.Duration(float64(r.Interval)/r.Threshold)))
	strategy(s, r, float64(r.Interval))
	if r.MaxWait > 0 {
		fmt.Fprintf(s, "; waits up to %s, then blocks", span(r.MaxWait))
	} else {
		s.WriteString("; blocks what comes early")
	}
}

// strategy says how the threshold moves. per is what a pace is reckoned from.
func strategy(s *strings.Builder, r *Rule, per float64) {
	amount := func(threshold float64) string {
		switch {
		case r.Behavior != Pace:
			return figure(threshold)
		case threshold == 0:
			return "none"
		default:
			return "one every " + span(time.Duration(per/threshold))
		}
	}
	switch r.Strategy {
	case WarmUp:
		coldest := max(r.Threshold/r.ColdFactor, min(1, r.Threshold)) // it lets one call in
		fmt.Fprintf(s, ", %s when cold, warm after %s", amount(coldest), span(r.WarmUpPeriod))
	case MemoryAdaptive:
		fmt.Fprintf(s, " up to %s in use, falling to %s at %s", amountOf(r.LowMemory), amount(r.HighMemoryThreshold), amountOf(r.HighMemory))
	default:
	}
}

func buckets(n int) string {
	if n == 1 {
		return "1 bucket"
	}
	return strconv.Itoa(n) + " buckets"
}

func figure(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// span is a duration, to the microsecond if it is long enough.
func span(d time.Duration) string {
	if d > time.Millisecond {
		d = d.Round(time.Microsecond)
	}
	return field.ShortDuration(d)
}

func amountOf(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.bytes {
			return figure(float64(bytes)/float64(unit.bytes)) + unit.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// warnings says what is allowed in a rule, but probably not meant.
func warnings(r *Rule) []string {
	switch {
	case r.Behavior == Pace && r.Buckets != 0 && r.Buckets != DefaultBuckets:
		return []string{fmt.Sprintf("buckets is %d, and means nothing with behavior: pace; is behavior: reject meant?", r.Buckets)}
	case r.Behavior == Reject && r.MaxWait > 0:
		return []string{fmt.Sprintf("maxWait is %s, and only calls with priority wait; is behavior: pace meant?", field.ShortDuration(r.MaxWait))}
	default:
		return nil
	}
}
