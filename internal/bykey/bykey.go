// Package bykey lets rules count by key as the limiters of package limit do, at times and under
// limits that each question brings. Programs have no use for it, so limit does not export it: it
// sets New, as package log does for log/slog.
package bykey

import "time"

// New makes an engine. Package limit sets it.
var New func(cfg Config) Engine

// Config is how an engine counts.
type Config struct {
	Bursts   bool // as limit.NewBurst does; else as limit.NewCounter
	Window   time.Duration
	MaxKeys  int
	WhenFull uint8 // a limit.Policy
	// Keep reports whether a key has room beyond MaxKeys, and is never evicted. Nil: none.
	Keep func(key string) bool
}

// Engine counts by key. All methods may be called by any number of goroutines at once. What they
// take and return has four words at most, and so stays in registers.
type Engine interface {
	// Take charges a key, which may be empty, or refuses. With Bursts, patience is how long
	// the call may have to wait for its turn.
	Take(key string, q Question, patience time.Duration) Answer
	// Wait returns how long after q.Now the key would be admitted, perhaps for a turn, if
	// nobody else came: 0 if it would be now, Never if it never is.
	Wait(key string, q Question, patience time.Duration) time.Duration
	// Refund gives back q.N of what was charged there, as limit.RateLimiter.Refund does.
	Refund(key string, q Question, charge Charge)
	// Keys is how many keys there are.
	Keys() int
}

// Question is what an engine is asked.
type Question struct {
	Now, N, Limit int64 // N is 1 or more, Limit 0 to MaxLimit
	Burst         int64 // with Bursts: how many may pass at once; 0 is Limit
}

// MaxLimit is the largest limit of a question.
const MaxLimit = 1<<24 - 2

// Never is longer than any wait.
const Never = time.Duration(1<<63 - 1)

// Answer is what an engine answers.
type Answer struct {
	Remaining  int64         // how many more would be admitted now
	RetryAfter time.Duration // if allowed, how long the call waits for its turn
	Charge     Charge
}

// Charge is where a key was charged. Where is the engine's own, and so are the bits of Of that
// have no name here. Of is less than 1<<32, and not negative.
type Charge struct{ Where, Of int64 }

// What Of says besides.
const (
	Allowed = 1 << (30 + iota)
	Crowded // refused, since there is no room for the key
)

// Allowed reports whether the key was charged.
func (a Answer) Allowed() bool { return a.Charge.Of&Allowed != 0 }

// Crowded reports whether there was no room for the key.
func (a Answer) Crowded() bool { return a.Charge.Of&Crowded != 0 }

// Until returns how long after the question the call would pass that got the answer, with so
// much patience: 0 if it has.
func (a Answer) Until(patience time.Duration) time.Duration {
	switch {
	case a.Allowed():
		return 0
	case a.RetryAfter == Never:
		return Never
	}
	return a.RetryAfter - patience
}
