package param

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/bykey"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// rated carries out a rule with a threshold.
type rated struct {
	check
	shared bykey.Engine // of calls without a value
}

var _ resource.ArgsCheck = (*rated)(nil)

// remember takes over what the check before has counted of calls without a value, if it fits.
func (c *rated) remember(before resource.Check) {
	if t, ok := before.(*trying); ok {
		before = t.rated
	}
	if old, ok := before.(*rated); ok && old.state.live == c.state.live {
		c.shared = old.shared
	} else {
		c.shared = c.state.newEngine(1, Evict)
	}
}

// Interval is how long the slowest value takes until it owes nothing.
func (c *rated) Interval() time.Duration {
	if c.rule.Behavior == Reject {
		return 2 * c.rule.Interval
	}
	if c.rule.Behavior == Pace {
		return c.rule.Interval + c.rule.MaxWait
	}
	slowest := c.limit
	for most := range c.causes {
		if most > 0 && (most < slowest || slowest == 0) {
			slowest = most
		}
	}
	const longest = 366 * 24 * time.Hour
	over, all := bits.Mul64(uint64(c.rule.Interval), uint64(max(1, c.rule.Burst)))
	if over > 0 || slowest > 0 && all/uint64(slowest) > uint64(longest) {
		return longest
	}
	return max(c.rule.Interval, time.Duration(all/uint64(max(1, slowest))))
}

// question is what the engine is asked about n of a value with that limit.
func (c *rated) question(now, n, most int64) bykey.Question {
	q := bykey.Question{Now: now, N: n, Limit: most, Burst: c.rule.Burst}
	if c.rule.Behavior == Pace { // a turn comes when all before is paid for
		if q.Burst = n; n > most {
			q.Limit = 0
		}
	}
	return q
}

func (c *rated) ReserveArgs(now, n int64, by resource.Caller, args resource.Args) (resource.Verdict, any) {
	v, _ := c.reserve(now, n, by, args)
	return v, nil
}

// reserve also returns where the engine of the candidate has charged the call; zero if it has not.
func (c *rated) reserve(now, n int64, by resource.Caller, args resource.Args) (v resource.Verdict, tried bykey.Charge) {
	if by.NoRates {
		v.Ticket.B = untaken
		return v, tried
	}
	var a asked
	ok := c.ask(&a, args)
	c.come(&a, n)
	if !ok {
		return c.missed(n), tried
	}
	if c.state.tried != nil && !a.own && !a.shared {
		tried = c.try(now, n, a.key)
	}
	v = c.decide(now, n, &a)
	a.buffer.free()
	return v, tried
}

func (c *rated) decide(now, n int64, a *asked) (v resource.Verdict) {
	if a.limit < 0 {
		v.Ticket.B = untaken
		return v
	}
	d := c.engineOf(a.shared).Take(a.key, c.question(now, n, a.limit), c.rule.MaxWait)
	if !d.Allowed() {
		return c.refusal(n, a, d)
	}
	c.counts.admitted.Add(n)
	v.Ticket.A, v.Ticket.B = d.Charge.Where, d.Charge.Of
	if a.shared {
		v.Ticket.B |= ofShared
	}
	if d.RetryAfter > 0 && c.rule.Mode == rule.Enforce {
		v.Delay = &resource.Delay{For: d.RetryAfter, Observed: c.observed(n, a.limit, d), Cause: a.cause, Blocked: &c.counts.blocked}
	}
	return v
}

// ofShared is set in the second word of a ticket for what calls without a value share. The
// engine's own bits are below it.
const ofShared = 1 << 32

func (c *rated) engineOf(shared bool) bykey.Engine {
	if shared {
		return c.shared
	}
	return c.state.live
}

// try asks the candidate.
func (c *rated) try(now, n int64, key string) (tried bykey.Charge) {
	d := c.state.tried.Take(key, c.question(now, n, int64(c.rule.Candidate)), c.rule.MaxWait)
	if !d.Allowed() {
		c.counts.candidateWouldBlock.Add(n)
		return tried
	}
	return d.Charge
}

func (c *rated) refusal(n int64, a *asked, d bykey.Answer) resource.Verdict {
	if d.Crowded() {
		return c.refuse(n, c.crowded, a, float64(n), d.RetryAfter)
	}
	wait := d.Until(c.rule.MaxWait)
	if wait == bykey.Never {
		wait = -1
	}
	return c.refuse(n, a.cause, a, c.observed(n, a.limit, d), wait)
}

// observed is what a value holds, n more included.
func (c *rated) observed(n, most int64, d bykey.Answer) float64 {
	switch {
	case c.rule.Behavior == Pace && d.RetryAfter == bykey.Never:
		return float64(n)
	case c.rule.Behavior == Pace: // those that have turns before it
		return float64(n) + math.Ceil(d.RetryAfter.Seconds()/c.rule.Interval.Seconds()*float64(most))
	case c.rule.Burst > 0:
		most = c.rule.Burst
	default:
	}
	return float64(most - d.Remaining + n)
}

func (c *rated) RefundArgs(ticket resource.Ticket, n int64, args resource.Args, _ any) {
	if ticket.B != untaken {
		c.refund(ticket, n, args, bykey.Charge{})
	}
}

// refund gives back what a call took, and what the candidate has charged for it.
func (c *rated) refund(ticket resource.Ticket, n int64, args resource.Args, tried bykey.Charge) {
	var a asked
	ok := c.ask(&a, args)
	if !ok {
		return
	}
	defer a.buffer.free()
	now := c.now()
	if ticket.B != untaken {
		c.counts.admitted.Add(-n)
		engine := c.engineOf(ticket.B&ofShared != 0)
		engine.Refund(a.key, c.question(now, n, a.limit), bykey.Charge{Where: ticket.A, Of: ticket.B &^ ofShared})
	}
	if tried != (bykey.Charge{}) {
		c.state.tried.Refund(a.key, c.question(now, n, int64(c.rule.Candidate)), tried)
	}
}

func (c *rated) WaitArgs(now, n int64, by resource.Caller, args resource.Args) time.Duration {
	if by.NoRates {
		return 0
	}
	var a asked
	ok := c.ask(&a, args)
	switch {
	case !ok && c.rule.Missing == Block:
		return -1
	case !ok || a.limit < 0:
		a.buffer.free()
		return 0
	}
	wait := c.engineOf(a.shared).Wait(a.key, c.question(now, n, a.limit), c.rule.MaxWait)
	a.buffer.free()
	if wait == bykey.Never {
		return -1
	}
	return wait
}

func (c *rated) Snapshot(int64) stat.RuleSnapshot { return c.snapshot(c.state.live.Keys()) }

// trying is rated with a candidate. What that has charged is held, since a ticket has no
// room for it.
type trying struct{ *rated }

var (
	_ resource.ArgsCheck    = (*trying)(nil)
	_ resource.ArgsFinisher = (*trying)(nil)
)

var charges = sync.Pool{New: func() any { return new(bykey.Charge) }}

func (c *trying) ReserveArgs(now, n int64, by resource.Caller, args resource.Args) (resource.Verdict, any) {
	v, tried := c.reserve(now, n, by, args)
	if v.Refused != nil || tried == (bykey.Charge{}) {
		return v, nil
	}
	held := charges.Get().(*bykey.Charge)
	*held = tried
	return v, held
}

func (c *trying) RefundArgs(ticket resource.Ticket, n int64, args resource.Args, held any) {
	tried, _ := held.(*bykey.Charge)
	if tried == nil {
		c.refund(ticket, n, args, bykey.Charge{})
		return
	}
	c.refund(ticket, n, args, *tried)
	charges.Put(tried)
}

// FinishArgs frees what a call has held until its end.
func (c *trying) FinishArgs(_, _ int64, _ time.Duration, _ resource.Outcome, held any) {
	charges.Put(held)
}
