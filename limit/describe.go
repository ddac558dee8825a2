package limit

import "time"

// Description is what a limit admits: Limit for each key in a Window.
type Description struct {
	Name   string // Config.Name
	Limit  int64
	Window time.Duration
}

// Describer is a limiter that can describe what it admits, so that it can be announced to
// clients. Those of this package are.
type Describer interface {
	// Describe returns the limits that are asked, in the order of asking. It returns the
	// same at every call.
	Describe() []Description
}

// Describe returns the one limit.
func (l *RateLimiter) Describe() []Description {
	return []Description{{Name: l.name, Limit: l.limit, Window: l.window}}
}

// Describe returns what the limits of the group describe, in the order of asking. Those that
// are no [Describer] are left out.
func (g *Group) Describe() []Description {
	var all []Description
	for _, l := range g.limiters {
		if d, ok := l.(Describer); ok {
			all = append(all, d.Describe()...)
		}
	}
	return all
}
