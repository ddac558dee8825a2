package limit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// exactLog keeps the time of every admission. Time goes by steps: by nanoseconds for
// [NewLog], and for [NewBucketed] by the buckets, so that what was admitted in one bucket is
// one admission.
type exactLog struct {
	step    int64
	forgets int64 // after which an admission is forgotten: a multiple of step
	largest int   // admissions with a time of their own that the limit allows
	store   store[keyLog]

	budget
	coarse atomic.Int64
}

func newExactLog(cfg Config) *exactLog { return newSteppedLog(cfg, 1, int64(cfg.Window)) }

func newBucketedLog(cfg Config) *exactLog {
	step := int64(cfg.Window) / int64(cfg.Buckets)
	forgets := int64(cfg.Window)
	if cfg.Strict {
		forgets += step
	}
	return newSteppedLog(cfg, step, forgets)
}

func newSteppedLog(cfg Config, step, forgets int64) *exactLog {
	e := &exactLog{
		step: step, forgets: forgets,
		largest: int(max(fewAdmissions, min(cfg.MaxLimit, forgets/step, math.MaxInt32))),
	}
	e.divide(cfg.MaxBytes, int64(cfg.MaxKeys))
	e.store.init(cfg, e)
	return e
}

// align is the beginning of the step of a time.
func (e *exactLog) align(now int64) int64 {
	if e.step == 1 {
		return now
	}
	number := floor(now, e.step)
	if number < minTime/e.step {
		return minTime // time itself begins in the middle of a step
	}
	return number * e.step
}

// time is the step in which an admission of now is charged to a log.
func (e *exactLog) time(l *admissions, now int64) int64 { return e.align(max(now, l.latest)) }

func (e *exactLog) begin(node *keys.Node[keyLog], now, n int64) {
	l := &node.Value
	at := e.align(now)
	l.begin(at)
	if n > 0 {
		l.add(at, n)
	}
}

func (e *exactLog) inspect(node *keys.Node[keyLog], now int64) (warmth uint64, expired bool) {
	l := &node.Value
	l.mu.Lock()
	defer l.mu.Unlock()
	left := e.leftOf(l, now)
	return uint64(left.held()), left.count == 0
}

func (e *exactLog) kill(node *keys.Node[keyLog], now int64, force bool) bool {
	l := &node.Value
	l.mu.Lock()
	defer l.mu.Unlock()
	if !force && e.leftOf(l, now).count > 0 {
		return false
	}
	l.dead, l.count = true, 0
	e.resize(l, fewAdmissions)
	return true
}

// leftOf returns what is left of a log at now, which may be in the future. It changes nothing.
func (e *exactLog) leftOf(l *keyLog, now int64) admissions {
	left := l.admissions
	left.expire(e.time(&left, now), e.forgets)
	return left
}

// makeRoom makes a slot of the ring free for an admission at that time. It
// reports whether memory was short: then admissions were joined.
func (e *exactLog) makeRoom(l *keyLog, at int64) (short bool) {
	if !l.needsRoom(at) {
		return false
	}
	size := len(l.ring)
	larger := 2 * size
	if size < e.largest {
		larger = min(larger, e.largest) // only settlements beyond the limit go further
	}
	if e.resize(l, larger) {
		return false
	}
	if e.own > size && e.resize(l, e.own) {
		return false
	}
	// A quarter of the slots is made free, so that this is not done at each admission.
	// Stretches that are so long are at most one more than cover the window.
	stretches := int64(size - max(1, size/4) - 1)
	e.coarse.Add(int64(l.thin((e.forgets + stretches - 1) / stretches)))
	return true
}

// halve gives back half of a ring that was found empty: bursts that come again keep
// theirs, and others do not keep it for ever.
func (e *exactLog) halve(l *keyLog) {
	if size := len(l.ring); l.count == 0 && size > fewAdmissions {
		e.resize(l, max(fewAdmissions, size/2))
	}
}

func (e *exactLog) begun(at int64, q question) Decision {
	at = e.align(at)
	return Decision{
		Allowed: true, Limit: q.limit, Remaining: q.limit - q.n,
		ResetAfter: time.Duration(between(q.now, at) + e.forgets),
		Charged:    q.n, Ticket: at,
	}
}

func (e *exactLog) answer(node *keys.Node[keyLog], q question) (d Decision, alive bool) {
	alive, short := e.answerTo(&d, node, q)
	if short {
		e.store.keys.SweepFew(uint64(q.now)*0x9e3779b97f4a7c15, q.now) // somewhere there may be memory to be had
	}
	return d, alive
}

// answerTo writes the answer to d, and also reports whether memory was short.
func (e *exactLog) answerTo(d *Decision, node *keys.Node[keyLog], q question) (alive, short bool) {
	l := &node.Value
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false, false
	}
	w := &l.admissions
	if !q.take {
		left := e.leftOf(l, q.now)
		w = &left
	}
	at := e.time(w, q.now)
	d.Limit = q.limit
	w.expire(at, e.forgets)
	held := w.held()
	switch n := q.fit(q.limit - held); {
	case n == 0 && q.n > q.limit:
		d.RetryAfter = Never
	case n == 0:
		d.RetryAfter = w.wait(q.now, q.least(), q.limit, e.forgets)
	default:
		d.Allowed = true
		if q.take {
			e.halve(l)
			short = e.makeRoom(l, at)
			l.add(at, n)
			held += n
			d.Charged, d.Ticket, d.generation = n, at, generationOf(node.Generation())
		}
	}
	d.Remaining, d.ResetAfter = max(0, q.limit-held), w.reset(q.now, e.forgets)
	return true, short
}

func (e *exactLog) add(node *keys.Node[keyLog], q question) (alive bool) {
	l := &node.Value
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false
	}
	at := e.time(&l.admissions, q.now)
	l.expire(at, e.forgets)
	if n := min(q.n, maxHeld-l.held()); n > 0 {
		e.makeRoom(l, at)
		l.add(at, n)
	}
	return true
}

func (e *exactLog) takeOff(node *keys.Node[keyLog], at int64, q question) {
	l := &node.Value
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dead {
		l.refund(at, q.n, e.forgets)
	}
}

// untilMore needs not know how the rest is used: what is held leaves in the order in which it
// came, so the next one passes when one more than the rest would.
func (e *exactLog) untilMore(node *keys.Node[keyLog], now, limit, remaining int64) time.Duration {
	if remaining >= limit {
		return 0
	}
	d, _ := e.answer(node, question{now: now, limit: limit, n: remaining + 1})
	return d.RetryAfter
}

func (e *exactLog) most(q question) int64 { return q.limit }

func (e *exactLog) lasts(question) time.Duration { return time.Duration(e.forgets) }

func (e *exactLog) memory() (bytes, coarse int64) { return e.used.Load(), e.coarse.Load() }
