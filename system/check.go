package system

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// check carries out a rule on one of the resources that it binds. A changed rule gets another
// check, which takes over the counts of this one.
type check struct {
	state    *state // of all of them
	rule     *Rule  // complete; not changed
	cause    resource.Cause
	counts   *counts
	shadowed resource.BlockError // of every refusal in mode shadow, which nobody reads
	last     [ranks]atomic.Pointer[limitCause]
}

// counts are those of one resource.
type counts struct {
	admitted   stripes.Counter
	blocked    [ranks]stripes.Counter
	wouldBlock stripes.Counter
	last       resource.LastRefusal
}

// limitCause is the cause of blocks of one rank for one reason while a phase lasts.
type limitCause struct {
	phase *phase
	why   reason
	cause resource.Cause
}

// reason is what a call was refused for.
type reason uint8

const (
	none reason = iota
	inFlight
	inFlightHeld // what is free is held for others
	perSecond
	perSecondHeld
)

var (
	_ resource.Check    = (*check)(nil)
	_ resource.Finisher = (*check)(nil)
	_ resource.Looker   = (*check)(nil)
)

func compile(env *ruleset.Env, r *Rule, name string, before resource.Check) resource.Check {
	s := env.Shared.(*state)
	old, had := before.(*check)
	if had && old.state == s && *old.rule == *r {
		return old
	}
	c := &check{state: s, rule: r, counts: new(counts)}
	if had && old.cause.Resource == name {
		c.counts = old.counts
	}
	c.cause = resource.Cause{
		Resource: name, Kind: kindName, RuleID: r.ID, Binds: r.Resource,
		Threshold: threshold(r), Last: &c.counts.last, State: s.shown,
	}
	c.shadowed.Cause = &c.cause
	return c
}

// threshold is the first of what the rule bounds.
func threshold(r *Rule) float64 {
	switch bounds := boundsOf(r); {
	case r.MaxInFlight > 0:
		return float64(r.MaxInFlight)
	case r.MaxQPS > 0:
		return float64(r.MaxQPS)
	default:
		return bounds[0].most
	}
}

func (c *check) Cause() *resource.Cause { return &c.cause }
func (c *check) Mode() rule.Mode        { return c.rule.Mode }
func (c *check) Stage() resource.Stage  { return resource.Beginning }

// Interval is 0, for what is remembered is not of the resource.
func (c *check) Interval() time.Duration { return 0 }

func (c *check) Reserve(now, n int64, by resource.Caller) resource.Verdict {
	s := c.state
	if now >= s.due.Load() {
		s.look(now)
	}
	if p := s.phase.Load(); p.calm && p.qps == 0 {
		if _, ok := s.places.Take(n, p.limit); ok {
			c.counts.admitted.Add(n)
			return resource.Verdict{}
		}
	}
	return c.reserve(now, n, by)
}

// charged marks a ticket of which MaxQPS was charged as well.
const charged = 1

// reserve is Reserve with everything that may happen.
//
//go:noinline
func (c *check) reserve(now, n int64, by resource.Caller) resource.Verdict {
	s := c.state
	p := s.phase.Load()
	rank := rankOf(by.Criticality)
	s.came(p, rank, n)
	taken, ok := s.places.Take(n, p.limit-p.leaves[rank])
	if !ok {
		return c.refuse(now, n, by, p, s.noPermit(rank, n, p), float64(taken+n))
	}
	var ticket resource.Ticket
	if p.qps > 0 {
		limit, why := s.perSecond(p, rank)
		o := s.quota.Load().Take(now, n, limit)
		if !o.OK {
			s.places.GiveBack(n)
			return c.refuse(now, n, by, p, why, float64(o.Held+n))
		}
		ticket = resource.Ticket{A: o.Ticket, B: charged}
	}
	c.counts.admitted.Add(n)
	return resource.Verdict{Ticket: ticket}
}

// came counts n calls of a rank that arrived while the rule blocks calls.
func (s *state) came(p *phase, rank int, n int64) {
	if p.shares {
		s.demand.calls[rank].Add(n)
	}
}

// perSecond returns how much of MaxQPS calls of a rank may use, and why a call is blocked beyond that.
func (s *state) perSecond(p *phase, rank int) (limit int64, why reason) {
	came := int64(0)
	for i := range rank {
		came += s.demand.calls[i].Load()
	}
	if p.shares && (came > 0 || p.admits[rank] < p.qps) {
		return min(p.admits[rank]+came, p.qps), perSecondHeld
	}
	return p.qps, perSecond
}

// noPermit counts n calls of a rank that found no permit, and returns why.
func (s *state) noPermit(rank int, n int64, p *phase) reason {
	s.demand.unmet[rank].Add(n)
	if p.leaves[rank] > 0 {
		return inFlightHeld
	}
	return inFlight
}

// refuse counts a refusal, and makes the error.
func (c *check) refuse(now, n int64, by resource.Caller, p *phase, why reason, observed float64) resource.Verdict {
	c.state.refuse(now, n, p)
	if c.rule.Mode == rule.Shadow {
		c.counts.wouldBlock.Add(n)
		return resource.Verdict{Refused: &c.shadowed}
	}
	c.counts.blocked[rankOf(by.Criticality)].Add(n)
	wait := c.state.wait(p, now, n, why)
	if wait > 0 { // calls that were blocked together should not come back together
		wait += rand.N(wait/4 + 1)
	}
	return resource.Verdict{Refused: &resource.BlockError{Cause: c.causeOf(p, why, rankOf(by.Criticality)), Observed: observed, RetryAfter: wait}}
}

// wait returns how long after now n calls blocked for a reason would be admitted if no other calls were made. It
// is negative if that is unknown: nobody knows when calls in flight will end. What is kept for more critical calls
// is admitted after a second without calls.
func (s *state) wait(p *phase, now, n int64, why reason) time.Duration {
	switch {
	case why == none:
		return 0
	case n > p.qps || why == inFlight || why == inFlightHeld:
		return -1
	case why == perSecondHeld:
		return time.Second
	default:
		return s.quota.Load().Wait(now, n, p.qps)
	}
}

// causeOf is the cause of a refusal in a phase.
func (c *check) causeOf(p *phase, why reason, rank int) *resource.Cause {
	if last := c.last[rank].Load(); last != nil && last.phase == p && last.why == why {
		return &last.cause
	}
	l := &limitCause{p, why, c.cause}
	cause := &l.cause
	switch cause.Because = p.excess; why {
	case inFlight:
		cause.Threshold, cause.Detail = float64(p.limit), " in flight"
	case inFlightHeld:
		leaves := p.leaves[rank]
		cause.Threshold, cause.Detail = float64(p.limit-leaves), fmt.Sprintf(" in flight, with %d kept for more critical calls", leaves)
	case perSecond:
		cause.Threshold, cause.Interval = float64(p.qps), time.Second
	case perSecondHeld:
		cause.Threshold, cause.Interval, cause.Detail = float64(p.qps), time.Second, ", with the rest kept for more critical calls"
	case none:
	}
	c.last[rank].Store(l)
	return cause
}

// Look refuses a call for which there is no room, before anything is taken of it.
func (c *check) Look(now, n int64, by resource.Caller) *resource.BlockError {
	s := c.state
	if now >= s.due.Load() {
		s.look(now)
	}
	p, rank := s.phase.Load(), rankOf(by.Criticality)
	why, observed := s.room(p, now, n, rank)
	switch why {
	case none:
		return nil
	case inFlight, inFlightHeld:
		s.noPermit(rank, n, p)
	default:
	}
	s.came(p, rank, n)
	return c.refuse(now, n, by, p, why, observed).Refused
}

// room returns why there is no room for n more, and what there would be with them.
func (s *state) room(p *phase, now, n int64, rank int) (why reason, observed float64) {
	if taken := s.places.Taken(); n > p.limit-p.leaves[rank]-taken {
		if p.leaves[rank] > 0 {
			return inFlightHeld, float64(taken + n)
		}
		return inFlight, float64(taken + n)
	}
	if p.qps > 0 {
		limit, why := s.perSecond(p, rank)
		if held := s.quota.Load().Window(now); n > limit-held {
			return why, float64(held + n)
		}
	}
	return none, 0
}

// Refund takes back a call that another rule has refused.
func (c *check) Refund(ticket resource.Ticket, n int64) {
	c.counts.admitted.Add(-n)
	c.state.places.GiveBack(n)
	if ticket.B == charged {
		c.state.quota.Load().Refund(ticket.A, n)
	}
}

// Finish gives back the places of a call that has ended.
func (c *check) Finish(_, n int64, rt time.Duration, outcome resource.Outcome) {
	s := c.state
	if outcome == resource.Success && s.phase.Load().keeps {
		s.ended.add(n, rt)
	}
	s.places.GiveBack(n)
}

// Wait returns how long after now n more would be admitted, under what is kept for others at present.
func (c *check) Wait(now, n int64, by resource.Caller) time.Duration {
	s := c.state
	p := s.phase.Load()
	why, _ := s.room(p, now, n, rankOf(by.Criticality))
	if why == perSecondHeld && now-p.began >= second {
		why = perSecond // nothing is kept after a second without calls
	}
	return s.wait(p, now, n, why)
}

func (c *check) Snapshot(now int64) stat.RuleSnapshot {
	s := c.state
	if now >= s.due.Load() {
		s.look(now)
	}
	p := s.phase.Load()
	r := stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kindName, Mode: c.rule.Mode,
		Threshold: c.cause.Threshold, Effective: c.cause.Threshold,
		Admitted: c.counts.admitted.Load(), WouldBlock: c.counts.wouldBlock.Load(),
		Shed: stat.ByCriticality{
			Critical: c.counts.blocked[0].Load(), Default: c.counts.blocked[1].Load(),
			Sheddable: c.counts.blocked[2].Load(), Background: c.counts.blocked[3].Load(),
		},
	}
	r.Blocked = r.Shed.Sum()
	switch {
	case p.limit < unlimited:
		r.Effective, r.Used = float64(p.limit), s.places.Taken()
	case p.qps > 0:
		r.Used, r.Interval = s.quota.Load().Window(now), time.Second
	default:
		r.Used = -1
	}
	return r
}
