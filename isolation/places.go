package isolation

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
	"time"
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
	word    atomic.Int64
	waiting atomic.Int64 // how many calls queue; written under mu

	mu    sync.Mutex // guards what is below
	queue list.List  // of *waiter: who came first is first
}

const queueing = math.MinInt64

// waiter is a call that queues for n places. The lock of its places guards the rest.
type waiter struct {
	places *places
	n      int64
	limit  int64         // of the rule that holds it back, as it is now
	place  *list.Element // in the queue; nil when it has its places, or has left
	called func()        // when it has its places; nil until the call waits
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

// wait queues for n places of limit, unless most calls do already; then it is nil.
func (p *places) wait(n, limit int64, most int) *waiter {
	if p.waiting.Load() >= int64(most) { // so that a flood need not wait for the lock
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue.Len() >= most {
		return nil
	}
	w := &waiter{places: p, n: n, limit: limit}
	w.place = p.queue.PushBack(w)
	p.waiting.Add(1)
	p.serve()
	return w
}

// setLimit is for those who queue when the rule is changed. Without it, they would
// wait beside free places until a call ends.
func (p *places) setLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.queue.Front(); e != nil; e = e.Next() {
		e.Value.(*waiter).limit = limit
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

// Due is 0 when the call has its places. When that will be, nobody knows.
func (w *waiter) Due(_ int64, called func()) time.Duration {
	p := w.places
	p.mu.Lock()
	defer p.mu.Unlock()
	w.called = called
	if w.place == nil {
		return 0
	}
	return -1
}

// giveUp leaves the queue, or gives back the places that the call got.
func (w *waiter) giveUp() {
	p := w.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place == nil {
		p.word.Add(-w.n)
	} else {
		p.leave(w)
	}
	p.serve()
}

// leave takes a call out of the queue. The caller holds mu.
func (p *places) leave(w *waiter) {
	p.queue.Remove(w.place)
	w.place = nil
	p.waiting.Add(-1)
}

// serve gives places to those who queue, until there are none for the first of them.
// Who wants more than there are since the rule was changed lets the others pass. The
// caller holds mu.
func (p *places) serve() {
	for e := p.queue.Front(); e != nil; {
		w, word := e.Value.(*waiter), p.word.Load()
		switch {
		case w.n > w.limit:
			e = e.Next()
		case w.n > w.limit-word&^queueing:
			if p.word.CompareAndSwap(word, word|queueing) {
				return
			}
		case p.word.CompareAndSwap(word, word+w.n):
			e = e.Next()
			p.leave(w)
			if w.called != nil {
				w.called()
			}
		}
	}
	p.word.And(^queueing)
}
