package limit

import (
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// Engine counts by key for rules. It has no clock and no limit of its own: each question
// brings them. Programs have no use for it; they make a [RateLimiter], or an [InFlight].
type Engine struct {
	engine engine
	packed *packedCounter // behind engine, if it is that
	gcra   *gcra          // otherwise
}

// Question is what a rule asks an [Engine].
type Question struct {
	Now, N, Limit int64         // N is 1 or more, Limit 0 to [MaxRuleLimit]
	Burst         int64         // of an engine for bursts: how many may pass at once; 0 is Limit
	Patience      time.Duration // the same: how long N may have to wait for their turn, which is Decision.RetryAfter
}

// MaxRuleLimit is the largest limit of a rule.
const MaxRuleLimit = maxPacked

// NewEngine makes an engine that counts as [NewBurst] does, or as [NewCounter]. The keys of
// which keep reports it have room beyond maxKeys, and are never evicted.
func NewEngine(bursts bool, window time.Duration, maxKeys int, full Policy, keep func(key string) bool) *Engine {
	cfg := Config{Window: window, MaxKeys: maxKeys, WhenFull: full, keep: keep}
	if bursts {
		e := newGCRA(cfg)
		return &Engine{engine: &e.store, gcra: e}
	}
	e := newPackedCounter(cfg)
	return &Engine{engine: &e.store, packed: e}
}

// Take charges a key, or refuses. It writes what is not zero in d. A key may be empty.
func (e *Engine) Take(d *Decision, key string, a *Question) {
	if e.packed != nil {
		if e.packed.answerKnown(d, a.Now, a.Limit, key, a.N) {
			return
		}
	} else if e.gcra.answerKnown(d, a.Now, a.Limit, a.Burst, key, a.N) && (d.Allowed || d.RetryAfter > a.Patience) {
		return
	}
	*d = e.engine.decide(key, a.question(true))
}

// Wait returns how long from a.Now a key would be admitted, perhaps for a turn, if nobody else
// came: 0 if it would be now, [Never] if it never is.
func (e *Engine) Wait(key string, a *Question) time.Duration {
	d := e.engine.decide(key, a.question(false))
	return a.UntilAdmitted(&d)
}

// UntilAdmitted returns the same of what Take decided.
func (a *Question) UntilAdmitted(d *Decision) time.Duration {
	if d.Allowed {
		return 0
	}
	if d.RetryAfter == Never {
		return Never
	}
	return d.RetryAfter - a.Patience
}

func (a *Question) question(take bool) question {
	return question{now: a.Now, limit: a.Limit, n: a.N, take: take, burst: a.Burst, patience: a.Patience}
}

// Charge is where a decision charged a key. Both words are the engine's own; the second is
// not negative.
func (d *Decision) Charge() (where, of int64) {
	of = int64(d.generation[0]) | int64(d.generation[1])<<8 | int64(d.generation[2])<<16
	if d.Crowded {
		of |= crowdedCharge
	}
	return d.Ticket, of
}

const crowdedCharge = 1 << 24

// Refund gives back what was charged there to a key, as [RateLimiter.Refund] does.
func (e *Engine) Refund(key string, a *Question, where, of int64) {
	d := Decision{Ticket: where, generation: generationOf(uint32(of)), Crowded: of&crowdedCharge != 0}
	e.engine.refund(key, d, a.question(false))
}

// Stats returns how many keys there are, and how many were evicted or found no room.
func (e *Engine) Stats() Stats { return e.engine.stats() }

// Places counts the places of calls in flight by key for rules, as [InFlight] does for
// programs.
type Places struct{ of InFlight }

// Held is the places of one key.
type Held = keys.Node[atomic.Uint64]

// NewPlaces makes room for so many keys that have places.
func NewPlaces(maxKeys int, keep func(key string) bool) *Places {
	p := new(Places)
	p.of.makeKeys(Config{MaxKeys: maxKeys, keep: keep})
	return p
}

// Take takes n places of a key, which may be empty, under a limit: held is not nil then. It
// also returns how many are taken, and whether there was no room for the key.
func (p *Places) Take(key string, n, limit int64) (held *Held, taken int64, crowded bool) {
	node, of, crowded := p.of.take(key, uint64(n), uint64(limit))
	return node, int64(of), crowded
}

// Give gives n places back.
func (p *Places) Give(held *Held, n int64) { p.of.give(held, n) }

// Taken is how many places of a key are taken.
func (p *Places) Taken(key string) int64 { return int64(p.of.takenOf(key)) }

// Stats returns how many keys there are, how many places are taken, and how many keys found
// no room.
func (p *Places) Stats() Stats { return p.of.places() }
