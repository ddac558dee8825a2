package limit

import (
	"context"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/occupancy"
	"github.com/leapgate-go/leapgate/rule"
)

// InFlight admits or refuses by key: so many calls at a time. Make one with [NewInFlight].
// All methods may be called by any number of goroutines at once.
type InFlight struct {
	terms
	*answers
	places *occupancy.Places
	self   owner // of all places
	ended  atomic.Bool
}

// NewInFlight makes a limiter of calls in flight: Config.Limit for each key, never one more,
// whatever panics or is canceled. A call takes a place with [InFlight.Acquire] and gives it
// back. It takes no lock and allocates nothing if the key is known, and reads no clock.
//
// No call waits: one beyond the limit is refused, and RetryAfter is 0, since it is not known
// when calls end.
//
// A key that has places is never evicted. When all MaxKeys have some, a new key is refused,
// whatever WhenFull says; Crowded and Unavailable are set then. A key without places makes
// room for a new one, but is kept until there is need. A key takes about 50 bytes besides its own.
//
// Of [Config], what is about time and memory for times must be 0. The error, if any, is
// [ErrConfig], and holds everything that is wrong with cfg as one or more [*ConfigError].
func NewInFlight(cfg Config) (*InFlight, error) {
	if err := cfg.complete(forInFlight); err != nil {
		return nil, err
	}
	l := &InFlight{answers: newAnswers(cfg), places: occupancy.New(cfg.MaxKeys, nil)}
	l.init(cfg)
	l.self.places = l.places
	return l, nil
}

// Place is room for one call of a key, from [InFlight.Acquire] to [Place.Release]:
//
//	place, d, err := exports.Acquire(ctx, tenant)
//	if err != nil || !d.Allowed {
//		…
//	}
//	defer place.Release()
//
// It must not be copied after that, or each copy could give it back. Any one goroutine may
// release it, but not two at once. The zero Place is none.
type Place struct {
	_    noCopy
	from *owner // nil: there is nothing to release
	held *occupancy.Held
}

// owner is what a place is of: those of a limiter, or else a lease of its own.
type owner struct {
	places *occupancy.Places
	lease  Lease
}

// noCopy has the methods of a lock, so that vet finds copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Release gives the place back. Again, it does nothing.
func (p *Place) Release() {
	from := p.from
	if from == nil {
		return
	}
	p.from = nil
	if from.places == nil {
		from.lease.Release()
		return
	}
	from.places.Give(p.held, 1)
}

// Acquire takes a place of key, or refuses: the decision says which. The place is to be
// released in either case, which does nothing if there is none. The error is not a refusal:
// it is [ErrKey], [ErrClosed], [ErrCount] if Config.LimitFor returns no limit, or that of a
// ctx that has ended. A nil ctx never ends.
func (l *InFlight) Acquire(ctx context.Context, key string) (p Place, d Decision, err error) {
	err = l.acquire(ctx, key, Default, &p, &d)
	return
}

// AcquireLimit is Acquire under a limit of the call's own, as [RateLimiter.AllowLimit].
func (l *InFlight) AcquireLimit(ctx context.Context, key string, limit int64) (p Place, d Decision, err error) {
	err = l.acquire(ctx, key, limit, &p, &d)
	return
}

func (l *InFlight) acquire(ctx context.Context, key string, limit int64, p *Place, d *Decision) error {
	if err := l.check(ctx, key); err != nil {
		return err
	}
	limit, err := l.limitOf(key, limit)
	if err != nil {
		return err
	}
	if !l.counts(limit) {
		*d = unlimited(l.name)
		l.allowed.Add(1)
		return nil
	}
	held, taken, crowded := l.places.Take(key, 1, limit)
	if held != nil {
		p.from, p.held = &l.self, held
	}
	l.decide(d, limit, taken, held != nil, crowded)
	l.count(d, key, 1)
	return nil
}

func (l *InFlight) check(ctx context.Context, key string) error {
	switch {
	case key == "" || len(key) > MaxKeyLength:
		return badKey(key)
	case l.ended.Load():
		return ErrClosed
	}
	return ended(ctx)
}

// decide makes d the decision about a place when so many are taken.
func (l *InFlight) decide(d *Decision, limit, taken int64, ok, crowded bool) {
	d.Allowed, d.Name, d.Limit, d.Remaining = ok, l.name, limit, max(0, limit-taken)
	switch {
	case ok:
		d.Charged = 1
	case crowded:
		d.Crowded, d.Unavailable, d.Remaining = true, true, 0
	case limit == 0:
		d.RetryAfter, d.MoreAfter = Never, Never
	}
	if !l.enforces(limit) {
		d.overlook()
	}
}

// Peek returns how things stand for a key: whether a place is free, and how many. It takes
// none.
func (l *InFlight) Peek(key string) (d Decision) {
	if l.check(nil, key) != nil { //nolint:staticcheck // a nil context never ends
		return Decision{Name: l.name, Limit: l.limit.Load(), RetryAfter: Never}
	}
	limit, err := l.limitOf(key, Default)
	switch {
	case err != nil:
		return Decision{Name: l.name, RetryAfter: Never}
	case !l.counts(limit):
		return unlimited(l.name)
	}
	taken, crowded := l.places.Taken(key)
	l.decide(&d, limit, taken, taken < limit && !crowded, crowded)
	d.Charged = 0
	return d
}

// Sweep takes out all keys that have no places, and gives back their memory. There is no
// need to call it: see [RateLimiter.Sweep].
func (l *InFlight) Sweep() { l.places.Sweep() }

// Stats returns the figures of the limiter. They are read one after the other.
func (l *InFlight) Stats() Stats {
	s := Stats{
		Keys: l.places.Keys(), MaxKeys: l.places.MaxKeys(), Expired: l.places.Expired(), Crowded: l.places.Crowded(),
		InFlight: l.places.InFlight(),
	}
	l.addTo(&s)
	return s
}

// Describe returns the one limit. Its Window is 0.
func (l *InFlight) Describe() []Description {
	return []Description{{Name: l.name, Limit: l.limit.Load(), Mode: rule.Mode(l.mode.Load())}}
}

// Close ends the limiter: calls get [ErrClosed]. Places are released as before. It may be
// called more than once. The error is always nil.
func (l *InFlight) Close() error {
	l.ended.Store(true)
	return nil
}
