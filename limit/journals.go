package limit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// journals is the exact log over a store of keys, in which time goes by steps: by
// nanoseconds for a [Log], and for a [Bucketed] by the buckets, so that what was
// admitted in one bucket is one admission.
type journals struct {
	limit    int64
	step     int64
	forgets  int64 // after which an admission is forgotten: a multiple of step
	most     int   // admissions with a time of their own that the limit allows
	keys     *keys.Table[journal]
	whenFull Policy
	shared   *page // for new keys without a place, if whenFull is Share
	crowds   atomic.Int64

	budget
	coarse atomic.Int64
}

type page = keys.Node[journal]

func newLogJournals(cfg Config) *journals { return newJournals(cfg, 1, int64(cfg.Window)) }

func newBucketedJournals(cfg Config) *journals {
	step := int64(cfg.Window) / int64(cfg.Buckets)
	forgets := int64(cfg.Window)
	if cfg.Strict {
		forgets += step
	}
	return newJournals(cfg, step, forgets)
}

func newJournals(cfg Config, step, forgets int64) *journals {
	e := &journals{
		limit: cfg.Limit, step: step, forgets: forgets, whenFull: cfg.WhenFull,
		most: int(max(fewAdmissions, min(cfg.Limit, forgets/step, math.MaxInt32))),
	}
	e.divide(cfg.MaxBytes, int64(cfg.MaxKeys))
	e.keys = keys.New(cfg.MaxKeys, cfg.WhenFull == Evict, keys.Rules[journal]{Init: e.begin, Judge: e.judge, Kill: e.kill})
	if cfg.WhenFull == Share {
		e.shared = keys.NewNode[journal]("", 0)
		e.shared.Value.begin(minTime)
	}
	return e
}

// align is the beginning of the step of a time.
func (e *journals) align(now int64) int64 {
	if e.step == 1 {
		return now
	}
	number := floor(now, e.step)
	if number < minTime/e.step {
		return minTime // time itself begins in the middle of a step
	}
	return number * e.step
}

// time is the step in which an admission of now is charged to a journal.
func (e *journals) time(j *journal, now int64) int64 { return e.align(max(now, j.latest)) }

func (e *journals) begin(p *page, now, n int64) {
	j := &p.Value
	at := e.align(now)
	j.begin(at)
	j.add(at, n)
}

func (e *journals) judge(p *page, now int64) (warmth uint64, expired bool) {
	j := &p.Value
	j.mu.Lock()
	defer j.mu.Unlock()
	j.expire(e.time(j, now), e.forgets)
	return uint64(j.held()), j.count == 0
}

func (e *journals) kill(p *page, now int64, force bool) bool {
	j := &p.Value
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.expire(e.time(j, now), e.forgets); j.count > 0 && !force {
		return false
	}
	j.dead, j.count = true, 0
	e.resize(j, fewAdmissions)
	return true
}

// makeRoom sees to it that the ring has a place for an admission at that time. It
// reports whether memory was short: then admissions were joined.
func (e *journals) makeRoom(j *journal, at int64) (short bool) {
	if !j.needsRoom(at) {
		return false
	}
	size := len(j.ring)
	larger := 2 * size
	if size < e.most {
		larger = min(larger, e.most) // only settlements beyond the limit go further
	}
	if e.resize(j, larger) {
		return false
	}
	if e.own > size && e.resize(j, e.own) {
		return false
	}
	// A quarter of the places is made free, so that this is not done at each admission.
	// Stretches that are so long are at most one more than cover the window.
	stretches := int64(size - max(1, size/4) - 1)
	e.coarse.Add(int64(j.thin((e.forgets + stretches - 1) / stretches)))
	return true
}

// slack gives back half of a ring that was found empty: bursts that come again keep
// theirs, and others do not keep it for ever.
func (e *journals) slack(j *journal) {
	if size := len(j.ring); j.count == 0 && size > fewAdmissions {
		e.resize(j, max(fewAdmissions, size/2))
	}
}

func (e *journals) decide(now int64, key string, n int64, take bool) Decision {
	hash := e.keys.Hash(key)
	p := e.keys.Find(hash, key)
	crowded := false
	for {
		if p == nil {
			placed, begun, outcome := place(e.keys, e.whenFull, hash, key, now, n, take && n <= e.limit)
			switch outcome {
			case isUnknown:
				return unknown(e.limit, n)
			case isMade:
				at := e.align(begun)
				return Decision{
					Allowed: true, Limit: e.limit, Remaining: e.limit - n,
					ResetAfter: time.Duration(between(now, at) + e.forgets),
					Charged:    n, Ticket: at, generation: placed.Generation(),
				}
			case isFound:
				p = placed
			case isCrowded:
				if take {
					e.crowds.Add(1)
				}
				if e.whenFull != Share {
					return crowdedOut(e.limit, n, e.forgets)
				}
				p, crowded = e.shared, true
			}
		}
		d, alive, short := e.ask(p, now, n, take)
		if short {
			e.keys.SweepFew(uint64(now)*0x9e3779b97f4a7c15, now) // somewhere there may be memory to be had
		}
		if alive {
			d.Crowded = crowded
			return d
		}
		p = nil
	}
}

func (e *journals) ask(p *page, now, n int64, take bool) (d Decision, alive, short bool) {
	j := &p.Value
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return d, false, false
	}
	at := e.time(j, now)
	d.Limit = e.limit
	j.expire(at, e.forgets)
	held := j.held()
	switch {
	case n > e.limit:
		d.RetryAfter = Never
	case n > e.limit-held:
		d.RetryAfter = j.wait(now, n, e.limit, e.forgets)
	default:
		d.Allowed = true
		if take {
			e.slack(j)
			short = e.makeRoom(j, at)
			j.add(at, n)
			held += n
			d.Charged, d.Ticket, d.generation = n, at, p.Generation()
		}
	}
	d.Remaining, d.ResetAfter = max(0, e.limit-held), j.reset(now, e.forgets)
	return d, true, short
}

func (e *journals) charge(now int64, key string, n int64) {
	charge(e.keys, e.whenFull, e.shared, key, now, n, func(p *page) bool { return e.spend(&p.Value, now, n) })
}

// spend returns false if the journal is dead.
func (e *journals) spend(j *journal, now, n int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return false
	}
	at := e.time(j, now)
	j.expire(at, e.forgets)
	if n = min(n, mostHeld-j.held()); n > 0 {
		e.makeRoom(j, at)
		j.add(at, n)
	}
	return true
}

func (e *journals) refund(key string, d Decision, n int64) {
	p := e.shared
	if p == nil || !d.Crowded {
		p = e.keys.Find(e.keys.Hash(key), key)
	}
	if p == nil {
		return
	}
	j := &p.Value
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.dead && p.Generation() == d.generation {
		j.refund(d.Ticket, n, e.forgets)
	}
}

func (e *journals) forget(key string) { e.keys.Delete(e.keys.Hash(key), key) }

func (e *journals) sweep(now int64) { e.keys.Sweep(now) }

func (e *journals) stats() Stats {
	s := statsOf(e.keys, e.crowds.Load())
	s.Bytes, s.Coarse = e.used.Load(), e.coarse.Load()
	return s
}
