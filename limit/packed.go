package limit

import (
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// packedCounter is the sliding-window counter in one word for each key:
//
//	63    48  47     24  23      0
//	 window   previous   current
//
// One compare-and-swap turns the window and charges. (With the window in a word of its
// own, a goroutine that turns it can be suspended in between, and the others admit a second
// limit.)
//
// The word has the low 16 bits of the window's number. The node's Aux has the epoch, in
// which the key was last used: the number by 2¹³. A caller whose epoch is another looks
// closer before it believes the word: see advance.
type packedCounter struct {
	sliding
	store  store[atomic.Uint64]
	newest atomic.Int64 // the window that was looked at last, which saves divisions
}

type cell = keys.Node[atomic.Uint64]

const (
	countBits = 24
	countMask = 1<<countBits - 1

	// maxPacked is the largest count in a word, and so the largest limit. A settlement that
	// would exceed it sets the count to maxPacked. One more means dead.
	maxPacked = countMask - 1
	dead      = countMask // as the current count: the key was taken out

	epochShift = 13
)

func pack(number, previous, current int64) uint64 {
	return uint64(number)<<(2*countBits) | uint64(previous)<<countBits | uint64(current)
}

func epochOf(number int64) uint32 { return uint32(number >> epochShift) }

func newPackedCounter(cfg Config) *packedCounter {
	e := &packedCounter{sliding: sliding{int64(cfg.Window)}}
	e.store.init(cfg, e)
	return e
}

// begin makes a cell that is charged with n.
func (e *packedCounter) begin(c *cell, now, n int64) {
	number, _ := e.split(now)
	c.Aux.Store(epochOf(number))
	c.Value.Store(pack(number, 0, min(n, maxPacked)))
}

// load returns the word of a cell, and the number of the window that it is of.
func (e *packedCounter) load(c *cell) (word uint64, epoch uint32, number int64) {
	epoch, word = c.Aux.Load(), c.Value.Load()
	for again := c.Aux.Load(); again != epoch; again = c.Aux.Load() { // it has seen a later one in between
		epoch, word = again, c.Value.Load()
	}
	// What the 16 bits mean is near the beginning of the epoch. No clock and no window make a number
	// that an epoch of 32 bits with its sign does not tell.
	begin := int64(int32(epoch)) << epochShift
	return word, epoch, begin + int64(int16(word>>(2*countBits))-int16(begin))
}

// look returns the word of a cell and what it means at a time, which may be in the future. It writes
// nothing.
func (e *packedCounter) look(c *cell, number, elapsed int64) (word uint64, t tally) {
	word, epoch, seen := e.load(c)
	caught := int64(0)
	if late := int64(int32(epoch - epochOf(number))); late > 0 { // its time is the beginning of the cell's epoch
		first := (number>>epochShift + late) << epochShift
		caught = e.until(first-number) - elapsed
		number, elapsed = first, 0
	}
	t = e.turn(seen, int64(word>>countBits&countMask), int64(word&countMask), number, elapsed)
	t.ahead += caught
	return word, t
}

// read is look for a caller that is going to write: the cell comes into its epoch.
func (e *packedCounter) read(c *cell, number, elapsed int64) (word uint64, t tally) {
	if int32(epochOf(number)-c.Aux.Load()) > 0 {
		e.advance(c, number)
	}
	return e.look(c, number, elapsed)
}

// advance moves a cell to the epoch of a window, which is later than its own. If the word may be so old
// that its 16 bits mean another window, it is zeroed, as of the beginning of the new epoch.
//
// Windows that meet in one comparison are less than two epochs and a few windows apart:
// half of what 16 bits can tell.
//
//go:noinline
func (e *packedCounter) advance(c *cell, number int64) {
	// The word changes before the epoch. One at a time: the second would take
	// the new word for an old one.
	mu := e.store.keys.Lock(e.store.keys.Hash(c.Key()))
	defer mu.Unlock()
	mine := epochOf(number)
	for epoch := c.Aux.Load(); int32(mine-epoch) > 0; epoch = c.Aux.Load() {
		word, first := c.Value.Load(), number>>epochShift<<epochShift
		old := mine-epoch > 1 || int16(word>>(2*countBits))-int16(first) < -1
		if old && word&countMask != dead && !c.Value.CompareAndSwap(word, pack(first, 0, 0)) {
			continue // by a call that is late
		}
		c.Aux.Store(mine)
	}
}

// answerKnown decides about what is asked most: n of a key that is known, at a time that is
// not older than what it has seen. It writes what is not zero in d. If it is not such a
// case, or another was faster, it returns false, and has done nothing.
func (e *packedCounter) answerKnown(d *Decision, now, limit int64, key string, n int64) bool {
	c := e.store.keys.Find(e.store.keys.Hash(key), key)
	if c == nil {
		return false
	}
	var t tally
	number := e.newest.Load()
	if t.elapsed = now - number*e.length; uint64(t.elapsed) >= uint64(e.length) {
		number, t.elapsed = e.split(now)
		e.newest.Store(number)
	}
	t.number = number
	if c.Aux.Load() != epochOf(number) {
		return false
	}
	word := c.Value.Load()
	if c.Aux.Load() != epochOf(number) {
		return false
	}
	t.current = int64(word & countMask)
	switch ahead := int16(word>>(2*countBits)) - int16(number); {
	case t.current == dead:
		return false
	case ahead == 0:
		t.previous = int64(word >> countBits & countMask)
	case ahead == -1:
		t.previous, t.current = t.current, 0
	case ahead < 0:
		t.current = 0
	default:
		return false
	}
	return e.decideOn(d, c, word, &t, question{now: now, limit: limit, n: n, take: true})
}

func (e *packedCounter) answer(c *cell, q question) (d Decision, alive bool) {
	number, elapsed := e.split(q.now)
	for {
		var word uint64
		var t tally
		if q.take {
			word, t = e.read(c, number, elapsed)
		} else {
			word, t = e.look(c, number, elapsed)
		}
		if word&countMask == dead {
			return d, false
		}
		if e.decideOn(&d, c, word, &t, q) {
			return d, true
		}
	}
}

// decideOn decides about a cell whose word means t. It returns false, and has done nothing, if
// the cell has another word by now.
func (e *packedCounter) decideOn(d *Decision, c *cell, word uint64, t *tally, q question) bool {
	held := e.held(t)
	n := q.fit(q.limit - held)
	if n == 0 {
		e.refuse(d, t, q.limit, held, q.least())
		return true
	}
	if q.take {
		if !c.Value.CompareAndSwap(word, pack(t.number, t.previous, t.current+n)) {
			return false
		}
		t.current += n
		held += n
		d.Charged, d.Ticket, d.generation = n, t.number, generationOf(c.Generation())
	}
	d.Allowed, d.Limit, d.Remaining, d.ResetAfter = true, q.limit, q.limit-held, e.reset(t)
	return true
}

func (e *packedCounter) add(c *cell, q question) (alive bool) {
	number, elapsed := e.split(q.now)
	for {
		word, t := e.read(c, number, elapsed)
		if word&countMask == dead {
			return false
		}
		if c.Value.CompareAndSwap(word, pack(t.number, t.previous, t.current+min(q.n, maxPacked-t.current))) {
			return true
		}
	}
}

// takeOff gives n back to the window that was charged, as long as it is the key's current
// one.
func (e *packedCounter) takeOff(c *cell, charged int64, q question) {
	n := q.n
	for {
		word, _, number := e.load(c)
		current := int64(word & countMask)
		if number != charged || current == dead || current < n {
			return
		}
		if c.Value.CompareAndSwap(word, word-uint64(n)) {
			return
		}
	}
}

func (e *packedCounter) untilMore(c *cell, now, limit, _ int64) time.Duration {
	number, elapsed := e.split(now)
	word, t := e.look(c, number, elapsed)
	if word&countMask == dead {
		return 0
	}
	return e.more(t, limit)
}

// inspect returns how much a cell holds. The coldest is the one that holds least.
func (e *packedCounter) inspect(c *cell, now int64) (warmth uint64, expired bool) {
	number, elapsed := e.split(now)
	_, t := e.look(c, number, elapsed)
	held := e.held(&t)
	return uint64(held), held == 0
}

func (e *packedCounter) kill(c *cell, now int64, force bool) bool {
	number, elapsed := e.split(now)
	for {
		word, t := e.look(c, number, elapsed)
		if !force && e.held(&t) > 0 {
			return false
		}
		if c.Value.CompareAndSwap(word, word|dead) {
			return true
		}
	}
}
