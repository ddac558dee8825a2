package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/bykey"
)

func engineOf(l limiter) engine { return l.(*RateLimiter).engine }

func TestEngine_LimitMayDifferFromCallToCall(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		l, _ := a.new(t, Config{Limit: 20, Window: time.Minute})
		e := engineOf(l)
		ask := func(key string, limit, n int64) Decision {
			return e.decide(key, question{now: minute, limit: limit, n: n, take: true})
		}
		require.True(t, ask("plain", 10, 7).Allowed, a.name)
		require.True(t, ask("large", 20, 20).Allowed, a.name)
		d := ask("plain", 5, 1)
		require.False(t, d.Allowed, a.name)
		require.Zero(t, d.Remaining, a.name)
		require.Positive(t, d.RetryAfter, a.name)
		require.True(t, ask("plain", 12, 5).Allowed, "what was counted stays, and no more: %s", a.name)
		require.False(t, ask("plain", 12, 1).Allowed, a.name)
		require.Equal(t, Never, ask("plain", 0, 1).RetryAfter, a.name)
		require.Equal(t, Never, e.moreAfter(minute, 0, "plain", false, 0), a.name)
		require.False(t, ask("large", 20, 1).Allowed, a.name)
	}
}

// A decision under some limit is that of an engine made for that limit, with the same
// history.
func TestProperty_LimitOfACallIsAsIfTheEngineWereMadeForIt(t *testing.T) {
	t.Parallel()
	const largest = 6
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				window := 60 * time.Millisecond
				l, clock := a.new(t, Config{Limit: largest, Window: window})
				var made [largest + 1]engine
				for limit := range made {
					other, _ := a.new(t, Config{Limit: int64(limit), Window: window})
					made[limit] = engineOf(other)
				}
				for range rapid.IntRange(1, 30).Draw(t, "calls") {
					clock.Add(rapid.Int64Range(0, int64(window)/2).Draw(t, "later"))
					q := question{
						now: clock.Load(), limit: rapid.Int64Range(0, largest).Draw(t, "limit"),
						n: rapid.Int64Range(1, largest+1).Draw(t, "n"), take: rapid.Bool().Draw(t, "take"),
					}
					looks := q
					looks.take = false
					want := made[q.limit].decide("a", looks)
					if q.take && want.Allowed {
						for _, e := range made {
							e.charge("a", q)
						}
					}
					got := engineOf(l).decide("a", q)
					require.Equal(t, want.Allowed, got.Allowed)
					require.Equal(t, want.RetryAfter, got.RetryAfter)
					require.Equal(t, want.Limit, got.Limit)
					require.Equal(t, want.Remaining-got.Charged, got.Remaining)
					require.Equal(t, made[q.limit].moreAfter(q.now, q.limit, "a", false, got.Remaining),
						engineOf(l).moreAfter(q.now, q.limit, "a", false, got.Remaining))
				}
			})
		})
	}
}

func TestRuleEngine_HasTheBoundsOfTheLimiters(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, maxPacked, bykey.MaxLimit)
	require.Equal(t, Never, bykey.Never)
}
