package resource

import (
	"iter"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/rule"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// guardSet is what a call into a resource needs: where it is counted, and who is
// asked. It does not change; loading rules gives the resource another one, and
// the entries in flight keep theirs. It has half a cache line, so that it never lies on
// two; what is seldom needed is in its stay.
type guardSet struct {
	registry *registry
	metric   *metric.Metric // nil: the resource has no place in the registry
	*stay                   // nil if metric is
	*checks                 // nil: nobody is to be asked
}

// stay is what else belongs to a resource as long as it has its place.
type stay struct {
	stat    *stat.Stat    // the metric's
	waiting *atomic.Int64 // calls that wait for their turn
	before  before        // what the checks had counted when the resource got its place
}

// checks are those of one resource, sorted by what they do.
type checks struct {
	byGuard  [][]Check // in the registry's order, as the guards gave them
	holds    []*hold   // of each of them
	enforce  []Check   // those that block, in the order in which they are asked
	shadow   []Check   // those that would; asked when all of enforce admitted
	finish   []Finisher
	finishIf []Finisher    // those of mode shadow; which of them, the entry knows
	longest  time.Duration // how far back any of them remembers
}

// maxShadowFinishers is how many checks in mode shadow a resource can have that want
// to know when calls end: an entry has a bit for each.
const maxShadowFinishers = 16

// newGuardSet makes the set of a resource that appears.
func newGuardSet(registry *registry, checks *checks) *guardSet {
	s := stat.New()
	return &guardSet{registry, s.Metric(), &stay{stat: s, waiting: new(atomic.Int64)}, checks}
}

// with returns the set of the same resource when other rules are loaded.
func (set *guardSet) with(checks *checks) *guardSet {
	all := set.stay
	if all.before != nil { // a hold must not outlive its check
		all = &stay{all.stat, all.waiting, all.before.of(checks)}
	}
	return &guardSet{set.registry, set.metric, all, checks}
}

// newChecks makes the checks of a resource that had old ones, nil if it had none.
func newChecks(byGuard [][]Check, old *checks) *checks {
	s := &checks{byGuard: byGuard}
	var waits []Check
	for _, some := range byGuard {
		for _, c := range some {
			s.holds = append(s.holds, s.holdOf(c, old))
			s.longest = max(s.longest, c.Interval())
			switch mode := c.Mode(); {
			case mode == rule.Shadow:
				s.addShadow(c)
			case mode != rule.Enforce:
			case c.Waits():
				waits = append(waits, c)
			default:
				s.enforce = append(s.enforce, c)
			}
		}
	}
	if s.holds == nil {
		return nil
	}
	s.enforce = append(s.enforce, waits...)
	for _, c := range s.enforce {
		if f, ok := c.(Finisher); ok {
			s.finish = append(s.finish, f)
		}
	}
	return s
}

// holdOf gives the hold of the old check whose counts c goes on with, or a new one.
func (s *checks) holdOf(c Check, old *checks) *hold {
	for before, h := range old.all() {
		if goesOn(before, c) && !slices.Contains(s.holds, h) {
			return h
		}
	}
	return new(hold)
}

// addShadow adds a check in mode shadow. Those that want to know when calls end come
// first, so that their places in shadow and in finishIf agree.
func (s *checks) addShadow(c Check) {
	f, ok := c.(Finisher)
	switch n := len(s.finishIf); {
	case !ok:
		s.shadow = append(s.shadow, c)
	case n < maxShadowFinishers:
		s.shadow = slices.Insert(s.shadow, n, c)
		s.finishIf = append(s.finishIf, f)
	}
}

// snapshot gives the figures of a resource. What was carried over from resources
// that are gone shows in other.
func (set *guardSet) snapshot(name string, now int64, at time.Time, carried metric.Counts) stat.Snapshot {
	s := set.stat.Snapshot(now)
	s.Resource, s.At = name, at
	totals := set.metric.Totals()
	if name == Other {
		totals = totals.Plus(carried)
	}
	s.SetTotals(totals)
	s.Rules = set.rules(now, at)
	if end, used := set.metric.LastBucket(); used && now-end > int64(idleTime) {
		set.stat.Trim(now)
	}
	return s
}

// rules gives the figures of the rules that bind the resource.
func (set *guardSet) rules(now int64, at time.Time) (rules []stat.RuleSnapshot) {
	for c, h := range set.all() {
		rule := snapshotOf(c, now)
		set.before[h].takeOff(&rule)
		if last := c.Cause().Last; last != nil {
			rule.LastRefusal = last.load(now, at)
		}
		rules = append(rules, rule)
	}
	return rules
}

// snapshotOf gives the figures of a check, which may leave its names to its cause.
func snapshotOf(c Check, now int64) stat.RuleSnapshot {
	rule, cause := c.Snapshot(now), c.Cause()
	if rule.ID == "" {
		rule.ID = cause.RuleID
	}
	if rule.Kind == "" {
		rule.Kind = cause.Kind
	}
	return rule
}

// all gives the checks of a resource, nil for none, in the order of the guards, each with
// its hold.
func (s *checks) all() iter.Seq2[Check, *hold] {
	return func(yield func(Check, *hold) bool) {
		if s == nil {
			return
		}
		i := 0
		for _, some := range s.byGuard {
			for _, c := range some {
				if !yield(c, s.holds[i]) {
					return
				}
				i++
			}
		}
	}
}

// allHolds gives the holds of a resource's checks, nil for none.
func (s *checks) allHolds() []*hold {
	if s == nil {
		return nil
	}
	return s.holds
}
