package resource

import "time"

const (
	// idleTime is the shortest time without calls after which a resource may be evicted. Rules with a
	// longer interval extend it, up to maxIdleTime, so that rules of a day lock no new names out for a day.
	idleTime    = time.Minute
	maxIdleTime = time.Hour

	// handSteps is the number of resources that one search for idle ones examines. It keeps the cost of
	// a call constant during a flood of new names.
	handSteps = 8
)

// Evictions counts the resources that were evicted to make room for new names.
type Evictions struct {
	// Evicted is the number of evicted resources. Each had been idle.
	Evicted int64
	// Forgotten is the number of those whose rules remember calls for more than an hour, and were
	// evicted before that time had passed. If such a name returns, its rules start from zero.
	Forgotten int64
}

// Evictions returns the number of evicted resources.
func (g *registry) Evictions() Evictions {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.evictions
}

// makeRoom reports whether there is room for so many more resources that no rule names. If there is
// not, it examines a few resources and evicts the idle ones. The caller holds mu.
func (g *registry) makeRoom(now int64, more int) bool {
	for step := 0; step < handSteps && len(g.places)+more > g.max; step++ {
		g.hand = (g.hand + 1) % len(g.places)
		g.evictIdle(g.places[g.hand], now)
	}
	room := len(g.places)+more <= g.max
	g.crowded.Store(!room)
	return room
}

// evictIdle evicts r if it is idle, and no call arrives meanwhile. The caller holds mu.
func (g *registry) evictIdle(r *Resource, now int64) {
	end := r.home.metric.LastBucket()
	idle := idleTime
	if r.home.checks != nil {
		idle = max(idle, r.home.longest)
	}
	last := max(r.born, end)
	if now < last+int64(min(idle, maxIdleTime)) || !r.home.metric.Retire(end) {
		return
	}
	g.evictions.Evicted++
	if now < last+int64(idle) {
		g.evictions.Forgotten++
	}
	r.set.Store(g.nowhere)
	r.home = nil
	g.table.Delete(r.name)
	g.unlist(r)
}
