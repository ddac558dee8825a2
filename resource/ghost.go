package resource

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/stat"
)

// ghost is what is remembered of a resource that was evicted before its rules had
// forgotten what it used: its checks. If the resource comes again, its checks go on with
// their windows, queues and warmth. So eviction refunds nothing. A resource without rules is
// remembered as well, until it would have been idle: its name does not count as a new one
// then. A ghost does not change, except for its index.
type ghost struct {
	name     string
	checks   *checks
	bound    uint32      // the generation of the rules that checks are of
	departed []*departed // of checks, in their order
	used     int64       // calls that passed
	until    int64       // when nothing is left to be remembered
	index    int         // in the list
}

// leastGhosts is how many ghosts there may be even if there are fewer places.
const leastGhosts = 1000

// ghosts are all of them, so many at most. The registry's lock guards them, but looking
// one up takes none.
type ghosts struct {
	table *names.Table[ghost]
	list  []*ghost
	hand  int // goes round the list in search of one to forget
	max   int

	forgotten, forgottenCalls int64
}

func newGhosts(places int) ghosts {
	return ghosts{table: names.New[ghost](1), max: max(places, leastGhosts)}
}

// add remembers a ghost. It looks at a few others, and drops those whose rules have
// forgotten everything by now. If there are still too many, it forgets the least used of
// those few, which refunds least: an attacker who wants a ghost forgotten has to use as much
// on other names, many times.
func (g *ghosts) add(one *ghost, now int64) {
	least := one
	for step := 0; step < handSteps && step < len(g.list); step++ {
		g.hand = (g.hand + 1) % len(g.list)
		switch other := g.list[g.hand]; {
		case other.until <= now:
			g.drop(other)
		case other.used <= least.used:
			least = other
		}
	}
	if len(g.list) >= g.max {
		if least.checks != nil && least.checks.longest > 0 {
			g.forgotten++
			g.forgottenCalls += least.used
		}
		if least == one {
			return
		}
		g.drop(least)
	}
	one.index = len(g.list)
	g.list = append(g.list, one)
	g.table.Put(one.name, one)
}

// drop takes a ghost out.
func (g *ghosts) drop(one *ghost) {
	g.table.Delete(one.name)
	last := len(g.list) - 1
	g.list[one.index] = g.list[last]
	g.list[one.index].index = one.index
	g.list[last] = nil
	g.list = g.list[:last]
}

// comeback is what a resource that is about to come again takes over from its ghost.
type comeback struct {
	checks []returning
	used   int64
}

// returning is a check that goes on.
type returning struct {
	hold    *hold
	past    *departed
	counted counted // in all its time
	kind    string
	sum     RuleTotals // of the last stay of the resource
}

// back asks the checks of a ghost what they have counted. They may be the program's, so no
// lock is held. It returns nil if there is no ghost, or nothing is left to be remembered.
func (o *ghost) back(now int64) *comeback {
	if o == nil || o.until <= now {
		return nil
	}
	b := &comeback{used: o.used}
	i := 0
	for c, h := range o.checks.all() {
		s := snapshotOf(c, now, time.Time{})
		r := returning{hold: h, past: o.departed[i], counted: counted{s.Admitted, totalsOf(&s)}, kind: s.Kind}
		r.past.before.takeOff(&s)
		r.sum = totalsOf(&s)
		b.checks = append(b.checks, r)
		i++
	}
	return b
}

// revive lets checks go on in home, as far as home has them. What they have counted so far
// stays in the past, since the figures of a resource begin anew when it comes again. The
// caller holds mu.
func (g *registry) revive(b *comeback, home *guardSet) {
	for _, r := range b.checks {
		if !home.holds(r.hold) {
			continue
		}
		if home.before == nil {
			home.before = make(before)
		}
		home.before[r.hold] = r.counted
		r.past.cleanup.Stop()
		g.past.settle(r.past, r.kind, r.sum)
	}
}

// before is what checks had counted when their resource got its place, by their holds.
type before map[*hold]counted

// of returns what is there of checks.
func (b before) of(checks *checks) (some before) {
	for _, h := range checks.all() {
		if c, there := b[h]; there {
			if some == nil {
				some = make(before)
			}
			some[h] = c
		}
	}
	return some
}

// counted is what a rule has counted.
type counted struct {
	admitted int64
	RuleTotals
}

// takeOff takes what was counted before off the figures of a rule.
func (c counted) takeOff(s *stat.RuleSnapshot) {
	s.Admitted = max(0, s.Admitted-c.admitted)
	s.Blocked -= c.Blocked
	s.WouldBlock -= c.WouldBlock
	s.CandidateWouldBlock -= c.CandidateWouldBlock
	s.Changes -= c.Changes
}
