package limit

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
	minute = 1_800_000_000 * second // a whole minute, and a multiple of every window here
)

// limiter is what the limiters of this package have in common, for tests.
type limiter interface {
	Limiter
	Settler
	AllowNAt(now int64, key string, n int64) Decision
	Peek(key string) Decision
	Reset(key string)
	Stats() Stats
	Sweep()
	Close() error
}

// algorithm is one way to count.
type variant struct {
	name string
	make func(Config) (limiter, error)
	// carry is how many windows what was admitted matters.
	carry int64
}

func asLimiter[L limiter](of func(Config) (L, error)) func(Config) (limiter, error) {
	return func(cfg Config) (limiter, error) { return of(cfg) }
}

// newUnpackedCounter makes a counter with a lock for each key, whatever the limit.
func newUnpackedCounter(cfg Config) (*RateLimiter, error) {
	if err := cfg.complete(forCounter); err != nil {
		return nil, err
	}
	return newRateLimiter(cfg, &newLockedCounter(cfg).store), nil
}

func newStrict(cfg Config) (*RateLimiter, error) {
	cfg.Strict = true
	return NewBucketed(cfg)
}

var algorithms = []variant{
	{"counter", asLimiter(NewCounter), 2},
	{"locked counter", asLimiter(newUnpackedCounter), 2},
	{"log", asLimiter(NewLog), 1},
	{"bucketed", asLimiter(NewBucketed), 1},
	{"strict", asLimiter(newStrict), 2},
}

// burst has no windows, and does not do what is said of these.
var burst = variant{"burst", asLimiter(NewBurst), 1}

var everyAlgorithm = append(slices.Clone(algorithms), burst)

// fake is a given clock.
type fake struct{ atomic.Int64 }

func (a variant) new(t require.TestingT, cfg Config) (limiter, *fake) {
	clock := new(fake)
	clock.Store(minute)
	cfg.Now = clock.Load
	l, err := a.make(cfg)
	require.NoError(t, err)
	return l, clock
}

// allow asks for n of "a" at the time of the clock.
func allow(t *testing.T, l limiter, n int64) Decision {
	t.Helper()
	d, err := l.AllowN(t.Context(), "a", n)
	require.NoError(t, err)
	return d
}
