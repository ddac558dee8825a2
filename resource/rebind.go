package resource

import (
	"errors"
	"slices"
)

// Changes tells for which resources a guard has other checks than before.
type Changes struct {
	Names    []string          // of these, whether they are there or not
	Matching func(string) bool // and, if not nil, of all that are there and match
}

// And gives both changes as one.
func (c Changes) And(d Changes) Changes {
	both := Changes{Names: slices.Concat(c.Names, d.Names), Matching: c.Matching}
	switch {
	case both.Matching == nil:
		both.Matching = d.Matching
	case d.Matching != nil:
		both.Matching = func(name string) bool { return c.Matching(name) || d.Matching(name) }
	}
	return both
}

// ErrClosed is the error of loading rules into a closed gate.
var ErrClosed = errors.New("leapgate: gate is closed")

// Rebind gives the resources of these names the checks that their guards have for
// them now, and registers those that are named by a rule and not there yet. Calls that
// are in flight end as they began. Bad names are [ErrName], and nothing is done
// then; if the registry is closed, the error is [ErrClosed].
func (g *Registry) Rebind(names ...string) error {
	var faults []error
	for _, name := range names {
		faults = append(faults, CheckName(name))
	}
	if g.Closed() {
		faults = append(faults, ErrClosed)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	g.Changed(Changes{Names: names})()
	return nil
}

// Changed notes that a guard has other checks than before. It calls nobody, so that
// a guard can tell while it holds the lock under which its rules change. The function
// that it gives carries the changes out, and is called without a lock; when it
// returns, so are those that were noted before by others, who may still be at it.
func (g *Registry) Changed(changes Changes) (rebind func()) {
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
		g.unbound = slices.DeleteFunc(g.unbound, func(c *Changes) bool { return c == own })
		g.rebinding.Unlock()
		for _, s := range stateful { // last, since it calls the program
			s.deliver(g)
		}
	}
}

// rebindAll carries out changes. It adds the new checks to stateful if any of them has a state.
func (g *Registry) rebindAll(c *Changes, stateful *[]*checks) {
	g.generation.Add(1)
	names := c.Names
	if c.Matching != nil { // asked after the generation was raised, so none is missed
		for _, name := range g.names() {
			if c.Matching(name) {
				names = append(names[:len(names):len(names)], name)
			}
		}
	}
	now := g.clock.Now()
	for _, name := range names {
		for !g.rebind(name, now, stateful) {
		}
	}
}

// names gives the names of all resources that are there.
func (g *Registry) names() (names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, list := range [...][]*Resource{g.places, g.kept} {
		for _, r := range list {
			names = append(names, r.name)
		}
	}
	return names
}

// rebind is false if rules were loaded meanwhile, or the resource came or went, so that
// the checks are stale.
func (g *Registry) rebind(name string, now int64, stateful *[]*checks) bool {
	generation := g.generation.Load()
	g.mu.Lock()
	old, ghost := g.checksOf(name, now)
	g.mu.Unlock()
	checks, named := g.bind(name, old)
	back := ghost.back(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return true
	}
	// The checks alone would not do: they may have come and gone again meanwhile.
	if still, since := g.checksOf(name, now); g.generation.Load() != generation || still != old || since != ghost {
		return false
	}
	r := g.table.Get(name)
	switch {
	case r != nil:
		if r.named != named {
			g.unlist(r)
			r.named = named
			g.list(r)
		}
		g.depart(r.home, checks.allHolds(), now)
		r.home, r.bound = r.home.with(checks), generation
		r.set.Store(r.home)
		if !named {
			g.makeRoom(now, 0) // r may go as well, if it is idle
		}
	case named:
		r = g.newResource(name)
		r.named = true
		g.settle(r, now, checks, back)
	}
	if checks != nil && checks.stateful != nil {
		*stateful = append(*stateful, checks)
	}
	return true
}

// checksOf returns the checks that a resource has, or those that are remembered of it,
// with their ghost; nil if it is not known. The caller holds mu.
func (g *Registry) checksOf(name string, now int64) (*checks, *ghost) {
	if r := g.table.Get(name); r != nil {
		return r.home.checks, nil
	}
	if old := g.ghosts.table.Get(name); old != nil && old.until > now {
		return old.checks, old
	}
	return nil, nil
}
