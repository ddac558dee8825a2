package limit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Group is several limits together: a call passes if all of them admit it. Make one with
// [All].
type Group struct {
	limiters []Limiter // in the order of asking
}

// All makes one limiter of several, such as 10 a second and 1,000 an hour for the same
// key. Each limit is asked in turn, [Remote] ones first, and takes what it admits; when
// one refuses, those before it get back exactly what they took. So a call that is
// refused has cost nothing, unless a window turned in between; and a call may be refused
// because of what another took for a moment.
//
// A limiter must not be nil; All panics if one is. Without any, everything is allowed,
// and Limit and Remaining are 0.
//
// Each limit reads its own clock once. An admitted decision of more than one limit
// allocates once, for their tickets.
func All(limiters ...Limiter) *Group {
	g := &Group{}
	for _, remote := range []bool{true, false} {
		for i, l := range limiters {
			if l == nil {
				panic(fmt.Sprintf("limit: All: limiter %d is nil", i))
			}
			if v := reflect.ValueOf(l); v.Kind() == reflect.Pointer && v.IsNil() {
				panic(fmt.Sprintf("limit: All: limiter %d is a nil %T", i, l)) // what a constructor returns with its error
			}
			if isRemote(l) == remote {
				g.limiters = append(g.limiters, l)
			}
		}
	}
	return g
}

func isRemote(l Limiter) bool {
	r, ok := l.(Remote)
	return ok && r.Remote()
}

// Remote reports whether any of the limits is.
func (g *Group) Remote() bool { return len(g.limiters) > 0 && isRemote(g.limiters[0]) }

// part is what one of the limits decided.
type part struct {
	decision Decision
	next     *part
}

// Allow is shorthand for AllowN of 1.
func (g *Group) Allow(ctx context.Context, key string) (Decision, error) {
	return g.AllowN(ctx, key, 1)
}

// AllowN admits n of key if every limit does, or refuses and takes nothing. The decision
// has the Name and the Limit of the first that refused, or if none did of the one with
// the least Remaining. It has the least Remaining, and the longest RetryAfter and
// ResetAfter of all: when one refuses, the limits of this package are asked how long they
// would. If a limit returns an error and none refuses, that is the error. What was taken
// is given back in both cases, and if a limit panics; a limit that fails to take it back
// admits so much less. But when ctx has ended meanwhile, [Remote] limits keep what they
// took.
func (g *Group) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	return g.allow(ctx, key, n, false)
}

// AllowAtMost admits as many of n as all limits have room for: Decision.Charged says how
// many; where Limit is [Exempt], all of them. It refuses if not one fits; RetryAfter is then how
// long until one does. Each limit takes what it has room for, of what those before it have, and
// gives back what a later one has no room for. Otherwise it is AllowN.
//
// A limit that has no AllowAtMost is asked for all, and if it refuses and something remains, once
// more for that.
func (g *Group) AllowAtMost(ctx context.Context, key string, n int64) (Decision, error) {
	return g.allow(ctx, key, n, n > 0)
}

// allow asks for n, or for some of them.
func (g *Group) allow(ctx context.Context, key string, n int64, some bool) (Decision, error) {
	if err := g.check(ctx, key, n); err != nil {
		return Decision{}, err
	}
	var few [4]Decision // most have no more, and stay off the heap
	said := few[:0]
	asking := true
	defer func() {
		if asking { // one of them panics
			_ = g.refund(ctx, key, said)
		}
	}()
	var failed error
	for i, l := range g.limiters {
		var d Decision
		var err error
		if some {
			d, err = allowAtMost(ctx, l, key, n)
		} else {
			d, err = l.AllowN(ctx, key, n)
		}
		switch {
		case err != nil: // another may refuse, which is worth more than the error
			failed = errors.Join(failed, err)
			d = Decision{}
		case !d.Allowed:
			asking = false
			_ = g.refund(ctx, key, said) // a refusal is one, also if that fails
			if some {
				n = 1
			}
			return g.refusal(key, n, i, d, said), nil
		case some && d.Limit != Exempt && d.Charged > 0: // else it counts nothing, and admits all
			n = min(n, d.Charged)
		}
		said = append(said, d)
	}
	if some && failed == nil {
		g.trim(ctx, key, said, n)
	}
	asking = false
	if failed != nil {
		if ended(ctx) != nil { // a refund would cost another round trip, and reward giving up
			for i := range said {
				if isRemote(g.limiters[i]) {
					said[i].Charged = 0
				}
			}
		}
		return Decision{}, errors.Join(failed, g.refund(ctx, key, said))
	}
	switch len(said) {
	case 0:
		return Decision{Allowed: true}, nil
	case 1:
		return said[0], nil
	}
	var whole Decision
	for i, d := range said {
		whole = merge(whole, d, i == 0)
	}
	whole.Charged = min(whole.Charged, n) // a limit may have failed to take back the rest
	whole.Ticket, whole.generation, whole.parts = 0, generation{}, nil
	if n > 0 {
		parts := make([]part, len(said))
		for i, d := range said {
			parts[i].decision = d
			if i > 0 {
				parts[i-1].next = &parts[i]
			}
		}
		whole.parts = &parts[0]
	}
	return whole, nil
}

// allowAtMost asks one limit for as many of n as it has room for.
func allowAtMost(ctx context.Context, l Limiter, key string, n int64) (Decision, error) {
	if l, ok := l.(interface {
		AllowAtMost(ctx context.Context, key string, n int64) (Decision, error)
	}); ok {
		return l.AllowAtMost(ctx, key, n)
	}
	d, err := l.AllowN(ctx, key, n)
	if err == nil && !d.Allowed && d.Remaining > 0 && d.Remaining < n {
		return l.AllowN(ctx, key, d.Remaining)
	}
	return d, err
}

// trim gives back what limits took beyond n, for which all have room.
func (g *Group) trim(ctx context.Context, key string, said []Decision, n int64) {
	for i, l := range g.limiters {
		d := &said[i]
		excess := d.Charged - n
		if excess <= 0 || l.Refund(lasting(ctx), key, *d, excess) != nil {
			continue // what it keeps, it admits less
		}
		d.Charged = n
		if a, ok := l.(asker); ok {
			after := a.would(key, 1)
			d.Remaining, d.MoreAfter, d.ResetAfter = after.Remaining, after.MoreAfter, after.ResetAfter
		} else if d.Limit != Exempt {
			d.Remaining += excess
		}
	}
}

func (g *Group) check(ctx context.Context, key string, n int64) error {
	if n < 0 {
		return badCount(n)
	}
	if key == "" || len(key) > MaxKeyLength {
		return badKey(key)
	}
	return ended(ctx)
}

// refund gives back what the first limits took, the last of them first. That ctx has
// ended does not matter.
func (g *Group) refund(ctx context.Context, key string, said []Decision) (err error) {
	if len(said) == 0 {
		return nil
	}
	last := len(said) - 1
	defer func() { err = errors.Join(g.refund(ctx, key, said[:last]), err) }() // also if this one panics
	if d := said[last]; d.Charged > 0 {
		return g.limiters[last].Refund(lasting(ctx), key, d, d.Charged)
	}
	return nil
}

// lasting is ctx without its end.
func lasting(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return context.WithoutCancel(ctx)
}

// asker is a limiter that can predict its answer.
type asker interface {
	would(key string, n int64) Decision
}

func (l *RateLimiter) would(key string, n int64) Decision {
	return l.ask(l.clock.Now(), key, max(1, n))
}

func (g *Group) would(key string, n int64) Decision {
	whole := Decision{Allowed: true}
	first := true
	for _, l := range g.limiters {
		if a, ok := l.(asker); ok {
			whole = merge(whole, a.would(key, n), first)
			first = false
		}
	}
	return whole
}

// refusal is the decision when the limit at an index said no, and those before it have
// got back what they took.
func (g *Group) refusal(key string, n int64, index int, no Decision, said []Decision) Decision {
	whole := no
	for i, l := range g.limiters {
		switch a, ok := l.(asker); {
		case i == index:
		case ok:
			whole = merge(whole, a.would(key, n), false)
		case i < index && said[i].Allowed:
			d := said[i]
			d.Remaining += d.Charged
			whole = merge(whole, d, false)
		}
	}
	whole.Charged, whole.Ticket, whole.generation, whole.parts = 0, 0, generation{}, nil
	whole.WouldRefuse = false
	return whole
}

// merge makes one decision of the ones so far and another.
func merge(whole, d Decision, first bool) Decision {
	if first {
		return d
	}
	if whole.Allowed && (!d.Allowed || d.Remaining < whole.Remaining) {
		whole.Name, whole.Limit, whole.Unavailable = d.Name, d.Limit, d.Unavailable
	}
	switch {
	case whole.Allowed == d.Allowed:
		whole.RetryAfter = max(whole.RetryAfter, d.RetryAfter)
	case whole.Allowed: // what it has is of a limit in mode Shadow
		whole.RetryAfter = d.RetryAfter
	}
	whole.Allowed = whole.Allowed && d.Allowed
	whole.WouldRefuse = whole.WouldRefuse || d.WouldRefuse
	whole.Degraded = whole.Degraded || d.Degraded
	whole.Crowded = whole.Crowded || d.Crowded
	switch {
	case d.Remaining < whole.Remaining:
		whole.MoreAfter = d.MoreAfter
	case d.Remaining == whole.Remaining:
		whole.MoreAfter = max(whole.MoreAfter, d.MoreAfter)
	}
	whole.Remaining = min(whole.Remaining, d.Remaining)
	whole.Charged = max(whole.Charged, d.Charged)
	whole.ResetAfter = max(whole.ResetAfter, d.ResetAfter)
	return whole
}

// Peek returns how things stand for a key: whether one more would pass all limits now, how
// many, when. It takes nothing. Limits that are not of this package are not asked.
func (g *Group) Peek(key string) Decision {
	if g.check(nil, key, 0) != nil { //nolint:staticcheck // a nil context never ends
		return Decision{RetryAfter: Never}
	}
	return g.would(key, 1)
}

// Wait waits until n of key are admitted by all limits, as [RateLimiter.Wait] does.
func (g *Group) Wait(ctx context.Context, key string, n int64) (Decision, error) {
	return wait(ctx, n, nil, func() (Decision, error) { return g.AllowN(ctx, key, n) })
}

// Refund gives back n of what d charged to key, to each limit that was charged.
func (g *Group) Refund(ctx context.Context, key string, d Decision, n int64) error {
	return g.each(d, n, func(l Limiter, d Decision) error { return l.Refund(ctx, key, d, min(n, d.Charged)) })
}

// Settle corrects what d charged to key, in each limit, as [RateLimiter.Settle] does. A limit
// that is not a [Settler] gets a refund or, for more, an AllowN, whose answer does not
// matter.
func (g *Group) Settle(ctx context.Context, key string, d Decision, actual int64) error {
	if err := g.check(nil, key, actual); err != nil { //nolint:staticcheck // a nil context never ends
		return err
	}
	return g.each(d, 0, func(l Limiter, d Decision) error {
		if s, ok := l.(Settler); ok {
			return s.Settle(ctx, key, d, actual)
		}
		more := actual - d.Charged
		if more <= 0 {
			return l.Refund(ctx, key, d, -more)
		}
		_, err := l.AllowN(lasting(ctx), key, more)
		return err
	})
}

// each calls do with every limit and what it decided. All are called; the error is of all
// that failed.
func (g *Group) each(d Decision, n int64, do func(Limiter, Decision) error) error {
	if n > d.Charged {
		return badRefund(n, d)
	}
	if len(g.limiters) == 1 {
		return do(g.limiters[0], d)
	}
	return eachOf(g.limiters, d.parts, do)
}

func eachOf(limiters []Limiter, said *part, do func(Limiter, Decision) error) (err error) {
	if len(limiters) == 0 {
		return nil
	}
	var mine Decision // of a decision that refused: nothing was charged
	if said != nil {
		mine, said = said.decision, said.next
	}
	defer func() { err = errors.Join(err, eachOf(limiters[1:], said, do)) }() // also if this one panics
	return do(limiters[0], mine)
}
