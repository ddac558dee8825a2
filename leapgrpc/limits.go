package leapgrpc

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/limit"
)

// Limit is one limiter and what it counts by.
type Limit struct {
	// Limiter decides; it is required, but for InFlight. What [limit.All] returns is one
	// limiter with several policies.
	Limiter limit.Limiter

	// InFlight, in place of a Limiter, bounds the calls in flight of each key: a call has its
	// place until its handler returns, or, as a client's, until it has ended. A refusal is
	// Unavailable. It is asked after all Limiters.
	InFlight limit.Acquirer

	// Name is the name of the policy, where the limiter has none of its own. Empty is
	// "limit-1", "limit-2" and so on. Clients see it: names are of printable ASCII, and
	// each stands once.
	Name string

	// Key returns the client that a call counts for. Nil: that of [Config].
	Key Key

	// Skip, if it is not nil, reports whether this limit is not for a call.
	Skip func(Call) bool

	// FailClosed refuses, with Unavailable, while the limiter returns errors. Otherwise such
	// errors admit: what protects a service should not be what takes it down. What a client can
	// bring about never admits: limit.ErrKey, and the end of the call's context. Limiters of
	// package leapredis decide by themselves: see their WhenAway.
	FailClosed bool
}

type (
	limits  struct{ charging.Set[Call, struct{}] }
	charge  = charging.Charge[Call, struct{}]
	refused = charging.Refusal[Call, struct{}]
)

func newLimits(field string, given []Limit, key Key, logger *slog.Logger, faults *faults) limits {
	l := limits{charging.Set[Call, struct{}]{
		Package: "leapgrpc", Logger: charging.LoggerOf(logger),
		CannotCount: func(policy string, wait time.Duration) error {
			return &RefusedError{Policy: policy, CannotCount: true, RetryAfter: wait}
		},
	}}
	for i, g := range given {
		c := &charging.Limit[Call, struct{}]{
			Limiter: g.Limiter, InFlight: g.InFlight, Name: g.Name, Key: g.Key, Skip: g.Skip, FailClosed: g.FailClosed,
		}
		if c.Name == "" {
			c.Name = fmt.Sprintf("limit-%d", i+1)
		}
		if c.Key == nil {
			c.Key = key
		}
		if c.InFlight == nil {
			c.Skip = func(call Call) bool { return call.exempt == FromRates || g.Skip != nil && g.Skip(call) }
		}
		l.Add(fmt.Sprintf("%s[%d]", field, i), c, faults.add)
	}
	return l
}

// take asks the limits with ctx. If one refuses, the others have back what they took, with after, which
// does not end. The error is a [*refusal], or that of ctx.
func (l *limits) take(ctx, after context.Context, call Call, charges []charge) ([]charge, error) {
	if len(l.All) == 0 {
		return charges, nil
	}
	if charges == nil {
		charges = make([]charge, 0, len(l.All))
	}
	charges, no := l.Take(ctx, after, call, nil, charges)
	if no == nil {
		return charges, nil
	}
	if ended := ctx.Err(); ended != nil && no.Err != nil {
		return nil, endedError{ended}
	}
	return nil, refusalOf(no)
}

// release gives back the places in flight.
func release(charges []charge) {
	for i := range charges {
		charges[i].Place.Release()
	}
}
