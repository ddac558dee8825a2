package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever a key holds, MoreAfter is the first moment at which one more passes when all that
// remains has been used at once; and nobody gets more sooner by using it later.
func TestProperty_MoreAfter(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				limit := rapid.Int64Range(1, 12).Draw(t, "limit")
				window := time.Duration(rapid.Int64Range(1, 20).Draw(t, "window")) * 10 * time.Millisecond
				l, clock := a.new(t, Config{Limit: limit, Window: window})
				for range rapid.IntRange(0, 12).Draw(t, "calls") {
					clock.Add(rapid.Int64Range(0, int64(window)/2).Draw(t, "later"))
					n := rapid.Int64Range(1, limit).Draw(t, "n")
					d, err := l.AllowN(t.Context(), "a", n)
					require.NoError(t, err)
					if d.Remaining == 0 {
						require.Equal(t, l.Peek("a").RetryAfter, d.MoreAfter)
					}
					if rapid.Bool().Draw(t, "overdrawn") {
						require.NoError(t, l.Settle(t.Context(), "a", d, d.Charged+rapid.Int64Range(0, 3).Draw(t, "more")))
					}
				}
				begun := clock.Load()
				d := l.Peek("a")
				if d.MoreAfter == 0 {
					require.Equal(t, limit, d.Remaining, "it is not told only where nothing is held")
					return
				}
				asked, err := l.AllowN(t.Context(), "a", 0)
				require.NoError(t, err)
				require.Equal(t, d.MoreAfter, asked.MoreAfter)

				// One more at a time from some moment on until the last has passed.
				clock.Add(rapid.Int64Range(0, int64(d.MoreAfter)-1).Draw(t, "used later"))
				for range d.Remaining {
					d, err := l.AllowN(t.Context(), "a", 1)
					require.NoError(t, err)
					require.True(t, d.Allowed)
				}
				clock.Store(begun + int64(d.MoreAfter) - 1)
				require.False(t, l.Peek("a").Allowed, "%+v", d)
			})
		})
	}
}

func TestMoreAfter_WhenUsedAtOnceOneMorePasses(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		l, clock := a.new(t, Config{Limit: 10, Window: 10 * time.Second})
		clock.Add(3500 * ms)
		for range 4 {
			allow(t, l, 1)
		}
		d := l.Peek("a")
		require.EqualValues(t, 6, d.Remaining, a.name)
		last := allow(t, l, 6)
		require.Equal(t, d.MoreAfter, last.MoreAfter, a.name)
		require.Equal(t, d.MoreAfter, allow(t, l, 1).RetryAfter, a.name)
		clock.Add(int64(d.MoreAfter) - 1)
		require.False(t, allow(t, l, 0).Allowed, a.name)
		clock.Add(1)
		require.True(t, allow(t, l, 1).Allowed, a.name)
	}
}

func TestMoreAfter_NothingEverPasses(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		l, _ := a.new(t, Config{Limit: 0, Window: time.Second})
		require.Equal(t, Never, allow(t, l, 1).MoreAfter, a.name)
		require.Equal(t, Never, l.Peek("a").MoreAfter, a.name)
	}
}

func TestMoreAfter_OfSeveralLimitsIsThatOfTheOneWithTheLeast(t *testing.T) {
	t.Parallel()
	clock := new(fake)
	clock.Store(minute)
	log := func(most int64, window time.Duration) *RateLimiter {
		l, err := NewLog(Config{Limit: most, Window: window, Now: clock.Load})
		require.NoError(t, err)
		return l
	}
	group := All(log(2, time.Hour), log(1, time.Second), log(9, 24*time.Hour))
	d, err := group.Allow(t.Context(), "a")
	require.NoError(t, err)
	require.Zero(t, d.Remaining)
	require.Equal(t, time.Second, d.MoreAfter)
	require.Equal(t, time.Second, group.Peek("a").MoreAfter)
	clock.Add(second)
	_, err = group.Allow(t.Context(), "a")
	require.NoError(t, err)
	d, err = group.Allow(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, time.Hour-time.Second, d.RetryAfter)
	require.Equal(t, time.Hour-time.Second, d.MoreAfter)
}
