package breaker

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/sliding"
)

// stride picks a share of calls, evenly: of a share of 0.25 every fourth, of 0.4 the third and
// the fifth of five. It adds up the shares, and picks the call with which the sum reaches a
// whole number. That is exact to one call, whatever the interleaving, and the same in every run.
type stride struct{ sum atomic.Uint64 } // in parts of whole

// whole is a share of 1.
const whole = 1 << 32

// next reports whether the next call is picked, of a share.
func (s *stride) next(share uint64) bool {
	sum := s.sum.Add(share)
	return sum/whole != (sum-share)/whole
}

// wouldBeNext is next, but changes nothing.
func (s *stride) wouldBeNext(share uint64) bool {
	sum := s.sum.Load()
	return (sum+share)/whole != sum/whole
}

// back takes a call back for which next was called.
func (s *stride) back(share uint64) { s.sum.Add(-share) }

// lastly is when a throttle has admitted a call last, while it refused some: a call a second is
// always admitted, to find out.
type lastly struct{ admitted atomic.Int64 }

// isLong reports whether that is a second ago, for a call that would be refused; then it is
// admitted. Of several calls one is.
func (l *lastly) isLong(now int64) bool {
	last := l.admitted.Load()
	return now-last >= int64(time.Second) && l.admitted.CompareAndSwap(last, now)
}

// note notes that a call was admitted.
func (l *lastly) note(now int64) {
	if l.admitted.Load() < now { // one of several calls of a moment is enough
		l.admitted.Store(now)
	}
}

// back takes a call back that was admitted at a time.
func (l *lastly) back(admitted int64) {
	l.admitted.CompareAndSwap(admitted, admitted-int64(time.Second))
}

// leastRamp is the part of all calls with which a ramp begins: one of so many.
const leastRamp = 10

// part returns ⌈n × share⌉, where share is that of the calls which a ramp of this length admits
// after a time. That may be more: a call may end after a ramp which a reload has just made shorter.
func part(n int64, after, ramp time.Duration) int64 {
	if after < (ramp+leastRamp-1)/leastRamp {
		return (n + leastRamp - 1) / leastRamp
	}
	return sliding.Share(n, int64(min(after, ramp)), int64(ramp))
}

// reject is the share of calls that Throttle refuses. It is that of "Handling Overload" in
// Site Reliability Engineering (Google, 2016), client-side throttling: while more than K
// requests come for each that is accepted, so many are refused that K remain. Requests are
// those that have ended, and those that were refused here; calls in flight are not, or a
// service that is slow and healthy would be throttled.
func reject(r *Rule, c counts) float64 {
	if c.total < r.MinCalls {
		return 0
	}
	requests, accepts := float64(c.total), float64(c.total-c.bad)
	return min(r.MaxReject, max(0, (requests-r.K*accepts)/(requests+1)))
}

// inParts is a share in parts of whole, rounded up.
func inParts(share float64) uint64 { return uint64(math.Ceil(share * whole)) }
