package leapgatetest

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// Clock is a clock that stands until the test moves it. It starts at 2100-01-01 in UTC. All
// methods may be called by any number of goroutines at once. Make one with [NewClock].
type Clock struct {
	mu       sync.Mutex
	now      int64
	sleepers []*sleeper // by when they wake
	moving   sync.Mutex // one move at a time
}

// sleeper is one call of Sleep.
type sleeper struct {
	at          int64
	woken, gone chan struct{}
}

// NewClock returns a clock.
func NewClock() *Clock {
	return &Clock{now: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
}

// Now returns the time, in nanoseconds of Unix time: it is a Now for [leapgate.Config].
func (c *Clock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on by d. Calls of Sleep that end at a time in between return at that
// time, one after the other, and all before Advance does. What their goroutines do after that goes on
// while the clock does: where they look at it, or sleep again, advance step by step, and let them
// come so far. It panics if d is negative.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("leapgatetest: Advance by " + d.String() + "; want 0 or more (Set may go back)")
	}
	c.moving.Lock()
	defer c.moving.Unlock()
	c.move(after(c.Now(), d))
}

// Set moves the clock to a time, in nanoseconds of Unix time. It may be an earlier one: the clock
// goes back then, as a system's clock may, and calls of Sleep end as long after it as they would have
// before. If it is a later one, Set is Advance.
func (c *Clock) Set(now int64) {
	c.moving.Lock()
	defer c.moving.Unlock()
	c.mu.Lock()
	if back := c.now - now; back > 0 {
		for _, s := range c.sleepers {
			s.at -= back
		}
		c.now = now
	}
	c.mu.Unlock()
	c.move(now)
}

func (c *Clock) move(to int64) {
	for {
		c.mu.Lock()
		if len(c.sleepers) == 0 || c.sleepers[0].at > to {
			c.now = to
			c.mu.Unlock()
			return
		}
		s := c.sleepers[0]
		c.sleepers = c.sleepers[1:]
		c.now = max(c.now, s.at)
		c.mu.Unlock()
		close(s.woken)
		<-s.gone
	}
}

// Sleep returns nil when the clock has been moved on by d, and ctx.Err() if ctx ends before
// that. With d of 0 or less it returns at once. It is a Sleep for [leapgate.Config].
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	s := &sleeper{woken: make(chan struct{}), gone: make(chan struct{})}
	defer close(s.gone)
	c.mu.Lock()
	s.at = after(c.now, d)
	i, _ := slices.BinarySearchFunc(c.sleepers, s.at, func(other *sleeper, at int64) int {
		if other.at <= at { // those of one time in the order in which they came
			return -1
		}
		return 1
	})
	c.sleepers = slices.Insert(c.sleepers, i, s)
	c.mu.Unlock()
	select {
	case <-s.woken:
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		if i := slices.Index(c.sleepers, s); i >= 0 {
			c.sleepers = slices.Delete(c.sleepers, i, i+1)
		}
		c.mu.Unlock()
		return ctx.Err()
	}
}

// Sleepers returns how many goroutines sleep: a test that has started some calls which wait can
// see that all of them do before it moves the clock.
func (c *Clock) Sleepers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sleepers)
}

// after returns the time that is d after now, or the last that there is.
func after(now int64, d time.Duration) int64 {
	if then := now + int64(d); then >= now {
		return then
	}
	return math.MaxInt64
}
