package leapredis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
	"github.com/leapgate-go/leapgate/limit"
)

// lease is permits that the server has counted, and that this process serves.
type lease struct {
	left   atomic.Int64  // over, when it has ended
	end    int64         // by this process's clock: no permit is served from then on
	over   int64         // the window that was charged is over, for certain not before it is on the server
	ticket int64         // of the window that was charged
	room   atomic.Int64  // what was left for all when the server was last asked
	reset  time.Duration // how long from sent nothing is held
	more   time.Duration // how long from sent no more than there is room for can be used
	sent   int64
}

const over = -1

// take takes n permits if there are as many, and returns how many are left then.
func (l *lease) take(n int64) (left int64, ok bool) {
	for left = l.left.Load(); left >= n; left = l.left.Load() {
		if l.left.CompareAndSwap(left, left-n) {
			return left - n, true
		}
	}
	return 0, false
}

// takeSome takes up to n permits, and returns how many.
func (l *lease) takeSome(n int64) int64 {
	for left := l.left.Load(); left > 0; left = l.left.Load() {
		if some := min(n, left); l.left.CompareAndSwap(left, left-some) {
			return some
		}
	}
	return 0
}

// give puts in n permits, unless the lease has ended.
func (l *lease) give(n int64) bool {
	for left := l.left.Load(); left >= 0; left = l.left.Load() {
		if l.left.CompareAndSwap(left, left+n) {
			return true
		}
	}
	return false
}

func (l *lease) finish() int64 { return max(0, l.left.Swap(over)) }

// station is what this process keeps of a key.
type station struct {
	lease   atomic.Pointer[lease]
	refusal atomic.Pointer[refusal]
	asked   atomic.Int64 // when the server was last asked

	mu sync.Mutex // guards changes of lease, and what is below
	// How many permits came from the server since a time, and how many were used for each
	// time of a lease before it.
	since, came, demand int64
	coming              int64 // those beyond what calls wanted that were asked for
}

type node = keys.Node[station]

// stations is the table of what is kept of keys. A node that was taken out while a call
// has it does no harm: its permits are counted, and it remembers no longer than others.
func stations(most int, lasts time.Duration) *keys.Table[station] {
	return keys.New(most, true, keys.Rules[station]{
		Init: func(n *node, now, _ int64) { n.Value.asked.Store(now) },
		Inspect: func(n *node, now int64) (warmth uint64, expired bool) {
			s := &n.Value
			warmth = uint64(s.left(now))
			age := now - s.asked.Load()
			if r := s.refusal.Load(); r != nil && now < r.until.Load() {
				age = 0
			}
			return warmth + 1, warmth == 0 && age > 2*int64(lasts)
		},
		Kill: func(*node, int64, bool) bool { return true },
	})
}

type leases struct {
	most     int64 // Config.Lease; at most 1: there are none
	lasts    time.Duration
	counting *counterScripts
	made     atomic.Int64
	returned atomic.Int64

	_       [64]byte // what changes with every call has a line of its own
	served  atomic.Int64
	_       [64]byte
	returns returns
}

// want is how many permits to ask for, for a call that wants n: extra more. With what is
// there and on its way, they are as many as the key needs in the time of a lease, going by
// the time before or, if that is more, by this one so far.
func (l *leases) want(s *station, now, n int64) (most, extra int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left(now)
	used := max(0, s.came-s.unused())
	if past := now - s.since; past >= int64(l.lasts) {
		s.demand = int64(float64(used) * float64(l.lasts) / float64(past))
		s.since, s.came, used = now, s.unused(), 0
	}
	s.asked.Store(now)
	extra = max(0, min(l.most-n, max(s.demand, used)-n-left-s.coming))
	s.coming += extra
	return n + extra, extra
}

// came notes that so many permits came, of those that were asked for with extra more.
func (l *leases) came(s *station, extra, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming -= extra
	s.came += n
}

// unused is how many permits the lease has, also if it has ended and they are on their way back.
func (s *station) unused() int64 {
	if l := s.lease.Load(); l != nil {
		return max(0, l.left.Load())
	}
	return 0
}

func (s *station) left(now int64) int64 {
	if l := s.lease.Load(); l != nil && now < l.end {
		return max(0, l.left.Load())
	}
	return 0
}

// serve admits n without asking, if there are permits for it.
func (l *leases) serve(d *limit.Decision, s *station, now, most, n int64) bool {
	lease := s.lease.Load()
	if lease == nil || now >= lease.end || n > most {
		return false
	}
	left, ok := lease.take(n)
	if !ok {
		return false
	}
	l.served.Add(1)
	d.Allowed, d.Limit, d.Charged, d.Ticket = true, most, n, lease.ticket
	d.Remaining = min(d.Limit, lease.room.Load()+left)
	d.ResetAfter = lease.reset - time.Duration(now-lease.sent)
	d.MoreAfter = max(0, lease.more-time.Duration(now-lease.sent)) // by then there is more than is known of
	return true
}

// add adds to what was admitted without a lease, or refused, what there are permits for: up to
// n in all.
func (l *leases) add(d *limit.Decision, s *station, now, n int64) {
	lease := s.lease.Load()
	if lease == nil || now >= lease.end || d.Charged > 0 && d.Ticket != lease.ticket {
		return
	}
	if more := lease.takeSome(n - d.Charged); more > 0 {
		d.Allowed, d.RetryAfter, d.Ticket = true, 0, lease.ticket
		d.Charged += more
	}
}

// put keeps what a reply took beyond what was asked for.
func (l *leases) put(n *node, sent, now, extra int64, r *reply, d *limit.Decision) {
	rest := int64(l.counting.rest(r))
	next := &lease{
		end: sent + min(rest, int64(l.lasts)), over: sent + rest,
		ticket: l.counting.ticket(*r), sent: sent, reset: d.ResetAfter, more: d.MoreAfter,
	}
	next.left.Store(extra)
	next.room.Store(d.Remaining)
	l.made.Add(1)

	s := &n.Value
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.lease.Load()
	if last != nil && now < last.end {
		if last.ticket == next.ticket && last.give(extra) {
			last.room.Store(d.Remaining)
			return
		}
		if last.ticket&(1<<generationAt-1) > next.ticket&(1<<generationAt-1) {
			return // the reply was long on its way
		}
	}
	if now < next.end { // what is left of the last one has its own way back, or none
		if last != nil && last.end == last.over {
			s.came -= s.unused()
		}
		s.lease.Store(next)
	}
	if next.end < next.over {
		l.returns.add(due{n, next})
	}
}

// refund gives n back to the lease of the window that was charged, if there is one.
func (l *leases) refund(s *station, now, ticket, n int64) bool {
	lease := s.lease.Load()
	return lease != nil && now < lease.end && lease.ticket == ticket && lease.give(n)
}

func (l *leases) drop(s *station) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lease := s.lease.Swap(nil); lease != nil {
		lease.finish()
	}
}

// endLease ends a lease, and gives back what is left of it: once, and only if the window that
// was charged is not over.
func (c *RateLimiter) endLease(d due) {
	left := d.lease.finish()
	c.leases.came(&d.node.Value, 0, -left)
	if left == 0 || c.link.clock.Now() >= d.lease.over {
		return
	}
	if _, err := c.send(context.Background(), c.algorithm.refund(c.wire(d.node.Key()), d.lease.ticket, 0, left)); err == nil {
		c.leases.returned.Add(left)
		d.node.Value.refusal.Store(nil) // there may be room now
	}
}
