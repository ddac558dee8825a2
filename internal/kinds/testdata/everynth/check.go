package everynth

import (
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// check carries out one rule on one resource. A changed rule gets another check, which shares
// the state of this one.
type check struct {
	rule  Rule
	cause resource.Cause
	state *state
}

// state is what a rule remembers.
type state struct {
	asked                         atomic.Int64 // calls, without those that were given back
	admitted, blocked, wouldBlock atomic.Int64
	last                          resource.LastRefusal
}

var _ resource.Check = (*check)(nil)

func compile(_ *ruleset.Env, r *Rule, name string, before resource.Check) resource.Check {
	c := &check{rule: *r, state: new(state)}
	if old, had := before.(*check); had && old.cause.Resource == name {
		c.state = old.state
	}
	c.cause = resource.Cause{
		Resource: name, Kind: kindName, RuleID: r.ID, Threshold: float64(r.N), Detail: "th call", Last: &c.state.last,
	}
	return c
}

func (c *check) Cause() *resource.Cause  { return &c.cause }
func (c *check) Mode() rule.Mode         { return c.rule.Mode }
func (c *check) Stage() resource.Stage   { return resource.Counting }
func (c *check) Interval() time.Duration { return 0 }

// Reserve refuses the call that makes the number of calls reach a multiple of N.
func (c *check) Reserve(_, n int64, _ resource.Caller) resource.Verdict {
	asked := c.state.asked.Add(n)
	if asked/c.rule.N == (asked-n)/c.rule.N {
		c.state.admitted.Add(n)
		return resource.Verdict{}
	}
	count := &c.state.blocked
	if c.rule.Mode == rule.Shadow {
		count = &c.state.wouldBlock
	}
	count.Add(n)
	return resource.Verdict{Refused: &resource.BlockError{Cause: &c.cause, Observed: float64(asked)}}
}

func (c *check) Refund(_ resource.Ticket, n int64) {
	c.state.asked.Add(-n)
	c.state.admitted.Add(-n)
}

// Wait cannot tell when others will have called.
func (c *check) Wait(_, n int64, _ resource.Caller) time.Duration {
	if asked := c.state.asked.Load(); asked/c.rule.N == (asked+n)/c.rule.N {
		return 0
	}
	return -1
}

func (c *check) Snapshot(int64) stat.RuleSnapshot {
	return stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kindName, Mode: c.rule.Mode,
		Threshold: float64(c.rule.N), Effective: float64(c.rule.N),
		Admitted: c.state.admitted.Load(), Blocked: c.state.blocked.Load(), WouldBlock: c.state.wouldBlock.Load(),
	}
}
