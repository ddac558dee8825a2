package limit

import (
	"sync"
	"sync/atomic"
)

// excess is what settlements have charged beyond what a word can count. A current or
// previous count of maxPacked says that there may be more here. This is rare, so one lock
// serves all cells. What is beyond no longer counts when its window has passed, and goes with
// its cell.
type excess struct {
	cells atomic.Int64 // the length of of
	mu    sync.Mutex   // guards what is below
	of    map[*cell]beyond
}

// beyond is what a cell was charged beyond maxPacked in a window and in the one before.
type beyond struct{ number, previous, current int64 }

// maxBeyond keeps what a cell holds to maxHeld.
const maxBeyond = maxHeld - maxPacked

// at is what is beyond in a window that is not before its own.
func (b beyond) at(number int64) beyond {
	switch number - b.number {
	case 0:
		return b
	case 1:
		return beyond{number: number, previous: b.current}
	default:
		return beyond{number: number}
	}
}

// addTo makes the tally of a word whole. It returns false if the cell has another word
// by now, to which this belongs.
func (x *excess) addTo(t *tally, c *cell, word uint64) bool {
	if t.previous != maxPacked && t.current != maxPacked {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	over := x.of[c].at(t.number)
	t.previous += over.previous
	t.current += over.current
	return c.Value.Load() == word
}

// charge charges n in the window of the tally, more than the word has room for, if that
// is still the word of the cell.
func (x *excess) charge(c *cell, word uint64, t *tally, n int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !c.Value.CompareAndSwap(word, pack(t.number, min(t.previous, maxPacked), maxPacked)) {
		return false
	}
	x.add(c, t.number, n-max(0, maxPacked-t.current))
	return true
}

// begin is charge for a cell that nobody else knows yet. It returns what fits into its word.
func (x *excess) begin(c *cell, number, n int64) int64 {
	if n <= maxPacked {
		return n
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(c, number, n-maxPacked)
	return maxPacked
}

func (x *excess) add(c *cell, number, n int64) {
	if x.of == nil {
		x.of = make(map[*cell]beyond)
	}
	over := x.of[c].at(number)
	over.current += min(n, maxBeyond-over.current)
	x.set(c, over)
}

// refund takes n off what the cell was charged in the window of its word, whose current
// count is maxPacked, if that is still its word.
func (x *excess) refund(c *cell, word uint64, number, n int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	over := x.of[c].at(number)
	if !c.Value.CompareAndSwap(word, word-uint64(max(0, n-over.current))) {
		return false
	}
	if over.current > 0 {
		over.current = max(0, over.current-n)
		x.set(c, over)
	}
	return true
}

func (x *excess) set(c *cell, over beyond) {
	x.of[c] = over
	x.cells.Store(int64(len(x.of)))
}

// forget is for a cell that is dead.
func (x *excess) forget(c *cell) {
	if x.cells.Load() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.of, c)
	x.cells.Store(int64(len(x.of)))
}
