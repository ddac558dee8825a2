package resource

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
)

// errTimeout is the end of a wait in which the turn did not come.
var errTimeout = errors.New("leapgate: no turn in time")

// wait lets the call wait, and takes the time anew: the call begins when its wait is
// over. It is false if that comes to nothing.
//
//go:noinline
func (a *admission) wait(ctx context.Context, c Check, d *Delay) bool {
	registry := a.set.registry
	if ctx == nil {
		ctx = context.Background()
	}
	if registry.inVain(ctx, a.now, d) {
		a.giveUp(c, d, context.DeadlineExceeded)
		return false
	}
	if !a.waited {
		a.waited, a.came = true, a.now
	}
	a.set.metric.AddWaiting(a.now, a.n)
	defer func() { a.set.metric.AddWaiting(a.now, -a.n) }()
	over := false
	defer func() {
		if !over { // the program's own way to sleep has panicked
			a.endWait()
		}
	}()
	var err error
	switch waiter, own := ctx.(clock.Waiter); {
	case own:
		err = registry.awaitOn(waiter, a.now, d)
	case d.Turn != nil && registry.sleep != nil:
		err = registry.sleepUntilTurn(ctx, a.now, d)
	case d.Turn != nil:
		err = registry.awaitTurn(ctx, a.now, d)
	case registry.sleep != nil:
		err = registry.sleep(ctx, d.For)
	default:
		err = sleep(ctx, d.For)
	}
	a.now, over = max(a.now, registry.clock.Now()), true
	a.occupied = a.occupied || d.Borrowed
	if err == nil {
		return true
	}
	a.giveUp(c, d, err)
	return false
}

// giveUp makes a refusal of a wait that ended with err, or need not begin.
func (a *admission) giveUp(c Check, d *Delay, err error) {
	a.blocked = &BlockError{Cause: cmp.Or(d.Cause, c.Cause()), Observed: d.Observed}
	if d.Blocked != nil {
		d.Blocked.Add(a.n)
	}
	if err != errTimeout { //nolint:errorlint // it is never wrapped
		a.ended = err
	}
}

// inVain reports whether the context of a call has a deadline before the call would begin. It is
// in real time, so a way to sleep of the program's own, which may be faster, is not held against it unless the
// check knows better.
func (g *registry) inVain(ctx context.Context, now int64, d *Delay) bool {
	deadline, ok := ctx.Deadline()
	if !ok {
		return false
	}
	wait := d.Expected
	switch {
	case wait > 0 || g.sleep != nil:
	case d.Turn != nil:
		wait = d.Turn.Due(now, func() {}) // below 0 if nobody knows
	default:
		wait = d.For
	}
	return wait > 0 && time.Until(deadline) < wait
}

// endWait counts how long the call has waited, for all its checks together.
func (a *admission) endWait() { a.set.metric.Waited(a.now, a.n, a.now-a.came) }

// awaitTurn waits until the turn of d has come.
//
// Each call that queues is woken by its own timer when its turn should come, and before
// that only if it has become the first of its queue and its turn comes sooner. So a queue
// needs no goroutine, and a call that leaves it wakes one other, whatever its length.
func (g *registry) awaitTurn(ctx context.Context, now int64, d *Delay) error {
	woken := make(chan struct{}, 1)
	sooner := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	timer := time.NewTimer(d.For)
	defer timer.Stop()
	for {
		due := d.Turn.Due(now, sooner)
		switch {
		case due == 0:
			return nil
		case due > 0:
			timer.Reset(due)
		}
		select {
		case <-woken:
			now = max(now, g.clock.Now())
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if due < 0 {
				return errTimeout
			}
			now += int64(due)
		}
	}
}

// awaitOn is a wait on a time of the call's own.
func (g *registry) awaitOn(w clock.Waiter, now int64, d *Delay) error {
	if d.Turn == nil {
		return w.Wait(d.For)
	}
	for last := now + int64(d.For); ; {
		due := d.Turn.Due(now, w.Wake)
		switch {
		case due == 0:
			return nil
		case due < 0 && now >= last:
			return errTimeout
		case due < 0:
			due = time.Duration(last - now)
		}
		if err := w.Wait(due); err != nil {
			return err
		}
		now = max(now, g.clock.Now())
	}
}

// sleepUntilTurn is awaitTurn with the program's own way to sleep. What wakes that is the
// end of its context.
func (g *registry) sleepUntilTurn(ctx context.Context, now int64, d *Delay) error {
	for last := now + int64(d.For); ; {
		undisturbed, disturb := context.WithCancel(ctx)
		due := d.Turn.Due(now, disturb)
		if due < 0 {
			due = time.Duration(last - now)
			if due <= 0 {
				disturb()
				return errTimeout
			}
		}
		if due == 0 {
			disturb()
			return nil
		}
		err := g.sleep(undisturbed, due)
		disturbed := undisturbed.Err() != nil
		disturb()
		switch {
		case err == nil: // so much has passed, whatever the clock shows
			now += int64(due)
		case ctx.Err() != nil || !disturbed:
			return err
		default:
			now = max(now, g.clock.Now())
		}
	}
}

// sleep waits on a timer, or until ctx ends, and returns ctx.Err() then. A nil ctx does not
// end.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var done <-chan struct{}
	if ctx != nil {
		done = ctx.Done()
	}
	select {
	case <-done:
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
