// Package clock keeps the one axis of time that a gate and a limiter use:
// nanoseconds, the Unix time at which the clock was made plus the monotonic
// time since. It aligns to whole seconds, and setting the system's clock does
// not move it.
package clock

import (
	"math"
	"time"
)

// Clock reads the axis. Make one with [New]; it may be copied.
type Clock struct {
	Given func() int64 // nil: the real clock
	base  time.Time
	unix  int64 // base on the axis
}

// New makes a clock. If given is not nil, it is read instead of the real one.
func New(given func() int64) Clock {
	base := time.Now()
	return Clock{Given: given, base: base, unix: base.UnixNano()}
}

// Now reads the clock.
//
// Where every nanosecond counts, ask for Given and call that or [Clock.Real],
// which is inlined; Now is not.
func (c *Clock) Now() int64 {
	if c.Given != nil {
		return c.Given()
	}
	return c.Real()
}

// Real reads the real clock. time.Since costs half of time.Now: it reads the
// monotonic clock only.
func (c *Clock) Real() int64 { return c.unix + int64(time.Since(c.base)) }

// BeforeBeginning reports whether now, which was read just before, is earlier than the clock was
// made, though it is not a given one.
func (c *Clock) BeforeBeginning(now int64) bool { return now < c.unix && c.Given == nil }

// Wall returns the time to show to people for now, which was read just before. The
// axis stands still while a machine is suspended, and the wall clock does not; a
// given clock is its own wall.
func (c *Clock) Wall(now int64) time.Time {
	if c.Given != nil {
		return time.Unix(0, now)
	}
	return time.Now()
}

// Until returns how long it is from now to t, 0 if t has come. What is longer than a
// Duration can be, as after a clock has jumped, is the longest Duration.
func Until(now, t int64) time.Duration {
	switch d := t - now; {
	case t <= now:
		return 0
	case d < 0:
		return math.MaxInt64
	default:
		return time.Duration(d)
	}
}
