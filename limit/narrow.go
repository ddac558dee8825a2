package limit

import (
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// narrow is the sliding-window counter in one word for each key:
//
//	63    48  47     24  23      0
//	 window   previous   current
//
// One compare-and-swap turns the window and charges. (With the window in a word of its
// own, whoever turns it can be suspended in between, and the others admit a second
// limit.)
//
// The word has the low 16 bits of the window's number. The node's Aux has the epoch, in
// which the key was last used: the number by 2¹³. A caller whose epoch is another looks
// closer before it believes the word: see meet.
type narrow struct {
	sliding
	keys     *keys.Table[atomic.Uint64]
	whenFull Policy
	shared   *cell // for new keys without a place, if whenFull is Share
	crowds   atomic.Int64
	newest   atomic.Int64 // the window that was looked at last, which saves divisions
	debts    debts
}

type cell = keys.Node[atomic.Uint64]

const (
	countBits = 24
	countMask = 1<<countBits - 1

	// narrowMost is the largest count, and so the largest limit: see debts for what is
	// charged beyond it. One more means dead.
	narrowMost = countMask - 1
	dead       = countMask // as the current count: the key was taken out

	epochShift = 13
)

func pack(number, previous, current int64) uint64 {
	return uint64(number)<<(2*countBits) | uint64(previous)<<countBits | uint64(current)
}

func epochOf(number int64) uint32 { return uint32(number >> epochShift) }

func newNarrow(cfg Config) *narrow {
	e := &narrow{sliding: sliding{cfg.Limit, int64(cfg.Window)}, whenFull: cfg.WhenFull}
	e.keys = keys.New(cfg.MaxKeys, cfg.WhenFull == Evict, keys.Rules[atomic.Uint64]{Init: e.begin, Judge: e.judge, Kill: e.kill})
	if cfg.WhenFull == Share {
		e.shared = keys.NewNode[atomic.Uint64]("", 0)
		e.begin(e.shared, minTime, 0)
	}
	return e
}

// begin makes a cell that is charged with n.
func (e *narrow) begin(c *cell, now, n int64) {
	number, _ := e.split(now)
	c.Aux.Store(epochOf(number))
	c.Value.Store(pack(number, 0, e.debts.begin(c, number, n)))
}

// read gives the word of a cell and what it means at a time.
func (e *narrow) read(c *cell, number, elapsed int64) (word uint64, t tally) {
	for {
		t.number, t.elapsed, t.ahead = number, elapsed, 0
		epoch := c.Aux.Load()
		if epoch != epochOf(number) {
			epoch = e.meet(c, &t)
		}
		word = c.Value.Load()
		if c.Aux.Load() == epoch { // else somebody met a later one in between
			break
		}
	}
	// The difference of the window numbers, of which the word has 16 bits.
	switch ahead := int64(int16(word>>(2*countBits)) - int16(t.number)); {
	case ahead == 0:
		t.previous, t.current = int64(word>>countBits&countMask), int64(word&countMask)
	case ahead == -1:
		t.previous, t.current = int64(word&countMask), 0
	case ahead < 0:
		t.previous, t.current = 0, 0
	default: // see turn
		t.previous, t.current = int64(word>>countBits&countMask), int64(word&countMask)
		t.ahead += e.until(ahead) - t.elapsed
		t.number, t.elapsed = t.number+ahead, 0
	}
	if !e.debts.addTo(&t, c, word) {
		return e.read(c, number, elapsed)
	}
	return word, t
}

// meet is for a caller of another epoch than that of the cell. If the cell's is older, the
// word may be so old that its 16 bits mean another window: then it is zeroed, as of the
// beginning of the new epoch; and the cell comes into that. If the caller's is older, its
// time becomes the beginning of the cell's epoch. It gives the epoch in which they met.
//
// Windows that meet in one comparison are less than two epochs and a few windows apart:
// half of what 16 bits can tell.
//
//go:noinline
func (e *narrow) meet(c *cell, t *tally) (epoch uint32) {
	mine := epochOf(t.number)
	if int32(mine-c.Aux.Load()) > 0 {
		// The word changes before the epoch. One at a time: who came second would take
		// the new word for an old one.
		mu := e.keys.Lock(e.keys.Hash(c.Key()))
		defer mu.Unlock()
		for epoch = c.Aux.Load(); int32(mine-epoch) > 0; epoch = c.Aux.Load() {
			word, first := c.Value.Load(), t.number>>epochShift<<epochShift
			old := mine-epoch > 1 || int16(word>>(2*countBits))-int16(first) < -1
			if old && word&countMask != dead && !c.Value.CompareAndSwap(word, pack(first, 0, 0)) {
				continue // by somebody who is late
			}
			c.Aux.Store(mine)
		}
	}
	epoch = c.Aux.Load()
	if late := int64(int32(epoch - mine)); late > 0 {
		first := (t.number>>epochShift + late) << epochShift
		t.ahead = e.until(first-t.number) - t.elapsed
		t.number, t.elapsed = first, 0
	}
	return epoch
}

// answer is decide for what is asked most: a key that is known, at a time that is not
// older than what it has seen. It writes what is not zero in d. It is false if it is not
// such a case, or another was faster; then nothing has happened.
func (e *narrow) answer(d *Decision, now int64, key string, n int64) bool {
	c := e.keys.Find(e.keys.Hash(key), key)
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
	case ahead == 0:
		t.previous = int64(word >> countBits & countMask)
	case ahead == -1:
		t.previous, t.current = t.current, 0
	case ahead < 0:
		t.current = 0
	default:
		return false
	}
	if t.previous == narrowMost || t.current == narrowMost {
		return false // there may be debts
	}
	held := e.held(&t)
	if word&countMask == dead {
		return false
	}
	if n > e.limit-held {
		e.refuse(d, &t, held, n)
		return true
	}
	if !c.Value.CompareAndSwap(word, pack(number, t.previous, t.current+n)) {
		return false
	}
	t.current += n
	d.Allowed, d.Limit, d.Remaining, d.ResetAfter = true, e.limit, e.limit-held-n, e.reset(&t)
	d.Charged, d.Ticket, d.generation = n, number, c.Generation()
	return true
}

func (e *narrow) decide(now int64, key string, n int64, take bool) Decision {
	hash := e.keys.Hash(key)
	c := e.keys.Find(hash, key)
	number, elapsed := e.split(now)
	crowded := false
	for {
		if c == nil {
			placed, begun, outcome := place(e.keys, e.whenFull, hash, key, now, n, take && n <= e.limit)
			switch outcome {
			case isUnknown:
				return unknown(e.limit, n)
			case isMade:
				t := tally{current: n, ahead: between(now, begun)}
				t.number, t.elapsed = e.split(begun)
				return e.first(&t, placed.Generation())
			case isFound:
				c = placed
			case isCrowded:
				if take {
					e.crowds.Add(1)
				}
				if e.whenFull != Share {
					return crowdedOut(e.limit, n, 2*e.length-elapsed)
				}
				c, crowded = e.shared, true
			}
		}
		word, t := e.read(c, number, elapsed)
		if word&countMask == dead {
			c = nil
			continue
		}
		held := e.held(&t)
		if n > e.limit-held {
			d := Decision{Crowded: crowded}
			e.refuse(&d, &t, held, n)
			return d
		}
		d := Decision{Allowed: true, Crowded: crowded, Limit: e.limit}
		if take {
			if !c.Value.CompareAndSwap(word, pack(t.number, min(t.previous, narrowMost), t.current+n)) {
				continue
			}
			t.current += n
			held += n
			d.Charged, d.Ticket, d.generation = n, t.number, c.Generation()
		}
		d.Remaining, d.ResetAfter = e.limit-held, e.reset(&t)
		return d
	}
}

func (e *narrow) charge(now int64, key string, n int64) {
	number, elapsed := e.split(now)
	charge(e.keys, e.whenFull, e.shared, key, now, n, func(c *cell) bool {
		for {
			word, t := e.read(c, number, elapsed)
			if word&countMask == dead {
				return false
			}
			if n > narrowMost-t.current {
				if e.debts.charge(c, word, &t, n) {
					return true
				}
				continue
			}
			if c.Value.CompareAndSwap(word, pack(t.number, min(t.previous, narrowMost), t.current+n)) {
				return true
			}
		}
	})
}

// refund gives n back to the window that was charged, as long as it is the key's
// current one, and the key is still the one that was charged.
func (e *narrow) refund(key string, d Decision, n int64) {
	c := e.shared
	if c == nil || !d.Crowded {
		c = e.keys.Find(e.keys.Hash(key), key)
	}
	if c == nil {
		return
	}
	for {
		epoch, word := c.Aux.Load(), c.Value.Load()
		// The number that the 16 bits mean: near the beginning of the epoch. No clock
		// and no window make one that an epoch of 32 bits with its sign does not tell.
		begin := int64(int32(epoch)) << epochShift
		number := begin + int64(int16(word>>(2*countBits))-int16(begin))
		current := int64(word & countMask)
		if c.Generation() != d.generation || number != d.Ticket || current == dead || current < n {
			return
		}
		if current == narrowMost {
			if e.debts.refund(c, word, number, n) {
				return
			}
			continue
		}
		if c.Value.CompareAndSwap(word, word-uint64(n)) {
			return
		}
	}
}

func (e *narrow) forget(key string) { e.keys.Delete(e.keys.Hash(key), key) }

func (e *narrow) sweep(now int64) { e.keys.Sweep(now) }

func (e *narrow) stats() Stats { return statsOf(e.keys, e.crowds.Load()) }

// judge tells how much a cell holds. The coldest is the one that holds least.
func (e *narrow) judge(c *cell, now int64) (warmth uint64, expired bool) {
	_, t := e.look(c, now)
	held := e.held(&t)
	return uint64(held), held == 0
}

// look is read for whoever holds the lock that meet takes. It leaves the cell in its
// epoch, and needs no luck with the 16 bits: it puts the epoch before them.
func (e *narrow) look(c *cell, now int64) (word uint64, t tally) {
	number, elapsed := e.split(now)
	epoch := c.Aux.Load()
	word = c.Value.Load()
	begin := int64(epoch) << epochShift
	seen := begin + int64(int16(word>>(2*countBits))-int16(begin))
	// seen and number agree in the bits that the epoch has, or one is older.
	const lost = 64 - 32 - epochShift
	ahead := (seen - number) << lost >> lost
	t = e.turn(number+ahead, int64(word>>countBits&countMask), int64(word&countMask), number, elapsed)
	e.debts.addTo(&t, c, word) // if it is another by now, kill does not take it out
	return word, t
}

func (e *narrow) kill(c *cell, now int64, force bool) bool {
	for {
		word, t := e.look(c, now)
		if !force && e.held(&t) > 0 {
			return false
		}
		if c.Value.CompareAndSwap(word, word|dead) {
			e.debts.forget(c)
			return true
		}
	}
}
