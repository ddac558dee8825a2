package limit

import (
	"sync"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// wide is the sliding-window counter for limits that do not fit into a narrow word:
// the same arithmetic under a lock for each key.
type wide struct {
	sliding
	keys     *keys.Table[account]
	whenFull Policy
	shared   *keys.Node[account] // for new keys without a place, if whenFull is Share
	crowds   atomic.Int64
}

type account struct {
	mu                        sync.Mutex // guards what is below
	number, previous, current int64      // see tally
	dead                      bool       // the key was taken out
}

// mostHeld bounds what settlements can charge beyond the limit in one window.
const mostHeld = 2 * MaxLimit

func newWide(cfg Config) *wide {
	e := &wide{sliding: sliding{cfg.Limit, int64(cfg.Window)}, whenFull: cfg.WhenFull}
	e.keys = keys.New(cfg.MaxKeys, cfg.WhenFull == Evict, keys.Rules[account]{Init: e.begin, Judge: e.judge, Kill: e.kill})
	if cfg.WhenFull == Share {
		e.shared = keys.NewNode[account]("", 0)
		e.begin(e.shared, minTime, 0)
	}
	return e
}

func (e *wide) begin(node *keys.Node[account], now, n int64) {
	node.Value.number, _ = e.split(now)
	node.Value.current = n
}

func (a *account) at(e *wide, now int64) tally {
	number, elapsed := e.split(now)
	return e.turn(a.number, a.previous, a.current, number, elapsed)
}

func (a *account) set(t *tally) { a.number, a.previous, a.current = t.number, t.previous, t.current }

func (e *wide) judge(node *keys.Node[account], now int64) (warmth uint64, expired bool) {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.at(e, now)
	held := e.held(&t)
	return uint64(held), held == 0
}

func (e *wide) kill(node *keys.Node[account], now int64, force bool) bool {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.at(e, now); !force && e.held(&t) > 0 {
		return false
	}
	a.dead = true
	return true
}

func (e *wide) decide(now int64, key string, n int64, take bool) Decision {
	hash := e.keys.Hash(key)
	node := e.keys.Find(hash, key)
	_, elapsed := e.split(now)
	crowded := false
	for {
		if node == nil {
			placed, begun, outcome := place(e.keys, e.whenFull, hash, key, now, n, take && n <= e.limit)
			switch outcome {
			case isUnknown:
				return unknown(e.limit, n)
			case isMade:
				t := tally{current: n, ahead: between(now, begun)}
				t.number, t.elapsed = e.split(begun)
				return e.first(&t, placed.Generation())
			case isFound:
				node = placed
			case isCrowded:
				if take {
					e.crowds.Add(1)
				}
				if e.whenFull != Share {
					return crowdedOut(e.limit, n, 2*e.length-elapsed)
				}
				node, crowded = e.shared, true
			}
		}
		if d, ok := e.ask(node, now, n, take); ok {
			d.Crowded = crowded
			return d
		}
		node = nil
	}
}

// ask is false if the node is dead.
func (e *wide) ask(node *keys.Node[account], now, n int64, take bool) (d Decision, ok bool) {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead {
		return d, false
	}
	t := a.at(e, now)
	held := e.held(&t)
	if n > e.limit-held {
		e.refuse(&d, &t, held, n)
		return d, true
	}
	d = Decision{Allowed: true, Limit: e.limit}
	if take {
		t.current += n
		held += n
		a.set(&t)
		d.Charged, d.Ticket, d.generation = n, t.number, node.Generation()
	}
	d.Remaining, d.ResetAfter = e.limit-held, e.reset(&t)
	return d, true
}

func (e *wide) charge(now int64, key string, n int64) {
	charge(e.keys, e.whenFull, e.shared, key, now, n, func(a *keys.Node[account]) bool { return e.add(&a.Value, now, n) })
}

// add is false if the account is dead.
func (e *wide) add(a *account, now, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead {
		return false
	}
	t := a.at(e, now)
	t.current = min(t.current+n, mostHeld)
	a.set(&t)
	return true
}

func (e *wide) refund(key string, d Decision, n int64) {
	node := e.shared
	if node == nil || !d.Crowded {
		node = e.keys.Find(e.keys.Hash(key), key)
	}
	if node == nil {
		return
	}
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	if node.Generation() == d.generation && a.number == d.Ticket && a.current >= n {
		a.current -= n
	}
}

func (e *wide) forget(key string) { e.keys.Delete(e.keys.Hash(key), key) }

func (e *wide) sweep(now int64) { e.keys.Sweep(now) }

func (e *wide) stats() Stats { return statsOf(e.keys, e.crowds.Load()) }
