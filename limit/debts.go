package limit

import (
	"sync"
	"sync/atomic"
)

// debts is what settlements have charged beyond what a word can count. A current or
// previous count of narrowMost says that there may be more here. This is rare, so one lock
// serves all cells. A debt no longer counts when its window has passed, and goes with its cell.
type debts struct {
	many atomic.Int64 // how many there are
	mu   sync.Mutex   // guards what is below
	of   map[*cell]debt
}

// debt is what a cell was charged beyond narrowMost in a window and in the one before.
type debt struct{ number, previous, current int64 }

// mostOwed keeps what a cell holds to mostHeld.
const mostOwed = mostHeld - narrowMost

// at is the debt as it is in a window that is not before its own.
func (d debt) at(number int64) debt {
	switch number - d.number {
	case 0:
		return d
	case 1:
		return debt{number: number, previous: d.current}
	default:
		return debt{number: number}
	}
}

// addTo makes the tally of a word whole. It returns false if the cell has another word
// by now, to which the debts belong.
func (d *debts) addTo(t *tally, c *cell, word uint64) bool {
	if t.previous != narrowMost && t.current != narrowMost {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	owed := d.of[c].at(t.number)
	t.previous += owed.previous
	t.current += owed.current
	return c.Value.Load() == word
}

// charge charges n in the window of the tally, more than the word has room for, if that
// is still the word of the cell.
func (d *debts) charge(c *cell, word uint64, t *tally, n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.Value.CompareAndSwap(word, pack(t.number, min(t.previous, narrowMost), narrowMost)) {
		return false
	}
	d.add(c, t.number, n-max(0, narrowMost-t.current))
	return true
}

// begin is charge for a cell that nobody else knows yet. It returns what fits into its word.
func (d *debts) begin(c *cell, number, n int64) int64 {
	if n <= narrowMost {
		return n
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(c, number, n-narrowMost)
	return narrowMost
}

func (d *debts) add(c *cell, number, n int64) {
	if d.of == nil {
		d.of = make(map[*cell]debt)
	}
	owed := d.of[c].at(number)
	owed.current += min(n, mostOwed-owed.current)
	d.set(c, owed)
}

// refund takes n off what the cell was charged in the window of its word, whose current
// count is narrowMost, if that is still its word.
func (d *debts) refund(c *cell, word uint64, number, n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	owed := d.of[c].at(number)
	if !c.Value.CompareAndSwap(word, word-uint64(max(0, n-owed.current))) {
		return false
	}
	if owed.current > 0 {
		owed.current = max(0, owed.current-n)
		d.set(c, owed)
	}
	return true
}

func (d *debts) set(c *cell, owed debt) {
	d.of[c] = owed
	d.many.Store(int64(len(d.of)))
}

// forget is for a cell that is dead.
func (d *debts) forget(c *cell) {
	if d.many.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, c)
	d.many.Store(int64(len(d.of)))
}
