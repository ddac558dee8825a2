package resource

import (
	"context"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/internal/meter"
)

// admission is one call on its way through the checks of a resource. It lives on
// the stack of the call.
type admission struct {
	set      *guardSet
	now, n   int64
	by       Caller
	args     *argsCall // nil for none
	stripe   int
	took     uint16 // which of set.finishIf admitted the call, a bit for each
	occupied bool   // it waited for what it borrowed
	waited   bool   // since came
	came     int64
	blocked  *BlockError
	ended    error // what the context said that ended a wait
}

// run asks the checks and counts: the pass, or the block, which err returns then. It
// is false if the resource was evicted before the pass was counted; then nothing holds.
// A block holds in any case: the rule has counted it.
func (a *admission) run(ctx context.Context) (ok bool) {
	if a.set.checks == nil {
		a.stripe = a.set.metric.Pass(a.now, a.n)
		return a.set.metric.Holds()
	}
	for _, l := range a.set.look {
		if a.blocked = l.Look(a.now, a.n, a.by); a.blocked != nil {
			a.block()
			return true
		}
	}
	return a.counted(a.enforce(ctx))
}

// counted counts how long the call has waited, if it has, and that it was refused, if it
// was.
func (a *admission) counted(ok bool) bool {
	if a.waited {
		a.endWait()
	}
	if a.blocked != nil {
		a.block()
	}
	return ok
}

func (a *admission) block() {
	a.blocked.RetryAfter = a.retryAfter(a.blocked.RetryAfter)
	_ = a.set.block(a.now, a.n, a.by.Origin, a.blocked)
}

// block counts a call that was refused, and returns why.
func (set *guardSet) block(now, n int64, origin string, b *BlockError) error {
	set.metric.Add(now, meter.Block, n)
	if !set.metric.Holds() { // the resource has just been evicted
		if m := set.registry.other.set.Load().metric; m != nil {
			m.Add(now, meter.Block, n)
		}
	}
	set.registry.checkClock(now)
	if b.RetryAfter < 0 || b.RetryAfter > never {
		b.RetryAfter = 0
	}
	b.Last.keep(now, origin, b)
	return b
}

// never is a wait that will not end. What is longer must not overflow.
const never = math.MaxInt64 / 4

// entry is the entry of a call that was admitted.
func (a *admission) entry() Entry {
	e := newEntry(a.set, a.now, a.stripe, a.n)
	e.word |= entryWord(a.took) << tookShift
	if a.args != nil && a.args.told {
		e.args, e.word = a.args, e.word|held
	} else {
		a.args.free()
	}
	return e
}

// err is why the call was refused.
func (a *admission) err() error {
	if a.ended != nil {
		return &endedError{a.blocked, a.ended}
	}
	return a.blocked
}

// enforce asks the checks in mode enforce, then those in mode shadow, and counts the pass
// if none of the first refuses. If it comes to nothing, each check gets back what it gave.
func (a *admission) enforce(ctx context.Context) (ok bool) {
	if len(a.set.enforce) == 0 {
		return a.shadow(0, false)
	}
	return a.goOn(ctx, 0, a.reserve(&a.set.enforce[0]))
}

// goOn is enforce from the answer of the i-th check on. The tickets live in the frames of
// this recursion: any number of checks, and no allocation.
func (a *admission) goOn(ctx context.Context, i int, v Verdict) (ok bool) {
	c := &a.set.enforce[i]
	if v.Refused != nil {
		a.blocked = v.Refused
		return true
	}
	if v.Delay != nil && !a.wait(ctx, c.Check, v.Delay) {
		a.giveBack(c, &v)
		a.blocked.RetryAfter = a.waitOf(c, a.now) // with what it gave back
		return true
	}
	if i++; i == len(a.set.enforce) {
		ok = a.shadow(0, false)
	} else {
		ok = a.goOn(ctx, i, a.reserve(&a.set.enforce[i]))
	}
	if a.blocked != nil || !ok {
		a.giveBack(c, &v)
	}
	return ok
}

// giveBack gives back what a check in mode enforce has admitted.
func (a *admission) giveBack(c *asked, v *Verdict) {
	if v.Delay != nil && v.Delay.Turn != nil {
		if c.args != nil {
			a.args.drop()
		}
		v.Delay.Turn.GiveBack(a.set.registry.clock.Now())
		return
	}
	a.refund(c, v.Ticket)
}

// shadow asks the checks in mode shadow from the i-th on, and counts the pass.
func (a *admission) shadow(i int, wouldBlock bool) (ok bool) {
	if i == len(a.set.shadow) {
		return a.pass(wouldBlock)
	}
	c := &a.set.shadow[i]
	v := a.reserve(c)
	if v.Refused == nil && i < len(a.set.finishIf) {
		a.took |= 1 << i
	}
	ok = a.shadow(i+1, wouldBlock || v.Refused != nil)
	if !ok && v.Refused == nil {
		a.refund(c, v.Ticket)
	}
	return ok
}

// pass counts a call that every check in mode enforce has admitted.
func (a *admission) pass(wouldBlock bool) (ok bool) {
	m, now, n := a.set.metric, a.now, a.n
	a.stripe = m.Pass(now, n)
	if !m.Holds() {
		return false
	}
	if wouldBlock { // the call is in flight by now, so this cannot come too late
		m.Add(now, meter.WouldBlock, n)
	}
	if a.occupied {
		m.Add(now, meter.OccupiedPass, n)
	}
	return true
}

// retryAfter returns how long after now all checks would admit the call, given what the
// one that refused says: those that were not asked may have no room either. It is
// 0 if any of them cannot tell.
func (a *admission) retryAfter(first time.Duration) time.Duration {
	if first < 0 || first > never || len(a.set.enforce) == 1 {
		return first
	}
	// A check that has room now may have none by then: its threshold may fall.
	const enough = 16
	total := first
	for range enough {
		longest := time.Duration(0)
		for i := range a.set.enforce {
			wait := a.waitOf(&a.set.enforce[i], a.now+int64(total))
			if wait < 0 || wait > never-total {
				return 0
			}
			longest = max(longest, wait)
		}
		if longest == 0 {
			return total
		}
		total += longest
	}
	return 0
}

// asked is a check as it is asked.
type asked struct {
	Check
	args     ArgsCheck    // nil if the check wants no arguments
	finisher ArgsFinisher // nil if it does not want to know when calls end for which it holds something
}

// reserve asks a check.
func (a *admission) reserve(c *asked) Verdict {
	if c.args == nil {
		return c.Reserve(a.now, a.n, a.by)
	}
	return a.reserveArgs(c)
}

//go:noinline
func (a *admission) reserveArgs(c *asked) Verdict {
	v, held := c.args.ReserveArgs(a.now, a.n, a.by, a.arguments())
	if v.Refused == nil {
		if a.args == nil {
			a.args = argsCalls.Get().(*argsCall)
		}
		a.args.held = append(a.args.held, heldArg{c.finisher, held})
		a.args.told = a.args.told || c.finisher != nil && held != nil
	}
	return v
}

// refund gives back what a check has admitted: the last one that did, and has not got it
// back.
func (a *admission) refund(c *asked, ticket Ticket) {
	if c.args == nil {
		c.Refund(ticket, a.n)
		return
	}
	c.args.RefundArgs(ticket, a.n, a.arguments(), a.args.drop())
}

// waitOf is how long after now a check would admit the call.
func (a *admission) waitOf(c *asked, now int64) time.Duration {
	if c.args == nil {
		return c.Wait(now, a.n, a.by)
	}
	return c.args.WaitArgs(now, a.n, a.by, a.arguments())
}

func (a *admission) arguments() Args {
	if a.args == nil {
		return Args{}
	}
	return Args{&a.args.args}
}
