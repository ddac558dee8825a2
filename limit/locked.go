package limit

import (
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// lockedCounter is the sliding-window counter for limits that do not fit into the word of a
// [packedCounter]: the same arithmetic under a lock for each key.
type lockedCounter struct {
	sliding
	store store[account]
}

type account struct {
	mu                        sync.Mutex // guards what is below
	number, previous, current int64      // see tally
	dead                      bool       // the key was taken out
}

// maxHeld bounds what settlements can charge beyond the limit in one window.
const maxHeld = 2 * MaxLimit

func newLockedCounter(cfg Config) *lockedCounter {
	e := &lockedCounter{sliding: sliding{int64(cfg.Window)}}
	e.store.init(cfg, e)
	return e
}

func (e *lockedCounter) begin(node *keys.Node[account], now, n int64) {
	node.Value.number, _ = e.split(now)
	node.Value.current = n
}

func (a *account) at(e *lockedCounter, now int64) tally {
	number, elapsed := e.split(now)
	return e.turn(a.number, a.previous, a.current, number, elapsed)
}

func (a *account) set(t *tally) { a.number, a.previous, a.current = t.number, t.previous, t.current }

func (e *lockedCounter) inspect(node *keys.Node[account], now int64) (warmth uint64, expired bool) {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.at(e, now)
	held := e.held(&t)
	return uint64(held), held == 0
}

func (e *lockedCounter) kill(node *keys.Node[account], now int64, force bool) bool {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.at(e, now); !force && e.held(&t) > 0 {
		return false
	}
	a.dead = true
	return true
}

func (e *lockedCounter) answer(node *keys.Node[account], q question) (d Decision, alive bool) {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead {
		return d, false
	}
	t := a.at(e, q.now)
	held := e.held(&t)
	n := q.fit(q.limit - held)
	if n == 0 {
		e.refuse(&d, &t, q.limit, held, q.least())
		return d, true
	}
	d = Decision{Allowed: true, Limit: q.limit}
	if q.take {
		t.current += n
		held += n
		a.set(&t)
		d.Charged, d.Ticket, d.generation = n, t.number, generationOf(node.Generation())
	}
	d.Remaining, d.ResetAfter = q.limit-held, e.reset(&t)
	return d, true
}

func (e *lockedCounter) add(node *keys.Node[account], q question) (alive bool) {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead {
		return false
	}
	t := a.at(e, q.now)
	t.current = min(t.current+q.n, maxHeld)
	a.set(&t)
	return true
}

func (e *lockedCounter) takeOff(node *keys.Node[account], number int64, q question) {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.number == number && a.current >= q.n {
		a.current -= q.n
	}
}

func (e *lockedCounter) untilMore(node *keys.Node[account], now, limit, _ int64) time.Duration {
	a := &node.Value
	a.mu.Lock()
	defer a.mu.Unlock()
	return e.more(a.at(e, now), limit)
}
