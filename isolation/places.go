package isolation

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// places are those of one resource, taken and given back. Calls that find none may
// queue for them.
//
// One word tells how many are taken, and whether anybody queues:
//
//	   63       62 … 0
//	queueing     taken
//
// Who takes places adds to it by CAS, if there is room and nobody queues; who gives
// places back takes off, and serves the queue if the bit is set. The bit is set by
// CAS on a word that has no room, so no giving back is missed between looking and
// queueing. The queue itself is behind a lock, which nobody needs who does not wait.
type places struct {
	word atomic.Int64

	mu    sync.Mutex // guards what is below
	queue []*waiter  // who came first is first
	last  int64      // the ticket of the latest waiter
}

const queueing = math.MinInt64

type waiter struct {
	ticket, n int64
	limit     int64 // of the rule that holds it back, as it is now
	turn      chan struct{}
}

// take takes n places of limit, and tells how many were taken before.
func (p *places) take(n, limit int64) (taken int64, ok bool) {
	for {
		word := p.word.Load()
		taken = word &^ queueing
		if word < 0 || n > limit-taken {
			return taken, false
		}
		if p.word.CompareAndSwap(word, word+n) {
			return taken, true
		}
	}
}

// taken is how many places are taken.
func (p *places) taken() int64 { return p.word.Load() &^ queueing }

// wait queues for n places of limit, and gives the turn that is closed when they are
// taken.
func (p *places) wait(n, limit int64) (ticket int64, turn <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	w := &waiter{ticket: p.last, n: n, limit: limit, turn: make(chan struct{})}
	p.queue = append(p.queue, w)
	p.serve()
	return w.ticket, w.turn
}

// setLimit is for those who queue when the rule is changed. Without it, they would
// wait beside free places until a call ends.
func (p *places) setLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.queue {
		w.limit = limit
	}
	p.serve()
}

// giveBack gives n places back.
func (p *places) giveBack(n int64) {
	if p.word.Add(-n) < 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.serve()
	}
}

// giveUp ends a wait: the ticket leaves the queue, or gives back what it was given.
func (p *places) giveUp(ticket, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.queue, func(w *waiter) bool { return w.ticket == ticket })
	if i < 0 {
		p.word.Add(-n)
	} else {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.serve()
}

// serve gives places to those who queue, until there are none for the first of them.
// Who wants more than there are since the rule was changed lets the others pass. The
// caller holds mu.
func (p *places) serve() {
	for i := 0; i < len(p.queue); {
		w, word := p.queue[i], p.word.Load()
		switch {
		case w.n > w.limit:
			i++
		case w.n > w.limit-word&^queueing:
			if p.word.CompareAndSwap(word, word|queueing) {
				return
			}
		case p.word.CompareAndSwap(word, word+w.n):
			close(w.turn)
			p.queue = slices.Delete(p.queue, i, i+1)
		}
	}
	p.word.And(^queueing)
}
