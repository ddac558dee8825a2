package isolation

import (
	"sync/atomic"
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
	adaptive   atomic.Pointer[adaptive] // nil if the rule never was
	admitted   stripes.Counter
	blocked    stripes.Counter
	wouldBlock stripes.Counter
	last       resource.LastRefusal
}

// out is how many calls were kept out.
func (s *state) out() int64 { return s.blocked.Load() + s.wouldBlock.Load() }

var (
	_ resource.Check    = (*controller)(nil)
	_ resource.Finisher = (*controller)(nil)
)

func compile(env *ruleset.Env, r *Rule, name string, before resource.Check) resource.Check {
	old, had := before.(*controller)
	c := &controller{rule: *r, state: new(state)}
	switch {
	case had && old.rule == *r:
		c = old
	case had && old.cause.Resource == name:
		c.state = old.state
	}
	if c != old {
		c.shadowed.Cause = &c.cause
		c.cause = resource.Cause{
			Resource: name, Kind: kindName, RuleID: r.ID, Status: status, Threshold: float64(r.MaxInFlight),
			Detail: " in flight", Last: &c.state.last,
		}
		if r.Strategy == Adaptive && c.state.adaptive.Load() == nil {
			c.state.adaptive.CompareAndSwap(nil, newAdaptive(env, c.state))
		}
		if a := c.state.adaptive.Load(); a != nil {
			c.cause.State = a.state
		}
	}
	// Another limit may have been set for rules that came and went without being bound.
	if a := c.state.adaptive.Load(); a != nil {
		a.load(&c.rule, &c.cause)
	}
	if r.Strategy == Fixed {
		c.state.places.SetLimit(r.MaxInFlight)
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

// Interval is as long as what was found out is worth something.
func (c *controller) Interval() time.Duration {
	if c.rule.Strategy == Adaptive {
		return measureEvery
	}
	return 0
}

// limit returns how many calls may be in flight now, and the window in which that holds; nil if
// the rule is not adaptive.
func (c *controller) limit() (int64, *tally) {
	if c.rule.Strategy == Adaptive {
		if t := c.state.adaptive.Load().running.Load(); t != nil {
			return t.limit, t
		}
	}
	return c.rule.MaxInFlight, nil
}

func (c *controller) Reserve(_, n int64, _ resource.Caller) resource.Verdict {
	p := &c.state.places
	limit, window := c.limit()
	taken, ok := p.Take(n, limit)
	cause := &c.cause
	if window != nil {
		cause = window.cause
		if ok {
			window.let(taken + n)
		}
	}
	if ok {
		c.state.admitted.Add(n)
		return resource.Verdict{}
	}
	if c.rule.Mode == rule.Shadow {
		c.state.wouldBlock.Add(n)
		return resource.Verdict{Refused: &c.shadowed}
	}
	observed := float64(taken + n)
	if c.rule.MaxWait > 0 && n <= c.rule.MaxInFlight {
		if w := p.Queue(n, c.rule.maxQueue()); w != nil {
			if window != nil {
				window.queued.Add(n)
			}
			c.state.admitted.Add(n)
			return resource.Verdict{Delay: &resource.Delay{
				For: c.rule.MaxWait, Expected: w.Expected(), Turn: &queued{w, n, c.state}, Observed: observed, Cause: cause, Blocked: &c.state.blocked,
			}}
		}
	}
	c.state.blocked.Add(n)
	return resource.Verdict{Refused: &resource.BlockError{Cause: cause, Observed: observed, RetryAfter: -1}}
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
	if limit, _ := c.limit(); n <= limit-c.state.places.Taken() {
		return 0
	}
	return -1
}

// Finish gives back the places of a call that has ended.
func (c *controller) Finish(now, n int64, rt time.Duration, outcome resource.Outcome) {
	c.state.places.GiveBack(n)
	if c.rule.Strategy == Adaptive && outcome == resource.Success {
		c.state.adaptive.Load().ended(now, int64(rt))
	}
}

func (c *controller) Snapshot(int64) stat.RuleSnapshot {
	limit, _ := c.limit()
	return stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kindName, Mode: c.rule.Mode,
		Threshold:  float64(c.rule.MaxInFlight),
		Effective:  float64(limit),
		Admitted:   c.state.admitted.Load(),
		Blocked:    c.state.blocked.Load(),
		WouldBlock: c.state.wouldBlock.Load(),
	}
}
