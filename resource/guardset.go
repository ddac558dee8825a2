package resource

import (
	"time"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// guardSet is what a call into a resource needs: where it is counted, and who is
// asked. It does not change; loading rules gives the resource another one, and
// the entries in flight keep theirs.
type guardSet struct {
	registry *Registry
	metric   *metric.Metric // nil: the resource has no place in the registry
	stat     *stat.Stat     // the metric's
	*checks                 // nil: nobody is to be asked
}

// checks are those of one resource, sorted by what they do.
type checks struct {
	all     []Check // in order, for snapshots
	enforce []Check // those that block
	shadow  []Check // those that would; asked when all of enforce admitted
	finish  []Finisher
	longest time.Duration // how far back any of them remembers
}

// newGuardSet makes the set of a resource that appears.
func newGuardSet(registry *Registry, checks *checks) *guardSet {
	s := stat.New()
	return &guardSet{registry: registry, metric: s.Metric(), stat: s, checks: checks}
}

// with gives the set of the same resource when other rules are loaded.
func (set *guardSet) with(checks *checks) *guardSet {
	return &guardSet{registry: set.registry, metric: set.metric, stat: set.stat, checks: checks}
}

func newChecks(all []Check) *checks {
	if len(all) == 0 {
		return nil
	}
	s := &checks{all: all}
	for i, c := range all {
		switch mode := c.Mode(); {
		case mode == stat.Shadow:
			s.shadow = append(s.shadow, c)
		case mode == stat.Enforce && i == len(s.enforce):
			s.enforce = all[: i+1 : i+1] // as long as all enforce, share the array
		case mode == stat.Enforce:
			s.enforce = append(s.enforce, c)
		}
		s.longest = max(s.longest, c.Interval())
	}
	for _, c := range s.enforce {
		if f, ok := c.(Finisher); ok {
			s.finish = append(s.finish, f)
		}
	}
	return s
}

// enter asks the checks and counts. It gives the stripe of the pass, or the error
// of the block. It is false if the resource was evicted before it counted.
func (set *guardSet) enter(now, n int64) (stripe int, blocked *BlockError, ok bool) {
	if set.checks == nil {
		stripe = set.metric.Pass(now, n)
		return stripe, nil, set.metric.Holds()
	}
	stripe, blocked, ok = set.admit(0, now, n)
	if blocked != nil {
		ok = set.metric.Block(now, n)
		blocked.RetryAfter = set.retryAfter(blocked.RetryAfter, now, n)
	}
	return stripe, blocked, ok
}

// admit asks the checks from the i-th on, and counts the pass if none refuses. If
// it comes to nothing, each check gets back what it gave. The tickets live in the
// frames of this recursion: any number of checks, and no allocation.
func (set *guardSet) admit(i int, now, n int64) (stripe int, blocked *BlockError, ok bool) {
	if i == len(set.enforce) {
		return set.pass(now, n)
	}
	c := set.enforce[i]
	v := c.Reserve(now, n)
	if !v.Admitted {
		return 0, &BlockError{Cause: c.Cause(), Observed: v.Observed, RetryAfter: v.Wait}, true
	}
	stripe, blocked, ok = set.admit(i+1, now, n)
	if blocked != nil || !ok {
		c.Refund(v.Ticket, n)
	}
	return stripe, blocked, ok
}

// pass counts a call that every check in mode enforce has admitted.
func (set *guardSet) pass(now, n int64) (stripe int, blocked *BlockError, ok bool) {
	wouldBlock := false
	for _, c := range set.shadow {
		if !c.Reserve(now, n).Admitted {
			wouldBlock = true
		}
	}
	stripe = set.metric.Pass(now, n)
	if !set.metric.Holds() {
		return 0, nil, false
	}
	if wouldBlock { // the call is in flight by now, so this cannot come too late
		set.metric.Add(now, metric.WouldBlock, n)
	}
	return stripe, nil, true
}

// retryAfter gives the longest wait of all checks, given that of the one that
// refused: those that were not asked may have no room either. It is 0 if any of
// them cannot tell.
func (set *guardSet) retryAfter(longest time.Duration, now, n int64) time.Duration {
	if len(set.enforce) > 1 {
		for _, c := range set.enforce {
			wait := c.Wait(now, n)
			if wait < 0 || longest < 0 {
				return 0
			}
			longest = max(longest, wait)
		}
	}
	return max(0, longest)
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
	if set.checks != nil {
		for _, c := range set.all {
			s.Rules = append(s.Rules, c.Snapshot())
		}
	}
	if end, used := set.metric.LastBucket(); used && now-end > int64(idleTime) {
		set.stat.Trim(now)
	}
	return s
}
