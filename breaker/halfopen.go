package breaker

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
)

// probes are the calls of a half-open breaker. The breaker's lock guards them.
type probes struct {
	undecided []int64 // when they began, oldest first
	paused    []int64 // those of undecided that pause, and some that have timed out
	good, bad int64
	timedOut  int64 // of bad
	latest    int64 // begin of a call that is no probe and has paused; the next phase must not count it
}

func newProbes() *probes { return &probes{latest: math.MinInt64} }

// enough is how many bad probes open the breaker: the least that reach one of the ratios, and
// one for the other figures. Every other probe must be good, so the rest and one more close it.
func (r *Rule) enough() int64 {
	bad := r.Probes
	for _, ratio := range []float64{r.ErrorRatio, r.SlowRatio} {
		if ratio > 0 {
			least := int64(math.Ceil(ratio * float64(r.Probes)))
			for least > 1 && (counts{r.Probes, least - 1}).ratio() >= ratio { // as it is judged
				least--
			}
			bad = min(bad, least)
		}
	}
	if r.ErrorCount > 0 || r.Consecutive > 0 {
		bad = 1
	}
	return max(1, bad)
}

// isFull reports whether no more probes are admitted.
func (p *phase) isFull() bool {
	s := p.probes
	return int64(len(s.undecided))+s.good+s.bad >= p.rule.Probes
}

// add admits a probe.
func (s *probes) add(now int64) {
	i, _ := slices.BinarySearch(s.undecided, now)
	s.undecided = slices.Insert(s.undecided, i, now)
}

// remove takes a probe off, and reports whether it was there.
func (s *probes) remove(start int64) bool {
	i, found := slices.BinarySearch(s.undecided, start)
	if found {
		s.undecided = slices.Delete(s.undecided, i, i+1)
	}
	return found
}

// expire decides on the oldest probe if it is over its time at now, and returns when that
// was.
func (p *phase) expire(now int64) (at int64, expired bool) {
	s := p.probes
	if len(s.undecided) == 0 {
		return 0, false
	}
	due := after(s.undecided[0], p.rule.probeTimeout())
	if due > now {
		return 0, false
	}
	s.undecided = s.undecided[1:]
	s.bad++
	s.timedOut++
	return due, true
}

// decide goes over to open or closed at now if the probes have decided. The caller holds mu.
func (b *breaker) decide(p *phase, now int64) {
	s, r := p.probes, p.rule
	switch enough := r.enough(); {
	case s.bad >= enough:
		g := grounds{s.bad, s.good + s.bad, " probes failed"}
		if s.timedOut > 0 {
			g.detail += fmt.Sprintf(", %d of them without an end in %s", s.timedOut, field.ShortDuration(r.probeTimeout()))
		}
		b.open(p, now, g)
	case s.good > r.Probes-enough:
		reason := grounds{s.good, s.good + s.bad, " probes succeeded"}.String()
		b.close(p, now, reason)
	}
}

// probe asks for a place among the probes of a call that begins at now. It is not decided if
// the breaker is neither half-open nor to be.
func (b *breaker) probe(now int64) (p *phase, admitted, decided bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = b.settle(now)
	if p.state == open && now >= p.until {
		next := b.enter(halfOpen, p.rule, now, p.row)
		reason := field.ShortDuration(time.Duration(now-p.entered).Round(time.Millisecond)) + " after it has opened"
		if p.until == atOnce {
			reason = "not forced open any more"
		}
		b.change(next, now, reason)
		p = next
	}
	if p.state != halfOpen {
		return p, false, false
	}
	if now < p.since || p.isFull() {
		return p, false, true
	}
	p.probes.add(now)
	return p, true, true
}

// moveProbe is move for a probe. The place and the time of a probe that pauses stay as they are, so that it cannot keep
// the breaker half-open. moveProbe reports false if the breaker is not half-open.
func (b *breaker) moveProbe(start, to int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.phase.Load()
	switch s := p.probes; {
	case p.state != halfOpen:
		return false
	case to == pausing:
		if _, found := slices.BinarySearch(s.undecided, start); found {
			s.paused = append(s.paused, start)
		}
	case s.unpause(start) && s.remove(start):
		s.add(to)
	default:
		s.latest = max(s.latest, to)
	}
	return true
}

// unpause reports whether a probe that began at start pauses, and ends its pause.
func (s *probes) unpause(start int64) bool {
	i := slices.Index(s.paused, start)
	if i >= 0 {
		s.paused = slices.Delete(s.paused, i, i+1)
	}
	return i >= 0
}

// endProbe decides on a probe that began at start. It reports false if the breaker is not
// half-open any more.
func (b *breaker) endProbe(now, start int64, end probeEnd) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.settle(now)
	if p.state != halfOpen {
		return false
	}
	if start < p.since || !p.probes.remove(start) {
		return true
	}
	switch end {
	case good:
		p.probes.good++
	case bad:
		p.probes.bad++
	case undecided:
	}
	b.decide(p, now)
	return true
}

// probeEnd is what the end of a probe says.
type probeEnd uint8

const (
	undecided probeEnd = iota // nothing: its place is free again
	good
	bad
)
