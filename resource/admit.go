package resource

import (
	"cmp"
	"context"
	"errors"
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
	ok = a.enforce(ctx, 0)
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
		c.Refund(v.Ticket, a.n)
		a.blocked.RetryAfter = c.Wait(a.now, a.n, a.by) // with what it gave back
		return true
	}
	ok = a.enforce(ctx, i+1)
	if a.blocked != nil || !ok {
		c.Refund(v.Ticket, a.n)
	}
	return ok
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
		m.Add(now, metric.WouldBlock, n)
	}
	if a.occupied {
		m.Add(now, metric.OccupiedPass, n)
	}
	return true
}

// errTimeout is the end of a wait in which the turn did not come.
var errTimeout = errors.New("leapgate: no turn in time")

// wait lets the call wait, and takes the time anew: the call begins when its wait is
// over. It is false if that comes to nothing.
//
//go:noinline
func (a *admission) wait(ctx context.Context, c Check, d *Delay) bool {
	a.set.waiting.Inc()
	defer a.set.waiting.Dec()
	registry := a.set.registry
	var err error
	if d.Turn == nil {
		err = registry.sleep(ctx, d.For)
	} else {
		err = waitForTurn(ctx, d.Turn, d.For)
	}
	a.now = max(a.now, registry.clock.Now())
	a.occupied = a.occupied || d.Borrowed
	if err == nil {
		return true
	}
	a.blocked = &BlockError{Cause: cmp.Or(d.Cause, c.Cause()), Observed: d.Observed}
	if d.Blocked != nil {
		d.Blocked.Add(a.n)
	}
	if err != errTimeout { //nolint:errorlint // it is never wrapped
		a.ended = err
	}
	return false
}

// Sleep waits on a timer, or until ctx ends, and gives ctx.Err() then.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := waitForTurn(ctx, nil, d); err != errTimeout { //nolint:errorlint // it is never wrapped
		return err
	}
	return nil
}

func waitForTurn(ctx context.Context, turn <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	var done <-chan struct{}
	if ctx != nil {
		done = ctx.Done()
	}
	select {
	case <-turn:
		return nil
	case <-done:
		return ctx.Err()
	case <-timer.C:
		return errTimeout
	}
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
