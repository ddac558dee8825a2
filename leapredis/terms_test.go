package leapredis

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/limit"
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
		return limit.Exempt
	case "bad":
		return -7
	case "huge":
		return 11
	default:
		return limit.Default
	}
}

func passed(t testing.TB, l limiter, key string, tries int) (n int) {
	t.Helper()
	for range tries {
		if allow(t, l, key, 1).Allowed {
			n++
		}
	}
	return n
}

func TestLimitFor_EachKeyHasTheLimitOfItsPlan(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Name: "plans", Limit: 5, MaxLimit: 10, LimitFor: byPlan, Window: time.Minute})
		require.Equal(t, 5, passed(t, l, "any", 20))
		require.Equal(t, 10, passed(t, l, "vip 1", 20))
		require.Equal(t, 0, passed(t, l, "ban 1", 20))
		before := l.Link().RoundTrips
		require.Equal(t, 20, passed(t, l, "free 1", 20))
		d := allow(t, l, "free 1", 1<<60)
		require.Equal(t, limit.Decision{Allowed: true, Name: "plans", Limit: limit.Exempt, Remaining: math.MaxInt64, Ticket: uncounted}, d)
		require.NoError(t, l.Settle(t.Context(), "free 1", d, 1000))
		p, err := l.Peek(t.Context(), "free 1")
		require.NoError(t, err)
		require.Equal(t, d, p)
		require.Equal(t, before, l.Link().RoundTrips, "the server is not asked for what is exempt")
		require.Zero(t, s.held("test:{}free 1"))

		p, err = l.Peek(t.Context(), "vip 2")
		require.NoError(t, err)
		require.EqualValues(t, 10, p.Remaining)
		p, err = l.Peek(t.Context(), "ban 1")
		require.NoError(t, err)
		require.Equal(t, limit.Never, p.RetryAfter)
		for _, key := range []string{"bad", "huge"} {
			_, err := l.Allow(t.Context(), key)
			require.ErrorIs(t, err, limit.ErrCount)
			require.ErrorContains(t, err, "want 0 to 10, which is Config.MaxLimit")
			_, err = l.Peek(t.Context(), key)
			require.ErrorIs(t, err, limit.ErrCount)
			_, err = l.AllowAtMost(t.Context(), key, 2)
			require.ErrorIs(t, err, limit.ErrCount)
		}
		require.EqualValues(t, 5+10+20+1, l.Stats().Allowed)
	})
}

// The function is called with no lock held: it may call the limiter.
func TestLimitFor_MayAskTheLimiterAndPanic(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		var l limiter
		l = k.start(t, newServer(), Config{Limit: 5, Window: time.Minute, LimitFor: func(key string) int64 {
			switch key {
			case "panics":
				panic(key)
			case "a":
				d, err := l.Peek(t.Context(), "b")
				assert.NoError(t, err)
				return d.Remaining
			default:
				return limit.Default
			}
		}})
		require.Equal(t, 5, passed(t, l, "a", 9))
		require.PanicsWithValue(t, "panics", func() { _, _ = l.Allow(t.Context(), "panics") })
		require.Equal(t, 5, passed(t, l, "b", 9))
	})
}

func TestAllowLimit_WhatWasCountedStays(t *testing.T) {
	t.Parallel()
	eachCount(t, func(k kind) {
		t := k.t
		l := k.start(t, newServer(), Config{Limit: 5, MaxLimit: 20, Window: time.Minute})
		ask := func(n, most int64) limit.Decision {
			d, err := l.AllowLimit(t.Context(), "a", n, most)
			require.NoError(t, err)
			return d
		}
		require.EqualValues(t, 13, ask(7, 20).Remaining)
		d := ask(1, 5)
		require.False(t, d.Allowed)
		require.EqualValues(t, 5, d.Limit)
		require.Zero(t, d.Remaining)
		require.False(t, ask(1, limit.Default).Allowed)
		require.False(t, ask(1, 0).Allowed)
		require.Equal(t, limit.Never, ask(1, 0).RetryAfter)
		require.True(t, ask(100, limit.Exempt).Allowed)
		require.True(t, ask(13, 20).Allowed, "what was refused under a smaller limit says nothing about this one")
		require.False(t, ask(1, 20).Allowed)
		for _, most := range []int64{21, -3, math.MinInt64, math.MaxInt64} {
			_, err := l.AllowLimit(t.Context(), "a", 1, most)
			require.ErrorIs(t, err, limit.ErrCount)
		}
	})
}

func TestSetLimit_WhatWasCountedStays(t *testing.T) {
	t.Parallel()
	eachCount(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Name: "n", Limit: 5, MaxLimit: 50})
		require.Equal(t, 5, passed(t, l, "a", 9))
		require.NoError(t, l.SetLimit(8))
		require.Equal(t, 3, passed(t, l, "a", 9))
		require.NoError(t, l.SetLimit(2))
		asked := s.called(k.script)
		require.False(t, allow(t, l, "a", 1).Allowed)
		require.Equal(t, asked, s.called(k.script), "what is refused under a limit is so under a smaller one")
		d, err := l.Peek(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Zero(t, d.Remaining)
		require.EqualValues(t, 2, d.Limit)
		time.Sleep(d.RetryAfter - time.Microsecond)
		require.False(t, allow(t, l, "a", 1).Allowed)
		time.Sleep(time.Microsecond)
		require.True(t, allow(t, l, "a", 1).Allowed)
		require.NoError(t, l.SetLimit(0))
		require.Equal(t, limit.Never, allow(t, l, "b", 1).RetryAfter)
		require.NoError(t, l.SetLimit(50))
		require.Equal(t, 50, passed(t, l, "b", 99))
		require.Equal(t, []limit.Description{{Name: "n", Limit: 50, Window: time.Second}}, l.Describe())
		for _, most := range []int64{51, -1, -2} {
			err := l.SetLimit(most)
			require.ErrorIs(t, err, limit.ErrCount)
			require.ErrorContains(t, err, "want 0 to 50, which is Config.MaxLimit")
		}
		require.EqualValues(t, 50, l.Describe()[0].Limit)
		require.ErrorIs(t, k.start(t, s, Config{Limit: 5, Prefix: "other:"}).SetLimit(6), limit.ErrCount, "MaxLimit is Limit")
	})
}

// Processes with different limits share what was counted.
func TestSetLimit_IsOfThisProcess(t *testing.T) {
	t.Parallel()
	eachCount(t, func(k kind) {
		t := k.t
		s := newServer()
		one := k.start(t, s, Config{Limit: 10, Window: time.Minute})
		other := k.start(t, s, Config{Limit: 10, Window: time.Minute})
		require.NoError(t, one.SetLimit(3))
		require.Equal(t, 3, passed(t, one, "a", 20))
		require.Equal(t, 7, passed(t, other, "a", 20))
		require.Equal(t, 0, passed(t, one, "a", 20))
	})
}

// The race: a limit that changes back and forth in four processes while all want the key,
// one or some at a time, under it or a limit of their own. Never are there more than the
// largest, and as many as that when it stays.
func TestSetLimit_HammerWithCallers(t *testing.T) {
	t.Parallel()
	for _, lease := range []int64{0, 20} {
		eachCount(t, func(k kind) {
			t := k.t
			if k.name != "Counter" && lease > 0 {
				t.Skip("a log has no leases")
			}
			const small, large = 200, 2000
			s := newServer()
			s.latency.set(time.Millisecond)
			var charged atomic.Int64
			var processes []limiter
			var all sync.WaitGroup
			for range 4 {
				l := k.start(t, s, Config{Limit: large, Window: time.Hour, Lease: lease, LeaseTime: 20 * time.Millisecond, Timeout: time.Minute})
				processes = append(processes, l)
				for id := range 8 {
					all.Go(func() {
						for i := range 120 {
							if id == 0 {
								assert.NoError(t, l.SetLimit([]int64{small, large}[i%2]))
							}
							d, err := limit.Decision{}, error(nil)
							switch i % 3 {
							case 0:
								d, err = l.Allow(t.Context(), "a")
							case 1:
								d, err = l.AllowAtMost(t.Context(), "a", 4)
							default:
								d, err = l.AllowLimit(t.Context(), "a", 2, []int64{small, large / 2}[id%2])
							}
							assert.NoError(t, err)
							assert.False(t, d.Degraded)
							charged.Add(d.Charged)
							time.Sleep(time.Duration(id) * 100 * time.Microsecond)
						}
					})
				}
			}
			all.Wait()
			time.Sleep(time.Second) // leases end
			require.LessOrEqual(t, charged.Load(), int64(large))
			require.Equal(t, charged.Load(), s.held("test:{}a"))
			for _, l := range processes {
				require.NoError(t, l.SetLimit(large))
				charged.Add(int64(passed(t, l, "a", large/3)))
			}
			require.EqualValues(t, large, charged.Load())
		})
	}
}

// A lease that was taken under a larger limit is served until it ends, and not longer; but
// nothing is under a limit of 0.
func TestLease_TakenUnderALargerLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1000, Window: time.Hour, Lease: 10, LeaseTime: 100 * time.Millisecond})
		admitted := lend(t, l, "a")
		for leaseOf(l, "a").left.Load() < 5 {
			require.True(t, allow(t, l, "a", 1).Allowed)
			admitted++
		}
		left := leaseOf(l, "a").left.Load()
		require.NoError(t, l.SetLimit(1))
		require.False(t, allow(t, l, "a", 2).Allowed, "more than there can ever be is not")
		for range left - 2 {
			d := allow(t, l, "a", 1)
			require.True(t, d.Allowed)
			require.EqualValues(t, 1, d.Limit)
			require.LessOrEqual(t, d.Remaining, int64(1))
		}
		require.NoError(t, l.SetLimit(0))
		require.False(t, allow(t, l, "a", 1).Allowed)
		require.NoError(t, l.SetLimit(1))
		require.True(t, allow(t, l, "a", 1).Allowed)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait() // what is left of the lease is given back in the same instant
		require.False(t, allow(t, l, "a", 1).Allowed)
		require.EqualValues(t, admitted+left-1, s.held("test:{}a"))
	})
}

func TestShadow_DecidesAndCountsAndRefusesNobody(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Name: "n", Limit: 3, Window: time.Minute, Mode: rule.Shadow})
		for i := range 10 {
			d := allow(t, l, "a", 1)
			require.True(t, d.Allowed)
			require.Equal(t, i >= 3, d.WouldRefuse)
			require.Equal(t, i >= 3, d.RetryAfter > 0)
			require.Equal(t, limit.Exempt, d.Limit)
			require.Equal(t, int64(math.MaxInt64), d.Remaining)
			require.Zero(t, d.MoreAfter)
			if d.WouldRefuse {
				require.NoError(t, l.Settle(t.Context(), "a", d, 5), "it would not have run, so its cost would not have been")
			}
		}
		require.EqualValues(t, 3, s.held("test:{}a"))
		stats := l.Stats()
		require.Equal(t, []int64{10, 0, 7}, []int64{stats.Allowed, stats.Refused, stats.WouldRefuse})
		require.Equal(t, rule.Shadow, l.Describe()[0].Mode)
		d, err := l.Peek(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, d.WouldRefuse)
		require.EqualValues(t, 7, l.Stats().WouldRefuse, "looking is not counted")

		// What was counted is there when it is enforced.
		require.NoError(t, l.SetMode(rule.Enforce))
		require.False(t, allow(t, l, "a", 1).Allowed)
		require.NoError(t, l.SetMode(rule.Off))
		before := l.Link().RoundTrips
		require.Equal(t, 20, passed(t, l, "new", 20))
		require.Equal(t, before, l.Link().RoundTrips, "off asks nobody")
		require.NoError(t, l.SetMode(rule.Shadow))
		d = allow(t, l, "b", 2)
		require.NoError(t, l.Refund(t.Context(), "b", d, 1))
		require.NoError(t, l.SetMode(rule.Enforce))
		d, err = l.Peek(t.Context(), "b")
		require.NoError(t, err)
		require.EqualValues(t, 2, d.Remaining)
		require.ErrorIs(t, l.SetMode(9), limit.ErrConfig)
		_, err = k.make(s, Config{Prefix: "p", Instances: 1, Mode: 9})
		require.EqualError(t, err, "limit: bad configuration of "+k.limiter()+": Mode is 9; want enforce (0), shadow (1) or off (2)")
	})
}

// Nobody is refused, whatever the policy, while no server answers.
func TestShadow_WhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		for _, policy := range []Policy{Local, Allow, Deny} {
			l := k.start(t, away(), Config{Limit: 3, WhenAway: policy, Mode: rule.Shadow})
			refused := 0
			for range 10 {
				d := allow(t, l, "a", 1)
				require.True(t, d.Allowed)
				require.True(t, d.Degraded)
				require.False(t, d.Unavailable)
				if d.WouldRefuse {
					refused++
					require.NoError(t, l.Settle(t.Context(), "a", d, 7))
				}
			}
			require.Equal(t, map[Policy]int{Local: 7, Allow: 0, Deny: 10}[policy], refused)
			require.EqualValues(t, 10, l.Stats().Degraded)
		}
	})
}

func TestLease_ServesInModeShadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1000, Window: time.Hour, Lease: 10, Mode: rule.Shadow})
		for range 50 {
			d := allow(t, l, "a", 1)
			require.True(t, d.Allowed)
			require.False(t, d.WouldRefuse)
			require.Equal(t, limit.Exempt, d.Limit)
		}
		require.Positive(t, l.Link().Leased)
	})
}

func TestAllowAtMost_AsManyAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 10, Window: time.Second})
		ask := func(key string, n int64) limit.Decision {
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
		asked := s.called(k.script)
		require.False(t, ask("a", 9).Allowed)
		require.False(t, allow(t, l, "a", 1).Allowed)
		require.Equal(t, asked, s.called(k.script), "it is remembered that not one fits")
		time.Sleep(d.RetryAfter - time.Microsecond)
		require.False(t, ask("a", 9).Allowed)
		time.Sleep(time.Microsecond)
		require.True(t, ask("a", 9).Allowed, "one does")
		require.EqualValues(t, 10, ask("new", math.MaxInt64).Charged)
		require.Zero(t, ask("look", 0).Charged)
		_, err := l.AllowAtMost(t.Context(), "a", -1)
		require.ErrorIs(t, err, limit.ErrCount)
		require.NoError(t, l.SetLimit(0))
		require.Equal(t, limit.Never, ask("new", 5).RetryAfter)
		require.NoError(t, l.SetMode(rule.Off))
		d = ask("new", 5)
		require.True(t, d.Allowed)
		require.Zero(t, d.Charged)
	})
}

// Permits that were leased count as room of the process that has them.
func TestAllowAtMost_TakesWhatWasLeased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 100, Window: time.Hour, Lease: 10, LeaseTime: 10 * time.Second})
		admitted := lend(t, l, "a")
		d, err := l.AllowAtMost(t.Context(), "a", 1000)
		require.NoError(t, err)
		require.EqualValues(t, 100-admitted, d.Charged)
		require.False(t, allow(t, l, "a", 1).Allowed)

		// Refunded, they are a lease again; then nothing but the lease is left.
		require.NoError(t, l.Refund(t.Context(), "a", d, 3))
		d, err = l.AllowAtMost(t.Context(), "a", 5)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.EqualValues(t, 3, d.Charged)
		require.Zero(t, d.RetryAfter)
		require.NoError(t, l.Settle(t.Context(), "a", d, 1))
		require.True(t, allow(t, l, "a", 2).Allowed)
		require.False(t, allow(t, l, "a", 1).Allowed)
		time.Sleep(time.Minute)
		require.EqualValues(t, 100, s.held("test:{}a"))
	})
}

// Each process has its share of the limit of each key, and of each call.
func TestLocal_SharesOfTheLimitOfAKey(t *testing.T) {
	t.Parallel()
	eachCount(t, func(k kind) {
		t := k.t
		sum := map[string]int64{}
		for range 4 {
			l := k.start(t, away(), Config{Limit: 8, MaxLimit: 100, Instances: 4, Window: time.Minute, LimitFor: func(key string) int64 {
				return map[string]int64{"vip": 83, "ban": 0, "free": limit.Exempt, "small": 3}[key] + map[string]int64{"any": limit.Default}[key]
			}})
			for range 50 {
				for _, key := range []string{"any", "vip", "ban", "free", "small"} {
					d := allow(t, l, key, 1)
					sum[key] += d.Charged
					require.Equal(t, key != "free", d.Degraded)
					require.Equal(t, key == "ban", !d.Allowed && d.RetryAfter == limit.Never, key)
				}
			}
			d, err := l.AllowLimit(t.Context(), "own", 9, 40)
			require.NoError(t, err)
			require.EqualValues(t, 10, d.Limit)
			require.EqualValues(t, 1, d.Remaining)
			d, err = l.AllowLimit(t.Context(), "own", 1, 8)
			require.NoError(t, err)
			require.False(t, d.Allowed)
			d, err = l.AllowAtMost(t.Context(), "vip 2", 1)
			require.NoError(t, err)
			require.False(t, d.Allowed, "it has no limit")
			require.NoError(t, l.SetLimit(40))
			d, err = l.AllowAtMost(t.Context(), "any", 50)
			require.NoError(t, err)
			require.EqualValues(t, 8, d.Charged, "10 less the 2 that were taken")
			require.EqualValues(t, 10, l.Link().Share)
		}
		require.Equal(t, map[string]int64{"any": 8, "vip": 80, "ban": 0, "free": 0, "small": 0}, sum)
	})
}

func TestAllowAtMost_WhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		for policy, want := range map[Policy]int64{Local: 5, Allow: 10, Deny: 0} {
			l := k.start(t, away(), Config{Limit: 10, Instances: 2, WhenAway: policy, Window: time.Minute})
			d, err := l.AllowAtMost(t.Context(), "a", 12)
			require.NoError(t, err)
			require.Equal(t, want, d.Charged)
			require.Equal(t, want > 0, d.Allowed)
			require.Equal(t, policy == Deny, d.Unavailable)
			require.Less(t, d.RetryAfter, limit.Never)
			d, err = l.AllowAtMost(t.Context(), "a", 12)
			require.NoError(t, err)
			require.Equal(t, policy == Allow, d.Allowed)
			require.NoError(t, l.SetLimit(0))
			d, err = l.AllowAtMost(t.Context(), "a", 12)
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.Equal(t, limit.Never, d.RetryAfter)
		}
	})
}

func TestConfig_MaxLimit(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{-1, 4, MaxLimit + 1} {
		_, err := NewCounter(newServer(), Config{Prefix: "p", Limit: 5, Instances: 1, MaxLimit: most})
		require.ErrorIs(t, err, limit.ErrConfig)
		require.ErrorContains(t, err, "want 5, which is Limit, to 562949953421312; or 0 for Limit")
	}
}

func TestTerms_AllocateNoMoreThanACall(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	l := counter(t, known{[]int64{1, 0, 1, 1e15}}, Config{Limit: 5, MaxLimit: 100, LimitFor: byPlan})
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = l.Allow(ctx, "free") }))
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "vip") }), 3.0, "the limit is sent")
}
