// Package limit is keyed limiters: so many per time for each client, tenant or
// address.
//
//	perClient, err := limit.NewCounter(limit.Config{Limit: 100, Window: time.Minute})
//	…
//	d, err := perClient.Allow(ctx, client)
//	if err == nil && !d.Allowed {
//		// refused; it would pass in d.RetryAfter
//	}
//
// There are four ways to count. All make a [RateLimiter]; they differ in what one true
// window of time, wherever it begins, can admit, and in what a key costs:
//
//	             one true window     memory of a key, besides its bytes
//	NewCounter   just under 2×Limit  about 50 bytes; about 80 with a Limit above 16,777,214
//	NewBucketed  2×Limit             0.2 KB and, beyond four, up to 32 bytes for each bucket in use
//	  Strict     Limit               the same
//	NewBurst     Limit + Burst − 1   about 60 bytes
//	NewLog       Limit               0.2 KB and, beyond four, up to 32 bytes for each admission in it
//
// The last column holds while the keys are in use. Memory that a key has and no longer
// needs is given back by halves, each time the key is found empty, and wholly with the key;
// Config.MaxBytes bounds it for all keys together.
//
// Most programs want [NewCounter]: its second Limit in a window passes only evenly
// spread, when the window before was full. [NewBurst] is a token bucket:
// a burst, and then one call after the other, evenly. [All] asks several limits together.
//
// [NewInFlight] is the other limit by key: so many calls at a time, however long they take. It
// makes an [InFlight], whose calls give their place back when they end.
//
// What is refused is not counted, so that a client that keeps trying is let in as soon
// as one that waits. The answer to a call is the count: there is no time between
// looking and counting, whatever the number of goroutines.
//
// The number of keys is bounded, and so is the memory. No goroutine is started.
// Everything may be called by any number of goroutines at once.
package limit

import (
	"context"
	"math"
	"time"
)

// Never is the RetryAfter of what can never pass: more at once than the limit.
const Never time.Duration = math.MaxInt64

// MaxKeyLength is the length of the longest key, in bytes. A key may have any bytes.
const MaxKeyLength = 1024

// Limiter admits or refuses by key. [RateLimiter] and [Group] are limiters; a program may
// bring its own.
//
// All methods may be called by any number of goroutines at once.
type Limiter interface {
	// AllowN admits n, or refuses and takes nothing: the decision says which. n = 0
	// asks whether one would pass, and takes nothing. The error is not a refusal: the
	// key is bad, n is below 0, ctx has ended. With an error, nothing was taken, except
	// that a [Remote] limiter whose ctx ended when it had asked keeps what it was given.
	AllowN(ctx context.Context, key string, n int64) (Decision, error)
	// Refund gives back n of what d charged to key. When the window that was charged
	// is over, there is nothing to give back, and the refund is dropped.
	Refund(ctx context.Context, key string, d Decision, n int64) error
}

// Settler is a limiter whose charges can be corrected when the cost is known.
// Those of this package are.
type Settler interface {
	// Settle makes what d charged to key into actual. See [RateLimiter.Settle].
	Settle(ctx context.Context, key string, d Decision, actual int64) error
}

// Remote is a limiter that may ask another process. [All] asks those that do before the
// others: what follows their answer is then decided and given back in this process,
// within microseconds of each other.
type Remote interface {
	// Remote reports whether it does. It returns the same at every call.
	Remote() bool
}
