package resource

import (
	"context"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/metric"
)

// admission is one call on its way through the checks of a resource. It lives on
// the stack of the call.
type admission struct {
	set      *guardSet
	now, n   int64
	by       Caller
	args     *argsCall // nil for none
	stripe   int
	took     uint64 // which of set.finishIf admitted the call, a bit for each
	occupied bool   // it waited for what it borrowed
	blocked  *BlockError
	ended    error // what the context said that ended a wait
}

// run asks the checks and counts: the pass, or the block, of which err tells then. It
// is false if the resource was evicted before the pass was counted; then nothing holds.
// A block holds in any case: the rule has counted it.
func (a *admission) run(ctx context.Context) (ok bool) {
	if a.set.checks == nil {
		a.stripe = a.set.metric.Pass(a.now, a.n)
		return a.set.metric.Holds()
	}
	ok = true
	if a.look(); a.blocked == nil {
		ok = a.enforce(ctx, 0)
	}
	if a.blocked != nil {
		if !a.set.metric.Block(a.now, a.n) {
			a.set.registry.carryBlock(a.n)
		}
		a.blocked.RetryAfter = a.retryAfter(a.blocked.RetryAfter)
		a.blocked.Last.keep(a.now, a.by.Origin, a.blocked)
	}
	return ok
}

// err is why the call was refused.
func (a *admission) err() error {
	if a.ended != nil {
		return &endedError{a.blocked, a.ended}
	}
	return a.blocked
}

// look lets those checks refuse that can do so before any other takes something.
func (a *admission) look() {
	for _, l := range a.set.look {
		if a.blocked = l.Look(a.now, a.n, a.by); a.blocked != nil {
			return
		}
	}
}

// enforce asks the checks in mode enforce from the i-th on, then those in mode
// shadow, and counts the pass if none of the first refuses. If it comes to nothing,
// each check gets back what it gave. The tickets live in the frames of this
// recursion: any number of checks, and no allocation.
func (a *admission) enforce(ctx context.Context, i int) (ok bool) {
	if i == len(a.set.enforce) {
		return a.shadow(0, false)
	}
	c := a.set.enforce[i]
	var v Verdict
	var held any
	if withArgs := a.set.enforceArgs; withArgs == nil {
		v = c.Reserve(a.now, a.n, a.by)
	} else {
		v, held = withArgs.reserve(a, i, c)
	}
	if v.Refused != nil {
		a.blocked = v.Refused
		return true
	}
	if v.Delay != nil && !a.wait(ctx, c, v.Delay) {
		a.giveBack(i, &v, held)
		a.blocked.RetryAfter = a.waitOf(i, a.now) // with what it gave back
		return true
	}
	ok = a.enforce(ctx, i+1)
	switch {
	case a.blocked != nil || !ok:
		a.giveBack(i, &v, held)
	case held != nil:
		a.set.enforceArgs.keep(a, i, held)
	}
	return ok
}

// giveBack gives back what a check in mode enforce has admitted.
func (a *admission) giveBack(i int, v *Verdict, held any) {
	if v.Delay != nil && v.Delay.Turn != nil {
		v.Delay.Turn.GiveBack(a.set.registry.clock.Now())
		return
	}
	a.set.enforceArgs.refund(a, i, a.set.enforce[i], v.Ticket, held)
}

// shadow asks the checks in mode shadow from the i-th on, and counts the pass.
func (a *admission) shadow(i int, wouldBlock bool) (ok bool) {
	if i == len(a.set.shadow) {
		return a.pass(wouldBlock)
	}
	c := a.set.shadow[i]
	v, held := a.set.shadowArgs.reserve(a, i, c)
	if v.Refused == nil && i < len(a.set.finishIf) {
		a.took |= 1 << i
	}
	ok = a.shadow(i+1, wouldBlock || v.Refused != nil)
	switch {
	case v.Refused != nil:
	case !ok:
		a.set.shadowArgs.refund(a, i, c, v.Ticket, held)
	case held != nil:
		a.set.shadowArgs.keep(a, i, held)
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
		m.Add(now, metric.WouldBlock, n)
	}
	if a.occupied {
		m.Add(now, metric.OccupiedPass, n)
	}
	return true
}

// retryAfter gives how long after now all checks would admit the call, given what the
// one that refused says: those that were not asked may have no room either. It is
// 0 if any of them cannot tell.
func (a *admission) retryAfter(first time.Duration) time.Duration {
	// What is longer is never, in other words, and must not overflow.
	const never = math.MaxInt64 / 4
	if first < 0 || first > never {
		return 0
	}
	if len(a.set.enforce) == 1 {
		return first
	}
	// A check that has room now may have none by then: its threshold may fall.
	const enough = 16
	total := first
	for range enough {
		longest := time.Duration(0)
		for i := range a.set.enforce {
			wait := a.waitOf(i, a.now+int64(total))
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

// waitOf is how long after now the i-th check in mode enforce would admit the call.
func (a *admission) waitOf(i int, now int64) time.Duration {
	if withArgs := a.set.enforceArgs; withArgs != nil && withArgs[i].check != nil {
		return withArgs[i].check.WaitArgs(now, a.n, a.by, a.arguments())
	}
	return a.set.enforce[i].Wait(now, a.n, a.by)
}

func (a *admission) arguments() Args {
	if a.args == nil {
		return Args{}
	}
	return a.args.Args
}

// argsChecks are the checks of a list that decide by arguments, each at its index in that
// list; nil if there are none.
type argsChecks []argsCheck

type argsCheck struct {
	check    ArgsCheck    // nil if the check wants no arguments
	finisher ArgsFinisher // nil if it does not want to know when calls end
}

// reserve asks the check c, which is the i-th of the list.
func (l argsChecks) reserve(a *admission, i int, c Check) (v Verdict, held any) {
	if l == nil || l[i].check == nil {
		return c.Reserve(a.now, a.n, a.by), nil
	}
	return l[i].check.ReserveArgs(a.now, a.n, a.by, a.arguments())
}

// refund gives back what the check c has admitted.
func (l argsChecks) refund(a *admission, i int, c Check, ticket Ticket, held any) {
	if l == nil || l[i].check == nil {
		c.Refund(ticket, a.n)
		return
	}
	l[i].check.RefundArgs(ticket, a.n, held)
}

// keep remembers what the i-th check holds until the call ends.
func (l argsChecks) keep(a *admission, i int, held any) {
	if l[i].finisher == nil {
		return
	}
	if a.args == nil {
		a.args = argsCalls.Get().(*argsCall)
	}
	a.args.held = append(a.args.held, heldArg{l[i].finisher, held})
}
