package leapredis

import (
	"context"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/limit"
)

func TestBurst_PricesAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, MaxLimit)).Draw(t, "limit")
		b := &burstScripts{length: rapid.Int64Range(1000, limit.MaxWindow.Microseconds()).Draw(t, "window"), burst: rapid.Int64Range(1, MaxLimit).Draw(t, "burst")}
		m := &server{now: func() int64 { return 0 }, bursts: map[string]*owing{}}
		n := rapid.Int64Range(1, maxHeld).Draw(t, "n")
		exact := new(big.Rat).Mul(big.NewRat(b.length, most), big.NewRat(n, 1))
		if longest := big.NewRat(maxSpan, 1); exact.Cmp(longest) > 0 {
			exact = longest
		}
		require.Zero(t, exact.Cmp(b.price(most, n).fraction(most)))
		// As many fit as the model takes, whatever is owed.
		owes := span{rapid.Int64Range(0, maxSpan).Draw(t, "owes"), rapid.Int64Range(0, most-1).Draw(t, "part")}
		m.bursts["a"] = &owing{owes: owes.fraction(most)}
		one := b.price(most, 1)
		b.burst = b.most(most)
		r := m.burst("a", unpack(b.pack(&question{limit: most, n: b.burst, most: takeSome})+pack(one.whole, one.part)))
		require.Equal(t, r[0], b.fit(most, b.room(most, owes)))
		require.True(t, r[0] == 0 || b.wait(most, r[0], owes) <= 0)
		require.True(t, b.wait(most, r[0]+1, owes) > 0 || r[0] == b.burst)
	})
}

// Bursts of their own size, as many as fit, and keys that are exempt: the answers are those of the
// limiter of package limit. Other limits are left out, since a key keeps its time on the server, and
// its calls in memory.
func TestBurst_DecidesAsTheTwinInMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limits := rapid.SampledFrom([][]int64{{5, limit.Exempt}, {3}, {7}, {999_983}, {1_000_000_007}}).Draw(rt, "limits")
		cfg := Config{
			Limit: limits[0], MaxLimit: 1 << 40, Burst: rapid.Int64Range(0, 20).Draw(rt, "burst"), Window: time.Second,
			Prefix: "p", WhenAway: Deny, Timeout: time.Minute, Logger: quiet,
		}
		now := time.Now().UnixMicro() * microsecond
		s := newServer()
		s.now = func() int64 { return now / microsecond }
		mine, err := NewBurst(s, cfg)
		require.NoError(rt, err)
		defer mine.Close()
		mine.link.clock.Given = func() int64 { return now }
		twin, err := limit.NewBurst(limit.Config{Limit: cfg.Limit, MaxLimit: cfg.MaxLimit, Burst: cfg.Burst, Now: func() int64 { return now }})
		require.NoError(rt, err)
		require.Equal(rt, twin.Describe(), mine.Describe())
		ctx := context.Background()
		up := func(d time.Duration) time.Duration {
			if d == limit.Never {
				return d
			}
			return (d + microsecond - 1) / microsecond * microsecond
		}
		type charge struct{ mine, twins limit.Decision }
		var charges []charge
		same := func(d, want limit.Decision) {
			require.Equal(rt, want.Allowed, d.Allowed)
			require.Equal(rt, want.Charged, d.Charged)
			require.Equal(rt, want.Limit, d.Limit)
			require.Equal(rt, want.Remaining, d.Remaining)
			require.Equal(rt, up(want.RetryAfter), d.RetryAfter)
			if want.Limit > 0 {
				require.Equal(rt, up(want.ResetAfter), d.ResetAfter)
			}
			if d.Charged > 0 {
				charges = append(charges, charge{d, want})
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now += microsecond
			if rapid.Bool().Draw(rt, "pauses") {
				now += rapid.Int64Range(0, 1_500_000).Draw(rt, "pause") * microsecond
			}
			n := rapid.Int64Range(0, 22).Draw(rt, "n")
			under := rapid.SampledFrom(limits).Draw(rt, "under")
			switch what := rapid.IntRange(0, 9).Draw(rt, "what"); {
			case what < 4:
				want, err := twin.AllowLimit(ctx, "a", n, under)
				require.NoError(rt, err)
				d, err := mine.AllowLimit(ctx, "a", n, under)
				require.NoError(rt, err)
				same(d, want)
			case what < 6:
				want, err := twin.AllowAtMost(ctx, "a", n)
				require.NoError(rt, err)
				d, err := mine.AllowAtMost(ctx, "a", n)
				require.NoError(rt, err)
				same(d, want)
			case what == 6:
				require.NoError(rt, twin.SetLimit(max(0, under)))
				require.NoError(rt, mine.SetLimit(max(0, under)))
				require.Equal(rt, twin.Describe(), mine.Describe())
			case len(charges) > 0:
				i := rapid.IntRange(0, len(charges)-1).Draw(rt, "which")
				c := charges[i]
				charges = append(charges[:i], charges[i+1:]...)
				actual := rapid.Int64Range(0, 2*c.mine.Charged).Draw(rt, "actual")
				require.NoError(rt, twin.Settle(ctx, "a", c.twins, actual))
				require.NoError(rt, mine.Settle(ctx, "a", c.mine, actual))
			}
		}
	})
}

func TestBurst_SoManyAtOnceThenEvenlyByAllProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		k := kind{make: makeBurst}
		all := []limiter{k.start(t, s, Config{Limit: 5, Burst: 8}), k.start(t, s, Config{Limit: 5, Burst: 8})}
		passed := 0
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			for _, l := range all {
				if allow(t, l, "a", 1).Allowed {
					passed++
				}
			}
			if passed == 8 {
				require.False(t, allow(t, all[0], "a", 1).Allowed)
			}
		}
		require.Equal(t, 8+5*10-1, passed, "8, and one every 200 ms from the first on, but for the last")
		require.Equal(t, limit.Never, allow(t, all[0], "a", 9).RetryAfter)
	})
}

// While no server answers, each process has its share of the limit and of the burst, but one at
// once at least.
func TestBurst_SharesWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := kind{make: makeBurst}
		for _, test := range []struct{ burst, atOnce, inASecond int }{{0, 10, 10}, {20, 5, 10}, {3, 1, 10}, {400, 100, 10}} {
			l := k.start(t, away(), Config{Limit: 40, Burst: int64(test.burst), Instances: 4})
			require.Equal(t, test.atOnce, admitted(t, "a", l))
			d := allow(t, l, "a", 1)
			require.True(t, d.Degraded)
			require.Equal(t, 100*time.Millisecond, d.RetryAfter)
			passed := 0
			for range 100 {
				time.Sleep(10 * time.Millisecond)
				if allow(t, l, "a", 1).Allowed {
					passed++
				}
			}
			require.Equal(t, test.inASecond, passed)
			if test.burst > 0 {
				require.Equal(t, limit.Never, allow(t, l, "a", int64(test.burst)+1).RetryAfter)
			}
		}
	})
}

func TestBurst_SharesFollowTheNumberOfProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := kind{make: makeBurst}
		l := k.start(t, away(), Config{Limit: 100, Burst: 200, Instances: count})
		counted := &k.core(l).instances.counted
		heard := k.core(l).link.clock.Now()
		counted.Store(&census{2, 0, heard})
		require.Equal(t, 100, admitted(t, "a", l))
		counted.Store(&census{4, 0, heard})
		time.Sleep(time.Second)
		require.Equal(t, 50, admitted(t, "a", l), "half of what was held is paid")
		time.Sleep(5 * time.Second) // nothing is held
		require.Equal(t, 50, admitted(t, "a", l))
	})
}

// A decision of another limit than the key has now is given back at its own price.
func TestBurst_ResetThenLateRefunds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := kind{make: makeBurst}.start(t, s, Config{Limit: 10, Burst: 10})
		late := allow(t, l, "a", 10)
		require.NoError(t, l.Reset(t.Context(), "a"))
		time.Sleep(time.Millisecond)
		require.True(t, allow(t, l, "a", 10).Allowed)
		require.NoError(t, l.Refund(t.Context(), "a", late, 10))
		require.False(t, allow(t, l, "a", 1).Allowed, "it was forgotten")
	})
}

func TestBurst_Faults(t *testing.T) {
	t.Parallel()
	_, err := NewBurst(newServer(), Config{Limit: 10, Prefix: "p:", Burst: -1, Lease: 5, WhenAway: Deny})
	require.ErrorContains(t, err, "bad configuration of Burst: Burst is -1; want 1 to 562949953421312, or 0 for as many as the limit")
	require.ErrorContains(t, err, "Lease is 5; want 0 or 1: only a Counter has leases, since a Burst would have to know when each permit is used")
	_, err = NewCounter(newServer(), Config{Limit: 10, Prefix: "p:", Burst: 1, WhenAway: Deny})
	require.ErrorContains(t, err, "Burst is 1; want 0: only a Burst has one")
}
