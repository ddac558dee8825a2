package resource

import (
	"slices"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// guardSet is what a call into a resource needs: where it is counted, and who is
// asked. It does not change; loading rules gives the resource another one, and
// the entries in flight keep theirs.
type guardSet struct {
	registry *Registry
	metric   *metric.Metric // nil: the resource has no place in the registry
	stay     *stay
	free     bool // nobody is to be asked

	checks  []Check // all, in order, for snapshots
	enforce []Check // those that block
	shadow  []Check // those that would; asked when all of enforce admitted
	finish  []Finisher
	longest time.Duration // how far back any check remembers
}

// newGuardSet sorts the checks of a resource by what they do.
func newGuardSet(registry *Registry, stay *stay, checks []Check) *guardSet {
	set := &guardSet{registry: registry, metric: stay.stat.Metric(), stay: stay, checks: checks}
	for i, c := range checks {
		switch mode := c.Mode(); {
		case mode == stat.Shadow:
			set.shadow = append(set.shadow, c)
		case mode == stat.Enforce && i == len(set.enforce):
			set.enforce = checks[: i+1 : i+1] // as long as all enforce, share the array
		case mode == stat.Enforce:
			set.enforce = append(set.enforce, c)
		}
		set.longest = max(set.longest, c.Interval())
	}
	for _, c := range set.enforce {
		if f, ok := c.(Finisher); ok {
			set.finish = append(set.finish, f)
		}
	}
	set.enforce, set.shadow = slices.Clip(set.enforce), slices.Clip(set.shadow)
	set.free = len(set.enforce) == 0 && len(set.shadow) == 0
	return set
}

// A stay is the time from when a resource gets its place in the registry until
// it is evicted. What is counted in it, is counted there for good.
//
// An entry counts and then looks at state; the evictor changes state and then
// looks at the counts. So one of them sees the other. An entry that finds state
// leaving tries to set it back, and if that fails its resource is gone, its
// count was made too late for anybody to see it, and it begins again elsewhere.
type stay struct {
	stat  *stat.Stat
	since int64
	state atomic.Uint32
	final metric.Counts // the totals at the end; read only after gone
}

const (
	present uint32 = iota
	leaving        // the evictor looks whether it may
	gone
)

// holds tells an entry that has counted whether the count holds.
func (s *stay) holds() bool {
	return s.state.Load() == present || s.revive()
}

//go:noinline
func (s *stay) revive() bool {
	for {
		if s.state.CompareAndSwap(leaving, present) {
			return true
		}
		switch s.state.Load() {
		case present:
			return true
		case gone:
			return false
		}
	}
}

// end makes the stay over, unless somebody is in, or comes in meanwhile. Only
// one goroutine at a time may try.
func (s *stay) end() bool {
	before := s.stat.Metric().Totals()
	if before.Concurrency() != 0 {
		return false
	}
	s.state.Store(leaving)
	s.final = s.stat.Metric().Totals()
	if s.final != before {
		s.state.CompareAndSwap(leaving, present)
		return false
	}
	return s.state.CompareAndSwap(leaving, gone)
}

// totals gives what was counted in the stay.
func (s *stay) totals() metric.Counts {
	now := s.stat.Metric().Totals()
	if s.state.Load() == gone {
		return s.final
	}
	return now
}

// lastUse is a time after which nothing has happened.
func (s *stay) lastUse() int64 {
	if end, ok := s.stat.Metric().LastBucket(); ok {
		return max(end, s.since)
	}
	return s.since
}

// enter asks the checks and counts. It gives the stripe of the pass, or the error
// of the block. It is false if the stay is over, and whatever was counted void.
func (set *guardSet) enter(now, n int64) (stripe int, blocked *BlockError, ok bool) {
	if len(set.enforce) > 0 {
		if refusal, refuser := set.reserve(0, now, n); refuser != nil {
			set.metric.Add(now, metric.Block, n)
			if !set.stay.holds() {
				return 0, nil, false
			}
			return 0, set.blockError(refuser, refusal, now, n), true
		}
	}
	wouldBlock := false
	for _, c := range set.shadow {
		if !c.Reserve(now, n).Admitted {
			wouldBlock = true
		}
	}
	stripe = set.metric.Pass(now, n)
	if wouldBlock {
		set.metric.AddTo(stripe, metric.WouldBlock, n)
	}
	return stripe, nil, set.stay.holds()
}

// reserve asks the checks from the i-th on. If one refuses, those before it get
// back what they gave, and it is returned. The tickets live in the frames of
// this recursion: any number of checks, and no allocation.
func (set *guardSet) reserve(i int, now, n int64) (refusal Verdict, refuser Check) {
	c := set.enforce[i]
	v := c.Reserve(now, n)
	if !v.Admitted {
		return v, c
	}
	if i+1 < len(set.enforce) {
		if refusal, refuser = set.reserve(i+1, now, n); refuser != nil {
			c.Refund(v.Ticket, n)
		}
	}
	return refusal, refuser
}

// blockError makes the error of a refusal. Its RetryAfter is the longest wait of
// all checks, for those that were not asked may have no room either.
func (set *guardSet) blockError(refuser Check, refusal Verdict, now, n int64) *BlockError {
	retry := refusal.Wait
	if len(set.enforce) > 1 {
		for _, c := range set.enforce {
			if wait := c.Wait(now, n); wait < 0 || retry < 0 {
				retry = -1
			} else {
				retry = max(retry, wait)
			}
		}
	}
	return &BlockError{Cause: refuser.Cause(), Observed: refusal.Observed, RetryAfter: max(0, retry)}
}

// snapshot gives the figures of a resource. What was carried over from resources
// that are gone shows in other.
func (set *guardSet) snapshot(name string, now int64, at time.Time, carried metric.Counts) stat.Snapshot {
	s := set.stay.stat.Snapshot(now)
	s.Resource, s.At = name, at
	totals := set.stay.totals()
	if name == Other {
		totals = totals.Plus(carried)
	}
	s.SetTotals(totals)
	for _, c := range set.checks {
		s.Rules = append(s.Rules, c.Snapshot())
	}
	if now-set.stay.lastUse() > int64(idleTime) {
		set.stay.stat.Trim(now)
	}
	return s
}
