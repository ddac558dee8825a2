package limit

import (
	"time"

	"github.com/leapgate-go/leapgate/rule"
)

// Description is what a limit admits: Limit for each key in a Window.
type Description struct {
	Name   string // Config.Name
	Limit  int64  // now: see [RateLimiter.SetLimit]. Single keys may have others
	Window time.Duration
	Burst  int64     // how many at once, with [NewBurst]; else 0
	Mode   rule.Mode // now
}

// Describer is a limiter that can describe what it admits, so that it can be announced to
// clients. Those of this package are.
type Describer interface {
	// Describe returns the limits that are asked, in the order of asking. Names and windows are
	// the same at every call.
	Describe() []Description
}

// Describe returns the one limit.
func (l *RateLimiter) Describe() []Description {
	d := Description{Name: l.name, Limit: l.limit.Load(), Window: l.window, Mode: rule.Mode(l.mode.Load())}
	if l.gcra != nil {
		d.Burst = l.gcra.most(question{limit: d.Limit})
	}
	return []Description{d}
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
