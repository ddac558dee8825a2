package param

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// check is what the checks of this package have in common: one rule on one resource. A
// changed rule gets another check, which shares what still fits.
type check struct {
	rule   *Rule // complete; not changed
	state  *state
	prefix string // of the keys of this resource
	args   []string
	items  *items // nil for none
	limit  int64  // of a value that is not among items
	counts *counts
	top    *top // nil if nobody asked for it
	now    func() int64

	cause    resource.Cause
	causes   map[int64]*resource.Cause // of the limits of items
	missing  *resource.Cause           // a call without the argument
	crowded  *resource.Cause           // there is no room for another value
	shadowed resource.BlockError       // every refusal in mode shadow, which nobody reads
}

type counts struct {
	admitted            stripes.Counter
	blocked             stripes.Counter
	wouldBlock          stripes.Counter
	candidateWouldBlock stripes.Counter
	missing             stripes.Counter
	last                resource.LastRefusal
}

func compile(env *ruleset.Env, r *Rule, name string, before resource.Check) resource.Check {
	s := env.Shared.(*state)
	var common *check
	if old, had := before.(interface{ base() *check }); had {
		if *old.base().rule == *r && old.base().state.tables == s.tables {
			return before
		}
		if old.base().cause.Resource == name {
			common = old.base()
		}
	}
	if r.MaxInFlight > 0 {
		c := new(inFlight)
		c.init(env, s, name, common)
		c.occupy(before)
		return c
	}
	c := new(rated)
	c.init(env, s, name, common)
	c.remember(before)
	if s.tried != nil {
		return &trying{c}
	}
	return c
}

// init makes what is common to all checks; old is that of the rule before on this resource.
func (c *check) init(env *ruleset.Env, s *state, name string, old *check) {
	r := s.rule
	c.rule, c.state, c.prefix, c.args, c.limit, c.now = r, s, s.prefix(name), argsOf(r), int64(r.Threshold), env.Now
	if c.now == nil {
		c.now = func() int64 { return 0 }
	}
	if old != nil {
		c.counts = old.counts
	} else {
		c.counts = new(counts)
	}
	switch {
	case r.Top == 0:
	case old != nil && old.rule.Top == r.Top && slices.Equal(old.args, c.args):
		c.top = old.top
	default:
		c.top = newTop(r.Top)
	}
	c.cause = resource.Cause{
		Resource: name, Kind: kindName, RuleID: r.ID, Status: tooManyRequests,
		Threshold: r.Threshold, Interval: r.Interval, Last: &c.counts.last,
	}
	switch {
	case r.MaxInFlight > 0:
		c.limit = r.MaxInFlight
		c.cause.Threshold, c.cause.Status, c.cause.Detail = float64(r.MaxInFlight), serviceUnavailable, " in flight"
	case probes(r):
		c.limit = limit.Exempt
	case r.Behavior == Bucket && r.Burst > 0:
		c.cause.Detail = ", at most " + strconv.FormatInt(r.Burst, 10) + " at once"
	case r.Behavior == Pace:
		c.cause.Detail = ", with a queue of " + r.MaxWait.String()
	default:
	}
	c.shadowed.Cause = &c.cause
	missing, crowded := c.cause, c.cause
	missing.Threshold, missing.Interval = 0, 0
	missing.Detail = " without " + strconv.Quote(strings.Join(c.args, ","))
	crowded.Status, crowded.Detail = serviceUnavailable, crowded.Detail+", and no room for another value"
	c.missing, c.crowded = &missing, &crowded
	if s.items == nil {
		return
	}
	c.items = s.items
	c.causes = make(map[int64]*resource.Cause)
	for _, of := range []map[string]int64{c.items.values, c.items.prefixes} {
		for _, most := range of {
			c.addCause(most)
		}
	}
	for _, most := range c.items.blocks {
		c.addCause(most)
	}
}

func (c *check) addCause(most int64) {
	if c.causes[most] == nil {
		cause := c.cause
		cause.Threshold = float64(most)
		c.causes[most] = &cause
	}
}

// goesOn reports whether b keeps what a has counted.
func goesOn(a, b *Rule) bool {
	return (a.MaxInFlight > 0) == (b.MaxInFlight > 0) && a.Resource == b.Resource && a.Match == b.Match && slices.Equal(argsOf(a), argsOf(b)) &&
		a.Interval == b.Interval && a.Behavior == b.Behavior && a.MaxKeys == b.MaxKeys && a.WhenFull == b.WhenFull
}

func (c *check) base() *check           { return c }
func (c *check) Cause() *resource.Cause { return &c.cause }
func (c *check) Mode() rule.Mode        { return c.rule.Mode }

func (c *check) Stage() resource.Stage {
	if c.rule.MaxWait > 0 {
		return resource.Waiting
	}
	return resource.Counting
}

// Reserve, Refund and Wait are not called: see resource.ArgsCheck.
func (c *check) Reserve(int64, int64, resource.Caller) (v resource.Verdict) { return v }
func (c *check) Refund(resource.Ticket, int64)                              {}
func (c *check) Wait(int64, int64, resource.Caller) (d time.Duration)       { return d }

// limitOf returns the limit of a value, and the cause of its refusals.
func (c *check) limitOf(value string) (most int64, cause *resource.Cause) {
	if c.items != nil {
		if most, ok := c.items.limitOf(value); ok {
			return most, c.causes[most]
		}
	}
	return c.limit, &c.cause
}

// asked is what a call is asked about.
type asked struct {
	value  string
	key    string  // of the value in tables
	buffer *buffer // that has the key, or the value; nil if the call has both
	limit  int64
	cause  *resource.Cause
	own    bool // the value has a limit of its own
	shared bool // the call has no value, and shares one with others
}

// ask fills in what a call is asked about. It is false if nothing is, since the call has no
// value. A struct of this size is not returned in registers, and copying it takes longer than
// filling it in.
func (c *check) ask(a *asked, args resource.Args) (ok bool) {
	if len(c.args) == 1 {
		a.value, ok = args.Get(c.args[0])
	} else {
		a.value, a.buffer, ok = joined(c.args, args)
	}
	a.limit, a.cause = c.limit, &c.cause
	if !ok {
		a.shared = true
		return c.rule.Missing == Shared
	}
	if c.items != nil {
		a.limit, a.cause = c.limitOf(a.value)
		a.own = a.cause != &c.cause
	}
	a.locate(c.prefix)
	return true
}

// come counts a call that has come, before it is decided about.
func (c *check) come(a *asked, n int64) {
	if a.shared {
		c.counts.missing.Add(n)
	} else if c.top != nil {
		c.top.busiest.Count(a.value, n)
	}
}

// untaken is the second word of a ticket for which nothing was taken.
const untaken = -1

// missed decides about a call without a value that shares none.
func (c *check) missed(n int64) resource.Verdict {
	if c.rule.Missing == Block {
		return c.refuse(n, c.missing, nil, float64(n), -1)
	}
	return resource.Verdict{Ticket: resource.Ticket{B: untaken}}
}

// refuse counts a refusal of a value, nil if the call has none, and makes the error.
func (c *check) refuse(n int64, cause *resource.Cause, a *asked, observed float64, wait time.Duration) resource.Verdict {
	if c.top != nil && a != nil && !a.shared {
		c.top.refused.Count(a.value, n)
	}
	if c.rule.Mode == rule.Shadow {
		c.counts.wouldBlock.Add(n)
		return resource.Verdict{Refused: &c.shadowed}
	}
	c.counts.blocked.Add(n)
	return resource.Verdict{Refused: &resource.BlockError{Cause: cause, Observed: observed, RetryAfter: wait}}
}

// snapshot has what the snapshots of all checks have.
func (c *check) snapshot(values int) stat.RuleSnapshot {
	s := stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kindName, Mode: c.rule.Mode,
		Threshold: c.cause.Threshold, Effective: c.cause.Threshold, Interval: c.rule.Interval,
		Used:                -1, // each value has its own
		Admitted:            c.counts.admitted.Load(),
		Blocked:             c.counts.blocked.Load(),
		WouldBlock:          c.counts.wouldBlock.Load(),
		Candidate:           c.rule.Candidate,
		CandidateWouldBlock: c.counts.candidateWouldBlock.Load(),
		Missing:             c.counts.missing.Load(),
		Values:              values,
	}
	if c.top != nil {
		s.Busiest = snapshotOf(c.top.busiest, c.rule, c.args)
		s.RefusedMost = snapshotOf(c.top.refused, c.rule, c.args)
	}
	return s
}
