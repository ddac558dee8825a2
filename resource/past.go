package resource

import (
	"iter"
	"maps"
	"slices"
	"weak"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// carried is what was counted in resources that are gone.
type carried struct {
	counts    metric.Counts
	latencies metric.Latencies
}

// carryBlock counts a block in a resource that is gone.
func (g *Registry) carryBlock(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.carried.counts[metric.Block] += n
}

// past is what the rules have counted on resources that are gone, or that they bind no
// more, so that sums over all rules of a guard never go down. A call that began before
// may still be counted by such a rule. So its check is kept until no call can be, which
// the garbage collector knows; then its figures are settled.
//
// The registry's lock guards it.
type past struct {
	settled map[string]RuleTotals // by the kind of the guard
	pending []departed            // appended to; else replaced, for it is read without the lock
	enough  int                   // when pending is so long, it is to be settled
}

// departed is the checks that a resource had, and the last tenure in which it had them.
type departed struct {
	tenure weak.Pointer[tenure]
	checks []Check
}

// leastPending is from how many departures on they are settled by those who register
// names; before, those who read totals do it.
const leastPending = 64

// take takes checks that a resource will have no more.
func (p *past) take(home *guardSet, gone iter.Seq[Check]) {
	if checks := slices.Collect(gone); checks != nil {
		p.pending = append(p.pending, departed{weak.Make(home.tenure), checks})
	}
}

// takeMissing takes those checks of a resource whose counts do not go on in the next ones.
func (p *past) takeMissing(home *guardSet, next *checks) {
	p.take(home, func(yield func(Check) bool) {
		for c := range home.all() {
			if !goesOn(c, next) && !yield(c) {
				return
			}
		}
	})
}

// goesOn tells whether one of the next checks goes on counting where c did. Built-in
// guards keep the last refusal beside the counts, so the place of it tells.
func goesOn(c Check, next *checks) bool {
	before := c.Cause()
	for d := range next.all() {
		after := d.Cause()
		if before.RuleID == after.RuleID && before.Kind == after.Kind && before.Last == after.Last {
			return true
		}
	}
	return false
}

func (p *past) full() bool { return len(p.pending) >= max(leastPending, p.enough) }

// RuleTotals is what rules have refused, or would have.
type RuleTotals struct {
	Blocked, WouldBlock, CandidateWouldBlock int64
}

// Plus gives the sum of t and u.
func (t RuleTotals) Plus(u RuleTotals) RuleTotals {
	return RuleTotals{t.Blocked + u.Blocked, t.WouldBlock + u.WouldBlock, t.CandidateWouldBlock + u.CandidateWouldBlock}
}

// Minus gives what t has more than u.
func (t RuleTotals) Minus(u RuleTotals) RuleTotals {
	return RuleTotals{t.Blocked - u.Blocked, t.WouldBlock - u.WouldBlock, t.CandidateWouldBlock - u.CandidateWouldBlock}
}

// Covers tells whether t may be a later state of u: nothing in it is less.
func (t RuleTotals) Covers(u RuleTotals) bool {
	return t.Blocked >= u.Blocked && t.WouldBlock >= u.WouldBlock && t.CandidateWouldBlock >= u.CandidateWouldBlock
}

// TotalsOf gives the totals of a rule on a resource.
func TotalsOf(r *stat.RuleSnapshot) RuleTotals {
	return RuleTotals{r.Blocked, r.WouldBlock, r.CandidateWouldBlock}
}

// figures gives what departed checks have counted, by the kind of their guards. They may
// be the program's, so no lock is held.
func figures(gone []departed, now int64) map[string]RuleTotals {
	sums := make(map[string]RuleTotals)
	for _, d := range gone {
		for _, c := range d.checks {
			s := snapshotOf(c, now)
			sums[s.Kind] = sums[s.Kind].Plus(TotalsOf(&s))
		}
	}
	return sums
}

// settlePast settles the figures of those checks that no call can be counted by any
// more. If another is at it, it does nothing.
func (g *Registry) settlePast() {
	if !g.settling.TryLock() {
		return
	}
	defer g.settling.Unlock()
	g.mu.Lock()
	pending := g.past.pending
	g.mu.Unlock()

	var final, alive []departed
	for _, d := range pending {
		if d.tenure.Value() == nil {
			final = append(final, d)
		} else {
			alive = append(alive, d)
		}
	}
	sums := figures(final, g.clock.Now())

	g.mu.Lock()
	defer g.mu.Unlock()
	g.past.enough = 2 * len(alive)
	if final == nil {
		return
	}
	settled := maps.Clone(g.past.settled) // for it is read without the lock
	if settled == nil {
		settled = make(map[string]RuleTotals)
	}
	for kind, sum := range sums {
		settled[kind] = settled[kind].Plus(sum)
	}
	g.past.settled = settled
	g.past.pending = append(alive, g.past.pending[len(pending):]...)
}
