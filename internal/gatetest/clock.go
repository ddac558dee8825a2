// Package gatetest holds what the tests of several packages share. It imports
// nothing of this module, so that every package can be tested with it; what needs
// the gate itself is in package gates, below it.
package gatetest

import (
	"context"
	"sync/atomic"
	"time"
)

// Start is when a [Clock] starts that is not told otherwise: a whole hour.
const Start = 1_800_000_000 * int64(time.Second)

// Idle is how long a resource without rules must be left alone to be evicted: a minute
// after the end of its last bucket.
const Idle = time.Minute + 100*time.Millisecond

// Clock is a given clock: it stands until the test moves it. It may be used by many
// goroutines at once. Make one with [NewClock] or [ClockAt].
type Clock struct{ now atomic.Int64 }

// NewClock returns a clock that stands at [Start].
func NewClock() *Clock { return ClockAt(Start) }

// ClockAt returns a clock that stands at now, in nanoseconds.
func ClockAt(now int64) *Clock {
	c := new(Clock)
	c.now.Store(now)
	return c
}

// Now returns the time in nanoseconds.
func (c *Clock) Now() int64 { return c.now.Load() }

// Set moves the clock to a time, which may be an earlier one.
func (c *Clock) Set(now int64) { c.now.Store(now) }

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) { c.now.Add(int64(d)) }

// SleepOnTimer is a way to sleep as a program may bring it: by a timer, until the
// context ends.
func SleepOnTimer(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unannounced returns a context that ends when ctx does, but has no deadline by which one could
// know when: it is that of a caller that gives up.
func Unannounced(ctx context.Context) context.Context { return unannounced{ctx} }

type unannounced struct{ context.Context } //nolint:containedctx // it is one itself

func (unannounced) Deadline() (deadline time.Time, ok bool) { return deadline, false }
