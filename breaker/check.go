package breaker

import (
	"time"

	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// check carries out one rule on one resource. A changed rule gets another check, which keeps
// the breaker of this one.
type check struct {
	breaker  *breaker
	rule     *Rule // complete; not changed
	cause    resource.Cause
	shadowed resource.BlockError // of every refusal in mode shadow, which nobody reads
}

var (
	_ resource.Check    = (*check)(nil)
	_ resource.Finisher = (*check)(nil)
	_ resource.Looker   = (*check)(nil)
)

func newCheck(r *Rule, b *breaker) *check {
	c := &check{breaker: b, rule: r, cause: b.cause}
	c.cause.Threshold = r.threshold()
	c.shadowed.Cause = &c.cause
	return c
}

// threshold is the first of the figures that open the breaker.
func (r *Rule) threshold() float64 {
	switch {
	case r.Behavior == Throttle:
		return r.MaxReject
	case r.ErrorRatio > 0:
		return r.ErrorRatio
	case r.SlowRatio > 0:
		return r.SlowRatio
	case r.ErrorCount > 0:
		return float64(r.ErrorCount)
	default:
		return float64(r.Consecutive)
	}
}

func (c *check) Cause() *resource.Cause { return &c.cause }
func (c *check) Mode() rule.Mode        { return c.rule.Mode }
func (c *check) Stage() resource.Stage  { return resource.Beginning }

// Interval is as long as anything of the rule is remembered: an opening, and then its length
// for the back-off.
func (c *check) Interval() time.Duration {
	r := c.rule
	return max(r.Interval, r.SlowAfter, 2*r.maxOpenFor(), r.probeTimeout(), r.Ramp)
}

func (c *check) Reserve(now, n int64, _ resource.Caller) resource.Verdict {
	b := c.breaker
	switch p := b.phase.Load(); {
	case p.state == open && now < p.until && c.rule.Mode == rule.Enforce:
		a, _ := p.refuseOpen(now)
		return resource.Verdict{Refused: c.block(n, a)}
	case p.state != closed:
	case p.hanging == nil:
		b.admitted.Add(n)
		return resource.Verdict{Ticket: resource.Ticket{A: now}}
	case now >= p.since && tryBegin(p.hanging.ring.Newest(), now, n):
		return resource.Verdict{Ticket: resource.Ticket{A: now}}
	}
	return c.reserve(now, n)
}

// reserve is Reserve with everything that may happen.
//
//go:noinline
func (c *check) reserve(now, n int64) resource.Verdict {
	_, a := c.breaker.reserve(now)
	if a.refused == nil {
		c.breaker.admitted.Add(n)
		return resource.Verdict{Ticket: resource.Ticket{A: now, B: int64(a.share)}}
	}
	if c.rule.Mode == rule.Shadow {
		c.breaker.wouldBlock.Add(n)
		return resource.Verdict{Refused: &c.shadowed}
	}
	return resource.Verdict{Refused: c.block(n, a)}
}

// block counts a refusal, and makes the error.
func (c *check) block(n int64, a answer) *resource.BlockError {
	c.breaker.blocked.Add(n)
	return &resource.BlockError{Cause: a.refused, Observed: a.observed, RetryAfter: a.retryAfter}
}

func (c *check) Look(now, n int64, _ resource.Caller) *resource.BlockError {
	if p := c.breaker.phase.Load(); p.state == closed && p.hanging == nil {
		return nil
	}
	if a, refused := c.breaker.wouldRefuse(now); refused {
		return c.block(n, a)
	}
	return nil
}

// Refund takes back a call that another rule has refused.
func (c *check) Refund(ticket resource.Ticket, n int64) {
	c.breaker.admitted.Add(-n)
	c.breaker.refund(ticket.A, uint64(ticket.B))
}

// Finish takes the result of a call.
func (c *check) Finish(now, _ int64, rt time.Duration, outcome resource.Outcome) {
	start := now - int64(rt)
	if p := c.breaker.phase.Load(); p.state != closed || outcome != resource.Success || !c.breaker.countGood(p, now, start) {
		c.breaker.finish(now, start, outcome)
	}
}

// Pause and Resume exclude the time in between from a call.
func (c *check) Pause(now, start int64)      { c.breaker.move(now, start, pausing) }
func (c *check) Resume(now, start, to int64) { c.breaker.move(now, start, to) }

func (c *check) Wait(now, _ int64, _ resource.Caller) time.Duration { return c.breaker.wait(now) }

func (c *check) Snapshot(now int64) stat.RuleSnapshot {
	b := c.breaker
	return stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kindName, Mode: c.rule.Mode,
		Threshold: c.cause.Threshold, Effective: b.effective(c.rule, now), Used: -1,
		Admitted: b.allAdmitted(), Blocked: b.blocked.Load(), WouldBlock: b.wouldBlock.Load(),
	}
}

// allAdmitted is what all calls count for that were admitted.
func (b *breaker) allAdmitted() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.admitted.Load()
	if b.hanging != nil {
		n += b.hanging.sum().admitted
	}
	return n
}
