package limit

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/keys"
	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/rule"
)

// InFlight admits or refuses by key: so many calls at a time. Make one with [NewInFlight].
// All methods may be called by any number of goroutines at once.
type InFlight struct {
	terms
	*answers
	keys     *keys.Table[atomic.Uint64] // the places that are taken, or dismissed
	self     owner                      // of all places
	ended    atomic.Bool
	crowded  atomic.Int64
	taken    stripes.Counter // places
	occupied stripes.Counter // keys that have any
}

type occupant = keys.Node[atomic.Uint64]

// Tables have a time for what expires; here it is whether there is need for room. Without,
// keys are kept that have no places now: they come again, and should not allocate then.
const (
	noNeed = iota
	need
)

// dismissed is the count of a key that was taken out. It had no places, and gets none.
const dismissed = math.MaxUint64

// NewInFlight makes a limiter of calls in flight: Config.Limit for each key, never one more,
// whatever panics or is canceled. A call takes a place with [InFlight.Acquire] and gives it
// back. It takes no lock and allocates nothing if the key is known, and reads no clock.
//
// Nobody waits: a call for which there is no place is refused, and RetryAfter is 0, since
// nobody knows when calls end.
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
	l := &InFlight{answers: newAnswers(cfg)}
	l.init(cfg)
	l.self.limiter = l
	l.makeKeys(cfg)
	return l, nil
}

func (l *InFlight) makeKeys(cfg Config) {
	l.keys = keys.New(cfg.MaxKeys, false, keys.Rules[atomic.Uint64]{
		Init: func(node *occupant, _, n int64) { node.Value.Store(uint64(n)) },
		Inspect: func(node *occupant, need int64) (uint64, bool) {
			n := node.Value.Load()
			return n, n == 0 && need > noNeed
		},
		Kill: func(node *occupant, _ int64, _ bool) bool { return node.Value.CompareAndSwap(0, dismissed) },
		Keep: cfg.keep,
	})
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
	node *occupant
}

// owner is what a place is of: a limiter, or else a lease of its own.
type owner struct {
	limiter *InFlight
	lease   Lease
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
	if from.limiter == nil {
		from.lease.Release()
		return
	}
	from.limiter.give(p.node, 1)
}

// give gives n places back.
func (l *InFlight) give(node *occupant, n int64) {
	if node.Value.Add(-uint64(n)) == 0 {
		l.occupied.Add(-1)
	}
	l.taken.Add(-n)
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
	node, taken, crowded := l.take(key, 1, uint64(limit))
	if node != nil {
		p.from, p.node = &l.self, node
	}
	l.decide(d, limit, int64(taken), node != nil, crowded)
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

// take takes n places, and returns their node; else nil. It also returns how many are taken then.
func (l *InFlight) take(key string, n, limit uint64) (node *occupant, taken uint64, crowded bool) {
	hash := l.keys.Hash(key)
	node = l.keys.Find(hash, key)
	for n <= limit {
		if node == nil {
			made := false
			if node, _, made = l.keys.FindOrMake(hash, key, noNeed, int64(n)); made {
				l.occupied.Add(1)
				l.taken.Add(int64(n))
				return node, n, false
			}
			if node == nil {
				if l.makeRoom() {
					continue
				}
				l.crowded.Add(1)
				return nil, 0, true
			}
		}
		switch taken = node.Value.Load(); {
		case taken == dismissed:
			node = nil // and ask the table again
		case taken > limit || n > limit-taken:
			return nil, taken, false
		case node.Value.CompareAndSwap(taken, taken+n):
			if taken == 0 {
				l.occupied.Add(1)
			}
			l.taken.Add(int64(n))
			return node, taken + n, false
		}
	}
	return nil, 0, false
}

// makeRoom takes out keys without places, if there are any.
func (l *InFlight) makeRoom() bool {
	for l.occupied.Load() < int64(l.keys.Max()) {
		if l.keys.Free(need) {
			return true
		}
	}
	return false
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
	taken := l.takenOf(key)
	crowded := taken == 0 && l.keys.Find(l.keys.Hash(key), key) == nil && l.occupied.Load() >= int64(l.keys.Max())
	l.decide(&d, limit, int64(taken), taken < uint64(limit) && !crowded, crowded)
	d.Charged = 0
	return d
}

func (l *InFlight) takenOf(key string) uint64 {
	node := l.keys.Find(l.keys.Hash(key), key)
	if node == nil {
		return 0
	}
	if taken := node.Value.Load(); taken != dismissed {
		return taken
	}
	return 0
}

// Sweep takes out all keys that have no places, and gives back their memory. There is no
// need to call it: see [RateLimiter.Sweep].
func (l *InFlight) Sweep() { l.keys.Sweep(need) }

// Stats returns the figures of the limiter. They are read one after the other.
func (l *InFlight) Stats() Stats {
	s := l.places()
	l.addTo(&s)
	return s
}

func (l *InFlight) places() Stats {
	return Stats{
		Keys: l.keys.Len(), MaxKeys: l.keys.Max(), Expired: l.keys.Expired(), Crowded: l.crowded.Load(),
		InFlight: max(0, l.taken.Load()),
	}
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
