package resource

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// Totals is everything that was counted of one resource since it got its place, for
// exporters. It is a plain value.
//
// Successes are counted as Latencies has them, and Success ≤ Pass. Exceptions and the
// sums of times are read a moment later and may have a few calls more; so may
// the rules be some calls apart from the blocks.
type Totals struct {
	Resource string
	// Serial tells one tenure of a resource in the gate from the next: it is another one
	// if the resource was evicted and has come again, with totals that began anew, but for
	// those of rules that are remembered. It grows from one resource to the next, from 1 on.
	Serial int64
	Since  time.Time // when the totals began, by the wall clock
	Named  bool      // by a rule; then the resource is never evicted

	Counts    metric.Counts
	Latencies metric.Latencies
	Waits     metric.Latencies    // how long calls waited before they began or gave up
	Waiting   int64               // calls that wait now
	Rules     []stat.RuleSnapshot // as in a Snapshot

	// RuleSerials has a number for each of Rules. It stays as long as the rule goes on
	// counting on the resource, and is another one if it began anew, because it was removed
	// and loaded again, or its resource evicted and forgotten. It grows from one rule to the
	// next, from 1 on. LastRuleSerial is the last that there was when the totals were read.
	RuleSerials    []int64
	LastRuleSerial int64

	// FormerRules is what rules have counted on resources that are gone, or that they bind no
	// more, by the kind of their guards; and FormerBySerial those of them that may still go
	// on, by their RuleSerials. [Other] alone has them.
	FormerRules    map[string]RuleTotals
	FormerBySerial map[int64]RuleTotals
}

// Totals returns the totals of every resource, by name, also of [Other] if nothing was
// counted in it. They are read one after the other: calls come and go meanwhile. What
// was counted in resources that are gone is in other. So the sum over all resources of
// any event, and of any cell of the latencies, never goes down from one Totals to the
// next; and no more does what the rules of a kind have counted, with FormerRules.
//
// (A call that comes at the very moment in which its resource is evicted is admitted
// in another; a rule in mode shadow may have counted it on both.)
func (g *registry) Totals() []Totals {
	var evicted evictedTotals
	var former map[string]RuleTotals
	var pending []*formerCheck
	var last int64
	cut := g.cut(func() {
		last = g.lifetimes.last.Load()
		evicted, former, pending = g.evictedTotals, maps.Clone(g.former.settled), slices.Collect(maps.Keys(g.former.pending))
	})
	now := g.clock.Now()
	at := g.clock.Wall(now)
	all := make([]Totals, len(cut))
	for i := range cut {
		p, t := &cut[i], &all[i]
		t.Resource, t.Serial, t.Since, t.Named = p.name, p.serial, at.Add(time.Duration(p.born-now)), p.named
		t.Waits, t.Waiting = metric.Latencies(p.home.metric.Waits()), p.home.metric.Waiting()
		counts, latencies := p.home.metric.TotalsAndLatencies()
		t.Counts, t.Latencies = counts, metric.Latencies(latencies)
		t.Rules, t.RuleSerials = p.home.rules(now, at)
		t.LastRuleSerial = last
		if t.Resource == Other {
			t.Counts = t.Counts.Plus(evicted.counts)
			t.Latencies = t.Latencies.Plus(evicted.latencies)
			t.Waits = t.Waits.Plus(evicted.waits)
			for _, d := range pending {
				kind, sum := d.figures()
				if former == nil {
					former = make(map[string]RuleTotals)
				}
				if t.FormerBySerial == nil {
					t.FormerBySerial = make(map[int64]RuleTotals)
				}
				former[kind] = former[kind].Plus(sum)
				t.FormerBySerial[d.serial] = sum
			}
			t.FormerRules = former
		}
	}
	return all
}

// place is what readers of all resources need of one. With it they can read without the
// lock: a resource that is evicted meanwhile still has its figures.
type place struct {
	name         string
	home         *guardSet
	serial, born int64
	named        bool
}

// cut returns all resources that are there, by name. take is called at the same moment,
// under the lock, to read what those that are gone have left. A goroutine that registers a
// name waits for that, so it must be short.
func (g *registry) cut(take func()) []place {
	g.mu.Lock()
	all := make([]place, 0, len(g.places)+len(g.kept))
	for _, list := range [...][]*Resource{g.places, g.kept} {
		for _, r := range list {
			all = append(all, place{r.name, r.home, r.serial, r.born, r.named})
		}
	}
	take()
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b place) int { return strings.Compare(a.name, b.name) })
	return all
}
