package whatif

import (
	"context"
	"errors"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/system"
)

// lane is a gate on a time of its own, through which the requests go. Everything happens in
// the order of that time, one thing after the other.
type lane struct {
	trial   *trial
	tables  *tables
	retries int
	now     int64
	gate    *leapgate.Gate
	shadows map[int]*leapgate.Gate // by rule
	limits  []*limit.RateLimiter
	byRes   []*place // by the number of the resource
	events  events
	planned uint64 // how many events there were
	idle    []*call
	walkers walkers
	err     error

	blocked []int64 // for good, by rule
	// Requests that were refused for good, and those that only rules in mode shadow would have.
	refused, wouldRefuse int64

	tally     *tally // nil if nobody wants the details
	onDecided func(c *call)
}

// place is a resource in a lane.
type place struct {
	resource *resource.Resource // nil: no rule binds it, nor reads what it passes
	rules    []int              // that bind it
	args     bool               // some of them may want an argument
	shadows  []shadow
}

type shadow struct {
	rule     int
	resource *resource.Resource
}

// call is a request on its way.
type call struct {
	request
	came      int64 // this try
	tries     int
	refusedBy int // a rule; or admitted
	retry     time.Duration
	turn      uint32
	state     state
	waited    time.Duration
	walker    *walker
	entry     resource.Entry
	shadows   []resource.Entry
	would     []int // the rules in mode shadow that would have refused it
	charged   []limit.Decision
}

const admitted = -1

type state uint8

const (
	comes   state = iota // for the first time, or again
	waits                // for its turn
	running              // until it ends
)

func newLane(t *trial, all *tables, retries int) (*lane, error) {
	l := &lane{trial: t, tables: all, retries: retries, shadows: make(map[int]*leapgate.Gate), blocked: make([]int64, len(t.all))}
	clock := func() int64 { return l.now }
	cfg := leapgate.Config{Now: clock, MaxResources: maxResources + 1}
	var err error
	if l.gate, err = openGate(cfg, t.enforced); err != nil {
		return nil, err
	}
	cfg.Sleep = atOnce
	for i := range t.all {
		r := &t.all[i]
		switch {
		case r.shadow != nil:
			if l.shadows[i], err = openGate(cfg, *r.shadow); err != nil {
				return nil, err
			}
		case i < t.limits:
			cfg := r.limit
			cfg.Now = clock
			limiter, err := newLimiter(cfg, r.plans)
			if err != nil {
				return nil, err
			}
			l.limits = append(l.limits, limiter)
		}
	}
	return l, nil
}

func openGate(cfg leapgate.Config, rules leapgate.Rules) (*leapgate.Gate, error) {
	gate, err := leapgate.New(cfg)
	if err == nil {
		err = gate.LoadRules(rules)
	}
	return gate, err
}

// atOnce is how calls wait that a rule in mode shadow lets in: its turn counts, and nobody waits.
func atOnce(context.Context, time.Duration) error { return nil }

var background = context.Background()

// plan lets something happen to a call.
func (l *lane) plan(c *call, at int64, s state) {
	order := l.planned
	l.planned++
	switch s {
	case comes:
		order |= arriving
	case waits:
		order |= patient
	case running:
	}
	c.state = s
	c.turn++
	l.events.push(event{at: at, order: order, call: c, turn: c.turn})
}

// later lets a request come at a time that others may come before.
func (l *lane) later(r *request, at int64) { l.plan(l.newCall(r), at, comes) }

// run lets everything happen that is planned before a time, and what ends at that time.
func (l *lane) run(until int64) {
	limit := event{at: until, order: arriving}
	for len(l.events) > 0 && l.events[0].before(&limit) {
		e := l.events.pop()
		c := e.call
		if c.turn != e.turn {
			continue
		}
		l.now = max(l.now, e.at)
		switch c.state {
		case comes:
			l.begin(c)
		case waits:
			l.walkers.resume(c.walker)
		case running:
			l.exit(c)
		}
		l.walkers.settle()
	}
}

// arrive lets a request come at a time, which is not before that of the last.
func (l *lane) arrive(r *request, at int64) {
	l.run(at)
	l.now = max(l.now, at)
	l.begin(l.newCall(r))
	l.walkers.settle()
}

func (l *lane) newCall(r *request) *call {
	if last := len(l.idle) - 1; last >= 0 {
		c := l.idle[last]
		l.idle = l.idle[:last]
		c.request = *r
		return c
	}
	return &call{request: *r}
}

func (l *lane) begin(c *call) {
	c.came, c.refusedBy, c.retry, c.waited, c.state = l.now, admitted, 0, 0, comes
	if l.tally != nil && c.tries == 0 {
		l.tally.comes(l.now, &c.request, l.place(c.resource))
	}
	switch {
	case !l.charge(c):
		l.decided(c)
	case l.trial.waits:
		l.walkers.begin(l, c)
	default:
		l.entered(c, l.enter(background, c))
	}
}

// charge asks the limits.
func (l *lane) charge(c *call) bool {
	for i, limiter := range l.limits {
		d, err := limiter.AllowN(background, l.keyOf(c), c.cost)
		switch {
		case err != nil:
			l.fail(err)
			return true
		case !d.Allowed:
			c.refusedBy, c.retry = i, d.RetryAfter
			l.refund(c)
			return false
		case d.WouldRefuse:
			c.would = append(c.would, i)
		}
		c.charged = append(c.charged, d)
	}
	return true
}

// keyOf is the key for limits. Calls without one share one, as in leaphttp.
func (l *lane) keyOf(c *call) string {
	if c.key == noKey {
		return charging.UnknownKey
	}
	return l.tables.keys.text(c.key)
}

// fail notes an error that should not be: what is asked is bounded before.
func (l *lane) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *lane) refund(c *call) {
	for i, d := range c.charged {
		if d.Charged > 0 {
			_ = l.limits[i].Refund(background, l.keyOf(c), d, d.Charged)
		}
	}
}

// enter asks the rules, which may take its time.
func (l *lane) enter(ctx context.Context, c *call) error {
	p := l.place(c.resource)
	if p.resource == nil {
		return nil
	}
	opts, n := l.options(c, p)
	var err error
	c.entry, err = p.resource.EntryContext(ctx, opts[:n]...)
	return err
}

func (l *lane) options(c *call, p *place) (opts [2]leapgate.EntryOption, n int) {
	if p.args && c.key != noKey {
		opts[n] = leapgate.WithArg(l.trial.arg, l.tables.keys.text(c.key))
		n++
	}
	if c.cost != 1 {
		opts[n] = leapgate.WithCount(c.cost)
		n++
	}
	return opts, n
}

// entered goes on when the rules have answered.
func (l *lane) entered(c *call, err error) {
	c.waited = time.Duration(l.now - c.came)
	var blocked *leapgate.BlockError
	switch {
	case err == nil:
	case errors.As(err, &blocked):
		c.refusedBy, c.retry = l.trial.byID[name{blocked.Kind, blocked.RuleID}], blocked.RetryAfter
		if blocked.Kind == system.Kind.Name { // it is random
			c.retry = 0
		}
		l.refund(c)
		l.decided(c)
		return
	default:
		l.fail(err)
	}
	p := l.place(c.resource)
	if len(p.shadows) > 0 {
		l.ask(p, c)
	}
	l.decided(c)
	if c.duration == 0 {
		l.exit(c)
		return
	}
	l.plan(c, l.now+c.duration, running)
}

// ask asks the rules in mode shadow.
func (l *lane) ask(p *place, c *call) {
	opts, n := l.options(c, p)
	for _, s := range p.shadows {
		var err error
		c.shadows = append(c.shadows, resource.Entry{})
		last := len(c.shadows) - 1
		if c.shadows[last], err = s.resource.EntryContext(background, opts[:n]...); err != nil {
			c.would = append(c.would, s.rule)
			c.shadows = c.shadows[:last]
		}
	}
}

// decided counts what became of a try, and lets the request come again.
func (l *lane) decided(c *call) {
	if c.refusedBy != admitted { // for rules in mode shadow there are only those that the others admit
		c.would = c.would[:0]
	}
	again := c.refusedBy != admitted && c.tries < l.retries
	if !again {
		switch {
		case c.refusedBy != admitted:
			l.blocked[c.refusedBy]++
			l.refused++
		case len(c.would) > 0:
			l.wouldRefuse++
		}
		for _, r := range c.would {
			l.blocked[r]++
		}
	}
	if l.tally != nil {
		l.tally.decided(l.now, c, l.place(c.resource), !again)
	}
	if !again && l.onDecided != nil {
		l.onDecided(c)
	}
	c.would, c.charged = c.would[:0], c.charged[:0]
	switch {
	case again:
		wait := max(c.retry, time.Second<<min(c.tries, 20))
		c.tries++
		l.plan(c, l.now+int64(min(wait, longestRetry)), comes)
	case c.refusedBy != admitted:
		l.release(c)
	}
}

// longestRetry is how long a request waits at most until it comes again.
const longestRetry = 24 * time.Hour

// exit ends a call.
func (l *lane) exit(c *call) {
	outcome := resource.Success
	switch {
	case c.refused:
		outcome = resource.Ignored // it says nothing of what would have been
	case c.status >= 500:
		outcome = resource.Failure
	}
	c.entry.SetOutcome(outcome)
	c.entry.Exit()
	for i := range c.shadows {
		c.shadows[i].SetOutcome(outcome)
		c.shadows[i].Exit()
	}
	l.release(c)
}

func (l *lane) release(c *call) {
	c.shadows, c.tries = c.shadows[:0], 0
	l.idle = append(l.idle, c)
}

// place returns what a lane has for a resource.
func (l *lane) place(number uint32) *place {
	if int(number) < len(l.byRes) && l.byRes[number] != nil {
		return l.byRes[number]
	}
	l.byRes = grown(l.byRes, number)
	name := l.tables.resources.text(number)
	p := &place{rules: l.trial.binding(name)}
	if len(p.rules) > 0 || l.trial.reads[name] {
		p.resource = l.gate.Resource(name)
	}
	for _, r := range p.rules {
		p.args = p.args || l.trial.all[r].takesArgs
		if gate := l.shadows[r]; gate != nil {
			p.shadows = append(p.shadows, shadow{r, gate.Resource(name)})
		}
	}
	l.byRes[number] = p
	return p
}

// finish lets everything end, and leaves nothing behind.
func (l *lane) finish() {
	l.run(maxTime)
	l.close()
}

// maxTime is after all times.
const maxTime = 1<<63 - 1

func (l *lane) close() {
	l.walkers.stop()
	for _, limiter := range l.limits {
		_ = limiter.Close()
	}
	_ = l.gate.Close()
}
