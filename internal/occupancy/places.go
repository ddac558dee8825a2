// Package occupancy counts by key the places that calls in flight have taken: in a bounded table,
// without a lock if the key is known.
package occupancy

import (
	"math"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/keys"
	"github.com/leapgate-go/leapgate/internal/stripes"
)

// Places are the places of all keys. Make them with [New].
type Places struct {
	keys     *keys.Table[atomic.Uint64] // the places that are taken, or dismissed
	crowded  atomic.Int64
	taken    stripes.Counter // places
	occupied stripes.Counter // keys that have any
}

// Held is the places of one key.
type Held = keys.Node[atomic.Uint64]

// Tables have a time for what expires; here it is whether there is need for room. Without,
// keys are kept that have no places now: they come again, and should not allocate then.
const (
	noNeed = iota
	need
)

// dismissed is the count of a key that was taken out. It had no places, and gets none.
const dismissed = math.MaxUint64

// New makes room for so many keys that have places. The keys of which keep reports it have
// room beyond that, and are never taken out. A nil keep is for none.
func New(maxKeys int, keep func(key string) bool) *Places {
	p := new(Places)
	p.keys = keys.New(maxKeys, false, keys.Rules[atomic.Uint64]{
		Init: func(held *Held, _, n int64) { held.Value.Store(uint64(n)) },
		Inspect: func(held *Held, need int64) (uint64, bool) {
			n := held.Value.Load()
			return n, n == 0 && need > noNeed
		},
		Kill: func(held *Held, _ int64, _ bool) bool { return held.Value.CompareAndSwap(0, dismissed) },
		Keep: keep,
	})
	return p
}

// Take takes n places of a key, which may be empty, under a limit: held is not nil then. It
// also returns how many are taken then, and whether there was no room for the key.
func (p *Places) Take(key string, n, limit int64) (held *Held, taken int64, crowded bool) {
	hash := p.keys.Hash(key)
	held = p.keys.Find(hash, key)
	for n <= limit {
		if held == nil {
			made := false
			if held, _, made = p.keys.FindOrMake(hash, key, noNeed, n); made {
				p.occupied.Add(1)
				p.taken.Add(n)
				return held, n, false
			}
			if held == nil {
				if p.makeRoom() {
					continue
				}
				p.crowded.Add(1)
				return nil, 0, true
			}
		}
		switch was := held.Value.Load(); {
		case was == dismissed:
			held = nil // and ask the table again
		case int64(was) > limit-n:
			return nil, int64(was), false
		case held.Value.CompareAndSwap(was, was+uint64(n)):
			if was == 0 {
				p.occupied.Add(1)
			}
			p.taken.Add(n)
			return held, int64(was) + n, false
		}
	}
	return nil, takenOf(held), false
}

// makeRoom takes out keys without places, if there are any.
func (p *Places) makeRoom() bool {
	for p.occupied.Load() < int64(p.keys.Max()) {
		if p.keys.Free(need) {
			return true
		}
	}
	return false
}

// Give gives n places back.
func (p *Places) Give(held *Held, n int64) {
	if held.Value.Add(-uint64(n)) == 0 {
		p.occupied.Add(-1)
	}
	p.taken.Add(-n)
}

// Taken returns how many places of a key are taken, and whether there is no room for the key.
func (p *Places) Taken(key string) (taken int64, crowded bool) {
	held := p.keys.Find(p.keys.Hash(key), key)
	return takenOf(held), held == nil && p.occupied.Load() >= int64(p.keys.Max())
}

func takenOf(held *Held) int64 {
	if held == nil {
		return 0
	}
	taken := held.Value.Load()
	if taken == dismissed {
		return 0
	}
	return int64(taken)
}

// Sweep takes out all keys that have no places.
func (p *Places) Sweep() { p.keys.Sweep(need) }

// InFlight is how many places are taken, of all keys together.
func (p *Places) InFlight() int64 { return max(0, p.taken.Load()) }

// Keys is how many keys there are, those without places included.
func (p *Places) Keys() int { return p.keys.Len() }

// MaxKeys is how many there may be.
func (p *Places) MaxKeys() int { return p.keys.Max() }

// Expired is how many keys without places were taken out.
func (p *Places) Expired() int64 { return p.keys.Expired() }

// Crowded is how often there was no room for a new key.
func (p *Places) Crowded() int64 { return p.crowded.Load() }
