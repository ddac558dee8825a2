package places

import "time"

// pace is how fast places come free while calls queue for them. It reads the real time, as the deadlines
// of those calls are in.
type pace struct {
	each time.Duration // for one place, lately
	last time.Time     // when a place came free, or when the queue began
	seen time.Time     // when each was found
}

const (
	// smooth is how much the newest time counts: one part in so many.
	smooth = 8
	// fresh is how long a pace is worth something.
	fresh = 10 * time.Second
)

// begin is the begin of a queue.
func (p *pace) begin() { p.last = time.Now() }

// served notes that a call of the queue has got n places.
func (p *pace) served(n int64) {
	now := time.Now()
	each := now.Sub(p.last) / time.Duration(n)
	if p.isFresh(now) {
		each = p.each + (each-p.each)/smooth
	}
	p.each, p.last, p.seen = each, now, now
}

// expect returns how long it takes until n places have come free; 0 if that is not known.
func (p *pace) expect(n int64) time.Duration {
	if !p.isFresh(time.Now()) {
		return 0
	}
	return time.Duration(n) * p.each
}

func (p *pace) isFresh(now time.Time) bool { return !p.seen.IsZero() && now.Sub(p.seen) <= fresh }
