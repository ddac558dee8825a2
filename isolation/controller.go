package isolation

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/places"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// controller carries out one rule on one resource. A changed rule gets another
// controller, which shares the places of this one.
type controller struct {
	rule     Rule
	cause    resource.Cause
	shadowed resource.BlockError // of every refusal in mode shadow, which nobody reads
	state    *state
}

type state struct {
	places     places.Places
	admitted   stripes.Counter
	blocked    stripes.Counter
	wouldBlock stripes.Counter
	last       resource.LastRefusal
}

var (
	_ resource.Check    = (*controller)(nil)
	_ resource.Finisher = (*controller)(nil)
)

func compile(_ *ruleset.Env, r *Rule, name string, before resource.Check) resource.Check {
	old, had := before.(*controller)
	if had && old.rule == *r {
		// Another limit may have been set for rules that came and went without being bound.
		old.state.places.SetLimit(r.MaxInFlight)
		return old
	}
	c := &controller{rule: *r, state: new(state)}
	if had && old.cause.Resource == name {
		c.state = old.state
	}
	c.state.places.SetLimit(r.MaxInFlight)
	c.shadowed.Cause = &c.cause
	c.cause = resource.Cause{
		Resource: name, Kind: kindName, RuleID: r.ID, Threshold: float64(r.MaxInFlight),
		Detail: " in flight", Last: &c.state.last,
	}
	return c
}

func (c *controller) Cause() *resource.Cause { return &c.cause }
func (c *controller) Mode() rule.Mode        { return c.rule.Mode }

// Stage is Waiting for a rule with a queue.
func (c *controller) Stage() resource.Stage {
	if c.rule.MaxWait > 0 {
		return resource.Waiting
	}
	return resource.Counting
}

func (c *controller) Interval() time.Duration { return 0 }

func (c *controller) Reserve(_, n int64, _ resource.Caller) resource.Verdict {
	p, limit := &c.state.places, c.rule.MaxInFlight
	taken, ok := p.Take(n, limit)
	if ok {
		c.state.admitted.Add(n)
		return resource.Verdict{}
	}
	if c.rule.Mode == rule.Shadow {
		c.state.wouldBlock.Add(n)
		return resource.Verdict{Refused: &c.shadowed}
	}
	observed := float64(taken + n)
	if c.rule.MaxWait > 0 && n <= limit {
		if w := p.Queue(n, c.rule.maxQueue()); w != nil {
			c.state.admitted.Add(n)
			return resource.Verdict{Delay: &resource.Delay{
				For: c.rule.MaxWait, Turn: &queued{w, n, c.state}, Observed: observed, Blocked: &c.state.blocked,
			}}
		}
	}
	c.state.blocked.Add(n)
	return resource.Verdict{Refused: &resource.BlockError{Cause: &c.cause, Observed: observed, RetryAfter: -1}}
}

// queued is the turn of a call in the queue.
type queued struct {
	*places.Waiter
	n     int64
	state *state
}

// GiveBack leaves the queue, or gives the places back.
func (q *queued) GiveBack(now int64) {
	q.state.admitted.Add(-q.n)
	q.Waiter.GiveBack(now)
}

// Refund gives the places back of a call that did not queue.
func (c *controller) Refund(_ resource.Ticket, n int64) {
	c.state.admitted.Add(-n)
	c.state.places.GiveBack(n)
}

// Wait cannot know when a call in flight will end.
func (c *controller) Wait(_, n int64, _ resource.Caller) time.Duration {
	if n <= c.rule.MaxInFlight-c.state.places.Taken() {
		return 0
	}
	return -1
}

// Finish gives back the places of a call that has ended.
func (c *controller) Finish(_, n int64, _ time.Duration, _ resource.Outcome) {
	c.state.places.GiveBack(n)
}

func (c *controller) Snapshot(int64) stat.RuleSnapshot {
	return stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kindName, Mode: c.rule.Mode,
		Threshold:  float64(c.rule.MaxInFlight),
		Effective:  float64(c.rule.MaxInFlight),
		Admitted:   c.state.admitted.Load(),
		Blocked:    c.state.blocked.Load(),
		WouldBlock: c.state.wouldBlock.Load(),
	}
}
