package whatif

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

const (
	maxResources = 10_000     // besides those that rules name; the others are counted as one
	maxKeys      = 10_000_000 // the others are counted as one
	maxCost      = 1 << 20
	maxSameTime  = 1_000_000 // requests that the log has at one time
	maxWaiting   = 20_000    // calls; each takes 22 KB
	others       = "(more)"
)

// simulator sends requests through a gate on a simulated clock. It is a discrete-event simulation: everything happens
// in the order of its time, one thing after the other.
type simulator struct {
	trial     *trial
	tally     *tally
	now       int64
	gate      *leapgate.Gate
	limiters  []*limit.RateLimiter
	places    map[string]*place
	resources int // places that no rule names
	events    agenda
	planned   uint64 // events so far
	free      []*call
	processes []*process // at most maxWaiting
	idle      []*process
	ready     []*process // woken
	err       error
	onDecided func(c *call) // may be nil

	maxWaiting int
}

// place is a resource.
type place struct {
	name     string
	resource *resource.Resource // nil if no rule binds or reads it
	args     bool               // some rule takes arguments
	requests int64
	bounds   []*bound // the limits, then the rules that bind the resource
}

// call is a request during the simulation.
type call struct {
	at        int64 // of its next event
	order     uint64
	index     int // in the agenda
	state     state
	place     *place
	key       uint32
	cost      int64
	duration  int64
	number    int64 // in the log
	status    int
	refused   bool
	arrived   int64
	blockedBy int // a rule, or admitted
	waited    time.Duration
	process   *process
	entry     resource.Entry
	charged   []limit.Decision
}

const (
	admitted = -1
	noKey    = 0 // the number of the empty key
)

type state uint8

// Of events at the same time, calls end first, then waits end, and then calls arrive.
const (
	running state = iota
	waiting
	arriving
)

// agenda is a heap of calls by the time of their next event.
type agenda []*call

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

func (a *agenda) Push(c any) {
	c.(*call).index = len(*a)
	*a = append(*a, c.(*call))
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	c := (*a)[last]
	(*a)[last], *a = nil, (*a)[:last]
	return c
}

// simulate sends the requests of a source through the rules of cfg. Rules in mode shadow get the mode shadow.
func simulate(ctx context.Context, cfg *Config, shadow rule.Mode, source Source, onDecided func(*call)) (*simulator, error) {
	t, err := newTrial(cfg, shadow)
	if err := errors.Join(cfg.check(), err); err != nil {
		return nil, err
	}
	s := &simulator{trial: t, tally: newTally(t, cfg.curves(t)), places: make(map[string]*place), onDecided: onDecided}
	defer s.close()
	clock := func() int64 { return s.now }
	if s.gate, err = openGate(leapgate.Config{Now: clock, MaxResources: maxResources + 2}, t.rules); err != nil {
		return nil, err
	}
	for i := range t.limits {
		limiterConfig := t.all[i].limit
		limiterConfig.Now = clock
		l, err := newLimiter(limiterConfig, t.all[i].plans)
		if err != nil {
			return nil, err
		}
		s.limiters = append(s.limiters, l)
	}
	for _, name := range t.named() {
		s.places[name] = nil
	}
	s.maxWaiting = cmp.Or(cfg.maxWaiting, maxWaiting)
	if err := s.read(ctx, cfg, source); err != nil {
		return nil, err
	}
	return s, s.err
}

func openGate(cfg leapgate.Config, rules leapgate.Rules) (*leapgate.Gate, error) {
	gate, err := leapgate.New(cfg)
	if err == nil {
		err = gate.LoadRules(rules)
	}
	return gate, err
}

// read simulates all requests of a source.
func (s *simulator) read(ctx context.Context, cfg *Config, source Source) error {
	step, maxSame := int64(cfg.Resolution), cmp.Or(cfg.maxSameTime, maxSameTime)
	var same []*call // the calls with the time of the last
	stamp, number := int64(0), int64(0)
	rng := rand.New(rand.NewPCG(1, 0)) // reports are reproducible
	// start schedules these calls, and simulates all that happens before the next time in the log.
	start := func(next int64) {
		if step > 0 { // some logs are sorted by client
			rng.Shuffle(len(same), func(i, j int) { same[i], same[j] = same[j], same[i] })
		}
		for i, c := range same {
			s.schedule(c, stamp+int64(float64(step)*float64(i)/float64(len(same))), arriving)
		}
		same = same[:0]
		s.run(next)
	}
	for r, err := range source {
		if err == nil && number%4096 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		c, err := s.newCall(&r)
		switch at := r.At.UnixNano(); {
		case err != nil:
			return err
		case at < stamp:
			return fmt.Errorf("whatif: a request at %v comes after one at %v; want them in order", r.At, time.Unix(0, stamp).UTC())
		case at > stamp:
			start(at)
			stamp = at
		case len(same) == maxSame:
			return fmt.Errorf("whatif: more than %d requests have the time %v", maxSame, r.At)
		}
		if s.err != nil {
			return s.err
		}
		if number == 0 {
			s.tally.first = stamp
		}
		s.tally.last = stamp
		c.number = number
		number++
		same = append(same, c)
	}
	start(math.MaxInt64)
	return ctx.Err()
}

// newCall returns the call of a request.
func (s *simulator) newCall(r *Request) (*call, error) {
	at := r.At.UnixNano()
	switch {
	case at < 0 || !time.Unix(0, at).Equal(r.At):
		return nil, fmt.Errorf("whatif: a request at %v; want a time from 1970 to 2262", r.At)
	case r.Resource == "":
		return nil, fmt.Errorf("whatif: a request at %v of %s has no resource", r.At, escape.Quoted(r.Key))
	case r.Duration < 0 || r.Cost < 0:
		return nil, fmt.Errorf("whatif: a request at %v has the duration %v and the cost %d; want 0 or more", r.At, r.Duration, r.Cost)
	}
	c := new(call)
	if last := len(s.free) - 1; last >= 0 {
		c, s.free = s.free[last], s.free[:last]
	}
	*c = call{
		place: s.placeOf(r.Resource), key: s.tally.keys.number(r.Key), cost: min(max(1, r.Cost), maxCost), duration: int64(r.Duration),
		status: r.Status, refused: r.Refused || r.Status == http.StatusTooManyRequests, blockedBy: admitted, charged: c.charged[:0],
	}
	if r.Cost > maxCost {
		s.tally.clipped++
	}
	return c, nil
}

// placeOf returns the place of a resource.
func (s *simulator) placeOf(name string) *place {
	if len(name) > rule.MaxNameLength {
		name = others
	}
	p, ok := s.places[name]
	if p != nil {
		return p
	}
	if !ok {
		if s.resources >= maxResources && name != others {
			s.tally.manyResources = true
			return s.placeOf(others)
		}
		s.resources++
	}
	p = &place{name: name}
	rules := s.rulesOn(name)
	if len(rules) > 0 || s.trial.reads[name] {
		p.resource = s.gate.Resource(name)
	}
	for i := range s.trial.limits {
		p.bounds = append(p.bounds, s.tally.rules[i].bounds[0])
	}
	for _, i := range rules {
		p.args = p.args || s.trial.all[i].takesArgs
		p.bounds = append(p.bounds, s.tally.rules[i].newBound())
	}
	s.places[name] = p
	s.tally.places = append(s.tally.places, p)
	return p
}

// rulesOn returns the rules that bind a resource, in the order in which they are checked.
func (s *simulator) rulesOn(resource string) (all []int) {
	for _, r := range s.gate.Resource(resource).Snapshot().Rules {
		all = append(all, s.trial.byID[name{r.Kind, r.ID}])
	}
	return all
}

// schedule plans the next event of a call.
func (s *simulator) schedule(c *call, at int64, next state) {
	c.at, c.state, c.order = at, next, uint64(next)<<62|s.planned
	s.planned++
	heap.Push(&s.events, c)
}

// run simulates what happens before a time, and the ends of calls and waits at that time.
func (s *simulator) run(until int64) {
	for len(s.events) > 0 && s.err == nil {
		c := s.events[0]
		if c.at > until || c.at == until && c.state == arriving {
			break
		}
		heap.Pop(&s.events)
		s.now = max(s.now, c.at)
		switch c.state {
		case arriving:
			s.begin(c)
		case waiting:
			c.process.resume()
		case running:
			s.exit(c)
		}
		for len(s.ready) > 0 {
			p := s.ready[0]
			s.ready = s.ready[1:]
			if p.waiting && p.woken {
				heap.Remove(&s.events, p.call.index)
				p.resume()
			}
		}
	}
}

func (s *simulator) begin(c *call) {
	c.arrived = s.now
	s.tally.arrives(s.now, c)
	switch {
	case !s.charge(c):
		s.decided(c)
	case !s.trial.waits:
		s.entered(c, s.enter(context.Background(), c))
	default:
		s.process(c)
	}
}

// process enters the gate for a call that may have to wait.
func (s *simulator) process(c *call) {
	if len(s.idle) == 0 {
		if len(s.processes) == s.maxWaiting {
			s.fail(fmt.Errorf("whatif: more than %d calls wait at %v; shorten the maxWait of the rules", s.maxWaiting, time.Unix(0, s.now).UTC()))
			return
		}
		p := newProcess(s)
		s.processes, s.idle = append(s.processes, p), append(s.idle, p)
	}
	last := len(s.idle) - 1
	p := s.idle[last]
	s.idle = s.idle[:last]
	p.call, c.process = c, p
	p.resume()
}

// charge asks the limiters, and reports whether all of them admit the call.
func (s *simulator) charge(c *call) bool {
	for i, limiter := range s.limiters {
		d, err := limiter.AllowN(context.Background(), s.keyOf(c), c.cost)
		if err != nil {
			s.fail(err)
			return true
		}
		if !d.Allowed {
			c.blockedBy = i
			s.refund(c)
			return false
		}
		c.charged = append(c.charged, d)
	}
	return true
}

// keyOf returns the key for limits. Calls without a key share one, as in leaphttp.
func (s *simulator) keyOf(c *call) string {
	if c.key == noKey {
		return charging.UnknownKey
	}
	return s.tally.keys.all[c.key]
}

// fail stores the first error.
func (s *simulator) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *simulator) refund(c *call) {
	for i, d := range c.charged {
		if d.Charged > 0 {
			_ = s.limiters[i].Refund(context.Background(), s.keyOf(c), d, d.Charged)
		}
	}
}

// enter asks the rules. It may wait.
func (s *simulator) enter(ctx context.Context, c *call) (err error) {
	if c.place.resource == nil {
		return nil
	}
	var opts [2]leapgate.EntryOption
	n := 0
	if c.place.args && c.key != noKey {
		opts[n] = leapgate.WithArg(s.trial.arg, s.tally.keys.all[c.key])
		n++
	}
	if c.cost != 1 {
		opts[n] = leapgate.WithCount(c.cost)
		n++
	}
	c.entry, err = c.place.resource.EntryContext(ctx, opts[:n]...)
	return err
}

// entered continues after the rules have decided.
func (s *simulator) entered(c *call, err error) {
	c.waited = time.Duration(s.now - c.arrived)
	var blocked *leapgate.BlockError
	switch {
	case errors.As(err, &blocked):
		c.blockedBy = s.trial.byID[name{blocked.Kind, blocked.RuleID}]
		s.refund(c)
		s.decided(c)
		return
	case err != nil:
		s.fail(err)
	}
	if s.decided(c); c.duration == 0 {
		s.exit(c)
		return
	}
	s.schedule(c, s.now+c.duration, running)
}

// decided counts the decision about a call.
func (s *simulator) decided(c *call) {
	s.tally.decided(s.now, c)
	if s.onDecided != nil {
		s.onDecided(c)
	}
	if c.blockedBy != admitted {
		s.free = append(s.free, c)
	}
}

// exit ends a call.
func (s *simulator) exit(c *call) {
	outcome := resource.Success
	switch {
	case c.refused:
		outcome = resource.Ignored // it would have had another result
	case c.status >= 500:
		outcome = resource.Failure
	}
	c.entry.SetOutcome(outcome)
	c.entry.Exit()
	s.free = append(s.free, c)
}

func (s *simulator) close() {
	for _, p := range s.processes {
		p.stopped = true
		p.stop()
	}
	for _, limiter := range s.limiters {
		_ = limiter.Close()
	}
	if s.gate != nil {
		_ = s.gate.Close()
	}
}
