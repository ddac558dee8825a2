package leaphttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/structured"
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

type limits struct {
	all    []*preparedLimit
	logger func() *slog.Logger
}

type preparedLimit struct {
	limiter    limit.Limiter  // nil: inFlight
	settler    limit.Settler  // the limiter, or what settles it
	inFlight   limit.Acquirer // nil: limiter
	cost       func(*http.Request) int64
	name       string
	key        Key
	skip       func(*http.Request) bool
	failClosed bool
	policies   []policy
	peek       func(key string) limit.Decision // nil: the limiter cannot be asked without a charge
	logged     atomic.Int64                    // when an error of the limiter was last logged, Unix ns
	hasKeys    atomic.Bool                     // some request had a key
	keyless    atomic.Int64                    // requests without a key, while none had one
}

type charge struct {
	limit *preparedLimit
	key   string
	limit.Decision
	place  limit.Place
	settle bool // Settle is for it
}

func newLimits(given []Limit, key Key, logger *slog.Logger, faults *faults) limits {
	l := limits{logger: loggerOf(logger)}
	names := make(map[string]bool)
	for i, g := range given {
		switch {
		case g.InFlight != nil && isNil(g.InFlight): // what a constructor returns with its error
			faults.add("Limits[%d].InFlight is a nil %T; want a limiter", i, g.InFlight)
			continue
		case g.InFlight != nil:
			if g.Limiter != nil {
				faults.add("Limits[%d] has a Limiter and InFlight; want one of them", i)
			}
			if g.Cost != nil {
				faults.add("Limits[%d].Cost is set with InFlight, where each request takes one place; want none", i)
			}
		case g.Limiter == nil:
			faults.add("Limits[%d].Limiter is nil; want a limiter", i)
			continue
		case isNil(g.Limiter): // what a constructor returns with its error
			faults.add("Limits[%d].Limiter is a nil %T; want a limiter", i, g.Limiter)
			continue
		}
		c := &preparedLimit{
			limiter: g.Limiter, inFlight: g.InFlight, cost: g.Cost,
			name: g.Name, key: g.Key, skip: g.Skip, failClosed: g.FailClosed,
		}
		if c.name == "" {
			c.name = fmt.Sprintf("limit-%d", i+1)
		}
		if c.key == nil {
			c.key = key
		}
		if s, ok := c.limiter.(limit.Settler); ok {
			c.settler = s
		} else if c.limiter != nil {
			c.settler = limit.All(c.limiter)
		}
		if c.policies = policiesOf(c.limiter, c.name); c.inFlight != nil {
			c.policies = policiesOf(c.inFlight, c.name)
		}
		if p, ok := c.limiter.(interface {
			Peek(key string) limit.Decision
		}); ok {
			c.peek = p.Peek
		}
		for _, p := range c.policies {
			switch {
			case !structured.IsString(p.name):
				faults.add("Limits[%d]: the name %.64q is no header text; want printable ASCII", i, p.name)
			case names[p.name]:
				faults.add("Limits[%d]: the name %.64q is there twice; want one for each limit", i, p.name)
			}
			names[p.name] = true
		}
		l.all = append(l.all, c)
	}
	// See limit.All: what follows the answer of another process is decided and given
	// back in this one, within microseconds.
	slices.SortStableFunc(l.all, func(a, b *preparedLimit) int { return a.order() - b.order() })
	return l
}

// isNil reports whether what an interface holds is nil, or nothing.
func isNil(v any) bool {
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
		return value.IsNil()
	default:
		return false
	}
}

// loggerOf is slog.Default, as it is then, if there is none.
func loggerOf(logger *slog.Logger) func() *slog.Logger {
	if logger == nil {
		return slog.Default
	}
	return func() *slog.Logger { return logger }
}

// order is when a limit is asked. Places are taken last, and so held for no longer than need be.
func (c *preparedLimit) order() int {
	if r, ok := c.limiter.(limit.Remote); ok && r.Remote() {
		return 0
	}
	if c.inFlight != nil {
		return 2
	}
	return 1
}

// detached is the context of a request without its end, so that a client cannot end what
// was begun for it by hanging up. It has one pointer, so that making it a context
// allocates nothing, as context.WithoutCancel does.
type detached struct{ request *http.Request }

func (detached) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}                   { return nil }
func (detached) Err() error                              { return nil }
func (l detached) Value(key any) any                     { return l.request.Context().Value(key) }

// asked is for what a [Checker] asks: its limits are not asked by request.
type asked struct {
	key string
	n   int64
}

// take asks the limits in turn, with ctx. If one refuses, those before it get back what they
// took, and those after it are asked how long they would refuse, so that Retry-After is true.
// The charges are the decisions as they stand then.
func (l *limits) take(ctx context.Context, r *http.Request, charges []charge) ([]charge, *Refusal) {
	return l.ask(ctx, r, nil, charges)
}

// ask is take, with a key and a number that the request does not say, if any are given.
func (l *limits) ask(ctx context.Context, r *http.Request, given *asked, charges []charge) (_ []charge, refusal *Refusal) {
	returned := false
	defer func() {
		if !returned { // a Key, a Skip or a limiter of the program panicked
			l.refund(r, charges)
		}
	}()
	for _, c := range l.all {
		if c.skip != nil && c.skip(r) {
			continue
		}
		if c.inFlight != nil && refusal != nil {
			continue // it has nothing to say on how long to wait
		}
		key, n := "", int64(1)
		if given == nil {
			key = c.key(r)
			if c.cost != nil {
				n = max(0, c.cost(r))
			}
		} else {
			key, n = given.key, given.n
		}
		if refusal != nil {
			n = 0
		}
		key = LimiterKey(key)
		if key == unknownKey {
			l.noteKeyless(c)
		} else if !c.hasKeys.Load() {
			c.hasKeys.Store(true)
		}
		charges = append(charges, charge{limit: c, key: key, settle: c.cost != nil || given != nil})
		charged := &charges[len(charges)-1]
		d, err := limit.Decision{}, error(nil)
		if c.inFlight != nil {
			charged.place, d, err = c.inFlight.Acquire(ctx, key)
		} else {
			d, err = c.limiter.AllowN(ctx, key, n)
		}
		if charged.Decision = d; err != nil || !d.Allowed && d.Unavailable {
			charges = charges[:len(charges)-1] // what does not work is not announced
		}
		if err != nil {
			if refusal == nil && l.refuses(ctx, c, err) {
				refusal = &Refusal{Status: http.StatusServiceUnavailable, Err: fmt.Errorf("leaphttp: limit %q: %w", c.name, err)}
				l.refund(r, charges)
			}
			continue
		}
		if !d.Allowed && d.Unavailable {
			if refusal == nil {
				err := &RefusedError{Policy: c.policy(d.Name).name, Unavailable: true, RetryAfter: d.RetryAfter}
				refusal = &Refusal{Status: http.StatusServiceUnavailable, Err: err}
				l.refund(r, charges)
			}
			refusal.RetryAfter = max(refusal.RetryAfter, d.RetryAfter)
			continue
		}
		if d.Allowed {
			continue
		}
		if refusal == nil {
			refusal = &Refusal{Status: http.StatusTooManyRequests}
			if c.inFlight != nil {
				refusal.Status = http.StatusServiceUnavailable
			}
			l.refund(r, charges)
		}
		violated := c.policy(d.Name)
		refusal.RetryAfter = max(refusal.RetryAfter, d.RetryAfter)
		refusal.Policies = append(refusal.Policies, violated.name)
		refusal.violated = violated
	}
	returned = true
	return charges, refusal
}

// keylessToWarn is how many requests must have no key, and none one, to be worth a warning.
const keylessToWarn = 100

// noteKeyless counts a request without a key, and warns of a limit that has never had one.
func (l *limits) noteKeyless(c *preparedLimit) {
	if !c.hasKeys.Load() && c.keyless.Add(1) == keylessToWarn {
		l.logger().Warn("leaphttp: the key of a limit could not be told for any request so far: they all share one key",
			"limit", c.policies[0].name, "requests", keylessToWarn)
	}
}

// refuses reports whether an error of a limiter refuses the request.
func (l *limits) refuses(ctx context.Context, c *preparedLimit, err error) bool {
	if ctx.Err() != nil {
		return true // the caller has given up, and the limiter did not fail
	}
	now := time.Now().UnixNano()
	if last := c.logged.Load(); (last == 0 || now-last >= int64(time.Minute)) && c.logged.CompareAndSwap(last, now) {
		l.logger().Error("leaphttp: a limiter failed", "limit", c.policies[0].name, "error", err, "requests refused", c.failClosed)
	}
	return c.failClosed || errors.Is(err, limit.ErrKey)
}

// refund gives back what the charges took, also if the client is gone.
func (l *limits) refund(r *http.Request, charges []charge) { refund(r, charges) }

func refund(r *http.Request, charges []charge) {
	for i := range charges {
		c := &charges[i]
		if c.Charged == 0 {
			continue
		}
		if c.limit.inFlight != nil {
			c.place.Release()
			c.Charged, c.Remaining = 0, c.Remaining+1
			continue
		}
		// An error means that the limiter has failed since: the charge stays until it
		// leaves its window.
		if err := c.limit.limiter.Refund(detached{r}, c.key, c.Decision, c.Charged); err == nil {
			c.Remaining = min(c.Remaining+c.Charged, max(c.Limit, c.Remaining))
		}
		c.Charged = 0
	}
}
