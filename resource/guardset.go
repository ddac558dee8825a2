package resource

import (
	"cmp"
	"iter"
	"slices"
	"time"
	"unsafe"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/internal/stats"
	"github.com/leapgate-go/leapgate/internal/tracing"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// guardSet is what a call into a resource needs: where it is counted, and which checks are
// asked. It does not change; loading rules replaces it, and the entries in flight keep
// theirs. It is one cache line: all that is read of an entry
// with no rule or a single one. What is seldom needed is in its checks.
type guardSet struct {
	registry *registry
	metric   *meter.Meter // nil: the resource has no place in the registry
	stat     *stats.Stats // the metric's
	*checks               // nil: nobody is to be asked
	only     Check        // the one of enforce, if there is no more to an entry than to ask it; or nil
	state    *State       // of only, if it has one
	told     bool         // some checks are told of the exit, or may have changes to deliver then
	_        [lineSize - 7*unsafe.Sizeof(uintptr(0)) - 4]byte
}

const lineSize = 64

// checks are those of one resource, sorted by what they do.
type checks struct {
	finish   []Finisher
	stateful []*Cause      // of those that have a state
	finishIf []Finisher    // the first of shadow; which of them, the entry knows
	enforce  []asked       // those that block, in the order in which they are asked
	shadow   []asked       // those that would; asked when all of enforce admitted
	look     []Looker      // those of enforce that may refuse before any is asked
	bound    []Check       // of all guards, one after the other, as they returned them
	owners   []owner       // of each of them
	longest  time.Duration // how far back any of them remembers

	// Most resources with rules have one. Its lists lie here: loading many rules costs
	// mostly what is allocated.
	lone struct {
		bound   [1]Check
		owners  [1]owner
		enforce [1]asked
	}
}

// owner is whose a check is.
type owner struct {
	guard  int   // its index in the registry
	serial int64 // the same as long as the rule keeps its counts on the resource
}

// maxShadowFinishers is how many checks in mode shadow a resource can have that want
// to know when calls end: an entry has a bit for each.
const maxShadowFinishers = 16

// newGuardSet makes the set of a resource that appears.
func newGuardSet(registry *registry, checks *checks) *guardSet {
	s := stats.New()
	return (&guardSet{registry: registry, metric: s.Meter(), stat: s}).with(checks)
}

// with returns the set of the same resource when other rules are loaded.
func (set *guardSet) with(checks *checks) *guardSet {
	next := &guardSet{registry: set.registry, metric: set.metric, stat: set.stat, checks: checks}
	if checks != nil {
		next.only, next.told = checks.only(), checks.finish != nil || checks.stateful != nil
		if next.only != nil {
			next.state = next.only.Cause().State
		}
	}
	return next
}

// newChecks makes a list of checks that is empty.
func newChecks() *checks {
	s := new(checks)
	s.bound, s.owners, s.enforce = s.lone.bound[:0], s.lone.owners[:0], s.lone.enforce[:0]
	return s
}

// add adds the checks of a guard. old are those that the resource had, nil if it had none.
func (s *checks) add(guard int, some []Check, old *checks, last *atomic.Int64) {
	for _, c := range some {
		serial := s.continued(c, old)
		if serial == 0 {
			serial = last.Add(1)
		}
		s.bound = append(s.bound, c)
		s.owners = append(s.owners, owner{guard, serial})
	}
}

// arrange sorts the checks that were added by what they do.
func (s *checks) arrange() {
	var enforce, shadow []Check
	for _, c := range s.bound {
		s.longest = max(s.longest, c.Interval())
		if cause := c.Cause(); cause.State != nil {
			s.stateful = append(s.stateful, cause)
		}
		switch c.Mode() {
		case rule.Enforce:
			enforce = append(enforce, c)
		case rule.Shadow:
			shadow = append(shadow, c)
		case rule.Off:
		}
	}
	s.setEnforce(enforce)
	s.setShadow(shadow)
}

// only returns the one of enforce if there is no more to an entry than to ask it, or nil.
func (s *checks) only() Check {
	if len(s.enforce) != 1 || s.shadow != nil || s.enforce[0].args != nil {
		return nil
	}
	c := s.enforce[0].Check
	if slices.ContainsFunc(s.stateful, func(other *Cause) bool { return other != c.Cause() }) {
		return nil // one that is off may have changes to deliver, too
	}
	return c
}

// setEnforce sets those that block.
func (s *checks) setEnforce(checks []Check) {
	byStage(checks)
	for _, c := range checks {
		a := newAsked(c)
		s.enforce = append(s.enforce, a)
		if f, ok := a.ofAllCalls(); ok {
			s.finish = append(s.finish, f)
		}
		if checks[0].Stage() < c.Stage() {
			if l, ok := as[Looker](c); ok {
				s.look = append(s.look, l)
			}
		}
	}
}

// setShadow sets those that would block. Those that want to know when calls end come first,
// so that their indices in shadow and in finishIf agree.
func (s *checks) setShadow(checks []Check) {
	byStage(checks)
	var others []asked
	for _, c := range checks {
		a := newAsked(c)
		f, ok := a.ofAllCalls()
		switch {
		case !ok:
			others = append(others, a)
		case len(s.finishIf) < maxShadowFinishers:
			s.shadow = append(s.shadow, a)
			s.finishIf = append(s.finishIf, f)
		}
	}
	s.shadow = append(s.shadow, others...)
}

func byStage(checks []Check) {
	slices.SortStableFunc(checks, func(a, b Check) int { return cmp.Compare(a.Stage(), b.Stage()) })
}

func newAsked(c Check) asked {
	a := asked{Check: c}
	var ok bool
	if a.args, ok = as[ArgsCheck](c); ok {
		a.finisher, _ = as[ArgsFinisher](c)
	}
	return a
}

// ofAllCalls returns the check as a finisher of all calls, those included for which it holds
// nothing.
func (a *asked) ofAllCalls() (Finisher, bool) {
	if a.finisher != nil {
		return nil, false
	}
	return as[Finisher](a.Check)
}

// continued returns the serial of the old check whose counts c takes over, or 0. Built-in guards keep
// the last refusal with the counts, so its address is compared.
func (s *checks) continued(c Check, old *checks) int64 {
	after := c.Cause()
	for before, serial := range old.all() {
		b := before.Cause()
		same := b.Last == after.Last || b.State != nil && b.State == after.State
		if same && b.RuleID == after.RuleID && b.Kind == after.Kind &&
			!slices.ContainsFunc(s.owners, func(o owner) bool { return o.serial == serial }) {
			return serial
		}
	}
	return 0
}

// snapshot returns the figures of a resource.
func (set *guardSet) snapshot(name string, now int64, at time.Time) stat.Snapshot {
	s := set.stat.Snapshot(now)
	s.Resource, s.At = name, at
	s.Waits = metric.Latencies(set.metric.Waits()).Count()
	stats.SetTotals(&s, metric.Counts(set.metric.Totals()))
	s.Rules, s.RuleSerials = set.rules(now, at)
	if set.metric.LastBucket() < now-int64(idleTime) {
		set.stat.Trim(now)
	}
	return s
}

// rules returns the figures of the rules that bind the resource, and their serials.
func (set *guardSet) rules(now int64, at time.Time) (rules []stat.RuleSnapshot, serials []int64) {
	if set.checks == nil {
		return nil, nil
	}
	rules, serials = make([]stat.RuleSnapshot, 0, len(set.bound)), make([]int64, 0, len(set.bound))
	for c, serial := range set.all() {
		if p, _ := c.(pluggedCheck); isTracer(p.Check) {
			continue // it is there to see entries
		}
		rule, cause := c.Snapshot(now), c.Cause()
		rule.ID, rule.Kind = cmp.Or(rule.ID, cause.RuleID), cmp.Or(rule.Kind, cause.Kind)
		cause.State.show(&rule, cause, now, at)
		if cause.Last != nil {
			rule.LastRefusal = cause.Last.load(now, at)
		}
		rules, serials = append(rules, rule), append(serials, serial)
	}
	if len(rules) == 0 {
		return nil, nil
	}
	return rules, serials
}

// all returns the checks of a resource, nil for none, in the order of the guards, each with
// its serial.
func (s *checks) all() iter.Seq2[Check, int64] {
	return func(yield func(Check, int64) bool) {
		if s == nil {
			return
		}
		for i, c := range s.bound {
			if !yield(c, s.owners[i].serial) {
				return
			}
		}
	}
}

func isTracer(c Check) bool {
	_, is := c.(tracing.Tracer)
	return is
}

// of returns the checks of one guard, as it returned them.
func (s *checks) of(guard int) []Check {
	if s == nil {
		return nil
	}
	first := slices.IndexFunc(s.owners, func(o owner) bool { return o.guard == guard })
	if first < 0 {
		return nil
	}
	end := first
	for end < len(s.owners) && s.owners[end].guard == guard {
		end++
	}
	return s.bound[first:end:end]
}
