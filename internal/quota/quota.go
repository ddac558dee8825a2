// Package quota admits by exact count: never, under any interleaving, has a
// live window admitted more than its limit.
//
// A [Quota] is a ring of buckets. A bucket holds base, what the older live
// buckets admitted, and used, what it admitted itself. Admission is one load and
// one CAS on used of the newest bucket, whatever the number of buckets:
//
//	n ≤ limit − base − used   →   CAS(used, used + n)
//
// Base can be kept as a constant because the elders are frozen: whoever opens a
// bucket first seals used of the newest, so that no admission can land there any
// more, then adds up the elders, and only then publishes the new bucket.
//
// The time of an admission is the later of the caller's clock reading and the
// start of the bucket that took it, which matters to a goroutine that was
// suspended between the two. What is promised is about that time.
package quota

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/leaparray"
)

// MaxLimit is the largest limit: sums of counts up to it cannot overflow.
const MaxLimit = math.MaxInt64 / 4

// Quota is the window of one rule or one key. Make one with [New]. All methods
// may be called by any number of goroutines at once, and none takes a lock.
type Quota struct {
	ring     *leaparray.LeapArray[bucket]
	interval int64 // after which what a bucket admitted is forgotten, from its start
}

type bucket struct {
	base   int64 // what the older live buckets admitted
	before int64 // what all older buckets admitted, live or not

	// The start of the oldest live bucket that admitted anything, the first to
	// give room, and what it admitted. If base is 0, it is this bucket.
	first      int64
	firstCount int64

	// used is what this bucket admitted.
	//
	//	 63      62 … 0
	//	sealed   count
	//
	// Callers that are admitted add to the count, refunds take off; whoever
	// opens the next bucket sets sealed. After that it does not change.
	used atomic.Int64

	_ [64 - 5*8]byte // a cache line of its own: another quota's words must not share it
}

const sealed = math.MinInt64

// seal ends a bucket and gives what it admitted.
func (b *bucket) seal() int64 { return b.used.Or(sealed) &^ sealed }

func (b *bucket) count() int64 { return b.used.Load() &^ sealed }

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
	ring, err := leaparray.New(buckets, interval, q.open)
	if err != nil {
		return nil, err
	}
	q.ring = ring
	return q, nil
}

// open makes a bucket. If another bucket was opened since prev was the newest,
// the elders may still change and the sum is wrong, but then the ring does not
// publish what this returns.
func (q *Quota) open(start int64, prev *leaparray.WindowWrap[bucket]) *bucket {
	b := &bucket{first: start}
	if prev != nil {
		p := prev.Value()
		b.before = p.before + p.seal()
		for w := range q.ring.Live(start) {
			n := w.Value().count()
			b.base += n
			if n > 0 && b.firstCount == 0 {
				b.first, b.firstCount = w.Start(), n
			}
		}
	}
	return b
}

// Unknown is a wait that cannot be told, because it would be for ever.
const Unknown time.Duration = -1

// Outcome is the answer of [Quota.Take].
type Outcome struct {
	OK     bool
	Ticket int64 // if OK: what [Quota.Refund] needs

	// If not OK: what the window held, and how long from now n would find room if
	// nobody else came.
	Held int64
	Wait time.Duration
}

// Take admits n, or refuses and takes nothing. limit may differ from call to call,
// as when a rule is changed. It is at most [MaxLimit], and n is between 1 and that.
func (q *Quota) Take(now, n, limit int64) Outcome {
	w := q.ring.Newest()
	if !w.Covers(now) {
		w = q.ring.Current(now)
	}
	for {
		b := w.Value()
		used := b.used.Load()
		if used < 0 {
			// Somebody whose clock is ahead opens a later bucket. Waiting for
			// it would be a lock: open the one after this, whoever is first.
			w = q.ring.Current(w.Start() + int64(q.ring.Length()))
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

// wait tells how long from now n more will find room when the window holds held.
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
	return time.Duration(max(0, leaves+q.interval-now))
}

// leaves gives the start of the bucket with which the given number will have left
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

// Refund gives n back to the bucket that was charged. If that is sealed already,
// the refund is dropped, and the window admits a little less until the bucket
// leaves it. (Giving it to the newest bucket instead admits 11 of 10.)
func (q *Quota) Refund(ticket, n int64) {
	w := q.ring.Newest()
	if w == nil || w.Start() != ticket {
		return
	}
	b := w.Value()
	for used := b.used.Load(); used >= n; used = b.used.Load() { // sealed is below 0
		if b.used.CompareAndSwap(used, used-n) {
			return
		}
	}
}

// Window is what the live window has admitted at now.
func (q *Quota) Window(now int64) int64 {
	if w := q.ring.Newest(); w.Covers(now) {
		return w.Value().base + w.Value().count()
	}
	var sum int64
	for w := range q.ring.Live(now) {
		sum += w.Value().count()
	}
	return sum
}

// Wait tells how long from now n more will find room if nobody else comes: 0 if
// they would now, [Unknown] if n can never pass.
func (q *Quota) Wait(now, n, limit int64) time.Duration {
	if n > limit {
		return Unknown
	}
	short := q.Window(now) + n - limit
	if short <= 0 {
		return 0
	}
	return time.Duration(max(0, q.leaves(now, short)+q.interval-now))
}

// Admitted is what was admitted since the quota was made, less what was refunded.
func (q *Quota) Admitted() int64 {
	w := q.ring.Newest()
	if w == nil {
		return 0
	}
	return w.Value().before + w.Value().count()
}
