package param

import (
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// inFlight carries out a rule on calls in flight.
type inFlight struct {
	check
	occupancy
}

// occupancy is the places that are taken. It goes over from one check of a rule to the next;
// calls give their places back to where they took them, whatever rules there are then.
type occupancy struct {
	places *limit.Places
	shared *limit.Places // of calls without a value
	kept   *atomic.Pointer[items]
}

// shared is the places of calls without a value, as a call holds them. It is as large as a
// pointer, so that holding it allocates nothing.
type shared struct{ places *limit.Held }

var (
	_ resource.ArgsCheck    = (*inFlight)(nil)
	_ resource.ArgsFinisher = (*inFlight)(nil)
)

// occupy goes on with the places of the check before, if it fits.
func (c *inFlight) occupy(before resource.Check) {
	if old, ok := before.(*inFlight); ok && goesOn(old.rule, c.rule) {
		c.occupancy = old.occupancy
	} else {
		c.kept = new(atomic.Pointer[items])
		c.places = limit.NewPlaces(c.rule.MaxKeys, keeping(c.kept))
		c.shared = limit.NewPlaces(1, nil)
	}
	c.keep()
}

func (c *inFlight) keep() { c.kept.Store(c.items) }

func (c *inFlight) Interval() time.Duration { return 0 }

func (c *inFlight) ReserveArgs(_, n int64, _ resource.Caller, args resource.Args) (resource.Verdict, any) {
	a, ok := c.ask(&args)
	if a.shared {
		c.counts.missing.Add(n)
	}
	switch {
	case !ok:
		return c.missed(n), nil
	case a.limit < 0:
		a.buffer.free()
		return resource.Verdict{}, nil
	}
	places := c.placesOf(&a)
	held, taken, crowded := places.Take(a.key, n, a.limit)
	if held == nil && n > a.limit {
		taken = places.Taken(a.key)
	}
	a.buffer.free()
	switch {
	case crowded:
		return c.refuse(n, c.crowded, float64(n), -1), nil
	case held == nil:
		return c.refuse(n, a.cause, float64(taken+n), -1), nil
	}
	c.counts.admitted.Add(n)
	if a.shared {
		return resource.Verdict{}, shared{held}
	}
	return resource.Verdict{}, held
}

func (c *inFlight) placesOf(a *asked) *limit.Places {
	if a.shared {
		return c.shared
	}
	return c.places
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
	case *limit.Held:
		c.places.Give(held, n)
	case shared:
		c.shared.Give(held.places, n)
	}
}

// WaitArgs cannot know when a call in flight will end.
func (c *inFlight) WaitArgs(_, n int64, _ resource.Caller, args resource.Args) time.Duration {
	a, ok := c.ask(&args)
	defer a.buffer.free()
	switch {
	case !ok && c.rule.Missing == Block:
		return -1
	case !ok, a.limit < 0, n <= a.limit-c.placesOf(&a).Taken(a.key):
		return 0
	default:
		return -1
	}
}

func (c *inFlight) Snapshot(int64) stat.RuleSnapshot { return c.snapshot(c.places.Stats()) }
