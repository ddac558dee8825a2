package quota

import (
	"math"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
)

// Borrow is Take for a caller that may wait, maxWait at most (that included), for
// room that the oldest buckets will leave. If n finds no room now, it is reserved
// in the first later bucket that has room for it, in the window of that bucket and
// in every one after it: then Ticket is the start of that bucket, and Wait, which
// is more than 0, how long from now it begins. The caller waits so long and is
// admitted then; it need not ask again.
//
// What is reserved counts in its bucket, as if it had been taken when that begins.
// It leaves less room to calls that come meanwhile, also in the buckets before it,
// as long as they are in one window. A caller that does not come after all gives
// it back with [Quota.Refund].
//
// If n would have to wait longer it is refused, as Take refuses it.
//
// What is reserved is remembered in a list, with one place for each bucket, that
// is copied at each call; maxWait bounds its length.
func (q *Quota) Borrow(now, n, limit int64, maxWait time.Duration) Outcome {
	for {
		o := q.Take(now, n, limit)
		if o.OK || o.Wait == Unknown || o.Wait > maxWait {
			return o
		}
		start := now + int64(o.Wait)
		if start > math.MaxInt64-q.interval {
			return o // it would leave the window after the end of the axis
		}
		if q.reserve(start, n, limit) {
			return Outcome{OK: true, Ticket: start, Held: o.Held, Wait: o.Wait}
		}
		// Another call was admitted, gave back or opened a bucket meanwhile.
	}
}

// reserve counts n in the bucket that will start at start. It returns false if there
// is no room for it any more, or if it was disturbed.
//
// Against Take, which counts in the other word, this is Dekker's: both write first,
// and then look at what the other has written. Of two that are too many, the later
// sees the earlier, and gives back. Both may: then Take refuses and this is tried
// again, so that they cannot go on disturbing each other.
func (q *Quota) reserve(start, n, limit int64) bool {
	w := q.ring.Newest()
	b := w.Value()
	if start <= w.Start() {
		return false
	}
	// Used is sealed before ahead. So if it is not when Take is told to look at ahead
	// from now on, the list is not either. If it still is not at the CAS below, w is
	// still the newest bucket, and what its elders hold has been read right.
	l := b.ahead.Load()
	own, ok := b.announce()
	if !ok {
		q.next(w)
		return false
	}
	gone := w.Start() + q.interval
	f := q.forecast(w, own, l)
	f.advance(start)
	held := f.held
	if start < gone {
		held -= own
	}
	all := lend(l.list(), start, n, held, q.interval)
	if !bears(all, start, q.interval, own, gone, limit) || !b.ahead.CompareAndSwap(l, newLoans(all, gone)) {
		return false
	}
	if bears(all, start, q.interval, b.count(), gone, limit) {
		return true
	}
	// If a later bucket has taken it over, it is given back there, or else counted
	// although it was not admitted.
	q.refund(start, n)
	return false
}

// announce sets lent, unless the bucket is sealed, and returns what it admitted. A Take
// that has looked at used before, and so would not look at ahead, has either changed
// it by then, which is seen by all that look at it from now on, or cannot any more.
func (b *bucket) announce() (count int64, ok bool) {
	for {
		used := b.used.Load()
		switch {
		case used < 0:
			return 0, false
		case used&lent != 0 || b.used.CompareAndSwap(used, used|lent):
			return used &^ lent, true
		}
	}
}

// takeBesideLoans is Take in the bucket of w, whose used has the bit for lent, and
// is not sealed. It returns false if it was disturbed.
//
//go:noinline
func (q *Quota) takeBesideLoans(w *wrap, used, now, n, limit int64) (o Outcome, decided bool) {
	b := w.Value()
	own := used &^ lent
	l := b.ahead.Load()
	switch {
	case n > limit-l.fullest(b.base)-own:
		if b.used.Load() != used { // perhaps the two were never so at one time
			return Outcome{}, false
		}
	case !b.used.CompareAndSwap(used, used+n):
		return Outcome{}, false
	default:
		// Something may have been lent since l was loaded, by a call that looked at used
		// before it was changed.
		if l = b.ahead.Load(); n <= limit-l.fullest(b.base)-own {
			return Outcome{OK: true, Ticket: w.Start()}, true
		}
		b.takeOff(n)
	}
	o = Outcome{Held: l.fullest(b.base) + own, Wait: Unknown}
	if n <= limit {
		f := q.forecast(w, own, l)
		o.Wait = clock.Until(now, f.room(n, limit))
	}
	return o, q.ring.Newest() == w // so the elders were read right
}

// takeOff takes n off used, unless the bucket is sealed or has not so much.
func (b *bucket) takeOff(n int64) bool {
	for {
		used := b.used.Load()
		if used < 0 || used&^lent < n {
			return false
		}
		if b.used.CompareAndSwap(used, used-n) {
			return true
		}
	}
}

// refundLoan gives back n of what was lent of a later bucket than that of w, or of
// one that has become the newest meanwhile.
func (q *Quota) refundLoan(w *wrap, start, n int64) bool {
	b := w.Value()
	for {
		l := b.ahead.Load()
		if l.closed() {
			q.next(w)
			return q.refund(start, n)
		}
		less, ok := giveBack(l.list(), start, n, q.interval)
		if !ok {
			return false
		}
		if b.ahead.CompareAndSwap(l, newLoans(less, w.Start()+q.interval)) {
			return true
		}
	}
}

// sealAhead ends the lending of a bucket and returns what it has lent.
func (b *bucket) sealAhead() *loans {
	for {
		l := b.ahead.Load()
		if l.closed() {
			return l
		}
		last := &loans{}
		if l != nil {
			*last = *l
		}
		last.sealed = true
		if b.ahead.CompareAndSwap(l, last) {
			return last
		}
	}
}

// forecast looks at the windows that end with the newest bucket and after it, as
// they will be if no call comes any more. It opens nothing. What it predicts is right
// if the bucket is still the newest afterwards.
type forecast struct {
	q     *Quota
	w     *wrap // the newest bucket
	own   int64 // what it has admitted
	loans []loan

	at      int64 // the start of the bucket that the window ends with
	held    int64 // what the window holds
	out, in int   // loans[out:in] lie in it
}

func (q *Quota) forecast(w *wrap, own int64, l *loans) forecast {
	return forecast{q: q, w: w, own: own, loans: l.list(), at: w.Start(), held: w.Value().base + own}
}

// advance moves the window on, so that it ends with the bucket that starts at start.
func (f *forecast) advance(start int64) {
	last := start - f.q.interval // which leaves with start
	for o := f.q.ring.Oldest(f.at); o != nil && o.Start() <= last; o = f.q.ring.Oldest(o.Start() + f.q.interval) {
		if o == f.w {
			f.held -= f.own
		} else {
			f.held -= o.Value().count()
		}
	}
	for ; f.in < len(f.loans) && f.loans[f.in].start <= start; f.in++ {
		f.held += f.loans[f.in].n
	}
	for ; f.out < f.in && f.loans[f.out].start <= last; f.out++ {
		f.held -= f.loans[f.out].n
	}
	f.at = start
}

// room moves the window on to the first bucket in which n could be admitted, and
// returns its start. n is at most limit.
func (f *forecast) room(n, limit int64) int64 {
	interval, length := f.q.interval, int64(f.q.ring.Length())
	gone := f.w.Start() + interval
	full, seen := f.at-length, 0 // full: the latest bucket of those seen whose window has no room
	for {
		for ; seen < len(f.loans) && f.loans[seen].start < f.at+interval; seen++ {
			a := f.loans[seen]
			if a.start < gone {
				a.held += f.own
			}
			if n > limit-a.held {
				full = a.start
			}
		}
		oldest := f.q.ring.Oldest(f.at)
		switch {
		case full >= f.at: // what was admitted from here to there would lie in it
			f.advance(full + length)
		case n <= limit-f.held:
			return f.at
		case f.out < f.in && (oldest == nil || f.loans[f.out].start < oldest.Start()):
			f.advance(f.loans[f.out].start + interval)
		case oldest != nil:
			f.advance(oldest.Start() + interval)
		default: // only if buckets were opened meanwhile
			return f.at
		}
	}
}

// view returns a forecast for the bucket of now, and that bucket's start, once
// something was lent in the newest bucket; false if nothing was.
func (q *Quota) view(now int64) (f forecast, lends bool) {
	w := q.ring.Newest()
	if w == nil || w.Value().used.Load()&lent == 0 {
		return forecast{}, false
	}
	f = q.forecast(w, w.Value().count(), w.Value().ahead.Load())
	if now > w.Start() {
		length := uint64(q.ring.Length())
		f.advance(w.Start() + int64(uint64(now-w.Start())/length*length))
	}
	return f, true
}
