package limit

import (
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// journals is the exact log over a store of keys.
type journals struct {
	limit    int64
	window   int64
	keys     *keys.Table[journal]
	whenFull Policy
	shared   *page // for new keys without a place, if whenFull is Share
	crowds   atomic.Int64

	maxBytes int64
	bytes    atomic.Int64 // of all rings but the first of each key
	coarse   atomic.Int64
}

type page = keys.Node[journal]

func newJournals(cfg Config) *journals {
	e := &journals{limit: cfg.Limit, window: int64(cfg.Window), whenFull: cfg.WhenFull, maxBytes: cfg.MaxBytes}
	e.keys = keys.New(cfg.MaxKeys, cfg.WhenFull == Evict, keys.Rules[journal]{Init: e.begin, Judge: e.judge, Kill: e.kill})
	if cfg.WhenFull == Share {
		e.shared = keys.NewNode[journal]("", 0)
		e.shared.Value.begin(minTime)
	}
	return e
}

func (e *journals) begin(p *page, now, n int64) {
	j := &p.Value
	j.begin(now)
	j.add(now, n, false)
}

func (e *journals) judge(p *page, now int64) (warmth uint64, expired bool) {
	j := &p.Value
	j.mu.Lock()
	defer j.mu.Unlock()
	j.expire(max(now, j.latest), e.window)
	return uint64(j.held()), j.count == 0
}

func (e *journals) kill(p *page, now int64, force bool) bool {
	j := &p.Value
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.expire(max(now, j.latest), e.window); j.count > 0 && !force {
		return false
	}
	j.dead = true
	e.release(j)
	return true
}

// release lets go of the ring.
func (e *journals) release(j *journal) {
	if len(j.ring) > fewAdmissions {
		e.bytes.Add(-admissionBytes * int64(len(j.ring)))
	}
	j.ring = j.few[:]
	j.count = 0
}

// makeRoom sees to it that the ring has a place for an admission at that time. If it
// does not, MaxBytes is used up, or the ring is as large as the limit needs, which
// settlements can go beyond: then the newest admission takes the next one.
func (e *journals) makeRoom(j *journal, at int64) (join bool) {
	if !j.needsRoom(at) {
		return false
	}
	size := int64(len(j.ring))
	larger := min(2*size, max(e.limit, fewAdmissions))
	grown := larger
	if size > fewAdmissions {
		grown -= size
	}
	if larger <= size || !e.reserve(admissionBytes*grown) {
		e.coarse.Add(1)
		return true
	}
	j.move(make([]admission, larger))
	return false
}

func (e *journals) reserve(n int64) bool {
	for was := e.bytes.Load(); was+n <= e.maxBytes; was = e.bytes.Load() {
		if e.bytes.CompareAndSwap(was, was+n) {
			return true
		}
	}
	return false
}

// slack gives back half of a ring that was found empty: bursts that come again keep
// theirs, and others do not keep it for ever.
func (e *journals) slack(j *journal) {
	half := len(j.ring) / 2
	if j.count > 0 || half < fewAdmissions {
		return
	}
	e.bytes.Add(-admissionBytes * int64(len(j.ring)))
	if half == fewAdmissions {
		j.ring = j.few[:]
		return
	}
	e.bytes.Add(admissionBytes * int64(half))
	j.ring = make([]admission, half)
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
				return Decision{
					Allowed: true, Limit: e.limit, Remaining: e.limit - n,
					ResetAfter: time.Duration(between(now, begun) + e.window),
					Charged:    n, Ticket: ticket(placed.Generation(), 0),
				}
			case isFound:
				p = placed
			case isCrowded:
				if take {
					e.crowds.Add(1)
				}
				if e.whenFull != Share {
					return crowdedOut(e.limit, n, e.window)
				}
				p, crowded = e.shared, true
			}
		}
		d, alive, join := e.ask(p, now, n, take)
		if join {
			e.keys.SweepFew(uint64(now)*0x9e3779b97f4a7c15, now) // somewhere there may be memory to be had
		}
		if alive {
			d.Crowded = crowded
			return d
		}
		p = nil
	}
}

func (e *journals) ask(p *page, now, n int64, take bool) (d Decision, alive, join bool) {
	j := &p.Value
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return d, false, false
	}
	at := max(now, j.latest)
	d.Limit = e.limit
	j.expire(at, e.window)
	held := j.held()
	switch {
	case n > e.limit:
		d.RetryAfter = Never
	case n > e.limit-held:
		d.RetryAfter = j.wait(now, n, e.limit, e.window)
	default:
		d.Allowed = true
		if take {
			e.slack(j)
			join = e.makeRoom(j, at)
			j.add(at, n, join)
			held += n
			d.Charged, d.Ticket = n, ticket(p.Generation(), j.number+int64(j.count)-1)
		}
	}
	d.Remaining, d.ResetAfter = max(0, e.limit-held), j.reset(now, e.window)
	return d, true, join
}

func (e *journals) charge(now int64, key string, n int64) {
	charge(e.keys, e.whenFull, e.shared, key, now, n, func(p *keys.Node[journal]) bool { return e.spend(&p.Value, now, n) })
}

// spend is false if the journal is dead.
func (e *journals) spend(j *journal, now, n int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return false
	}
	at := max(now, j.latest)
	j.expire(at, e.window)
	if n = min(n, mostHeld-j.held()); n > 0 {
		j.add(at, n, e.makeRoom(j, at))
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
	if !j.dead && ticket(p.Generation(), d.Ticket) == d.Ticket {
		// The bits that a ticket has of the number.
		j.refund(j.number+(d.Ticket-j.number)<<(64-ticketShift)>>(64-ticketShift), n)
	}
}

func (e *journals) forget(key string) { e.keys.Delete(e.keys.Hash(key), key) }

func (e *journals) sweep(now int64) { e.keys.Sweep(now) }

func (e *journals) stats() Stats {
	s := statsOf(e.keys, e.crowds.Load())
	s.Bytes, s.Coarse = e.bytes.Load(), e.coarse.Load()
	return s
}
