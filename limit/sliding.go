package limit

import (
	"math"
	"time"

	arithmetic "github.com/leapgate-go/leapgate/internal/sliding"
)

// sliding is the sliding-window counter: see package internal/sliding.
type sliding struct{ length int64 }

// tally is what a key holds at a time.
type tally struct {
	previous, current int64
	elapsed           int64 // since the window began: 0 to length − 1
	// number is the window's. ahead is how far the time of the tally is after that of
	// the caller: 0 unless the key has seen a later time.
	number, ahead int64
}

// split returns the window of a time, and how much of it is over.
func (s *sliding) split(now int64) (number, elapsed int64) {
	number = now / s.length
	if elapsed = now - number*s.length; elapsed < 0 {
		number--
		elapsed += s.length
	}
	return number, elapsed
}

// floor is a/b, rounded down.
func floor(a, b int64) int64 {
	q := a / b
	if a < q*b {
		q--
	}
	return q
}

// turn makes what was counted in the window last seen into what counts in the window
// number, elapsed.
func (s *sliding) turn(seen, previous, current, number, elapsed int64) tally {
	switch ahead := seen - number; {
	case ahead == 0:
		return tally{previous: previous, current: current, elapsed: elapsed, number: number}
	case ahead == -1:
		return tally{previous: current, elapsed: elapsed, number: number}
	case ahead < 0:
		return tally{elapsed: elapsed, number: number}
	default:
		// The caller's time is older than what the key has seen: it is taken for the
		// beginning of that window. Moving the key back would admit a limit twice.
		return tally{previous: previous, current: current, number: seen, ahead: s.until(ahead) - elapsed}
	}
}

// until is the length of so many windows, at most maxTime.
func (s *sliding) until(windows int64) int64 {
	if windows > maxTime/s.length {
		return maxTime
	}
	return windows * s.length
}

// minTime is before all times: what is shared begins with it, whatever the clock says.
const minTime = math.MinInt64

// maxTime is a time that no sum of times here overflows.
const maxTime = math.MaxInt64 / 4

// between is how long it is from now to at, no more than maxTime either way, so that
// clocks that tell nonsense make no wait that is below 0.
func between(now, at int64) int64 {
	d := at - now
	if (d < 0) != (at < now) { // it has overflowed
		d = ^d // to the other sign, and large
	}
	return min(max(d, -maxTime), maxTime)
}

func (s *sliding) held(t *tally) int64 {
	return arithmetic.Held(t.previous, t.current, t.elapsed, s.length)
}

// wait is how long after the tally n more will fit, which do not fit now, if nobody else
// comes. n is at most the limit.
func (s *sliding) wait(t *tally, limit, n int64) time.Duration {
	return time.Duration(t.ahead + arithmetic.Wait(limit, n, t.previous, t.current, t.elapsed, s.length))
}

// reset is how long after the tally nothing will be held.
func (s *sliding) reset(t *tally) time.Duration {
	rest := arithmetic.Reset(t.previous, t.current, t.elapsed, s.length)
	if rest > 0 {
		rest += t.ahead
	}
	return time.Duration(rest)
}

// more is how long after the tally the next one passes if all that remains is used with it;
// 0 if nothing is held. In the next window that weighs less than what is used then.
func (s *sliding) more(t tally, limit int64) time.Duration {
	held := s.held(&t)
	if held == 0 {
		return 0
	}
	t.current += max(0, limit-held)
	return s.wait(&t, limit, 1)
}

// lasts is how long what is held now is held at most.
func (s *sliding) lasts(q question) time.Duration {
	_, elapsed := s.split(q.now)
	return time.Duration(2*s.length - elapsed)
}

// refuse makes d the decision that refuses n to a key that holds t.
func (s *sliding) refuse(d *Decision, t *tally, limit, held, n int64) {
	d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter = limit, max(0, limit-held), Never, s.reset(t)
	if n <= limit {
		d.RetryAfter = s.wait(t, limit, n)
	}
}

// begun is the decision that made a key.
func (s *sliding) begun(at int64, q question) Decision {
	t := tally{current: q.n, ahead: between(q.now, at)}
	t.number, t.elapsed = s.split(at)
	return Decision{
		Allowed: true, Limit: q.limit, Remaining: q.limit - q.n, ResetAfter: s.reset(&t),
		Charged: q.n, Ticket: t.number,
	}
}

func (s *sliding) most(q question) int64 { return q.limit }

func (s *sliding) memory() (bytes, coarse int64) { return 0, 0 }
