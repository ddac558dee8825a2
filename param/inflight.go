package param

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/occupancy"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// inFlight carries out a rule on calls in flight.
type inFlight struct {
	check
	shared *occupancy.Places // of calls without a value
}

// shared is the places of calls without a value, as a call holds them. It is as large as a
// pointer, so that holding it allocates nothing.
type shared struct{ places *occupancy.Held }

var (
	_ resource.ArgsCheck    = (*inFlight)(nil)
	_ resource.ArgsFinisher = (*inFlight)(nil)
)

// occupy takes over the places of the check before, if it fits. Calls give their places back to
// where they took them, whatever rules there are then.
func (c *inFlight) occupy(before resource.Check) {
	if old, ok := before.(*inFlight); ok && old.state.tables == c.state.tables {
		c.shared = old.shared
	} else {
		c.shared = occupancy.New(1, nil)
	}
}

func (c *inFlight) Interval() time.Duration { return 0 }

func (c *inFlight) ReserveArgs(_, n int64, _ resource.Caller, args resource.Args) (resource.Verdict, any) {
	var a asked
	ok := c.ask(&a, args)
	c.come(&a, n)
	if !ok {
		return c.missed(n), nil
	}
	defer a.buffer.free()
	if a.limit < 0 {
		return resource.Verdict{}, nil
	}
	held, taken, crowded := c.placesOf(&a).Take(a.key, n, a.limit)
	switch {
	case crowded:
		return c.refuse(n, c.crowded, &a, float64(n), -1), nil
	case held == nil:
		return c.refuse(n, a.cause, &a, float64(taken+n), -1), nil
	}
	c.counts.admitted.Add(n)
	if a.shared {
		return resource.Verdict{}, shared{held}
	}
	return resource.Verdict{}, held
}

func (c *inFlight) placesOf(a *asked) *occupancy.Places {
	if a.shared {
		return c.shared
	}
	return c.state.places
}

func (c *inFlight) RefundArgs(_ resource.Ticket, n int64, _ resource.Args, held any) {
	if held != nil {
		c.counts.admitted.Add(-n)
		c.give(held, n)
	}
}

// FinishArgs gives back the places of a call that has ended.
func (c *inFlight) FinishArgs(_, n int64, _ time.Duration, _ resource.Outcome, held any) {
	c.give(held, n)
}

func (c *inFlight) give(held any, n int64) {
	switch held := held.(type) {
	case *occupancy.Held:
		c.state.places.Give(held, n)
	case shared:
		c.shared.Give(held.places, n)
	}
}

// WaitArgs cannot know when a call in flight will end.
func (c *inFlight) WaitArgs(_, n int64, _ resource.Caller, args resource.Args) time.Duration {
	var a asked
	ok := c.ask(&a, args)
	defer a.buffer.free()
	switch {
	case !ok && c.rule.Missing == Block:
		return -1
	case !ok, a.limit < 0:
		return 0
	}
	taken, crowded := c.placesOf(&a).Taken(a.key)
	if crowded || taken > a.limit-n {
		return -1
	}
	return 0
}

func (c *inFlight) Snapshot(int64) stat.RuleSnapshot { return c.snapshot(c.state.places.Keys()) }
