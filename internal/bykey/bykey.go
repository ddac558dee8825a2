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

// Engine counts by key. All methods may be called by any number of goroutines at once.
type Engine interface {
	// Take charges a key, which may be empty, or refuses.
	Take(key string, q Question) Answer
	// Wait returns how long after q.Now the key would be admitted, perhaps for a turn, if
	// nobody else came: 0 if it would be now, Never if it never is.
	Wait(key string, q Question) time.Duration
	// Refund gives back q.N of what was charged there, as limit.RateLimiter.Refund does.
	Refund(key string, q Question, charge Charge)
	// Keys is how many keys there are.
	Keys() int
}

// Question is what an engine is asked.
type Question struct {
	Now, N, Limit int64         // N is 1 or more, Limit 0 to MaxLimit
	Burst         int64         // with Bursts: how many may pass at once; 0 is Limit
	Patience      time.Duration // the same: how long N may have to wait for their turn
}

// MaxLimit is the largest limit of a question.
const MaxLimit = 1<<24 - 2

// Never is longer than any wait.
const Never = time.Duration(1<<63 - 1)

// Answer is what an engine answers.
type Answer struct {
	Allowed    bool
	Crowded    bool          // refused, since there is no room for the key
	Remaining  int64         // how many more would be admitted now
	RetryAfter time.Duration // if allowed, how long the call waits for its turn
	Charge     Charge
}

// Charge is where a key was charged. Both words are the engine's own; Of is less than 1<<32, and not
// negative.
type Charge struct{ Where, Of int64 }

// Until returns how long after q.Now the call would pass that got the answer: 0 if it has.
func (q *Question) Until(a *Answer) time.Duration {
	switch {
	case a.Allowed:
		return 0
	case a.RetryAfter == Never:
		return Never
	}
	return a.RetryAfter - q.Patience
}
