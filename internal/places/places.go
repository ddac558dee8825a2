// Package places counts calls in flight under a limit that may move. Never is one
// admitted that would make them more than the limit that it is admitted under.
package places

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Places are taken and given back. Calls that find none may queue for them. The zero
// value is ready for use, except that [Places.SetLimit] comes before the first
// [Places.Queue]. All methods may be called by any number of goroutines at once.
//
// One word holds how many are taken, and whether any call queues:
//
//	   63       62 … 0
//	queueing     taken
//
// Take adds to it by CAS, if there is room and no call queues; GiveBack takes off, and
// serves the queue if the bit is set. The bit is set by CAS on a word that has no room, so
// no giving back is missed between looking and queueing. The queue itself is behind a lock,
// which only calls that wait need.
type Places struct {
	word    atomic.Int64
	waiting atomic.Int64 // the length of queue; written under mu

	mu    sync.Mutex // guards what is below
	limit int64      // that the queue is served under
	queue list.List  // of *Waiter, in order of arrival
	asked int64      // places that those in the queue wait for
	pace  pace
}

const queueing = math.MinInt64

// Waiter is a call that queues for n places.
type Waiter struct {
	places *Places
	n      int64
	wait   time.Duration

	// What is below is guarded by places.mu.
	place  *list.Element // in the queue; nil when it has its places, or has left
	called func()        // when it has its places; nil until the call waits
}

// Take takes n places if that makes them no more than limit, and returns how many were
// taken before. limit may differ from call to call.
func (p *Places) Take(n, limit int64) (taken int64, ok bool) {
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

// Taken returns how many places are taken.
func (p *Places) Taken() int64 { return p.word.Load() &^ queueing }

// Waiting returns how many calls queue.
func (p *Places) Waiting() int64 { return p.waiting.Load() }

// GiveBack gives n places back.
func (p *Places) GiveBack(n int64) {
	if p.word.Add(-n) < 0 {
		p.serveLocked()
	}
}

// SetLimit moves the limit of the calls that queue, and lets in those for which there is
// room now. Without it they would wait beside free places until a call ends.
func (p *Places) SetLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	p.serve()
}

// Queue waits for n places, unless so many calls do already; then it returns nil.
func (p *Places) Queue(n int64, longest int) *Waiter {
	if p.waiting.Load() >= int64(longest) { // so that a flood need not wait for the lock
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue.Len() >= longest {
		return nil
	}
	w := &Waiter{places: p, n: n}
	if p.queue.Len() == 0 {
		p.pace.begin()
	}
	w.place = p.queue.PushBack(w)
	p.waiting.Add(1)
	p.asked += n
	w.wait = p.pace.expect(p.asked)
	p.serve()
	return w
}

// Expected returns how long the call will wait if places go on to come free as they lately did;
// 0 if that is not known.
func (w *Waiter) Expected() time.Duration { return w.wait }

// Due returns 0 when the call has its places, and else −1, since nobody knows when calls
// in flight will end. It implements resource.Turn.
func (w *Waiter) Due(_ int64, called func()) time.Duration {
	p := w.places
	p.mu.Lock()
	defer p.mu.Unlock()
	w.called = called
	if w.place == nil {
		return 0
	}
	return -1
}

// GiveBack leaves the queue, or gives back the places that the call got.
func (w *Waiter) GiveBack(int64) {
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
func (p *Places) leave(w *Waiter) {
	p.queue.Remove(w.place)
	w.place = nil
	p.waiting.Add(-1)
	p.asked -= w.n
}

func (p *Places) serveLocked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve()
}

// serve lets calls of the queue in, until there is no room for the first of them. A call
// that wants more than the limit lets the others pass. The caller holds mu.
func (p *Places) serve() {
	for e := p.queue.Front(); e != nil; {
		w, word := e.Value.(*Waiter), p.word.Load()
		switch {
		case w.n > p.limit:
			e = e.Next()
		case w.n > p.limit-word&^queueing:
			if p.word.CompareAndSwap(word, word|queueing) {
				return
			}
		case p.word.CompareAndSwap(word, word+w.n):
			e = e.Next()
			p.leave(w)
			p.pace.served(w.n)
			if w.called != nil {
				w.called()
			}
		}
	}
	p.word.And(^queueing)
}
