package breaker

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/resource"
)

// state is what a breaker is in.
type state uint8

const (
	closed state = iota
	ramping
	throttling
	open
	halfOpen
)

var stateNames = [...]string{closed: "closed", ramping: "ramping", throttling: "throttling", open: "open", halfOpen: "half-open"}

// phase is a breaker between two changes of its state or of its rule. It does not change; what
// it points to does. So calls find all that belongs together in one word, and what comes too late
// for a phase lands where nobody looks.
type phase struct {
	state state
	rule  *Rule // complete
	// since is when the counts began. Calls that began before it do not count.
	since int64
	// entered is when the breaker went over to the state, or began to ramp, for closed.
	entered int64
	// row is how many openings there were one after the other, this one or the last included.
	row   int
	until int64 // open: its end; atOnce for the next call, and never when forced

	results      *results // of closed, ramping and throttling
	countsErrors bool     // and not slow calls alone
	hanging      *hanging // of closed and ramping, with SlowRatio
	// calm is the bucket of results in which so many were judged last as anything needs. After that
	// no good call opens the breaker while that bucket is the newest. It goes with hanging.
	calm   *atomic.Pointer[bucket]
	stride *stride // of ramping and throttling
	lastly *lastly // of throttling
	probes *probes // of half-open

	// What refusals say, of all states but closed.
	cause    *resource.Cause
	observed float64
}

// What refusals say after "observed of threshold".
const (
	rampDetail     = ", the share that is admitted while it ramps up"
	throttleDetail = ", the share that is refused"
	probesDetail   = " probes while half-open"
	forcedOpen     = ", forced open"
)

const (
	beginning = math.MinInt64 // before all times
	atOnce    = math.MinInt64
	never     = math.MaxInt64
)

// enter returns the phase of a state that is entered at now, with nothing counted.
func (b *breaker) enter(s state, r *Rule, now int64, row int) *phase {
	p := &phase{state: s, rule: r, since: now, entered: now, row: row}
	switch s {
	case closed, ramping:
		p.count()
		if s == ramping {
			p.stride = new(stride)
			p.refuseWith(b, 1, rampDetail, 0)
		}
	case throttling:
		p.count()
		p.stride, p.lastly = new(stride), new(lastly)
		p.refuseWith(b, r.MaxReject, throttleDetail, 0)
	case halfOpen:
		p.probes = newProbes()
		p.refuseWith(b, float64(r.Probes), probesDetail, float64(r.Probes+1))
	case open:
		p.setUntil()
		p.refuseWith(b, 0, forcedOpen, 1)
	}
	return p
}

// count begins to count results.
func (p *phase) count() {
	p.hanging = nil
	if p.rule.SlowRatio > 0 && p.rule.Behavior == Break {
		p.hanging = newHanging(p.rule.SlowAfter)
		p.calm = new(atomic.Pointer[bucket])
	}
	p.results, p.countsErrors = newResults(p.rule, p.hanging), p.rule.countsErrors()
}

// refuseWith sets what refusals say: observed of threshold.
func (p *phase) refuseWith(b *breaker, threshold float64, detail string, observed float64) {
	cause := b.cause
	cause.Threshold, cause.Detail = threshold, detail
	p.cause, p.observed = &cause, observed
}

// setUntil sets the end of an opening, as the rule says.
func (p *phase) setUntil() {
	if p.rule.Force == Open {
		p.until = never
	} else {
		p.until = after(p.entered, p.rule.openFor(p.row))
	}
}

// openings is how many openings in a row there were by now. They are forgotten when the breaker
// has stayed closed for as long as the last one.
func (p *phase) openings(now int64) int {
	if p.state != open && p.state != halfOpen && now >= after(p.entered, p.rule.openFor(p.row)) {
		return 0
	}
	return p.row
}

// rampEnd is the end of a ramp.
func (p *phase) rampEnd() int64 { return after(p.entered, p.rule.Ramp) }

// after is the time d after t, at most the last that there is.
func after(t int64, d time.Duration) int64 {
	if t > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return t + int64(d)
}

// grounds are why a breaker opens: observed of threshold, and what of.
type grounds struct {
	observed, threshold int64
	detail              string
}

func (g grounds) String() string { return fmt.Sprintf("%d of %d%s", g.observed, g.threshold, g.detail) }

// judge returns why the breaker is to open, and reports whether it is: by all results up to
// some marks. b is their newest bucket.
func (p *phase) judge(now int64, b *bucket, m marks) (g grounds, opens bool) {
	r := p.rule
	if r.Force == Closed {
		return g, false
	}
	least := r.MinCalls
	if p.state == ramping {
		least = part(least, time.Duration(now-p.entered), r.Ramp)
	}
	c, slow := m.since(b.window)
	if p.countsErrors && c.bad > 0 && c.total >= least {
		switch row := p.results.row.Load(); {
		case r.ErrorRatio > 0 && c.ratio() >= r.ErrorRatio:
			return grounds{c.bad, c.total, " calls failed in " + field.ShortDuration(r.Interval)}, true
		case r.ErrorCount > 0 && c.bad >= r.ErrorCount:
			return grounds{c.bad, r.ErrorCount, " failures in " + field.ShortDuration(r.Interval)}, true
		case r.Consecutive > 0 && row >= r.Consecutive:
			return grounds{row, r.Consecutive, " failures in a row"}, true
		}
	}
	if p.hanging == nil {
		return g, false
	}
	overdue := max(0, p.hanging.overdue())
	slow.bad, slow.total = slow.bad+overdue, slow.total+overdue
	if slow.bad == 0 || slow.total < least || slow.ratio() < r.SlowRatio {
		if c.total >= least {
			p.calm.Store(b)
		}
		return g, false
	}
	detail := " calls took longer than " + field.ShortDuration(r.SlowAfter)
	if overdue > 0 {
		detail += fmt.Sprintf(", %d of them in flight", overdue)
	}
	return grounds{slow.bad, slow.total, detail}, true
}
