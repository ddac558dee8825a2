package flow

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/quota"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// controller carries out one rule on one resource. A changed rule gets another
// controller, which takes over from this one what still fits; but a plain rule of which only
// the threshold changes keeps its own.
type controller struct {
	live decider // first: its threshold must be aligned to 8 bytes, also on processors of 32 bits
	// The short way, for most rules: plain is the quota of the live threshold if
	// nothing else is to be asked.
	plain *quota.Quota

	counts    *counts
	rule      *Rule // complete; not changed. Of a plain rule, live alone has the threshold.
	cause     resource.Cause
	candidate *decider             // of the candidate threshold; nil if there is none
	shadowed  *resource.BlockError // of every refusal in mode shadow, which nobody reads; else nil
	passes    func(name string, now int64) int64

	named    []string                       // the origins that are not others
	changing atomic.Pointer[resource.Cause] // the cause of the last refusal by another threshold than its
}

type counts struct {
	admitted            stripes.Counter // by rules that read another resource; the windows of others know
	blocked             stripes.Counter
	wouldBlock          stripes.Counter
	candidateWouldBlock stripes.Counter
	last                resource.LastRefusal
}

var _ resource.Check = (*controller)(nil)

// compile makes the controller of a complete rule on a resource. It keeps the counts of
// the rule that had its ID, if that was for the resource; the queue, if it paces; and the
// window, if that was cut in the same way: then the calls that were admitted already still
// count.
func compile(env *ruleset.Env, r *Rule, name string, before resource.Check) resource.Check {
	old, had := before.(*controller)
	if had && old.change(r) {
		old.live.load(r, env.Time()) // other rules may have been compiled since, and not bound
		return old
	}
	c := &controller{rule: r, passes: env.Passes}
	var live, candidate history
	if had && sameWindow(old.rule, r) {
		if live = old.live.history; old.candidate != nil {
			candidate = old.candidate.history
		}
	}
	if had && old.cause.Resource == name {
		c.counts = old.counts
	} else {
		c.counts = new(counts)
	}
	c.live = newDecider(r, r.Threshold, live, env.Memory)
	c.live.waits = r.Mode == rule.Enforce && c.waits()
	if r.Candidate > 0 {
		tried := newDecider(r, r.Candidate, candidate, env.Memory)
		c.candidate = &tried
	}
	c.live.load(r, env.Time())
	if r.Strategy == Direct && r.Behavior == Reject && r.Associated == "" && r.Origin == "" && r.Candidate == 0 {
		c.plain = c.live.history.quota
	}
	if r.Mode == rule.Shadow {
		c.shadowed = &resource.BlockError{Cause: &c.cause}
	}
	c.cause = resource.Cause{
		Resource: name, Kind: kindName, RuleID: r.ID, Threshold: r.Threshold, Interval: r.Interval,
		Last: &c.counts.last,
	}
	if r.Behavior == Pace {
		c.cause.Detail = fmt.Sprintf(", with a queue of %v", r.MaxWait)
	}
	switch {
	case r.Associated != "":
		c.cause.Detail = fmt.Sprintf(" on %q", r.Associated)
	case r.Strategy == WarmUp:
		c.cause.Detail += fmt.Sprintf(", warming up to %v", r.Threshold)
	case r.Strategy == MemoryAdaptive:
		c.cause.Detail += fmt.Sprintf(", of %v with memory to spare", r.Threshold)
	}
	return c
}

// change makes the rule r, if it can: calls may be asking.
func (c *controller) change(r *Rule) bool {
	same := *c.rule
	if c.plain != nil && r.Match == rule.Exact {
		same.Threshold = r.Threshold
	}
	if same != *r {
		return false
	}
	c.live.threshold.Store(r.Threshold)
	return true
}

// beside returns the controller for a resource on which rules name these origins: another
// one, if that was otherwise, since calls may be asking this one. They share what the rule
// remembers.
func (c *controller) beside(named []string) *controller {
	if slices.Equal(c.named, named) {
		return c
	}
	other := &controller{
		counts: c.counts, rule: c.rule, cause: c.cause, live: c.live, candidate: c.candidate, shadowed: c.shadowed,
		passes: c.passes, named: named,
	}
	return other
}

// sameWindow reports whether b keeps what a remembers: its window, or its queue,
// which is cut into no buckets.
func sameWindow(a, b *Rule) bool {
	if a.Resource != b.Resource || a.Match != b.Match || a.Behavior != b.Behavior || a.Associated != b.Associated {
		return false
	}
	return b.Behavior == Pace || a.Interval == b.Interval && a.Buckets == b.Buckets && a.Strict == b.Strict
}

func (c *controller) Cause() *resource.Cause { return &c.cause }
func (c *controller) Mode() rule.Mode        { return c.rule.Mode }

// Stage is Waiting for a rule that paces: calls with priority wait too, but seldom.
func (c *controller) Stage() resource.Stage {
	if c.waits() {
		return resource.Waiting
	}
	return resource.Counting
}

func (c *controller) waits() bool { return c.rule.Behavior == Pace && c.rule.MaxWait > 0 }

// Interval counts from the last event, and the calls that wait by then come later.
func (c *controller) Interval() time.Duration {
	remembers := windowOf(c.rule)
	if c.rule.Behavior == Pace {
		remembers = c.rule.longestGap() + c.rule.MaxWait
	}
	if c.live.history.warmth != nil {
		remembers = max(remembers, c.live.history.warmth.cools())
	}
	return remembers
}

// untaken is the ticket of a threshold that took nothing.
const untaken = math.MinInt64

func (c *controller) Reserve(now, n int64, by resource.Caller) resource.Verdict {
	if c.plain == nil || by.Priority || by.NoRates {
		return c.reserve(now, n, by)
	}
	threshold := c.live.threshold.Load()
	o := c.plain.Take(now, n, whole(threshold))
	if o.OK {
		return resource.Verdict{Ticket: resource.Ticket{A: o.Ticket}}
	}
	return c.refuse(n, threshold, float64(o.Held+n), o.Wait)
}

// reserve is Reserve with everything that a rule may ask for.
//
//go:noinline
func (c *controller) reserve(now, n int64, by resource.Caller) resource.Verdict {
	if by.NoRates || !c.concerns(by.Origin) {
		return resource.Verdict{Ticket: resource.Ticket{A: untaken, B: untaken}}
	}
	if c.rule.Associated != "" {
		return c.readAssociated(now, n)
	}
	o := c.live.reserve(c.rule, now, n, by.Priority)
	ticket := resource.Ticket{A: o.ticket}
	if c.candidate != nil {
		tried := c.candidate.reserve(c.rule, now, n, by.Priority)
		ticket.B = tried.ticket
		if !tried.ok {
			ticket.B = untaken
			c.counts.candidateWouldBlock.Add(n)
		}
	}
	switch {
	case !o.ok:
		return c.refuse(n, o.threshold, o.observed, o.wait)
	case o.wait > 0:
		delay := &resource.Delay{
			For: o.wait, Borrowed: c.rule.Behavior == Reject,
			Observed: o.observed, Cause: c.causeOf(o.threshold), Blocked: &c.counts.blocked,
		}
		if o.turn != nil {
			delay.Turn = &queued{o.turn, c, ticket, n}
		}
		return resource.Verdict{Ticket: ticket, Delay: delay}
	}
	return resource.Verdict{Ticket: ticket}
}

// refuse counts a refusal by the threshold that held, and makes the error.
func (c *controller) refuse(n int64, threshold, observed float64, wait time.Duration) resource.Verdict {
	if c.rule.Mode == rule.Shadow {
		c.counts.wouldBlock.Add(n)
		return resource.Verdict{Refused: c.shadowed}
	}
	c.counts.blocked.Add(n)
	return resource.Verdict{Refused: &resource.BlockError{Cause: c.causeOf(threshold), Observed: observed, RetryAfter: wait}}
}

// causeOf is the cause of a refusal, with the threshold that held.
func (c *controller) causeOf(threshold float64) *resource.Cause {
	if threshold == c.cause.Threshold {
		return &c.cause
	}
	if last := c.changing.Load(); last != nil && last.Threshold == threshold {
		return last
	}
	cause := c.cause
	cause.Threshold = threshold
	c.changing.Store(&cause)
	return &cause
}

// concerns reports whether the rule is for calls of an origin.
func (c *controller) concerns(origin string) bool {
	switch c.rule.Origin {
	case "", origin:
		return true
	case OtherOrigins:
		return !slices.Contains(c.named, origin)
	}
	return false
}

// readAssociated decides by what the other resource passes.
func (c *controller) readAssociated(now, n int64) resource.Verdict {
	observed := c.associated(now, n)
	if c.rule.Candidate > 0 && observed > c.rule.Candidate {
		c.counts.candidateWouldBlock.Add(n)
	}
	if observed > c.rule.Threshold {
		return c.refuse(n, c.rule.Threshold, observed, quota.Unknown)
	}
	c.counts.admitted.Add(n)
	return resource.Verdict{}
}

// associated is what the other resource passes in a second, n more included.
func (c *controller) associated(now, n int64) float64 {
	if c.passes == nil {
		return float64(n)
	}
	return float64(n + c.passes(c.rule.Associated, now))
}

func (c *controller) Refund(ticket resource.Ticket, n int64) {
	switch {
	case ticket.A == untaken:
	case c.rule.Associated != "":
		c.counts.admitted.Add(-n)
	default:
		c.live.refund(c.rule, ticket.A, n)
		c.refundCandidate(ticket, n)
	}
}

func (c *controller) refundCandidate(ticket resource.Ticket, n int64) {
	if c.candidate != nil && ticket.B != untaken {
		c.candidate.refund(c.rule, ticket.B, n)
	}
}

// queued is the turn of a call that counts n.
type queued struct {
	turn   *turn
	c      *controller
	ticket resource.Ticket
	n      int64
}

func (q *queued) Due(now int64, sooner func()) time.Duration { return q.turn.due(now, sooner) }

func (q *queued) GiveBack(now int64) {
	q.turn.giveBack(now)
	q.turn.pacer.admitted.Add(-q.n)
	q.c.refundCandidate(q.ticket, q.n)
}

func (c *controller) Wait(now, n int64, by resource.Caller) time.Duration {
	switch {
	case by.NoRates || !c.concerns(by.Origin):
		return 0
	case c.rule.Associated == "":
		return c.live.wait(c.rule, now, n)
	case c.associated(now, n) <= c.rule.Threshold:
		return 0
	default:
		return quota.Unknown
	}
}

func (c *controller) Snapshot(now int64) stat.RuleSnapshot {
	threshold := c.live.threshold.Load()
	s := stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kindName, Mode: c.rule.Mode, Interval: c.rule.Interval,
		Threshold:           threshold,
		Effective:           threshold,
		Admitted:            c.counts.admitted.Load(),
		Blocked:             c.counts.blocked.Load(),
		WouldBlock:          c.counts.wouldBlock.Load(),
		Candidate:           c.rule.Candidate,
		CandidateWouldBlock: c.counts.candidateWouldBlock.Load(),
	}
	if c.rule.Associated != "" {
		s.Used = int64(c.associated(now, 0))
		return s
	}
	s.Effective = c.live.at(now)
	s.Admitted = c.live.history.admitted()
	if s.Used = -1; c.live.history.quota != nil {
		s.Used = c.live.history.quota.Window(now)
	}
	return s
}
