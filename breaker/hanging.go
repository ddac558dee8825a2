package breaker

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/leaparray"
)

// hanging finds calls that are in flight for longer than they may take. Calls are counted in
// buckets by when they began, a tenth of that time long, and an end takes off where its
// begin has added. What is left in a bucket when it is so old that all its calls are overdue,
// is moved to their number. So a call costs one addition when it begins and one when it ends.
type hanging struct {
	overdue atomic.Int64 // of the calls before the boundary of the newest bucket
	behind  int64        // how far the boundary is behind the start of the newest bucket
	ring    leaparray.LeapArray[began]
}

// began is how many calls are in flight that began in a bucket; or it is left, and far below
// zero: then its calls are counted in overdue.
type began struct{ n atomic.Int64 }

const (
	left     = math.MinInt64 / 2
	leftMost = left / 2 // what is below has left
)

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

// open makes a bucket. Those that are before the boundary with it leave: each once, however many
// openers there are.
func (h *hanging) open(_ *began, start int64, newest *leaparray.WindowWrap[began]) {
	if newest != nil {
		for w := range h.ring.Live(newest.Start()) {
			if w.Start() >= h.boundary(start) {
				break
			}
			if n := w.Value().n.Swap(left); n > leftMost {
				h.overdue.Add(n)
			}
		}
	}
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

// add counts n calls more, or less, that began at start, for which turn was called.
func (h *hanging) add(start, n int64) {
	if h.tryAdd(start, n) {
		return
	}
	w := h.find(h.ring.Newest(), start)
	if w == nil || w.Value().n.Add(n) < leftMost {
		h.overdue.Add(n)
	}
}

// tryAdd is add for the newest bucket, and reports false if start does not lie in that.
func (h *hanging) tryAdd(start, n int64) bool {
	w := h.ring.Newest()
	if !w.Covers(start) {
		return false
	}
	if w.Value().n.Add(n) < leftMost {
		h.overdue.Add(n)
	}
	return true
}

// find returns the bucket of a start, nil if it has left. If nobody opened that, because the
// clock of the call was behind, it is the next one: also when the call ends, since no bucket is
// ever opened behind another. (If such a call ends when its own bucket would have left and the
// next one has not, one call too few is overdue until that leaves.)
//
//go:noinline
func (h *hanging) find(newest *leaparray.WindowWrap[began], start int64) (found *leaparray.WindowWrap[began]) {
	for {
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
		now := h.ring.Newest()
		if now == newest { // so that no bucket has left meanwhile
			return found
		}
		newest = now
	}
}
