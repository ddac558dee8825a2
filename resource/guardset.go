package resource

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/rule"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/internal/stats"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// guardSet is what a call into a resource needs: where it is counted, and who is
// asked. It does not change; loading rules gives the resource another one, and
// the entries in flight keep theirs. It has half a cache line, so that it never lies on
// two; what is seldom needed is in its tenure.
type guardSet struct {
	registry *registry
	metric   *meter.Meter // nil: the resource has no place in the registry
	*tenure               // nil if metric is
	*checks               // nil: nobody is to be asked
}

// tenure is what else belongs to a resource as long as it has its place.
type tenure struct {
	stat     *stats.Stats // the metric's
	baseline baseline     // what the checks had counted when the resource got its place
}

// checks are those of one resource, sorted by what they do.
type checks struct {
	only     Check // the one of enforce, if there is no more to an entry than to ask it; or nil
	finish   []Finisher
	stateful []*Cause      // of those that have a state
	finishIf []Finisher    // the first of shadow; which of them, the entry knows
	enforce  []asked       // those that block, in the order in which they are asked
	shadow   []asked       // those that would; asked when all of enforce admitted
	look     []Looker      // those of enforce that may refuse before any is asked
	byGuard  [][]Check     // in the registry's order, as the guards returned them
	lives    []*lifetime   // of each of them
	longest  time.Duration // how far back any of them remembers
}

// maxShadowFinishers is how many checks in mode shadow a resource can have that want
// to know when calls end: an entry has a bit for each.
const maxShadowFinishers = 16

// newGuardSet makes the set of a resource that appears.
func newGuardSet(registry *registry, checks *checks) *guardSet {
	s := stats.New()
	return &guardSet{registry, s.Meter(), &tenure{stat: s}, checks}
}

// with returns the set of the same resource when other rules are loaded.
func (set *guardSet) with(checks *checks) *guardSet {
	all := set.tenure
	if all.baseline != nil { // a lifetime must not outlive its check
		all = &tenure{all.stat, all.baseline.of(checks)}
	}
	return &guardSet{set.registry, set.metric, all, checks}
}

// newChecks makes the checks of a resource that had old ones, nil if it had none.
func newChecks(byGuard [][]Check, old *checks) *checks {
	s := &checks{byGuard: byGuard}
	var enforce, shadow []Check
	for _, some := range byGuard {
		for _, c := range some {
			s.lives = append(s.lives, s.lifetimeOf(c, old))
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
	}
	if s.lives == nil {
		return nil
	}
	s.setEnforce(enforce)
	s.setShadow(shadow)
	if len(s.enforce) == 1 && s.shadow == nil && s.enforce[0].args == nil && s.stateful == nil {
		s.only = enforce[0]
	}
	return s
}

// setEnforce sets those that block.
func (s *checks) setEnforce(checks []Check) {
	byStage(checks)
	for _, c := range checks {
		s.enforce = append(s.enforce, newAsked(c))
		if f, ok := finisherOf(c); ok {
			s.finish = append(s.finish, f)
		}
		if l, ok := as[Looker](c); ok && checks[0].Stage() < c.Stage() {
			s.look = append(s.look, l)
		}
	}
}

// setShadow sets those that would block. Those that want to know when calls end come first,
// so that their indices in shadow and in finishIf agree.
func (s *checks) setShadow(checks []Check) {
	byStage(checks)
	var others []asked
	for _, c := range checks {
		f, ok := finisherOf(c)
		switch {
		case !ok:
			others = append(others, newAsked(c))
		case len(s.finishIf) < maxShadowFinishers:
			s.shadow = append(s.shadow, newAsked(c))
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

// finisherOf returns the check as a finisher of all calls.
func finisherOf(c Check) (Finisher, bool) {
	if a := newAsked(c); a.finisher != nil {
		return nil, false
	}
	return as[Finisher](c)
}

// lifetimeOf returns the lifetime of the old check whose counts c goes on with, or a new one.
func (s *checks) lifetimeOf(c Check, old *checks) *lifetime {
	for before, h := range old.all() {
		if goesOn(before, c) && !slices.Contains(s.lives, h) {
			return h
		}
	}
	return new(lifetime)
}

// snapshot returns the figures of a resource. What was carried over from resources
// that are gone shows in other.
func (set *guardSet) snapshot(name string, now int64, at time.Time, evicted evictedTotals) stat.Snapshot {
	s := set.stat.Snapshot(now)
	s.Resource, s.At = name, at
	waits := metric.Latencies(set.metric.Waits())
	totals := metric.Counts(set.metric.Totals())
	if name == Other {
		waits = waits.Plus(evicted.waits)
		totals = totals.Plus(evicted.counts)
	}
	s.Waits = waits.Count()
	stats.SetTotals(&s, totals)
	s.Rules = set.rules(now, at)
	if end, used := set.metric.LastBucket(); used && now-end > int64(idleTime) {
		set.stat.Trim(now)
	}
	return s
}

// rules returns the figures of the rules that bind the resource.
func (set *guardSet) rules(now int64, at time.Time) (rules []stat.RuleSnapshot) {
	for c, h := range set.all() {
		rule := snapshotOf(c, now, at)
		set.baseline[h].takeOff(&rule)
		if last := c.Cause().Last; last != nil {
			rule.LastRefusal = last.load(now, at)
		}
		rules = append(rules, rule)
	}
	return rules
}

// snapshotOf returns the figures of a check, which may leave its names to its cause.
func snapshotOf(c Check, now int64, at time.Time) stat.RuleSnapshot {
	rule, cause := c.Snapshot(now), c.Cause()
	if rule.ID == "" {
		rule.ID = cause.RuleID
	}
	if rule.Kind == "" {
		rule.Kind = cause.Kind
	}
	cause.State.show(&rule, cause, now, at)
	return rule
}

// all returns the checks of a resource, nil for none, in the order of the guards, each with
// its lifetime.
func (s *checks) all() iter.Seq2[Check, *lifetime] {
	return func(yield func(Check, *lifetime) bool) {
		if s == nil {
			return
		}
		i := 0
		for _, some := range s.byGuard {
			for _, c := range some {
				if !yield(c, s.lives[i]) {
					return
				}
				i++
			}
		}
	}
}

// allLifetimes returns the lifetimes of a resource's checks, nil for none.
func (s *checks) allLifetimes() []*lifetime {
	if s == nil {
		return nil
	}
	return s.lives
}
