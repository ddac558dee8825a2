// Package quota admits by exact count: never, under any interleaving, has a
// live window admitted more than its limit.
//
// A [Quota] is a ring of buckets. A bucket holds base, what the older live
// buckets admitted, and used, what it admitted itself. Admission is one load and
// one CAS on used of the newest bucket, whatever the number of buckets:
//
//	n ≤ limit − base − used   →   CAS(used, used + n)
//
// Base can be kept as a constant because the elders are frozen: a call that opens a
// bucket first seals used of the newest, so that no admission can land there any
// more, then adds up the elders, and only then publishes the new bucket.
//
// The time of an admission is the later of the caller's clock reading and the
// start of the bucket that took it, which matters to a goroutine that was
// suspended between the two. What is promised is about that time.
//
// A caller that may wait can borrow from a later bucket: see [Quota.Borrow]. What
// was lent is a second word of the newest bucket, ahead, sealed in the same opening
// and taken over by the next bucket. A call that writes one of the two words looks at the
// other afterwards, and takes back what is too much. As long as nothing was lent in
// a bucket, a bit in used says so, and Take pays nothing for it.
package quota

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/leaparray"
)

// MaxLimit is the largest limit: sums of counts up to it cannot overflow.
const MaxLimit = math.MaxInt64 / 4

// Quota is the window of one rule or one key. Make one with [New]. All methods
// may be called by any number of goroutines at once, and none takes a lock.
type Quota struct {
	ring     leaparray.LeapArray[bucket]
	interval int64 // after which what a bucket admitted is forgotten, from its start
}

type wrap = leaparray.WindowWrap[bucket]

type bucket struct {
	base   int64 // what the older live buckets admitted
	before int64 // what all older buckets admitted, live or not

	// The start of the oldest live bucket that admitted anything, the first to
	// give room, and what it admitted. If base is 0, it is this bucket.
	first      int64
	firstCount int64

	// used is what this bucket admitted.
	//
	//	 63      62     61 … 0
	//	sealed   lent   count
	//
	// Callers that are admitted add to the count, refunds take off. The
	// first call to borrow while this is the newest bucket sets lent, before it writes to
	// ahead, so that Take looks there from then on; it stays set. Opening the
	// next bucket sets sealed. After that nothing of it changes.
	used atomic.Int64

	// ahead is what was lent of later buckets. It is nil, and not looked at, unless
	// used has the bit for lent. Opening the next bucket seals it, too, after
	// used: as used is sealed, lent cannot be set any more.
	ahead atomic.Pointer[loans]

	// With its span it is one cache line: all that admitting reads and writes of a quota besides
	// the ring, and no other quota's words share it.
}

const (
	sealed = math.MinInt64
	lent   = 1 << 62 // more than any count: MaxLimit is half of it
)

// seal ends a bucket and returns what it admitted, and whether it has lent.
func (b *bucket) seal() (count int64, lends bool) {
	used := b.used.Or(sealed)
	return used &^ (sealed | lent), used&lent != 0
}

func (b *bucket) count() int64 { return b.used.Load() &^ (sealed | lent) }

// New makes a quota over interval in the given number of buckets, which must
// divide it.
//
// With k buckets the aligned window is bounded: the k live buckets never hold
// more than the limit, but two bursts that lie in different windows can be as
// close as interval − interval/k. A strict quota keeps one more bucket in the
// sum, so that no interval of that length, wherever it begins, holds more.
func New(interval time.Duration, buckets int, strict bool) (*Quota, error) {
	if strict && buckets > 0 {
		interval += interval / time.Duration(buckets)
		buckets++
	}
	q := &Quota{interval: int64(interval)}
	if err := q.ring.Init(buckets, interval, q.open); err != nil {
		return nil, err
	}
	return q, nil
}

// open makes a bucket. If another bucket was opened since prev was the newest,
// the elders may still change and the sum is wrong, but then the ring does not
// publish what this makes.
func (q *Quota) open(b *bucket, start int64, prev *leaparray.WindowWrap[bucket]) {
	b.first = start
	if prev != nil {
		p := prev.Value()
		own, lends := p.seal()
		b.before = p.before + own
		for w := range q.ring.Live(start) {
			n := w.Value().count()
			b.base += n
			if n > 0 && b.firstCount == 0 {
				b.first, b.firstCount = w.Start(), n
			}
		}
		if lends {
			due, over, rest := takeOver(p.sealAhead().list(), start, q.interval, own, prev.Start()+q.interval)
			b.before += over
			if len(rest) > 0 {
				b.ahead.Store(newLoans(rest, start+q.interval))
				due |= lent
			}
			b.used.Store(due)
		}
	}
}

// current is the bucket of now, opened if need be. The buckets of which something
// was lent are opened on the way to it, so that it is they that count that.
//
//go:noinline
func (q *Quota) current(now int64) *wrap {
	for {
		w := q.ring.Newest()
		if w == nil || w.Value().used.Load()&lent == 0 {
			return q.ring.Current(now)
		}
		all := w.Value().ahead.Load().list()
		if len(all) == 0 || all[0].start > now {
			return q.ring.Current(now)
		}
		q.ring.Current(all[0].start)
	}
}

// next is what follows w once that is sealed. A call whose clock is ahead opens
// a later bucket. Waiting for it would be a lock: open the one after w, whichever call is
// first.
func (q *Quota) next(w *wrap) *wrap { return q.current(w.Start() + int64(q.ring.Length())) }

// Unknown is a wait that cannot be told, because it would be for ever.
const Unknown time.Duration = -1

// Outcome is the answer of [Quota.Take] and [Quota.Borrow].
type Outcome struct {
	OK     bool
	Ticket int64 // if OK: what [Quota.Refund] needs

	// If not OK, or if the caller must wait: what the fullest of the windows held that n
	// would have lain in. That is the window of now, unless what was borrowed makes a later one fuller.
	Held int64

	// If not OK: how long from now n would find room if no other call came. If Borrow
	// returns OK: how long the caller must wait.
	Wait time.Duration
}

// Take admits n, or refuses and takes nothing. limit may differ from call to call,
// as when a rule is changed. It is at most [MaxLimit], and n is between 1 and that.
func (q *Quota) Take(now, n, limit int64) Outcome {
	w := q.ring.Newest()
	if !w.Covers(now) {
		w = q.current(now)
	}
	for {
		b := w.Value()
		used := b.used.Load()
		if uint64(used) >= lent { // or sealed, which is the higher bit
			if used < 0 {
				w = q.next(w)
				continue
			}
			o, decided := q.takeBesideLoans(w, used, now, n, limit)
			if decided {
				return o
			}
			w = q.ring.Newest()
			continue
		}
		if n > limit-b.base-used {
			held := b.base + used
			return Outcome{Held: held, Wait: q.wait(b, now, n, limit, held)}
		}
		if b.used.CompareAndSwap(used, used+n) {
			return Outcome{OK: true, Ticket: w.Start()}
		}
	}
}

// wait returns how long from now n more will find room when the window holds held.
// newest is the bucket of now.
func (q *Quota) wait(newest *bucket, now, n, limit, held int64) time.Duration {
	if n > limit {
		return Unknown
	}
	short := held + n - limit
	leaves := newest.first
	if short > newest.firstCount && newest.base > 0 {
		leaves = q.leaves(now, short)
	}
	return q.untilGone(now, leaves)
}

// untilGone returns how long after now the bucket that starts at start has left the window. A
// bucket near the end of the axis leaves with that.
func (q *Quota) untilGone(now, start int64) time.Duration {
	return clock.Until(now, min(start, math.MaxInt64-q.interval)+q.interval)
}

// leaves returns the start of the bucket with which the given number will have left
// the window, of whose buckets none leaves before those that are older.
//
//go:noinline
func (q *Quota) leaves(now, short int64) (start int64) {
	for w := range q.ring.Live(now) {
		start = w.Start()
		if short -= w.Value().count(); short <= 0 {
			break
		}
	}
	return start
}

// Refund gives n back to the bucket that was charged: the one that admitted it, or
// of which it was borrowed, be that still to come or open by now. If that bucket is
// sealed already, the refund is dropped, and the window admits a little less until
// the bucket leaves it. (Giving it to the newest bucket instead admits 11 of 10.)
func (q *Quota) Refund(ticket, n int64) { q.refund(ticket, n) }

// refund reports whether anything was given back.
func (q *Quota) refund(ticket, n int64) bool {
	w := q.ring.Newest()
	switch {
	case w == nil || w.Start() > ticket:
		return false
	case w.Start() == ticket:
		return w.Value().takeOff(n)
	default:
		return q.refundLoan(w, ticket, n)
	}
}

// Window is what the live window has admitted at now, what was borrowed of buckets
// that have begun by then included.
func (q *Quota) Window(now int64) int64 {
	if w := q.ring.Newest(); w.Covers(now) {
		return w.Value().base + w.Value().count()
	}
	for f, lends := q.view(now); lends; f, lends = q.view(now) {
		if q.ring.Newest() == f.w {
			return f.held
		}
	}
	return q.taken(now)
}

// taken is what the live window has admitted at now, without what was borrowed.
func (q *Quota) taken(now int64) (sum int64) {
	for w := range q.ring.Live(now) {
		sum += w.Value().count()
	}
	return sum
}

// Wait returns how long from now n more will find room if nobody else comes: 0 if
// they would now, [Unknown] if n can never pass. It opens no bucket, however far
// ahead now is.
func (q *Quota) Wait(now, n, limit int64) time.Duration {
	if n > limit {
		return Unknown
	}
	for f, lends := q.view(now); lends; f, lends = q.view(now) {
		from := f.at
		start := f.room(n, limit)
		if q.ring.Newest() != f.w {
			continue
		}
		if start == from {
			return 0
		}
		return clock.Until(now, start)
	}
	short := q.Window(now) + n - limit
	if short <= 0 {
		return 0
	}
	return q.untilGone(now, q.leaves(now, short))
}

// Admitted is what was admitted since the quota was made, less what was refunded.
// What was borrowed counts at once. For a moment it may also hold what a call takes
// back before it is refused.
func (q *Quota) Admitted() int64 {
	w := q.ring.Newest()
	if w == nil {
		return 0
	}
	b := w.Value()
	admitted := b.before + b.count()
	if b.used.Load()&lent != 0 {
		admitted += b.ahead.Load().total()
	}
	return admitted
}
