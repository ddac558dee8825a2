package resource

import (
	"slices"

	"github.com/leapgate-go/leapgate/internal/names"
)

// Changed notes that a guard has other checks than before, for the resources of these
// names. It calls nobody, so that a guard can tell while it holds the lock under which its
// rules change. The function that it returns carries the changes out, and is called without
// a lock; when it returns, so are those that were noted before by others, which may still be
// at it.
func (g *registry) Changed(changes names.Set) (rebind func()) {
	g.rebinding.Lock()
	defer g.rebinding.Unlock()
	own := &changes
	if len(changes.Names) > 0 || changes.Matching != nil {
		g.unbound = append(g.unbound, own)
	}
	pending := slices.Clone(g.unbound)
	return func() {
		var stateful []*checks
		for _, c := range pending {
			g.rebindAll(c, &stateful)
		}
		g.rebinding.Lock()
		g.unbound = slices.DeleteFunc(g.unbound, func(c *names.Set) bool { return c == own })
		g.rebinding.Unlock()
		for _, s := range stateful { // last, since it calls the program
			s.deliver(g)
		}
	}
}

// rebindAll carries out changes. It adds the new checks to stateful if any of them has a state.
func (g *registry) rebindAll(c *names.Set, stateful *[]*checks) {
	g.generation.Add(1)
	changed := slices.Clip(c.Names) // the program's, maybe
	if c.Matching != nil {          // asked after the generation was raised, so none is missed
		listed := make(map[string]bool, len(changed))
		for _, name := range changed {
			listed[name] = true
		}
		for _, p := range g.all() {
			if !listed[p.name] && c.Matching(p.name) {
				changed = append(changed, p.name)
			}
		}
	}
	now := g.clock.Now()
	for _, name := range changed {
		for !g.rebind(name, now, stateful) {
		}
	}
}

// rebind is false if rules were loaded meanwhile, or the resource came or went, so that
// the checks are stale.
func (g *registry) rebind(name string, now int64, stateful *[]*checks) bool {
	generation := g.generation.Load()
	g.mu.Lock()
	r := g.table.Get(name)
	old := r.checks()
	g.mu.Unlock()
	checks, named := g.bind(name, old)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return true
	}
	if r == nil || r.home == nil { // it has come meanwhile, or has gone
		r = g.table.Get(name)
	}
	if g.generation.Load() != generation || r.checks() != old {
		return false
	}
	switch {
	case r != nil:
		if r.named != named {
			g.unlist(r)
			r.named = named
			g.list(r)
		}
		r.home = r.home.with(checks)
		r.set.Store(r.home)
		if !named {
			g.makeRoom(now, 0) // r may go as well, if it is idle
		}
	case named:
		r = g.newResource(name)
		r.named = true
		g.settle(r, now, checks)
	}
	if checks != nil && checks.stateful != nil {
		*stateful = append(*stateful, checks)
	}
	return true
}

// checks returns the checks of a registered resource, nil if r is nil. The caller holds the
// registry's lock.
func (r *Resource) checks() *checks {
	if r == nil {
		return nil
	}
	return r.home.checks
}
