package resource

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// evictedTotals is what was counted in resources that are gone.
type evictedTotals struct {
	counts    metric.Counts
	latencies metric.Latencies
	waits     metric.Latencies
}

// addEvictedBlock counts a block in a resource that is gone.
func (g *registry) addEvictedBlock(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evictedTotals.counts[metric.Block] += n
}

// formerRules are what the rules have counted on resources that are gone, or that they bind no
// more, so that sums over all rules of a guard never go down. A call that began before
// may still be counted by such a rule. So its check is kept until no call can be, which
// the garbage collector knows; then its figures are settled.
//
// The registry's lock guards it.
type formerRules struct {
	settled map[string]RuleTotals // by the kind of the guard
	pending map[*formerCheck]struct{}
}

// formerCheck is a check that a resource had until then.
type formerCheck struct {
	Check
	serial  int64 // of its lifetime
	then    int64
	cleanup runtime.Cleanup
}

// lifetime belongs to a rule on a resource, whatever is changed of the rule. Every set of
// checks in which the rule counts has it. So when the garbage collector has taken it, no
// call can be counted by the rule any more.
type lifetime struct {
	serial int64
	_      *lifetime // without a pointer the runtime would let several share one piece of memory
}

// lifetimes numbers them.
type lifetimes struct{ last atomic.Int64 }

func (l *lifetimes) begin() *lifetime { return &lifetime{serial: l.last.Add(1)} }

// goesOn reports whether a check goes on counting where c did. Built-in guards keep the
// last refusal beside the counts, so its address is what is compared.
func goesOn(c, next Check) bool {
	before, after := c.Cause(), next.Cause()
	same := before.Last == after.Last || before.State != nil && before.State == after.State
	return before.RuleID == after.RuleID && before.Kind == after.Kind && same
}

// dismiss takes the checks that a resource had until now, but for those with a lifetime that
// stays. It returns those that it took, in their order. The caller holds mu.
func (g *registry) dismiss(home *guardSet, staying *checks, now int64) (gone []*formerCheck) {
	for c, h := range home.all() {
		if staying.has(h) {
			continue
		}
		d := &formerCheck{Check: c, serial: h.serial, then: now}
		if g.former.pending == nil {
			g.former.pending = make(map[*formerCheck]struct{})
		}
		g.former.pending[d] = struct{}{}
		d.cleanup = runtime.AddCleanup(h, g.settleFormer, d)
		gone = append(gone, d)
	}
	return gone
}

// settleFormer settles the figures of a check that no call can be counted by any more. The
// runtime calls it.
func (g *registry) settleFormer(d *formerCheck) {
	kind, sum := d.figures()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.former.pending, d)
	if g.former.settled == nil {
		g.former.settled = make(map[string]RuleTotals)
	}
	g.former.settled[kind] = g.former.settled[kind].Plus(sum)
}

// resume takes back what dismiss did: the checks of a resource that comes again go on in
// home, as far as home has them. The caller holds mu.
func (g *registry) resume(back *rememberedResource, home *guardSet) {
	i := 0
	for _, h := range back.checks.all() {
		if d := back.former[i]; home.has(h) {
			d.cleanup.Stop()
			delete(g.former.pending, d)
		}
		i++
	}
}

// figures returns what the check has counted, and the kind of its guard. That may be the
// program's, so no lock is held.
func (d *formerCheck) figures() (kind string, sum RuleTotals) {
	s := snapshotOf(d.Check, d.then, time.Time{})
	return s.Kind, OwnTotalsOf(&s)
}

// RuleTotals is what rules have refused, or would have, how often they went over to
// another state, how many calls had not the argument that they are about, and what was refused by
// criticality.
type RuleTotals struct {
	Blocked, WouldBlock, CandidateWouldBlock, Changes, Missing int64
	Shed                                                       stat.ByCriticality
}

// Plus returns the sum of both.
func (t RuleTotals) Plus(u RuleTotals) RuleTotals {
	return RuleTotals{
		t.Blocked + u.Blocked, t.WouldBlock + u.WouldBlock,
		t.CandidateWouldBlock + u.CandidateWouldBlock, t.Changes + u.Changes, t.Missing + u.Missing,
		t.Shed.Plus(u.Shed),
	}
}

// Minus returns what t has more than u.
func (t RuleTotals) Minus(u RuleTotals) RuleTotals {
	return t.Plus(RuleTotals{
		-u.Blocked, -u.WouldBlock, -u.CandidateWouldBlock, -u.Changes, -u.Missing, stat.ByCriticality{}.Minus(u.Shed),
	})
}

// TotalsOf returns the totals of a rule on a resource.
func TotalsOf(r *stat.RuleSnapshot) RuleTotals {
	return RuleTotals{r.Blocked, r.WouldBlock, r.CandidateWouldBlock, r.Changes, r.Missing, r.Shed}
}

// OwnTotalsOf returns the totals of a rule on a resource that may be added up over resources: without
// the changes of a state that they share.
func OwnTotalsOf(r *stat.RuleSnapshot) RuleTotals {
	t := TotalsOf(r)
	if r.SharedState {
		t.Changes = 0
	}
	return t
}
