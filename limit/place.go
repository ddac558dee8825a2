package limit

import "context"

// Acquirer is a limiter of calls in flight: [InFlight] is one, and that of package leapredis.
// All methods may be called by any number of goroutines at once.
type Acquirer interface {
	// Acquire takes a place of key, or refuses: see [InFlight.Acquire].
	Acquire(ctx context.Context, key string) (Place, Decision, error)
	Describer
}

// Lease is what a place is to a limiter that has leased it for a time, so that a process that
// dies gives it back. Programs have no use for it, unless they bring an [Acquirer].
type Lease interface {
	// Release gives the place back. A [Place] calls it once.
	Release()
	// Renew has the lease last as long from now as it did when the place was taken.
	Renew(ctx context.Context) error
}

// LeasedPlace makes a place of a lease.
func LeasedPlace(l Lease) Place { return Place{from: &owner{lease: l}} }

// Renew has the lease of the place last as long from now as it did when the place was taken,
// if it is leased: see leapredis.NewInFlight. Places of this process alone need none, and
// neither does one that was released: it does nothing then, and the error is nil.
func (p *Place) Renew(ctx context.Context) error {
	if p.from == nil || p.from.lease == nil {
		return nil
	}
	return p.from.lease.Renew(ctx)
}
