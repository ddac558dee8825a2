package system

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/places"
	"github.com/leapgate-go/leapgate/internal/quota"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// The states of a rule.
const (
	calm     = "calm"     // it refuses nothing
	full     = "full"     // MaxInFlight or MaxQPS have refused calls lately
	limiting = "limiting" // it has found a limit, and has refused calls lately, or a signal is above its bound
	unknown  = "unknown"  // a signal is above its bound, and no limit on it is known
	refusing = "refusing" // it refuses everything
)

// unlimited is more than ever are in flight.
const unlimited = math.MaxInt64 / 4

// state is what all resources that a rule binds share, whatever is changed of the rule.
type state struct {
	phase   atomic.Pointer[phase] // written under mu
	due     atomic.Int64          // when to look next; written under mu
	_       [64 - 16]byte         // what calls write is on lines of its own
	places  places.Places
	_       [64]byte
	quota   atomic.Pointer[quota.Quota] // of MaxQPS; made when the rule first has it
	ended   ended
	demand  demand
	shown   *resource.State
	signals func() *stat.Signals // nil: nothing is known

	lastRefusal atomic.Int64 // but those of a phase that is closed

	mu         sync.Mutex // guards what is below
	rule       *Rule      // complete
	bounds     []bound
	history    history
	latency    latency
	finder     finder
	looked     int64  // at what time it was looked last
	seq        uint64 // of the last sample of the signals
	sampled    int64  // refused by the last sample
	excess     excess
	lastExcess int64  // when a signal was above its bound
	lastText   string // which, and by how much
}

// phase is how calls are decided until something changes. It does not change.
type phase struct {
	calm   bool
	closed bool  // nothing passes
	limit  int64 // of calls in flight
	qps    int64 // 0: no bound
	began  int64
	shares bool         // calls are blocked, so room is kept for critical ones
	leaves [ranks]int64 // of limit, what is kept for more critical calls
	admits [ranks]int64 // of qps, what calls may use besides the more critical ones since this phase began
	keeps  bool         // response times are wanted

	excess string // the signal that is above its bound, if any
}

// never is before all times.
const never = math.MinInt64 / 2

// share takes over the state of the rule before, or makes one.
func share(env *ruleset.Env, r *Rule, old any) any {
	s, had := old.(*state)
	if !had {
		s = &state{
			shown: resource.NewState(calm, full, limiting, unknown, refusing), signals: env.Load,
			lastExcess: never,
		}
		s.due.Store(math.MaxInt64)
		s.lastRefusal.Store(never)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rule, s.bounds = r, boundsOf(r)
	if r.MaxQPS > 0 && s.quota.Load() == nil {
		q, err := quota.New(time.Second, buckets, false)
		if err != nil {
			panic(err) // both are constants
		}
		s.quota.Store(q)
	}
	if len(s.bounds) == 0 || r.Strategy == Refuse {
		s.finder = finder{}
	}
	now := env.Time()
	s.due.Store(min(now, s.due.Load())) // the next call looks
	s.looked = never
	p := phase{calm: true}
	if before := s.phase.Load(); before != nil {
		p = *before
	}
	s.bound(&p)
	s.phase.Store(&p)
	return s
}

// bound sets what the rule bounds, and what the finder has found. The caller holds mu.
func (s *state) bound(p *phase) {
	p.limit, p.qps, p.keeps = unlimited, s.rule.MaxQPS, len(s.bounds) > 0
	if s.rule.MaxInFlight > 0 {
		p.limit = s.rule.MaxInFlight
	}
	switch {
	case p.closed:
		p.limit = 0
	case s.finder.active():
		p.limit = min(p.limit, s.finder.limit())
	}
	p.leaves = [ranks]int64{}
	for i := range p.admits {
		p.admits[i] = p.qps
	}
}

// look looks at what has happened, at now, if it is due and nobody else does. The signals are read
// before the lock is taken, for that may be code of the program.
func (s *state) look(now int64) {
	due := s.due.Load()
	if now < due || !s.due.CompareAndSwap(due, nextTurn(now)) {
		return
	}
	signals := &nothing
	if s.signals != nil && s.phase.Load().keeps {
		signals = s.signals()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.looked { // reading them took long, and others have looked since
		return
	}
	s.sample(now, signals)
	s.turn(now)
}

// turn begins the next phase. The caller holds mu.
func (s *state) turn(now int64) {
	s.due.Store(nextTurn(now))
	s.looked = now
	old := s.phase.Load()
	var p phase
	name, reason := s.judge(now, old)
	p.calm, p.closed = name == calm, name == refusing
	s.bound(&p)
	switch {
	case p.calm:
	case p.closed:
		p.excess = s.lastText
	default:
		if s.finder.active() {
			p.excess = s.lastText
		}
		p.shares = true
		s.share(now, old, &p)
	}
	if p != *old {
		next := p // so that p is not on the heap if nothing has changed
		s.phase.Store(&next)
	}
	s.shown.Set(now, name, reason)
}

// share sets what is kept for more critical calls. The caller holds mu.
func (s *state) share(now int64, old, p *phase) {
	if !old.shares {
		s.demand.reset(now)
	}
	s.demand.turn(now)
	s.demand.permits(p.limit, &p.leaves)
	if p.qps > 0 {
		p.began = now
		s.demand.windows(now, p.qps, s.quota.Load(), &p.admits)
	}
}

// nextTurn returns the start of the bucket of MaxQPS after that of now.
func nextTurn(now int64) int64 { return now - now%int64(every) + int64(every) }

// sample takes what there is of new samples. The caller holds mu.
func (s *state) sample(now int64, signals *stat.Signals) {
	if len(s.bounds) == 0 {
		s.excess = excess{}
		return
	}
	ended := s.ended.word.Load()
	s.history.turn(now, ended)
	isNew := s.latency.turn(now, ended) && s.rule.MaxRT > 0
	isNew = isNew || signals.Seq != s.seq
	s.seq = signals.Seq
	rt := s.latency.signal(now)
	s.excess = worst(s.bounds, signals, rt)
	if s.excess.ratio > 0 {
		s.lastExcess, s.lastText = now, s.excess.text
	}
	if isNew {
		refused := s.demand.blocked.Load()
		if s.finder.active() && s.rule.Mode != rule.Shadow {
			hang := s.rule.MaxRT > 0 && !rt.Known // calls come, since some are refused, and none ends
			s.finder.sample(s.excess, refused > s.sampled && !hang, s.rule.maxInFlight())
		}
		s.sampled = refused
	}
	// Without samples the limit would stay where it is for good. How long calls take is the
	// rule's own to know: when it does not, it is because they hang.
	if s.finder.active() && s.rule.MaxRT == 0 && !anyKnown(s.bounds, signals) {
		s.finder = finder{}
		s.lastRefusal.Store(never)
	}
}

// nothing is known.
var nothing stat.Signals

// judge returns the state that the rule is in at now, and why. The caller holds mu.
func (s *state) judge(now int64, old *phase) (name, reason string) {
	coolOff := int64(s.rule.coolOff())
	high := s.excess.ratio > 0
	if s.rule.Strategy == Refuse && s.rule.hasSignal() && now-s.lastExcess < coolOff {
		return refusing, s.lastText
	}
	if s.rule.Strategy == Limit && high && !s.finder.active() {
		if rate, rt, known := s.history.estimate(now); known {
			s.finder.begin(rate, rt, s.rule.maxInFlight())
			s.lastRefusal.Store(now) // it has its time
			return limiting, fmt.Sprintf("%s: at most %d in flight, %g × %.0f a second × %s",
				s.excess.text, s.finder.limit(), above, rate, span2(rt))
		}
	}
	recent := now-s.lastRefusal.Load() < coolOff
	switch {
	case s.finder.active() && (recent || high):
		return limiting, ""
	case high:
		return unknown, fmt.Sprintf("%s: fewer than %d calls a second succeed, so no limit is known", s.excess.text, minCalls)
	case recent:
		return full, s.fullness(now, old)
	}
	s.finder = finder{}
	switch {
	case s.shown.Current() == calm:
		return calm, ""
	case old.closed:
		return calm, "no signal above its bound for " + field.ShortDuration(s.rule.coolOff())
	case s.lastRefusal.Load() == never:
		return calm, "no signal is known to be above its bound"
	}
	return calm, "nothing refused for " + field.ShortDuration(s.rule.coolOff())
}

// fullness says why calls are refused without a signal above its bound.
func (s *state) fullness(now int64, p *phase) string {
	var all []string
	if p.limit < unlimited {
		all = append(all, fmt.Sprintf("%d of %d in flight", s.places.Taken(), p.limit))
	}
	if p.qps > 0 {
		all = append(all, fmt.Sprintf("%d of %d in 1s", s.quota.Load().Window(now), p.qps))
	}
	return strings.Join(all, ", ")
}

// refuse notes that n calls were blocked.
func (s *state) refuse(now, n int64, p *phase) {
	s.demand.blocked.Add(n)
	if !p.closed && s.lastRefusal.Load() < now {
		s.lastRefusal.Store(now) // one of several calls of a moment is enough
	}
	if p.calm {
		s.stir(now)
	}
}

// stir ends the calm, after a refusal.
//
//go:noinline
func (s *state) stir(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.Load().calm {
		s.turn(now)
	}
}

// latency is the mean response time of the calls that succeeded lately.
type latency struct {
	began, mark int64
	known       int64   // since when the mean is known; 0 if it never was
	mean        float64 // in seconds
}

const (
	latencyEvery = int64(250 * time.Millisecond)
	latencyCalls = 10
)

// turn takes a new mean, if there are enough calls for one, and reports whether it has.
func (l *latency) turn(now, ended int64) bool {
	n, seconds := since(ended, l.mark)
	took := now - l.began
	if took < latencyEvery || n < latencyCalls && took < second {
		return false
	}
	if n > 0 {
		l.mean, l.known = seconds/float64(n), now
	}
	l.began, l.mark = now, ended
	return n > 0
}

// signal is the mean, while it is not older than a second.
func (l *latency) signal(now int64) stat.Signal {
	if l.known == 0 || now-l.known > second {
		return stat.Signal{}
	}
	return stat.Signal{Value: l.mean, Raw: l.mean, Known: true}
}
