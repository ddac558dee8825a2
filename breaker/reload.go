package breaker

import (
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// compile makes the check of a complete rule on a resource. It keeps the breaker of the
// rule that had its ID, if that was for the resource.
func compile(env *ruleset.Env, r *Rule, name string, before resource.Check) resource.Check {
	now := env.Now
	if now == nil {
		now = func() int64 { return 0 }
	}
	old, had := before.(*check)
	if !had || old.cause.Resource != name {
		return newCheck(r, newBreaker(r, name, now))
	}
	// The breaker may have got another rule since, which came and went without being bound.
	if changed := old.breaker.load(r, now); !changed && *old.rule == *r {
		return old
	}
	return newCheck(r, old.breaker)
}

// newBreaker makes the breaker of a rule on a resource, closed unless the rule says otherwise.
func newBreaker(r *Rule, name string, now func() int64) *breaker {
	b := new(breaker)
	states := []string{stateNames[closed], stateNames[open], stateNames[halfOpen], stateNames[ramping], stateNames[throttling]}
	if r.Behavior == Throttle {
		states[0], states[4] = states[4], states[0]
	}
	b.state = resource.NewState(states...)
	b.cause = resource.Cause{
		Resource: name, Kind: kindName, RuleID: r.ID, Status: status, Last: &b.last, State: b.state,
	}
	first := *r
	first.Force = None
	s := closed
	if r.Behavior == Throttle {
		s = throttling
	}
	p := b.enter(s, &first, now(), 0)
	p.since = beginning
	b.set(p)
	b.load(r, now)
	return b
}

// load puts the breaker under another rule from now on, and reports whether anything has
// changed.
func (b *breaker) load(r *Rule, clock func() int64) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *b.phase.Load().rule == *r {
		return false
	}
	from := b.settle(clock())
	// Meanwhile calls wait for mu, as if to become probes. So those that came by an earlier phase
	// have read the clock by now, and only later ones count for the new phase: no end without
	// its begin.
	b.phase.Store(&phase{state: halfOpen, rule: from.rule, since: beginning, probes: newProbes()})
	now := max(clock(), from.since)
	s, reason := wanted(from, r, now)
	if s == from.state {
		b.goOn(from, r, now)
		return true
	}
	to := b.enter(s, r, now, from.openings(now))
	if from.results != nil && to.results != nil && sameWindow(from.rule, r) && from.rule.Behavior == r.Behavior {
		to.since, to.results = from.since, from.results // between throttling and forced closed
	}
	if from.state == ramping && s == closed {
		to.entered = from.entered // it has stayed closed since
	}
	if to.hanging != nil && to.since == now {
		to.since++
	}
	b.change(to, now, reason)
	return true
}

// wanted is the state of a breaker under another rule, and why, if it changes.
func wanted(from *phase, r *Rule, now int64) (s state, reason string) {
	switch {
	case r.Force == Open:
		return open, "forced open by the rule"
	case r.Force == Closed:
		return closed, "forced closed by the rule"
	case r.Behavior == Throttle && from.rule.Behavior == Throttle:
		return throttling, "not forced any more"
	case r.Behavior == Throttle:
		return throttling, "the rule throttles now"
	case from.rule.Behavior == Throttle && from.rule.Force != Open:
		return closed, "the rule does not throttle any more"
	case from.state == ramping && now >= after(from.entered, r.Ramp):
		return closed, "the rule has a shorter ramp, which is over"
	default:
		return from.state, ""
	}
}

// goOn lets the breaker go on in its state with another rule. The caller holds mu.
func (b *breaker) goOn(from *phase, r *Rule, now int64) {
	to := *from
	to.rule = r
	if to.hanging != nil {
		to.calm = new(atomic.Pointer[bucket])
	}
	if to.results != nil && !sameWindow(from.rule, r) {
		to.since = now
		if to.count(); to.hanging != nil {
			to.since++
		}
	}
	switch to.state {
	case open:
		if from.rule.Force == Open && r.Force == None {
			to.until = atOnce
		} else if to.until != atOnce || r.Force == Open {
			to.setUntil()
		}
		if r.Force == Open {
			to.refuseWith(b, 0, forcedOpen, 1)
		}
	case halfOpen:
		to.refuseWith(b, float64(r.Probes), probesDetail, float64(r.Probes+1))
	case throttling:
		to.refuseWith(b, r.MaxReject, throttleDetail, 0)
	case closed, ramping:
	}
	b.set(&to)
	switch {
	case to.state == halfOpen:
		b.decide(&to, now)
	case to.state == closed && from.rule.Force == Closed && r.Force == None:
		if to.hanging != nil {
			to.hanging.turn(now)
		}
		s := to.results
		m := s.at(now)
		if why, opens := to.judge(now, m, s.marks()); opens {
			b.open(&to, now, why)
		}
	}
}

// sameWindow reports whether b keeps the counts of a.
func sameWindow(a, b *Rule) bool {
	return a.Interval == b.Interval && a.Buckets == b.Buckets && a.countsErrors() == b.countsErrors() &&
		(a.SlowRatio > 0) == (b.SlowRatio > 0) && a.SlowAfter == b.SlowAfter
}
