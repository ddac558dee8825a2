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
	stripe   int
	took     uint64 // which of set.finishIf admitted the call, a bit for each
	occupied bool   // it waited for what it borrowed
	waited   bool   // since came
	came     int64
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
	ok = a.enforce(ctx, 0)
	if a.waited {
		a.endWait()
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

// enforce asks the checks in mode enforce from the i-th on, then those in mode
// shadow, and counts the pass if none of the first refuses. If it comes to nothing,
// each check gets back what it gave. The tickets live in the frames of this
// recursion: any number of checks, and no allocation.
func (a *admission) enforce(ctx context.Context, i int) (ok bool) {
	if i == len(a.set.enforce) {
		return a.shadow(0, false)
	}
	c := a.set.enforce[i]
	v := c.Reserve(a.now, a.n, a.by)
	if v.Refused != nil {
		a.blocked = v.Refused
		return true
	}
	if v.Delay != nil && !a.wait(ctx, c, v.Delay) {
		a.giveBack(c, &v)
		a.blocked.RetryAfter = c.Wait(a.now, a.n, a.by) // with what it gave back
		return true
	}
	ok = a.enforce(ctx, i+1)
	if a.blocked != nil || !ok {
		a.giveBack(c, &v)
	}
	return ok
}

// giveBack gives back what a check has admitted.
func (a *admission) giveBack(c Check, v *Verdict) {
	if v.Delay != nil && v.Delay.Turn != nil {
		v.Delay.Turn.GiveBack(a.set.registry.clock.Now())
		return
	}
	c.Refund(v.Ticket, a.n)
}

// shadow asks the checks in mode shadow from the i-th on, and counts the pass.
func (a *admission) shadow(i int, wouldBlock bool) (ok bool) {
	if i == len(a.set.shadow) {
		return a.pass(wouldBlock)
	}
	c := a.set.shadow[i]
	v := c.Reserve(a.now, a.n, a.by)
	if v.Refused == nil && i < len(a.set.finishIf) {
		a.took |= 1 << i
	}
	ok = a.shadow(i+1, wouldBlock || v.Refused != nil)
	if !ok && v.Refused == nil {
		c.Refund(v.Ticket, a.n)
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
		for _, c := range a.set.enforce {
			wait := c.Wait(a.now+int64(total), a.n, a.by)
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
