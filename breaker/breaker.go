package breaker

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/resource"
)

// breaker is what a rule remembers on one resource, whatever is changed of the rule.
type breaker struct {
	phase   atomic.Pointer[phase] // written under mu
	mu      sync.Mutex            // guards changes, the probes, and hanging
	hanging *hanging              // that of the phase; open, so that it has admitted calls

	cause resource.Cause // what all its refusals have in common
	state *resource.State

	// admitted has the calls that hanging has not. The others are those of shadow and enforce.
	admitted, blocked, wouldBlock stripes.Counter
	last                          resource.LastRefusal
}

// change goes over to another phase at now. The caller holds mu.
func (b *breaker) change(to *phase, now int64, reason string) {
	b.set(to)
	b.state.Set(now, stateNames[to.state], reason)
}

// set goes over to another phase. The caller holds mu.
func (b *breaker) set(to *phase) {
	b.phase.Store(to)
	if b.hanging != nil && b.hanging != to.hanging {
		b.admitted.Add(b.hanging.close())
	}
	b.hanging = to.hanging
}

// open opens the breaker at now. The caller holds mu.
func (b *breaker) open(from *phase, now int64, why grounds) {
	to := b.enter(open, from.rule, now, from.openings(now)+1)
	to.refuseWith(b, float64(why.threshold), why.detail, float64(why.observed))
	b.change(to, now, why.String())
}

// close closes the breaker at now, when probes have decided so. The caller holds mu.
func (b *breaker) close(from *phase, now int64, reason string) {
	s := closed
	if from.rule.Ramp > 0 && from.rule.Force == None {
		s = ramping
	}
	to := b.enter(s, from.rule, max(now, from.probes.latest+1), from.row)
	b.keepProbes(from, to)
	b.change(to, now, reason)
}

// keepProbes lets the probes that are in flight go on as calls of the next phase, as far as
// they count there: their ends will be seen, so their begins must be.
func (b *breaker) keepProbes(from, to *phase) {
	if to.hanging == nil || from.probes == nil {
		return
	}
	for _, start := range from.probes.undecided {
		if start >= to.since && !from.probes.unpause(start) { // Resume begins a call that pauses
			to.hanging.turn(start)
			to.hanging.begin(start)
		}
	}
}

// settle returns the phase at now, when all has taken effect that was due by then: probes that
// are over their time, the end of a ramp. The caller holds mu.
func (b *breaker) settle(now int64) *phase {
	for {
		p := b.phase.Load()
		switch {
		case p.state == halfOpen:
			at, expired := p.expire(now)
			if !expired {
				return p
			}
			b.decide(p, at)
		case p.state == ramping && now >= p.rampEnd():
			to := b.enter(closed, p.rule, p.rampEnd(), p.row)
			to.entered = p.entered // it has stayed closed since
			b.change(to, to.since, "admitting all calls again")
		default:
			return p
		}
	}
}

// at returns the phase at now, as settle, but takes the lock only if anything may be due.
func (b *breaker) at(now int64) *phase {
	p := b.phase.Load()
	if p.state == halfOpen || p.state == ramping && now >= p.rampEnd() {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.settle(now)
	}
	return p
}

// look returns the phase in which a call that comes at now is decided on, when calls that hang
// have been looked at.
func (b *breaker) look(now int64) *phase {
	for {
		p := b.at(now)
		if p.hanging == nil || now < p.since || !p.hanging.turn(now) {
			return p
		}
		s := p.results
		b.judge(p, now, s.at(now), s.marks())
	}
}

// judge opens the breaker if the results are bad enough.
func (b *breaker) judge(p *phase, now int64, newest *bucket, m marks) {
	why, opens := p.judge(now, newest, m)
	if !opens {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.phase.Load()
	if current != p { // another call has opened it, or the rule has changed
		if current.results != p.results {
			return
		}
		if why, opens = current.judge(now, newest, m); !opens {
			return
		}
	}
	b.open(current, now, why)
}

// answer is what a breaker says to a call.
type answer struct {
	share      uint64          // what the stride has added
	refused    *resource.Cause // nil: it is admitted
	observed   float64
	retryAfter time.Duration // below 0 if that is not known
}

func (p *phase) refuse(retryAfter time.Duration) answer {
	return answer{refused: p.cause, observed: p.observed, retryAfter: retryAfter}
}

// unknown is a wait that cannot be told.
const unknown time.Duration = -1

// reserve decides on a call that begins at now. by is the phase that has decided.
func (b *breaker) reserve(now int64) (by *phase, a answer) {
	for {
		p := b.look(now)
		switch p.state {
		case closed, ramping, throttling:
			return p, p.admit(now)
		case open:
			if a, refused := p.refuseOpen(now); refused {
				return p, a
			}
		case halfOpen:
		}
		if p, admitted, decided := b.probe(now); decided {
			if admitted {
				return p, answer{}
			}
			return p, p.refuse(unknown)
		}
	}
}

// wouldRefuse decides on a call that comes at now, but takes nothing. What only takes a share is
// not asked.
func (b *breaker) wouldRefuse(now int64) (a answer, refused bool) {
	p := b.look(now)
	switch p.state {
	case open:
		return p.refuseOpen(now)
	case halfOpen:
		b.mu.Lock()
		defer b.mu.Unlock()
		p = b.settle(now)
		if p.state == open {
			return p.refuseOpen(now)
		}
		if p.state == halfOpen && (now < p.since || p.isFull()) {
			return p.refuse(unknown), true
		}
	case closed, ramping, throttling:
	}
	return a, false
}

// refuseOpen refuses a call while the breaker is open. When that is over, it does not.
func (p *phase) refuseOpen(now int64) (a answer, refused bool) {
	switch {
	case now >= p.until:
		return a, false
	case p.until == never:
		return p.refuse(unknown), true
	default:
		return p.refuse(clock.Until(now, p.until)), true
	}
}

// admit decides on a call in a state in which most are admitted. Its begin counts if its now
// does: a call that read the clock before the last change does not.
func (p *phase) admit(now int64) answer {
	share := p.share(now)
	refused := false
	switch {
	case p.state == ramping:
		refused = !p.stride.next(share)
	case share > 0: // throttling
		refused = p.stride.next(share) && !p.lastly.isLong(now)
		if refused {
			p.results.calls.add(true)
		} else {
			p.lastly.note(now)
		}
	}
	if refused {
		return answer{refused: p.cause, observed: float64(share) / whole, retryAfter: unknown}
	}
	if p.hanging != nil && now >= p.since {
		p.hanging.begin(now)
	}
	return answer{share: share}
}

// share is what the stride adds for a call: the share that a ramp admits, or that a throttle
// refuses.
func (p *phase) share(now int64) uint64 {
	switch p.state {
	case ramping:
		return uint64(part(whole, time.Duration(now-p.entered), p.rule.Ramp))
	case throttling:
		return inParts(p.reject(now))
	default:
		return 0
	}
}

// reject is the share that a throttle refuses at now.
func (p *phase) reject(now int64) float64 {
	mark := p.results.at(now).window.errors
	return reject(p.rule, since(p.results.calls.word.Load(), mark))
}

// refund takes back a call that began at start, which another rule has refused.
func (b *breaker) refund(start int64, share uint64) {
	p := b.phase.Load()
	if start < p.since {
		return
	}
	switch p.state {
	case closed, ramping, throttling:
		p.giveBack(start, share)
	case halfOpen:
		if !b.endProbe(start, start, undecided) {
			b.refund(start, share) // what it was in is gone
		}
	case open:
	}
}

// pausing is the begin of a call that pauses.
const pausing = math.MaxInt64

// move lets a call in flight that began at start pause, or continue as one that began at to.
func (b *breaker) move(now, start, to int64) {
	for {
		switch p := b.look(now); {
		case p.state == halfOpen:
			if !b.moveProbe(start, to) {
				continue
			}
		case p.hanging == nil:
		case to == pausing:
			if start >= p.since {
				p.hanging.end(start)
			}
		case to >= p.since:
			p.hanging.begin(to)
		}
		return
	}
}

func (p *phase) giveBack(start int64, share uint64) {
	if p.stride != nil {
		p.stride.back(share)
	}
	if p.hanging != nil {
		p.hanging.end(start)
	}
	if p.lastly != nil {
		p.lastly.back(start)
	}
}

// finish takes the result of a call that began at start and has ended at now.
func (b *breaker) finish(now, start int64, outcome resource.Outcome) {
	for {
		p := b.at(now)
		switch p.state {
		case closed, ramping, throttling:
			if start >= p.since {
				b.count(p, now, start, outcome)
			}
			return
		case open:
			return
		case halfOpen:
			if start < p.since || b.endProbe(now, start, p.probeEnd(now-start, outcome)) {
				return
			}
		}
	}
}

// countGood is count for what most calls come to: a success that is not slow, in buckets that are
// open. Otherwise it reports false, and does nothing.
func (b *breaker) countGood(p *phase, now, start int64) bool {
	s := p.results
	w := s.ring.Newest()
	if start < p.since || !w.Covers(now) {
		return false
	}
	newest := w.Value()
	if h := p.hanging; h != nil {
		if now-start > int64(p.rule.SlowAfter) || !tryEndGood(h.ring.Newest(), start) && !h.endGood(start) {
			return false
		}
		s.endRow()
		if (!s.unlikely().isGood(newest.window) || h.overdue() != 0) && p.calm.Load() != newest {
			b.judge(p, now, newest, s.marks())
		}
		return true
	}
	m := marks{errors: s.calls.add(false)}
	s.endRow()
	if !m.isGood(newest.window) {
		b.judge(p, now, newest, m)
	}
	return true
}

// count counts the result of a call, and judges all.
func (b *breaker) count(p *phase, now, start int64, outcome resource.Outcome) {
	s := p.results
	newest := s.at(now)
	tally, slow := &s.calls, false
	if p.hanging != nil {
		p.hanging.end(start)
		if slow = now-start > int64(p.rule.SlowAfter); slow {
			tally = &s.slow
		}
	}
	switch {
	case outcome != resource.Ignored:
		tally.add(outcome == resource.Failure)
	case slow:
		s.ignored.Add(1)
	default:
		return
	}
	switch outcome {
	case resource.Failure:
		s.row.Add(1)
	case resource.Success:
		s.endRow()
	case resource.Ignored:
	}
	if p.state != throttling {
		b.judge(p, now, newest, s.marks())
	}
}

// probeEnd is what the end of a probe says: it is bad if it would count in any figure that is
// set.
func (p *phase) probeEnd(took int64, outcome resource.Outcome) probeEnd {
	r := p.rule
	failed := outcome == resource.Failure && r.countsErrors()
	switch {
	case failed, r.SlowRatio > 0 && took > int64(r.SlowAfter):
		return bad
	case outcome == resource.Ignored:
		return undecided
	default:
		return good
	}
}

// wait returns how long after now a call would be admitted that comes alone; below 0 if that is
// not known. Nothing changes.
func (b *breaker) wait(now int64) time.Duration {
	p := b.phase.Load()
	switch p.state {
	case open:
		a, refused := p.refuseOpen(now)
		if !refused {
			return 0
		}
		return a.retryAfter
	case halfOpen:
		b.mu.Lock()
		defer b.mu.Unlock()
		if p.isFull() {
			return unknown
		}
	case ramping:
		if now < p.rampEnd() && !p.stride.wouldBeNext(p.share(now)) {
			return unknown
		}
	case throttling:
		mark := p.results.markAt(now)
		share := inParts(reject(p.rule, since(p.results.calls.word.Load(), mark)))
		if p.stride.wouldBeNext(share) && now-p.lastly.admitted.Load() < int64(time.Second) {
			return unknown
		}
	case closed:
	}
	return 0
}

// effective is what holds at now in place of a threshold: the share that a ramp admits or a
// throttle refuses.
func (b *breaker) effective(r *Rule, now int64) float64 {
	switch p := b.at(now); p.state {
	case ramping:
		return max(1.0/leastRamp, float64(now-p.entered)/float64(p.rule.Ramp))
	case throttling:
		return p.reject(now)
	default:
		return r.threshold()
	}
}
