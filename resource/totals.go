package resource

import (
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// Totals is everything that was counted of one resource since it was registered, for
// exporters. It is a plain value.
//
// Successes are counted as Latencies has them, and Success ≤ Pass. Exceptions and the
// sums of times are read a moment later and may have a few calls more; so may
// the rules be some calls apart from the blocks.
type Totals struct {
	Resource string
	// Serial numbers the registrations of resources, from 1 on. If a resource is evicted and registered
	// again, its totals start from zero and it has a larger Serial.
	Serial int64
	Since  time.Time // when the resource was registered, by the wall clock
	Named  bool      // by a rule; then the resource is never evicted

	Counts    metric.Counts
	Latencies metric.Latencies
	Waits     metric.Latencies    // how long calls waited before they began or gave up
	Waiting   int64               // calls that wait now
	Rules     []stat.RuleSnapshot // as in a Snapshot

	// RuleSerials has a number for each of Rules, from 1 on. It stays the same as long as the rule
	// keeps its counts on the resource. A larger number means that the counts have started from zero.
	RuleSerials []int64
}

// Totals returns the totals of every registered resource, by name, including [Other] if nothing was
// counted in it. They are read one after the other: calls come and go meanwhile.
func (g *registry) Totals() []Totals {
	places := g.all()
	now := g.clock.Now()
	at := g.clock.Wall(now)
	all := make([]Totals, 0, len(places))
	for _, p := range places {
		m := p.home.metric
		t := Totals{Resource: p.name, Serial: p.serial, Since: at.Add(time.Duration(p.born - now)), Named: p.named}
		t.Waits, t.Waiting = metric.Latencies(m.Waits()), m.Waiting()
		counts, latencies := m.TotalsAndLatencies()
		t.Counts, t.Latencies = counts, metric.Latencies(latencies)
		t.Rules, t.RuleSerials = p.home.rules(now, at)
		if !m.Retired() {
			all = append(all, t)
		}
	}
	return all
}

// place is what readers of all resources need of one, so that they can read without the lock. The
// resource may be evicted meanwhile.
type place struct {
	name         string
	home         *guardSet
	serial, born int64
	named        bool
}

// all returns all registered resources, by name.
func (g *registry) all() []place {
	g.mu.Lock()
	all := make([]place, 0, len(g.places)+len(g.kept))
	for _, list := range [...][]*Resource{g.places, g.kept} {
		for _, r := range list {
			all = append(all, place{r.name, r.home, r.serial, r.born, r.named})
		}
	}
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b place) int { return strings.Compare(a.name, b.name) })
	return all
}
