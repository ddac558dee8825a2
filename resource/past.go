package resource

import (
	"runtime"
	"time"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// carried is what was counted in resources that are gone.
type carried struct {
	counts    metric.Counts
	latencies metric.Latencies
	waits     metric.Latencies
}

// carryBlock counts a block in a resource that is gone.
func (g *registry) carryBlock(n int64) {
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
	pending map[*departed]struct{}
}

// departed is a check that a resource had until then.
type departed struct {
	Check
	before  counted // of which stays before that are in the past already
	then    int64
	cleanup runtime.Cleanup
}

// hold belongs to a rule on a resource, whatever is changed of the rule. Every set of
// checks in which the rule counts has it. So when the garbage collector has taken it, no
// call can be counted by the rule any more. It must not be so small that the runtime
// would let several share one piece of memory.
type hold struct{ _ [4]*hold }

// goesOn tells whether a check goes on counting where c did. Built-in guards keep the
// last refusal beside the counts, so the place of it tells.
func goesOn(c, next Check) bool {
	before, after := c.Cause(), next.Cause()
	return before.RuleID == after.RuleID && before.Kind == after.Kind && before.Last == after.Last
}

// depart takes the checks that a resource had until now, but for those with a hold that
// stays. It returns those that it took, in their order. The caller holds mu.
func (g *registry) depart(home *guardSet, staying *checks, now int64) (gone []*departed) {
	for c, h := range home.all() {
		if staying.holds(h) {
			continue
		}
		d := &departed{Check: c, before: home.before[h], then: now}
		if g.past.pending == nil {
			g.past.pending = make(map[*departed]struct{})
		}
		g.past.pending[d] = struct{}{}
		d.cleanup = runtime.AddCleanup(h, g.settlePast, d)
		gone = append(gone, d)
	}
	return gone
}

// settlePast settles the figures of a check that no call can be counted by any more. The
// runtime calls it.
func (g *registry) settlePast(d *departed) {
	kind, sum := d.figures()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.past.settle(d, kind, sum)
}

func (p *past) settle(d *departed, kind string, sum RuleTotals) {
	delete(p.pending, d)
	if p.settled == nil {
		p.settled = make(map[string]RuleTotals)
	}
	p.settled[kind] = p.settled[kind].plus(sum)
}

// figures gives what the check has counted, and the kind of its guard. That may be the
// program's, so no lock is held.
func (d *departed) figures() (kind string, sum RuleTotals) {
	s := snapshotOf(d.Check, d.then, time.Time{})
	d.before.takeOff(&s)
	return s.Kind, totalsOf(&s)
}

// RuleTotals is what rules have refused, or would have, and how often they went over to
// another state.
type RuleTotals struct {
	Blocked, WouldBlock, CandidateWouldBlock, Changes int64
}

func (t RuleTotals) plus(u RuleTotals) RuleTotals {
	return RuleTotals{
		t.Blocked + u.Blocked, t.WouldBlock + u.WouldBlock,
		t.CandidateWouldBlock + u.CandidateWouldBlock, t.Changes + u.Changes,
	}
}

// totalsOf returns the totals of a rule on a resource.
func totalsOf(r *stat.RuleSnapshot) RuleTotals {
	return RuleTotals{r.Blocked, r.WouldBlock, r.CandidateWouldBlock, r.Changes}
}
