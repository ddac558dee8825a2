package limit

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// answered returns what a limiter has counted of its answers.
func answered(l interface{ Stats() Stats }) [2]int64 {
	s := l.Stats()
	return [2]int64{s.Allowed, s.Refused}
}

func TestStats_AnswersOfEveryWayToAsk(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 2})
			require.Zero(t, answered(l))
			for range 3 {
				_, err := l.AllowN(t.Context(), "a", 1)
				require.NoError(t, err)
			}
			require.Equal(t, [2]int64{2, 1}, answered(l))
			l.AllowNAt(minute, "b", 2)
			l.AllowNAt(minute, "b", 1)
			l.AllowNAt(minute, "c", 3) // never
			require.Equal(t, [2]int64{3, 3}, answered(l))
			_, err := l.AllowN(t.Context(), "b", 0)
			require.NoError(t, err)
			_, err = l.AllowN(t.Context(), "c", 0)
			require.NoError(t, err)
			require.Equal(t, [2]int64{4, 4}, answered(l), "n = 0 is answered too")

			// What is no answer, or no question.
			l.Peek("a")
			l.AllowNAt(minute, "", 1)
			l.AllowNAt(minute, "a", -1)
			_, err = l.AllowN(t.Context(), "", 1)
			require.Error(t, err)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = l.AllowN(over, "a", 1)
			require.Error(t, err)
			require.NoError(t, l.Close())
			l.AllowNAt(minute, "a", 1)
			require.Equal(t, [2]int64{4, 4}, answered(l))
			require.Zero(t, l.Stats().Degraded)
			require.False(t, l.Stats().Away)
		})
	}
}

func TestStats_WaitCountsOnce(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := a.waiter(t, Config{Limit: 2})
				for range 5 {
					_, err := l.Wait(t.Context(), "a", 1)
					require.NoError(t, err)
				}
				require.Equal(t, [2]int64{5, 0}, answered(l))
				_, err := l.Wait(t.Context(), "a", 3)
				require.NoError(t, err)
				require.Equal(t, [2]int64{5, 1}, answered(l), "it can never pass")
				_, err = l.Wait(t.Context(), "", 1)
				require.Error(t, err)
				require.Equal(t, [2]int64{5, 1}, answered(l), "it has not asked")

				// Three goroutines, for the room that there is comes to two at most.
				ctx, cancel := context.WithCancel(t.Context())
				for range 3 {
					go func() { _, _ = l.Wait(ctx, "a", 2) }()
				}
				synctest.Wait()
				cancel()
				synctest.Wait()
				got := answered(l)
				require.EqualValues(t, 5+1+3, got[0]+got[1])
			})
		})
	}
}

func TestStats_HammerAnswers(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const goroutines, calls = 16, 2_000
			l, _ := a.new(t, Config{Limit: calls})
			var allowed, refused atomic.Int64
			gatetest.AtOnce(goroutines, func(id int) {
				for i := range calls {
					d, err := l.AllowN(context.Background(), string(rune('a'+i%3)), int64(id%2+1))
					assert.NoError(t, err)
					if d.Allowed {
						allowed.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
			require.EqualValues(t, goroutines*calls, allowed.Load()+refused.Load())
			require.NotZero(t, refused.Load())
			require.Equal(t, [2]int64{allowed.Load(), refused.Load()}, answered(l))
		})
	}
}

func TestStats_OfAGroupAreThoseOfItsLimits(t *testing.T) {
	t.Parallel()
	wide, err := NewCounter(Config{Limit: 10, Window: time.Minute})
	require.NoError(t, err)
	tight, err := NewLog(Config{Limit: 1, Window: time.Minute})
	require.NoError(t, err)
	both := All(wide, tight)
	for range 3 {
		_, err := both.Allow(t.Context(), "a")
		require.NoError(t, err)
	}
	require.Equal(t, [2]int64{3, 0}, answered(wide))
	require.Equal(t, [2]int64{1, 2}, answered(tight))
}
