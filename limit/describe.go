package limit

import "time"

// Description is what a limit admits: Limit for each key in a Window.
type Description struct {
	Name   string // Config.Name
	Limit  int64
	Window time.Duration
}

// Describer is a limiter that can say what it admits, for those who announce it to
// clients. Those of this package are.
type Describer interface {
	// Describe gives the limits that are asked, in the order of asking. It is the same
	// at every call.
	Describe() []Description
}

// Describe gives the one limit.
func (c *core) Describe() []Description {
	return []Description{{Name: c.name, Limit: c.limit, Window: c.window}}
}

// Describe gives what the limits of the group say, in the order of asking. Those that are
// no [Describer] are left out.
func (g *Group) Describe() []Description {
	var all []Description
	for _, l := range g.limiters {
		if d, ok := l.(Describer); ok {
			all = append(all, d.Describe()...)
		}
	}
	return all
}
