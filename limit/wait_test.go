package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (a variant) waiter(t *testing.T, cfg Config) interface {
	limiter
	Wait(ctx context.Context, key string, n int64) (Decision, error)
} {
	t.Helper()
	l, err := a.make(cfg)
	require.NoError(t, err)
	return l.(interface {
		limiter
		Wait(ctx context.Context, key string, n int64) (Decision, error)
	})
}

func TestWait_AsLongAsTheRefusalSaid(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := a.waiter(t, Config{Limit: 2})
				for range 20 {
					start, told := time.Now(), l.Peek("a").RetryAfter
					d, err := l.Wait(t.Context(), "a", 1)
					require.NoError(t, err)
					require.True(t, d.Allowed)
					require.Equal(t, told, time.Since(start))
				}
				require.Greater(t, time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), 8*time.Second)
			})
		})
	}
}

func TestWait_GivesUpAtOnceWhatCannotPass(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := a.waiter(t, Config{Limit: 2, Offenders: 5})
				start := time.Now()
				d, err := l.Wait(t.Context(), "a", 3)
				require.NoError(t, err)
				require.False(t, d.Allowed)
				require.Equal(t, Never, d.RetryAfter)

				allow(t, l, 2)
				wait := l.Peek("a").RetryAfter
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				d, err = l.Wait(ctx, "a", 1)
				require.NoError(t, err)
				require.False(t, d.Allowed, "it would pass at the deadline, and not before")
				require.Equal(t, wait, d.RetryAfter)
				require.Equal(t, start, time.Now())

				ctx, cancel = context.WithTimeout(t.Context(), wait+1)
				defer cancel()
				d, err = l.Wait(ctx, "a", 1)
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.Equal(t, wait, time.Since(start))
			})
		})
	}
}

func TestWait_CancelledTakesNothing(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := a.waiter(t, Config{Name: "two", Limit: 2})
				allow(t, l, 2)
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Millisecond, cancel)
				d, err := l.Wait(ctx, "a", 2)
				require.ErrorIs(t, err, ErrBlocked)
				require.ErrorIs(t, err, context.Canceled)
				var w *WaitError
				require.ErrorAs(t, err, &w)
				require.Equal(t, "two", w.Name)
				require.Zero(t, d)
				require.Equal(t, 10*time.Millisecond, time.Since(start))
				time.Sleep(2 * time.Second)
				require.EqualValues(t, 2, l.Peek("a").Remaining)

				_, err = l.Wait(ctx, "a", 1)
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, ErrBlocked, "it had ended before")
				_, err = l.Wait(t.Context(), "a", -1)
				require.ErrorIs(t, err, ErrCount)
			})
		})
	}
}

func TestWait_ManyShareWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := a.waiter(t, Config{Limit: 5})
				start := time.Now()
				for range 20 {
					go func() {
						d, err := l.Wait(t.Context(), "a", 1)
						assert.NoError(t, err)
						assert.True(t, d.Allowed)
					}()
				}
				synctest.Wait()
				require.Zero(t, l.Peek("a").Remaining)
				d, err := l.Wait(nil, "b", 5) //nolint:staticcheck // a nil context never ends
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.Equal(t, start, time.Now())
				time.Sleep(10 * time.Second) // in the bubble
				require.EqualValues(t, 5, l.Peek("a").Remaining)
			})
		})
	}
}

func TestWait_EndsWithClose(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := a.waiter(t, Config{Limit: 1, Window: time.Hour})
				allow(t, l, 1)
				start := time.Now()
				time.AfterFunc(time.Second, func() { _ = l.Close() })
				_, err := l.Wait(t.Context(), "a", 1)
				require.ErrorIs(t, err, ErrClosed)
				require.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

// n = 0 waits until one would pass, and takes nothing.
func TestWait_ForNothing(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := a.waiter(t, Config{Limit: 1})
				allow(t, l, 1)
				d, err := l.Wait(t.Context(), "a", 0)
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.Zero(t, d.Charged)
				require.True(t, allow(t, l, 1).Allowed)
			})
		})
	}
}
