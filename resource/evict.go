package resource

import (
	"math"
	"time"

	"github.com/leapgate-go/leapgate/metric"
)

const (
	// idleTime is how long nothing must have happened on a resource before it may
	// be evicted, besides what its rules remember.
	idleTime = time.Minute

	// handSteps is how many places, or remembered resources, the search for a victim looks
	// at, so that a flood of new names cannot buy a scan per call.
	handSteps = 8
)

// Evictions is how resources have given their places to other names.
type Evictions struct {
	// Evicted is how many resources have lost their places.
	Evicted int64
	// Remembered is how many of them are remembered: they were evicted before their rules
	// had forgotten what they used, and continue from it if they come again.
	Remembered int
	// Forgotten is how many of those had to be forgotten too early, because too many
	// were remembered; and ForgottenCalls how many calls had passed there: at most so
	// many can pass once more than the rules say.
	Forgotten, ForgottenCalls int64
}

// Evictions returns how resources have given their places to other names.
func (g *registry) Evictions() Evictions {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Evictions{g.evicted, len(g.remembered.list), g.remembered.forgotten, g.remembered.forgottenCalls}
}

// makeRoom reports whether there are places for so many more. If all are taken, it looks at a
// few resources and evicts those that are idle. If none is, it evicts the least used of them,
// but only if rules bind other: without a place, the new name would have to share there what
// these rules admit. The caller holds mu.
func (g *registry) makeRoom(now int64, more int) bool {
	victim := g.search(now, more)
	room := len(g.places)+more <= g.max
	if !room && victim != nil { // one for one, also if rules that are gone have left too many
		room = g.evict(victim, now)
	}
	g.crowded.Store(!room)
	return room
}

// roomFor reports what makeRoom would, perhaps. The caller holds mu.
func (g *registry) roomFor(now int64, more int) bool {
	victim := g.search(now, more)
	room := victim != nil || len(g.places)+more <= g.max
	g.crowded.Store(!room)
	return room
}

// search looks at a few resources, and evicts those that are idle until there are places
// for so many more. If there are not, it returns the least used of those that may be evicted
// although they are not idle.
func (g *registry) search(now int64, more int) (victim *Resource) {
	bound := more > 0 && g.other.home.checks != nil
	least := int64(math.MaxInt64)
	for step := 0; step < handSteps && len(g.places)+more > g.max; step++ {
		g.hand = (g.hand + 1) % len(g.places)
		r := g.places[g.hand]
		if r.forgottenAt() <= now {
			g.evict(r, now)
			continue
		}
		if !bound || r.home.metric.Waiting() > 0 {
			continue
		}
		counts := metric.Counts(r.home.metric.Totals())
		if used := r.used + counts[metric.Pass]; used < least && counts.Concurrency() == 0 {
			victim, least = r, used
		}
	}
	return victim
}

// forgottenAt is from when on nothing is lost if the resource goes: nothing has happened
// on it for long enough, and its rules remember nothing. The caller holds the registry's
// lock.
func (r *Resource) forgottenAt() int64 {
	last := r.born
	if end, used := r.home.metric.LastBucket(); used {
		last = max(last, end)
	}
	enough := idleTime
	if r.home.checks != nil {
		enough = max(enough, r.home.longest)
	}
	return last + int64(enough)
}

// evict takes the place of r, unless a call is in flight or comes in meanwhile. What its
// rules have not forgotten by now is remembered. It reports whether r is gone. The caller
// holds mu.
func (g *registry) evict(r *Resource, now int64) bool {
	final, ok := r.home.metric.Retire()
	if !ok {
		return false
	}
	g.evicted++
	g.evictedTotals.counts = g.evictedTotals.counts.Plus(final)
	g.evictedTotals.latencies = g.evictedTotals.latencies.Plus(metric.Latencies(r.home.metric.Latencies()))
	g.evictedTotals.waits = g.evictedTotals.waits.Plus(metric.Latencies(r.home.metric.Waits()))
	gone := g.dismiss(r.home, nil, now)
	if until := r.forgottenAt(); until > now {
		g.remembered.add(&rememberedResource{
			name: r.name, checks: r.home.checks, bound: r.bound, former: gone, used: r.used + final[metric.Pass], until: until,
		}, now)
	}
	r.set.Store(g.nowhere)
	r.home = nil
	g.table.Delete(r.name)
	g.unlist(r)
	return true
}
