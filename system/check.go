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
	last     atomic.Pointer[limitCause]
}

// counts are those of one resource.
type counts struct {
	admitted   stripes.Counter
	blocked    [classes]stripes.Counter // by rank
	wouldBlock stripes.Counter
	last       resource.LastRefusal
}

// limitCause is what refusals at one limit have in common.
type limitCause struct {
	phase  *phase
	why    reason
	leaves int64
	cause  resource.Cause
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
	wants := s.rank(p, now, n, by, false)
	taken, ok := s.places.Take(n, p.limit-wants.leaves)
	if !ok {
		return c.refuse(now, n, by, p, wants, inFlight, float64(taken+n))
	}
	var ticket resource.Ticket
	if p.qps > 0 {
		o := s.quota.Load().Take(now, n, p.qps-wants.leaves)
		if !o.OK {
			s.places.GiveBack(n)
			return c.refuse(now, n, by, p, wants, perSecond, float64(o.Held+n))
		}
		ticket = resource.Ticket{A: o.Ticket, B: charged}
	}
	c.counts.admitted.Add(n)
	return resource.Verdict{Ticket: ticket}
}

// wants is what a call wants of the room that there is.
type wants struct {
	tier   tier
	leaves int64 // for those of better tiers
}

// rank finds out whether a call is above the cut. One that only looks is not counted.
func (s *state) rank(p *phase, now, n int64, by resource.Caller, looks bool) (w wants) {
	if !p.shares {
		return wants{tier: last}
	}
	level := levelOf(by, now)
	if !looks {
		s.offers.calls[level].Add(n)
	}
	above := s.offers.admits(p.cut, level, looks)
	switch {
	case p.cut == uncut:
		w.tier = last // nobody is put first
	case level < p.cut.guarded:
		w.tier = first
	case level < p.cut.level:
		w.tier, w.leaves = next, p.hold[first]
	case above:
		w.tier, w.leaves = last, p.hold[first]
	default:
		w.tier, w.leaves = last, p.hold[first]+p.hold[next]
	}
	return w
}

// refuse counts a refusal, and makes the error.
func (c *check) refuse(now, n int64, by resource.Caller, p *phase, w wants, why reason, observed float64) resource.Verdict {
	c.state.refuse(now, n, p, w.tier)
	if c.rule.Mode == rule.Shadow {
		c.counts.wouldBlock.Add(n)
		return resource.Verdict{Refused: &c.shadowed}
	}
	c.counts.blocked[rank(by.Criticality)].Add(n)
	if w.leaves > 0 {
		why++ // with what is held
	}
	wait := jitter()
	if n > c.rule.most() {
		wait = -1
	}
	return resource.Verdict{Refused: &resource.BlockError{Cause: c.causeOf(p, why, w.leaves), Observed: observed, RetryAfter: wait}}
}

// retryAfter is when to try again, about.
const retryAfter = time.Second

// jitter is retryAfter, up to a quarter more or less, so that those that were refused at once do
// not come back at once.
func jitter() time.Duration { return retryAfter*3/4 + rand.N(retryAfter/2) }

// causeOf is the cause of a refusal in a phase.
func (c *check) causeOf(p *phase, why reason, leaves int64) *resource.Cause {
	if last := c.last.Load(); last != nil && last.phase == p && last.why == why && last.leaves == leaves {
		return &last.cause
	}
	l := &limitCause{p, why, leaves, c.cause}
	cause := &l.cause
	switch cause.Because = p.excess; why {
	case inFlight:
		cause.Threshold, cause.Detail = float64(p.limit), " in flight"
	case inFlightHeld:
		cause.Threshold, cause.Detail = float64(p.limit-leaves), fmt.Sprintf(" in flight, with %d kept for calls that matter more", leaves)
	case perSecond:
		cause.Threshold, cause.Interval = float64(p.qps), time.Second
	case perSecondHeld:
		cause.Threshold, cause.Interval = float64(p.qps-leaves), time.Second
		cause.Detail = fmt.Sprintf(", with %d kept for calls that matter more", leaves)
	case none:
	}
	c.last.Store(l)
	return cause
}

// Look refuses a call for which there is no room, before anything is taken of it.
func (c *check) Look(now, n int64, by resource.Caller) *resource.BlockError {
	s := c.state
	if now >= s.due.Load() {
		s.look(now)
	}
	p := s.phase.Load()
	w := s.rank(p, now, n, by, true)
	why, observed := s.room(p, now, n, w)
	if why == none {
		return nil
	}
	s.rank(p, now, n, by, false) // it is counted as one that came
	return c.refuse(now, n, by, p, w, why, observed).Refused
}

// room returns why there is no room for n more, and what there would be with them.
func (s *state) room(p *phase, now, n int64, w wants) (why reason, observed float64) {
	if taken := s.places.Taken(); n > p.limit-w.leaves-taken {
		return inFlight, float64(taken + n)
	}
	if p.qps > 0 {
		if held := s.quota.Load().Window(now); n > p.qps-w.leaves-held {
			return perSecond, float64(held + n)
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

// Wait returns how long it is until all is looked at anew if there is no room. What will be
// then nobody knows.
func (c *check) Wait(now, n int64, by resource.Caller) time.Duration {
	s := c.state
	p := s.phase.Load()
	if why, _ := s.room(p, now, n, wants{}); why == none {
		return 0
	}
	if n > c.rule.most() {
		return -1
	}
	return time.Duration(max(0, s.due.Load()-int64(every)+int64(retryAfter*3/4)-now))
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
	if p.limit < unlimited {
		r.Effective = float64(p.limit)
	}
	return r
}
