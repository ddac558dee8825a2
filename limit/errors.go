package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate/internal/callerror"
)

var (
	// ErrKey is the error of a key that is empty or longer than [MaxKeyLength]. It is
	// not a refusal.
	ErrKey = errors.New("limit: bad key")
	// ErrCount is the error of an n below 0, of a refund of more than was charged, or of a
	// limit that there cannot be. It is not a refusal.
	ErrCount = errors.New("limit: bad count")
	// ErrClosed is the error of a limiter that was closed. It is not a refusal.
	ErrClosed = errors.New("limit: limiter is closed")
	// ErrConfig is what every fault of a configuration is.
	ErrConfig = errors.New("limit: bad configuration")
	// ErrBlocked is the error of a wait that ended without admission because its
	// context did. It is leapgate.ErrBlocked.
	ErrBlocked = callerror.ErrBlocked
)

// ConfigError is one thing that is wrong with a configuration.
type ConfigError struct {
	Limiter string // what was to be made, such as "Counter"
	Name    string // Config.Name
	Field   string // of [Config]
	Value   any    // what it holds
	Want    string // what would be right
}

// Error reads: limit: bad configuration of Counter "per client": Window is 1ns; want
// 1ms to 8784h0m0s.
func (e *ConfigError) Error() string {
	value := e.Value
	if s, ok := value.(string); ok {
		value = fmt.Sprintf("%.64q", s)
	}
	name := ""
	if e.Name != "" {
		name = fmt.Sprintf(" %.64q", e.Name)
	}
	return fmt.Sprintf("%v of %s%s: %s is %v; want %s", ErrConfig, e.Limiter, name, e.Field, value, e.Want)
}

// Unwrap returns [ErrConfig].
func (e *ConfigError) Unwrap() error { return ErrConfig }

// WaitError is the error of a wait whose context ended before n were admitted. It is
// both [ErrBlocked] and the error of the context. Nothing was taken.
type WaitError struct {
	Name       string        // Config.Name
	N          int64         // how many were waited for
	RetryAfter time.Duration // what was left of the wait when it was last looked at
	Cause      error         // ctx.Err()
}

// Error reads: limit: the wait for 3 of "per client" ended, with 2s to go: context
// canceled. The key is left out: it may be whatever a client sent.
func (e *WaitError) Error() string {
	return fmt.Sprintf("limit: the wait for %d of %.64q ended, with %v to go: %v", e.N, e.Name, e.RetryAfter, e.Cause)
}

// Unwrap returns [ErrBlocked] and the error of the context.
func (e *WaitError) Unwrap() []error { return []error{ErrBlocked, e.Cause} }

//go:noinline
func badKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty; want 1 to %d bytes", ErrKey, MaxKeyLength)
	}
	return fmt.Errorf("%w: %.32q… has %d bytes; want 1 to %d", ErrKey, key, len(key), MaxKeyLength)
}

func badCount(n int64) error {
	return fmt.Errorf("%w: %d; want 0 to %d", ErrCount, n, int64(MaxLimit))
}

//go:noinline
func badLimit(limit, most int64) error {
	return fmt.Errorf("%w: a limit of %d; want 0 to %d, which is Config.MaxLimit", ErrCount, limit, most)
}

func badRefund(n int64, d Decision) error {
	return fmt.Errorf("%w: a refund of %d of a decision that charged %d", ErrCount, n, d.Charged)
}

// ended returns the error of a context that has ended. A nil context never ends.
func ended(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}
