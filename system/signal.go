package system

import (
	"fmt"
	"strconv"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/stat"
)

// raised is how busy the CPU must have been in a sample by itself for the limit to fall: the
// smoothed value stays high for a while when the limit has helped.
const raised = 0.97

// bound is the bound of a rule on one signal.
type bound struct {
	name   string
	most   float64
	of     func(*stat.Signals) stat.Signal
	raw    float64 // what the sample by itself must be above for the limit to fall
	format func(float64) string
	text   string // most, as the rule has it
}

// boundsOf are the bounds on signals of a rule.
func boundsOf(r *Rule) (all []bound) {
	add := func(name string, most, raw float64, of func(*stat.Signals) stat.Signal) {
		if most > 0 {
			all = append(all, bound{name, most, of, raw, share2, exact(most)})
		}
	}
	span := func(name string, most time.Duration, of func(*stat.Signals) stat.Signal) {
		if most > 0 {
			all = append(all, bound{name, most.Seconds(), of, 0, span2, field.ShortDuration(most)})
		}
	}
	add("cpu", r.MaxCPU, raised, func(s *stat.Signals) stat.Signal { return s.CPU })
	add("throttled", r.MaxThrottled, 0, func(s *stat.Signals) stat.Signal { return s.Throttled })
	add("pressure", r.MaxPressure, 0, func(s *stat.Signals) stat.Signal { return s.Pressure })
	span("scheduling latency", r.MaxSchedLatency, func(s *stat.Signals) stat.Signal { return s.SchedLatency })
	span("response time", r.MaxRT, nil)
	return all
}

// exact is a share with all its decimals, two at least.
func exact(v float64) string {
	if all := strconv.FormatFloat(v, 'f', -1, 64); len(all) > len("0.00") {
		return all
	}
	return share2(v)
}

func share2(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func span2(v float64) string {
	d := time.Duration(v * float64(time.Second))
	switch {
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(100 * time.Microsecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return field.ShortDuration(d)
}

// excess is a signal that is above its bound.
type excess struct {
	ratio float64 // value of bound; 0 if none is
	falls bool    // the limit may fall
	text  string  // "cpu 0.94 of 0.90"
}

// worst returns the signal that is most above its bound. rt is the mean response time, as a
// signal.
func worst(bounds []bound, signals *stat.Signals, rt stat.Signal) (e excess) {
	for i := range bounds {
		b := &bounds[i]
		s := rt
		if b.of != nil {
			s = b.of(signals)
		}
		if !s.Known || !(s.Value > b.most) {
			continue
		}
		e.falls = e.falls || s.Raw > b.raw
		if ratio := s.Value / b.most; ratio > e.ratio {
			e.ratio, e.text = ratio, fmt.Sprintf("%s %s of %s", b.name, b.format(s.Value), b.text)
		}
	}
	return e
}

// anyKnown reports whether any signal that has a bound is known, besides the response time.
func anyKnown(bounds []bound, signals *stat.Signals) bool {
	for i := range bounds {
		if of := bounds[i].of; of != nil && of(signals).Known {
			return true
		}
	}
	return false
}
