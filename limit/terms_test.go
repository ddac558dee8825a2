package limit

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rule"
)

// byPlan is a limit by the beginning of the key.
func byPlan(key string) int64 {
	switch plan, _, _ := strings.Cut(key, " "); plan {
	case "vip":
		return 10
	case "ban":
		return 0
	case "free":
		return Exempt
	case "bad":
		return -7
	case "huge":
		return 11
	default:
		return Default
	}
}

func passed(t *testing.T, l *RateLimiter, key string, tries int) (n int) {
	t.Helper()
	for range tries {
		d, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
		if d.Allowed {
			n++
		}
	}
	return n
}

func TestLimitFor_EachKeyHasTheLimitOfItsPlan(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, _ := a.new(t, Config{Name: "plans", Limit: 5, MaxLimit: 10, LimitFor: byPlan})
			l := made.(*RateLimiter)
			require.Equal(t, 5, passed(t, l, "any", 20))
			require.Equal(t, 10, passed(t, l, "vip 1", 20))
			require.Equal(t, 0, passed(t, l, "ban 1", 20))
			require.Equal(t, 20, passed(t, l, "free 1", 20))
			require.Equal(t, 2, l.Stats().Keys, "what is exempt or never passes takes no place")
			d, err := l.AllowN(t.Context(), "free 1", 1<<40)
			require.NoError(t, err)
			require.Equal(t, Decision{Allowed: true, Name: "plans", Limit: Exempt, Remaining: math.MaxInt64, generation: uncounted}, d)
			require.NoError(t, l.Settle(t.Context(), "free 1", d, 1000))
			require.Equal(t, 2, l.Stats().Keys)

			require.EqualValues(t, 10, l.Peek("vip 2").Remaining)
			require.Equal(t, Never, l.Peek("ban 1").RetryAfter)
			require.True(t, l.AllowNAt(minute, "vip 2", 10).Allowed)
			for _, key := range []string{"bad", "huge"} {
				_, err := l.Allow(t.Context(), key)
				require.ErrorIs(t, err, ErrCount)
				require.Equal(t, Never, l.Peek(key).RetryAfter)
				require.False(t, l.AllowNAt(minute, key, 1).Allowed)
				_, err = l.Wait(t.Context(), key, 1)
				require.ErrorIs(t, err, ErrCount)
			}
			s := l.Stats()
			require.EqualValues(t, 5+10+20+1+1, s.Allowed)
		})
	}
}

// The function is called with no lock held: it may call the limiter.
func TestLimitFor_MayAskTheLimiterAndPanic(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		var l *RateLimiter
		made, _ := a.new(t, Config{Limit: 5, LimitFor: func(key string) int64 {
			if key == "panics" {
				panic(key)
			}
			if key == "a" {
				return l.Peek("b").Remaining
			}
			return Default
		}})
		l = made.(*RateLimiter)
		require.Equal(t, 5, passed(t, l, "a", 9))
		require.PanicsWithValue(t, "panics", func() { _, _ = l.Allow(t.Context(), "panics") })
		require.Equal(t, 5, passed(t, l, "b", 9))
	}
}

func TestAllowLimit_WhatWasCountedStays(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, _ := a.new(t, Config{Limit: 5, MaxLimit: 20})
			l := made.(*RateLimiter)
			ask := func(n, limit int64) Decision {
				d, err := l.AllowLimit(t.Context(), "a", n, limit)
				require.NoError(t, err)
				return d
			}
			require.EqualValues(t, 13, ask(7, 20).Remaining)
			d := ask(1, 5)
			require.False(t, d.Allowed)
			require.EqualValues(t, 5, d.Limit)
			require.Zero(t, d.Remaining)
			require.False(t, ask(1, Default).Allowed)
			require.False(t, ask(1, 0).Allowed)
			require.True(t, ask(100, Exempt).Allowed)
			require.True(t, ask(13, 20).Allowed)
			require.False(t, ask(1, 20).Allowed)
			for _, limit := range []int64{21, -3, math.MinInt64, math.MaxInt64} {
				_, err := l.AllowLimit(t.Context(), "a", 1, limit)
				require.ErrorIs(t, err, ErrCount)
			}
		})
	}
}

func TestSetLimit_WhatWasCountedStays(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, clock := a.new(t, Config{Name: "n", Limit: 5, MaxLimit: 50})
			l := made.(*RateLimiter)
			require.Equal(t, 5, passed(t, l, "a", 9))
			require.NoError(t, l.SetLimit(8))
			require.Equal(t, 3, passed(t, l, "a", 9))
			require.NoError(t, l.SetLimit(2))
			d := l.Peek("a")
			require.False(t, d.Allowed)
			require.Zero(t, d.Remaining)
			require.EqualValues(t, 2, d.Limit)
			clock.Add(int64(d.RetryAfter) - 1)
			require.False(t, l.Peek("a").Allowed)
			clock.Add(1)
			require.True(t, l.Peek("a").Allowed)
			require.NoError(t, l.SetLimit(0))
			require.Equal(t, Never, l.Peek("b").RetryAfter)
			require.NoError(t, l.SetLimit(50))
			require.Equal(t, 50, passed(t, l, "b", 99))
			require.Equal(t, []Description{{Name: "n", Limit: 50, Window: time.Second}}, l.Describe())
			for _, limit := range []int64{51, -1, -2} {
				err := l.SetLimit(limit)
				require.ErrorIs(t, err, ErrCount)
				require.ErrorContains(t, err, "want 0 to 50, which is Config.MaxLimit")
			}
			require.EqualValues(t, 50, l.Describe()[0].Limit)
			without, _ := a.new(t, Config{Limit: 5})
			require.ErrorIs(t, without.(*RateLimiter).SetLimit(6), ErrCount, "MaxLimit is Limit")
		})
	}
}

// MaxLimit chooses how a counter counts, and not Limit.
func TestCounter_MaxLimitBeyondTheWord(t *testing.T) {
	t.Parallel()
	c, _ := newCounter(t, Config{Limit: 5, MaxLimit: 1 << 40})
	require.Nil(t, c.packed)
	require.NoError(t, c.SetLimit(1<<40))
	require.True(t, allow(t, c, 1<<39).Allowed)
	c, _ = newCounter(t, Config{Limit: 5, MaxLimit: maxPacked})
	require.NotNil(t, c.packed)
	require.NoError(t, c.SetLimit(maxPacked))
	require.True(t, allow(t, c, maxPacked).Allowed)
	require.False(t, allow(t, c, 1).Allowed)
}

// A limit changes back and forth while many goroutines call: no more calls pass than the larger limit admits,
// and as many as that once it stays.
func TestSetLimit_HammerWithCallers(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const small, large = 100, 1000
			made, _ := a.new(t, Config{Limit: large})
			l := made.(*RateLimiter)
			var charged atomic.Int64
			gatetest.AtOnce(16, func(id int) {
				for i := range 500 {
					if id == 0 {
						assert.NoError(t, l.SetLimit([]int64{small, large}[i%2]))
					}
					d, err := l.Allow(t.Context(), "a")
					if err == nil && d.Allowed {
						charged.Add(1)
					}
				}
			})
			require.LessOrEqual(t, charged.Load(), int64(large))
			require.NoError(t, l.SetLimit(large))
			require.EqualValues(t, large, charged.Load()+int64(passed(t, l, "a", large)))
		})
	}
}

func TestShadow_DecidesAndCountsAndRefusesNobody(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, clock := a.new(t, Config{Name: "n", Limit: 3, Mode: rule.Shadow, Offenders: 10})
			l := made.(*RateLimiter)
			for i := range 10 {
				d := allow(t, l, 1)
				require.True(t, d.Allowed)
				require.Equal(t, i >= 3, d.WouldRefuse)
				require.Equal(t, i >= 3, d.RetryAfter > 0)
				require.Equal(t, Exempt, d.Limit)
				require.Equal(t, int64(math.MaxInt64), d.Remaining)
				require.Zero(t, d.MoreAfter)
			}
			s := l.Stats()
			require.Equal(t, []int64{10, 0, 7}, []int64{s.Allowed, s.Refused, s.WouldRefuse})
			require.Equal(t, []Offender{{"a", 7, 0}}, l.Offenders(5))
			require.Equal(t, rule.Shadow, l.Describe()[0].Mode)
			d, err := l.Wait(t.Context(), "a", 1)
			require.NoError(t, err)
			require.True(t, d.WouldRefuse)
			require.NoError(t, l.Settle(t.Context(), "a", d, 5), "it would not have run, so its cost would not have been")
			require.True(t, l.Peek("a").WouldRefuse)
			require.EqualValues(t, 8, l.Stats().WouldRefuse, "looking is not counted")

			// What was counted is there when it is enforced.
			require.NoError(t, l.SetMode(rule.Enforce))
			require.False(t, allow(t, l, 1).Allowed)
			require.NoError(t, l.SetMode(rule.Off))
			require.Equal(t, 20, passed(t, l, "new", 20))
			require.Equal(t, 1, l.Stats().Keys, "off counts no key")
			require.NoError(t, l.SetMode(rule.Shadow))
			clock.Add(a.carry * second)
			d = allow(t, l, 2)
			require.NoError(t, l.Refund(t.Context(), "a", d, 1))
			require.NoError(t, l.SetMode(rule.Enforce))
			require.EqualValues(t, 2, l.Peek("a").Remaining)
			require.ErrorIs(t, l.SetMode(9), ErrConfig)
			_, err = NewCounter(Config{Mode: 9})
			require.EqualError(t, err, "limit: bad configuration of Counter: Mode is 9; want enforce (0), shadow (1) or off (2)")
		})
	}
}

func TestGroup_ShadowOfOneChangesNothingForTheOthers(t *testing.T) {
	t.Parallel()
	shadow, err := NewLog(Config{Name: "shadow", Limit: 1, Window: time.Hour, Mode: rule.Shadow, Now: func() int64 { return minute }})
	require.NoError(t, err)
	live, err := NewLog(Config{Name: "live", Limit: 3, Window: time.Minute, Now: func() int64 { return minute }})
	require.NoError(t, err)
	for _, g := range []*Group{All(shadow, live), All(live, shadow)} {
		shadow.Reset("a")
		live.Reset("a")
		d, err := g.Allow(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, []any{"live", int64(3), int64(2), false}, []any{d.Name, d.Limit, d.Remaining, d.WouldRefuse})
		d, err = g.Allow(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.True(t, d.WouldRefuse)
		require.NoError(t, g.Refund(t.Context(), "a", d, 1), "of the shadow there is nothing to give back")
		require.EqualValues(t, 2, live.Peek("a").Remaining)
		for range 2 {
			_, err = g.Allow(t.Context(), "a")
			require.NoError(t, err)
		}
		d, err = g.Allow(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, time.Minute, d.RetryAfter, "that of the limit that refuses")
	}
}

func TestAllowAtMost_AsManyAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, clock := a.new(t, Config{Limit: 10})
			l := made.(*RateLimiter)
			ask := func(key string, n int64) Decision {
				d, err := l.AllowAtMost(t.Context(), key, n)
				require.NoError(t, err)
				return d
			}
			require.EqualValues(t, 4, ask("a", 4).Charged)
			d := ask("a", 9)
			require.True(t, d.Allowed)
			require.EqualValues(t, 6, d.Charged)
			require.Zero(t, d.Remaining)
			require.NoError(t, l.Refund(t.Context(), "a", d, 1))
			require.EqualValues(t, 1, ask("a", 9).Charged)
			d = ask("a", 9)
			require.False(t, d.Allowed)
			require.Zero(t, d.Charged)
			clock.Add(int64(d.RetryAfter) - 1)
			require.False(t, ask("a", 9).Allowed)
			clock.Add(1)
			require.True(t, ask("a", 9).Allowed, "one does")
			require.EqualValues(t, 10, ask("new", math.MaxInt64).Charged)
			require.Zero(t, ask("look", 0).Charged)
			_, err := l.AllowAtMost(t.Context(), "a", -1)
			require.ErrorIs(t, err, ErrCount)
			require.NoError(t, l.SetLimit(0))
			require.Equal(t, Never, ask("new", 5).RetryAfter)
			require.NoError(t, l.SetMode(rule.Off))
			d = ask("new", 5)
			require.True(t, d.Allowed)
			require.Zero(t, d.Charged)
		})
	}
}

// It takes what one call after the other of one each would.
func TestProperty_AllowAtMostIsAsManySingleCalls(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := a.drawConfig(t)
				some, clock := a.new(t, cfg)
				single, _ := a.new(t, cfg)
				for range rapid.IntRange(1, 40).Draw(t, "calls") {
					clock.Store(drawNow(t, clock.Load(), int64(cfg.Window)))
					n := rapid.Int64Range(1, 15).Draw(t, "n")
					want := int64(0)
					for range n {
						if single.AllowNAt(clock.Load(), "a", 1).Allowed {
							want++
						}
					}
					d, err := some.(*RateLimiter).AllowAtMost(t.Context(), "a", n)
					require.NoError(t, err)
					require.Equal(t, want, d.Charged)
					require.Equal(t, want > 0, d.Allowed)
				}
			})
		})
	}
}

func TestAllowAtMost_HammerOneKey(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const limit = 10_007
			made, _ := a.new(t, Config{Limit: limit})
			l := made.(*RateLimiter)
			var taken atomic.Int64
			gatetest.AtOnce(64, func(id int) {
				for i := range 100 {
					if d, err := l.AllowAtMost(t.Context(), "a", int64((i+id)%5+1)); err == nil {
						taken.Add(d.Charged)
					}
				}
			})
			require.EqualValues(t, limit, taken.Load())
		})
	}
}

func TestTerms_AllocateNothing(t *testing.T) {
	for _, a := range everyAlgorithm {
		made, _ := a.new(t, Config{Limit: 5, MaxLimit: 1 << 20, LimitFor: byPlan})
		l := made.(*RateLimiter)
		shadow, _ := a.new(t, Config{Limit: 1, Mode: rule.Shadow})
		ctx := t.Context()
		ok := true
		check := func(d Decision, err error) { ok = ok && err == nil }
		calls := func() {
			check(l.Allow(ctx, "vip"))
			check(l.Allow(ctx, "free"))
			check(l.AllowLimit(ctx, "any", 1, 1<<20))
			check(l.AllowAtMost(ctx, "any", 9))
			check(shadow.AllowN(ctx, "a", 1))
		}
		calls()
		require.Zero(t, testing.AllocsPerRun(100, calls), a.name)
		require.True(t, ok, a.name)
	}
}
