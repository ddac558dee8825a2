package flow

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/internal/stripes"
)

// pacer gives calls their turns, one after the other with a gap between them: a
// leaky bucket used as a queue.
//
// A call whose turn is now takes it by one CAS on last. A call whose turn is later joins a
// queue, in order of arrival. When a call leaves the queue, all calls behind it move up. So
// no turn is lost as long as a call waits. A lock guards the queue. A call needs no lock if
// nobody waits, or if its turn would come too late.
//
// A turn in the queue never comes later than the call was told when it joined. So each call
// wakes by itself. When the queue moves up, only its first call has to be told, and the
// next one when the first is gone.
type pacer struct {
	// last is the latest turn that was given, or queueing while calls wait.
	last atomic.Int64
	// tail is the turn of the last call in the queue. It means nothing unless last is
	// queueing. It is written under mu, before last says so.
	tail     atomic.Int64
	admitted stripes.Counter
	backlog  atomic.Int64 // what the calls in the queue count; written under mu

	mu    sync.Mutex // guards what is below
	given int64      // the latest turn that was given, while calls wait
	queue list.List  // of *turn, in order of arrival
	// spacing returns how far apart calls are at a time, in nanoseconds per call. It is nil unless that changes as
	// calls begin.
	spacing func(now int64) float64
	// widest is at least the spacing of every call in the queue, so that the queue is examined only when calls may move
	// closer together.
	widest float64
}

// queueing is later than any turn.
const queueing = math.MaxInt64

// turn is the turn of a call that joined the queue. Its pacer's lock guards it.
type turn struct {
	pacer  *pacer
	n      int64 // what the call counts
	gap    int64 // to the one before
	at     int64 // when it came, or, in the queue, when it comes at the latest; of the first: exactly
	waits  bool  // a call has it, or else it stands for one or more calls that do not wait
	place  *list.Element
	sooner func() // nil until the call waits
}

func newPacer() *pacer {
	p := new(pacer)
	p.last.Store(math.MinInt64 / 2) // long ago
	return p
}

// end is the last turn that there is.
const end = queueing - 1

// after is the turn that is gap after that at t.
func after(t, gap int64) int64 {
	if t > end-gap {
		return end
	}
	return t + gap
}

// next is the first turn that is gap after all others, those in the queue included.
func (p *pacer) next(gap int64) int64 { return p.behind(p.last.Load(), gap) }

// behind is the turn that is gap after all others, if last is what was read of it.
func (p *pacer) behind(last, gap int64) int64 {
	if last == queueing {
		last = p.tail.Load()
	}
	return after(last, gap)
}

// take takes the next turn, unless it is more than longest after now. If it is later than
// now, and the call can wait, it queues: then it has the turn that is returned as t.
func (p *pacer) take(now, n, gap, longest int64, waits bool) (at int64, t *turn, ok bool) {
	for {
		last := p.last.Load()
		at = max(min(now, end), p.behind(last, gap))
		switch {
		case int64(clock.Until(now, at)) > longest:
			return at, nil, false
		case last == queueing || at > now && waits:
			return p.join(now, n, gap, longest, waits)
		case p.last.CompareAndSwap(last, at):
			return at, nil, true
		}
	}
}

// join is take for a call that finds others in the queue, or is the first in it.
func (p *pacer) join(now, n, gap, longest int64, waits bool) (at int64, t *turn, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve(now)
	for { // until no call that does not queue comes between
		last := p.last.Load()
		at = max(min(now, end), p.behind(last, gap))
		switch {
		case int64(clock.Until(now, at)) > longest:
			return at, nil, false
		case last == queueing:
			p.tail.Store(at)
			return at, p.push(at, n, gap, waits), true
		case at <= now || !waits:
			if p.last.CompareAndSwap(last, at) {
				return at, nil, true
			}
		default:
			p.tail.Store(at)
			if p.last.CompareAndSwap(last, queueing) {
				p.given = last
				return at, p.push(at, n, gap, waits), true
			}
		}
	}
}

// push adds a turn to the queue, and returns it. If the call does not wait, as in mode
// shadow, nobody has the turn: it only comes, and push returns nil. Several of them in
// a row are one, so that calls that do not wait take no memory. The caller holds mu.
func (p *pacer) push(at, n, gap int64, waits bool) *turn {
	p.backlog.Add(n)
	if float64(gap) > math.Ceil(float64(n)*p.widest)+1 { // one more by rounding
		p.widest = float64(gap) / float64(n)
	}
	if !waits {
		if back := p.queue.Back(); back != nil {
			if t := back.Value.(*turn); !t.waits {
				t.n, t.gap, t.at = t.n+n, after(t.gap, gap), at
				return nil
			}
		}
	}
	t := &turn{pacer: p, n: n, gap: gap, at: at, waits: waits}
	t.place = p.queue.PushBack(t)
	if !waits {
		return nil
	}
	return t
}

// serve gives the turns that have come. The caller holds mu.
func (p *pacer) serve(now int64) {
	for t := p.first(); t != nil && t.at <= now; t = p.first() {
		p.given = t.at
		p.leave(t)
	}
	if p.spacing != nil && p.queue.Len() > 0 {
		p.respace(now, p.spacing(now))
	}
}

// respace moves the calls in the queue closer together if they are further apart than spacing, in nanoseconds per
// call. The caller holds mu, and has given the turns that have come.
func (p *pacer) respace(now int64, spacing float64) {
	if spacing >= p.widest {
		return
	}
	p.widest = spacing
	closer := int64(0)
	for e := p.queue.Front(); e != nil; e = e.Next() {
		t := e.Value.(*turn)
		gap := t.gap
		t.gap = int64(min(float64(gap), math.Ceil(float64(t.n)*spacing)))
		closer += gap - t.gap
	}
	if closer > 0 {
		p.moveUp(now, closer)
	}
}

// load sets how far apart calls are from now on. See [pacer.respace] and spacing.
func (p *pacer) load(now int64, apart float64, spacing func(now int64) float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spacing = nil
	p.serve(now)
	p.respace(now, apart)
	p.spacing = spacing
}

// first is the first turn in the queue, told exactly when it comes; nil if there is none.
// The caller holds mu.
func (p *pacer) first() *turn {
	first := p.queue.Front()
	if first == nil {
		return nil
	}
	t := first.Value.(*turn)
	if at := after(p.given, t.gap); at < t.at {
		t.at = at
		if t.sooner != nil {
			t.sooner()
		}
	}
	return t
}

// leave takes a turn out of the queue. The caller holds mu.
func (p *pacer) leave(t *turn) {
	p.queue.Remove(t.place)
	p.backlog.Add(-t.n)
	t.place = nil
	if p.queue.Len() == 0 {
		p.last.Store(p.given)
	}
}

// giveBack gives back a turn that came at once, gap after the one before. It is lost if a
// later one was given meanwhile, or anybody queues behind it: when that call would begin
// is not known here.
func (p *pacer) giveBack(at, gap int64) { p.last.CompareAndSwap(at, at-gap) }

// undo gives back a turn that has come, unless a later one was given meanwhile. The caller
// holds mu, and has served the queue.
func (p *pacer) undo(now, at, gap int64) {
	if p.last.Load() != queueing {
		p.last.CompareAndSwap(at, at-gap)
		return
	}
	if p.given == at {
		p.given -= gap
		p.moveUp(now, gap)
	}
}

// moveUp moves the queue up by a gap that became free at now. The first of it gets its turn
// then at the earliest: if it counts less than the one that left, its gap may be over
// already, but the gap after it begins when it begins. The caller holds mu, and has
// served the queue, so that nobody gets a later turn than before.
func (p *pacer) moveUp(now, gap int64) {
	if first := p.queue.Front(); first != nil {
		if late := now - after(p.given, first.Value.(*turn).gap); late > 0 {
			p.given += late
			gap -= late
		}
	}
	p.tail.Add(-gap)
	p.first()
}

// due returns how long after now the turn comes, 0 if it has come. If it comes sooner than
// that, sooner is called.
func (t *turn) due(now int64, sooner func()) time.Duration {
	p := t.pacer
	p.mu.Lock()
	defer p.mu.Unlock()
	t.sooner = sooner
	p.serve(now)
	if t.place == nil {
		return 0
	}
	return clock.Until(now, t.at)
}

// giveBack leaves the queue at now, or gives back the turn if it has come.
func (t *turn) giveBack(now int64) {
	p := t.pacer
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve(now)
	if t.place == nil {
		p.undo(now, t.at, t.gap)
		return
	}
	p.leave(t)
	p.moveUp(now, t.gap)
}
