package leaphttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/limit"
)

// Limit is one limiter and what it counts by.
type Limit struct {
	// Limiter decides; it is required, but for InFlight. What [limit.All] returns is one
	// limiter with several policies.
	Limiter limit.Limiter

	// InFlight, in place of a Limiter, bounds the requests in flight of each key: a request
	// has its place until the handler returns. A refusal is a 503. It is asked after all
	// Limiters, and is not for a [Transport] or a [Checker]. A *[limit.InFlight] is one; with
	// that of leapredis, handlers that outlast its leases call [Renew].
	InFlight limit.Acquirer

	// Cost, if it is not nil, returns how much a request takes of the limit, in place of 1:
	// bytes, rows, an estimate of tokens. Less than 0 is taken for 0, which takes nothing, and
	// passes if 1 would. [Settle] corrects it when the handler knows better. It is not for
	// InFlight.
	Cost func(*http.Request) int64

	// Name is the name of the policy, where the limiter has none of its own. Empty is
	// "limit-1", "limit-2" and so on. Clients see it: names are of printable ASCII, and
	// each stands once in a middleware.
	Name string

	// Key returns the client that a request counts for. Nil: the address of the socket's
	// peer, as an [Address] without trusted proxies finds it; in a [Transport], the host
	// that is called.
	//
	// "" means that the key is not known. All such requests share one key. A key that is
	// longer than 64 bytes is counted by its SHA-256: see [LimiterKey].
	Key Key

	// Skip, if it is not nil, reports whether this limit is not for a request.
	Skip func(*http.Request) bool

	// FailClosed refuses, with 503, while the limiter returns errors. Otherwise such
	// errors admit: what protects a service should not be what takes it down. What a
	// client can bring about never admits: limit.ErrKey, and the end of the request's
	// context.
	//
	// A limiter that decides by itself what happens when it cannot count returns no
	// errors then, so FailClosed does not matter to it. Those of package leapredis go by
	// their WhenAway: with Deny, requests are refused with 503 as well, since their
	// decisions are marked as Unavailable.
	FailClosed bool
}

// fewLimits is how many limits need no memory for their decisions.
const fewLimits = 4

// limits are those of one middleware, in the order of asking.
type limits struct {
	charging.Set[*http.Request, announced]
}

type (
	preparedLimit = charging.Limit[*http.Request, announced]
	charge        = charging.Charge[*http.Request, announced]
)

// announced is what is known of a limit besides.
type announced struct {
	settler  limit.Settler // the limiter, or what settles it
	policies []policy
	peek     func(key string) limit.Decision // nil: the limiter cannot be asked without a charge
}

func newLimits(given []Limit, key Key, logger *slog.Logger, faults *faults) limits {
	l := limits{charging.Set[*http.Request, announced]{
		Package: "leaphttp", Logger: charging.LoggerOf(logger),
		CannotCount: func(policy string, wait time.Duration) error {
			return &RefusedError{Policy: policy, CannotCount: true, RetryAfter: wait}
		},
	}}
	for i, g := range given {
		c := &preparedLimit{
			Limiter: g.Limiter, InFlight: g.InFlight, Cost: g.Cost,
			Name: g.Name, Key: g.Key, Skip: g.Skip, FailClosed: g.FailClosed,
		}
		if c.Name == "" {
			c.Name = fmt.Sprintf("limit-%d", i+1)
		}
		if c.Key == nil {
			c.Key = key
		}
		if !l.Add(fmt.Sprintf("Limits[%d]", i), c, faults.add) {
			continue
		}
		own := &c.Own
		if s, ok := c.Limiter.(limit.Settler); ok {
			own.settler = s
		} else if c.Limiter != nil {
			own.settler = limit.All(c.Limiter)
		}
		if own.policies = policiesOf(c.Limiter, c.Name); c.InFlight != nil {
			own.policies = policiesOf(c.InFlight, c.Name)
		}
		if p, ok := c.Limiter.(interface {
			Peek(key string) limit.Decision
		}); ok {
			own.peek = p.Peek
		}
	}
	return l
}

// detached is the context of a request without its end, so that a client cannot end what
// was begun for it by hanging up. It has one pointer, so that making it a context
// allocates nothing, as context.WithoutCancel does.
type detached struct{ request *http.Request }

func (detached) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}                   { return nil }
func (detached) Err() error                              { return nil }
func (l detached) Value(key any) any                     { return l.request.Context().Value(key) }

// take asks the limits for a request, with ctx.
func (l *limits) take(ctx context.Context, r *http.Request, charges []charge) ([]charge, *Refusal) {
	return l.ask(ctx, r, nil, charges)
}

// ask is take, with a key and a number that the request does not say, if any are given: a
// [Checker] has them.
func (l *limits) ask(ctx context.Context, r *http.Request, given *charging.Asked, charges []charge) ([]charge, *Refusal) {
	charges, refused := l.Take(ctx, detached{r}, r, given, charges)
	if refused == nil {
		return charges, nil
	}
	refusal := &Refusal{Status: http.StatusServiceUnavailable, RetryAfter: refused.RetryAfter, Policies: refused.Policies, Err: refused.Err}
	if refused.Quota {
		refusal.Status = http.StatusTooManyRequests
	}
	if n := len(refused.Policies); n > 0 {
		refusal.violated = &refused.Last.Own.policies[refused.Last.PolicyOf(refused.Policies[n-1])]
	}
	return charges, refusal
}

// refund gives back what the charges took, also if the client is gone.
func refund(r *http.Request, charges []charge) { charging.Refund(detached{r}, charges) }
