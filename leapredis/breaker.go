package leapredis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
)

// State is what is done with calls for a server: see [Link].
type State uint8

// The states.
const (
	Closed   State = iota // calls are sent
	Open                  // none is sent: the server is away
	HalfOpen              // one was sent, to see whether it is back
)

var states = enum.Enum[State]{What: "State", Names: []string{"Closed", "Open", "HalfOpen"}}

// String is the state's name.
func (s State) String() string { return states.String(s) }

const (
	failuresToOpen = 5                      // in a row
	retryTime      = 200 * time.Millisecond // until the next probe; a server that is back is found within a second

	// quietTime is for how long no call is sent after one was not answered in time, if no
	// other is answered meanwhile. Where a request asks several limits one after the other,
	// it waits for a server that hangs once, and not once for each. It is at most the time
	// that was waited.
	quietTime = 10 * time.Millisecond
)

// breaker keeps calls from a server that is away. Its time is nanoseconds.
type breaker struct {
	// word is what most calls need: the state, and how often it has changed, so that
	// what began before a change does not tell afterwards.
	//
	//	63    2  1 0
	//	changes  state
	word     atomic.Uint64
	failures atomic.Int64 // in a row, while closed
	quiet    atomic.Int64 // no call before this, while closed; 0: there is no such time
	since    atomic.Int64 // when it was opened last; written before word says so

	mu    sync.Mutex // guards the changes of word, and what is below
	until int64      // no probe before this, while open
}

// pass lets one call be sent. Its caller reports what became of it, once.
type pass struct{ word uint64 }

func (b *breaker) state() State { return State(b.word.Load() & 3) }

// change goes to another state. The lock is held.
func (b *breaker) change(to State) uint64 {
	word := (b.word.Load()>>2+1)<<2 | uint64(to)
	b.word.Store(word)
	return word
}

func (b *breaker) admit(now int64) (p pass, ok bool) {
	word := b.word.Load()
	if State(word&3) == Closed {
		return pass{word}, now >= b.quiet.Load()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	word = b.word.Load()
	switch {
	case State(word&3) == Closed:
		return pass{word}, now >= b.quiet.Load()
	case State(word&3) == Open && now >= b.until:
		return pass{b.change(HalfOpen)}, true // one at a time
	default:
		return pass{}, false
	}
}

// succeed reports that a call was answered. closed is true if that has closed the breaker.
func (b *breaker) succeed(p pass) (closed bool) {
	if State(p.word&3) == Closed {
		if b.failures.Load() != 0 && b.word.Load() == p.word {
			b.forgive()
		}
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word {
		return false
	}
	b.forgive()
	b.change(Closed)
	return true
}

func (b *breaker) forgive() {
	b.failures.Store(0)
	b.quiet.Store(0)
}

// fail reports that a call was not answered, for which so much time was waited in vain; 0: it
// was an error. opened is true if that has opened a breaker that was closed.
func (b *breaker) fail(p pass, now int64, waited time.Duration) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word {
		return false
	}
	probe := State(p.word&3) == HalfOpen
	if !probe && b.failures.Add(1) < failuresToOpen {
		if waited > 0 {
			b.quiet.Store(now + int64(min(waited, quietTime)))
		}
		return false
	}
	if !probe {
		b.since.Store(now)
	}
	b.change(Open)
	b.until = now + int64(retryTime)
	return !probe
}

// unanswered reports that a call was not answered for a reason that is another breaker's. If it
// was the probe, there is another in its time.
func (b *breaker) unanswered(p pass, now int64) {
	if State(p.word&3) == HalfOpen {
		b.fail(p, now, 0)
	}
}

// unasked reports whether it is open, and nobody has long wanted to see whether the server is
// back.
func (b *breaker) unasked(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return State(b.word.Load()&3) == Open && now-b.until > int64(unasked)
}

// minRetry is the shortest time after which a call that was refused without a server is
// told to come again, so that one that does so is not a flood.
const minRetry = retryTime / 10

// retryAfter is how long a call that is refused without a server had better wait: until the
// next probe, if there is to be one.
func (b *breaker) retryAfter(now int64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() != Open {
		return retryTime
	}
	return min(max(time.Duration(b.until-now), minRetry), retryTime)
}
