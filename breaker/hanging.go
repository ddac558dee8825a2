package breaker

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/leaparray"
)

// hanging finds calls that are in flight for longer than they may take. Calls are counted in
// buckets by when they began, a tenth of that time long, and an end is counted where its begin
// was. When a bucket is so old that all its calls are overdue, it is sealed. After that nothing of
// it changes, and the newest bucket has the sum of all that are sealed.
type hanging struct {
	late   atomic.Int64 // begins less ends whose bucket was sealed before they came: of overdue calls
	behind int64        // how far the boundary is behind the start of the newest bucket
	ring   leaparray.LeapArray[began]
}

// began are the calls that began in a bucket. Each word has the number of calls, and a sum: what
// those that began count for, and how many of those that ended were good.
//
//	63       62   40  39    0
//	sealed    calls     sum
//
// Both numbers of calls wrap; their difference, which is how many are in flight, must be below
// four million. The sums must be below 2^40, which 2^20 calls of the largest weight reach: otherwise the number of
// calls becomes wrong.
type began struct {
	begins, ends atomic.Uint64
	past         begun // of all buckets that were sealed when this one was opened
}

const (
	sealed    = 1 << 63
	callsAt   = 40
	aCall     = 1 << callsAt
	sumMask   = aCall - 1
	callsBits = 63 - callsAt
)

// bunch is a bucket with its span of time.
type bunch = leaparray.WindowWrap[began]

// begun is what calls come to that have begun.
type begun struct{ inFlight, admitted, good int64 }

// plus adds two words of a bucket.
func (s *begun) plus(begins, ends uint64) {
	const up = 64 - callsBits
	s.inFlight += int64((begins>>callsAt-ends>>callsAt)<<up) >> up // without sealed
	s.admitted += int64(begins & sumMask)
	s.good += int64(ends & sumMask)
}

func newHanging(after time.Duration) *hanging {
	length := (after + 9) / 10
	buckets := (after + length - 1) / length // until what began in one is overdue, wherever in it
	h := &hanging{behind: int64(buckets * length)}
	if err := h.ring.Init(int(buckets)+1, (buckets+1)*length, h.open); err != nil {
		panic(err) // the arithmetic above is wrong
	}
	return h
}

// boundary is the first moment of which the calls are not all overdue in the bucket that
// starts at start.
func (h *hanging) boundary(start int64) int64 { return start - h.behind }

// open makes a bucket. Those that are before the boundary with it are sealed, so every opener
// finds the same in them.
func (h *hanging) open(b *began, start int64, newest *bunch) {
	if newest == nil {
		return
	}
	b.past = newest.Value().past
	for w := range h.ring.Live(newest.Start()) {
		if w.Start() >= h.boundary(start) {
			break
		}
		v := w.Value()
		b.past.plus(v.begins.Or(sealed), v.ends.Or(sealed))
	}
}

// close seals all buckets, and lets no more be opened. It returns what the begins in them
// have been admitted with.
func (h *hanging) close() (admitted int64) {
	return h.ring.Current(math.MaxInt64).Value().past.admitted
}

// turn opens the bucket of now, and reports whether it was not open.
func (h *hanging) turn(now int64) bool {
	w := h.ring.Newest()
	if w.Covers(now) || w != nil && now < w.Start() {
		return false
	}
	h.ring.Current(now)
	return true
}

// begin counts a call that begins at start, for which turn was called.
func (h *hanging) begin(start int64) {
	if w := h.find(start); w == nil || !add(&w.Value().begins, aCall) {
		h.late.Add(1)
	}
}

// end counts the end of a call that began at start.
func (h *hanging) end(start int64) {
	if w := h.find(start); w == nil || !add(&w.Value().ends, aCall) {
		h.late.Add(-1)
	}
}

// endGood is end for a call that was good. It reports false, and does nothing, if the bucket of the
// call is sealed.
func (h *hanging) endGood(start int64) bool {
	w := h.find(start)
	return w != nil && add(&w.Value().ends, aCall+1)
}

// tryEndGood is endGood for the newest bucket, as tryBegin is for begin.
func tryEndGood(w *bunch, start int64) bool {
	return w.Covers(start) && tryAdd(&w.Value().ends, aCall+1)
}

// tryBegin is begin for w, which is the newest bucket, with what the call counts for. It reports false,
// and does nothing, if start does not lie in that, or if another call writes at the same time.
func tryBegin(w *bunch, start, n int64) bool {
	return w.Covers(start) && tryAdd(&w.Value().begins, aCall+uint64(n))
}

// tryAdd adds to a word of a bucket, unless that is sealed, or is written at the same time.
func tryAdd(word *atomic.Uint64, d uint64) bool {
	old := word.Load()
	return old < sealed && word.CompareAndSwap(old, (old+d)&^sealed)
}

// add adds to a word of a bucket, and reports false if that is sealed.
func add(word *atomic.Uint64, d uint64) bool {
	for word.Load() < sealed {
		if tryAdd(word, d) {
			return true
		}
	}
	return false
}

// overdue is how many calls before the boundary are in flight. It may be below 0 for a moment.
func (h *hanging) overdue() int64 {
	n := h.late.Load()
	if w := h.ring.Newest(); w != nil {
		n += w.Value().past.inFlight
	}
	return n
}

// sum returns what all calls come to that tryBegin and endGood have counted.
func (h *hanging) sum() begun {
	for {
		newest := h.ring.Newest()
		if newest == nil {
			return begun{}
		}
		sum := newest.Value().past
		for w := range h.ring.Live(newest.Start()) {
			v := w.Value()
			sum.plus(v.begins.Load(), v.ends.Load())
		}
		if h.ring.Newest() == newest { // so that none was added to past meanwhile
			return sum
		}
	}
}

// find returns the bucket of a start, nil if it is sealed. If nobody opened that, because the
// clock of the call was behind, it is the next one: also when the call ends, since no bucket is
// ever opened behind another. (If such a call ends when its own bucket would be sealed and the
// next one is not, one call too few is overdue until that is.)
//
//go:noinline
func (h *hanging) find(start int64) (found *bunch) {
	for {
		newest := h.ring.Newest()
		if newest == nil || start < h.boundary(newest.Start()) {
			return nil
		}
		found = newest
		for w := range h.ring.Live(newest.Start()) {
			if start < w.Start()+int64(h.ring.Length()) {
				found = w
				break
			}
		}
		if h.ring.Newest() == newest { // so that the ring was not turning meanwhile
			return found
		}
	}
}
