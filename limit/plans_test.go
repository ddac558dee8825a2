package limit

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rule"
)

func TestSetPlans_SingleKeysHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, _ := a.new(t, Config{Limit: 5, MaxLimit: 10, LimitFor: byPlan})
			l := made.(*RateLimiter)
			require.EqualValues(t, 10, l.MaxLimit())
			named := map[string]int64{"acme": 8, "banned": 0, "partner": Exempt, "vip 1": 2}
			require.NoError(t, l.SetPlans(named))
			named["acme"] = 1
			require.Equal(t, 8, passed(t, l, "acme", 20), "the map was copied")
			require.Equal(t, 0, passed(t, l, "banned", 20))
			require.Equal(t, 20, passed(t, l, "partner", 20))
			require.Equal(t, 2, passed(t, l, "vip 1", 20), "what is named comes before LimitFor")
			require.Equal(t, 10, passed(t, l, "vip 2", 20), "which is asked for the others")
			require.Equal(t, 5, passed(t, l, "any", 20))

			for _, bad := range []map[string]int64{{"acme": 11}, {"acme": Default}, {"": 1}, {string(make([]byte, 1025)): 1}} {
				require.Error(t, l.SetPlans(bad))
				require.EqualValues(t, 8, l.Peek("acme").Limit, "nothing has changed")
			}
			require.NoError(t, l.SetPlans(map[string]int64{"acme": 10}))
			if a.name != "burst" { // where it stays as time
				require.Equal(t, 2, passed(t, l, "acme", 20), "what was counted stays")
			}
			require.NoError(t, l.SetPlans(nil))
			require.False(t, l.Peek("acme").Allowed)
			require.EqualValues(t, 5, l.Peek("acme").Limit)
		})
	}
}

func TestSetPlans_OfCallsInFlight(t *testing.T) {
	t.Parallel()
	l, err := NewInFlight(Config{Limit: 1, MaxLimit: 3})
	require.NoError(t, err)
	require.NoError(t, l.SetPlans(map[string]int64{"acme": 3, "banned": 0, "partner": Exempt}))
	inside := func(key string) (n int) {
		for range 5 {
			if _, d, err := l.Acquire(t.Context(), key); err == nil && d.Allowed {
				n++
			}
		}
		return n
	}
	require.Equal(t, []int{3, 0, 5, 1}, []int{inside("acme"), inside("banned"), inside("partner"), inside("any")})
	require.ErrorIs(t, l.SetPlans(map[string]int64{"acme": 4}), ErrCount)
	require.ErrorIs(t, l.SetPlans(map[string]int64{"": 1}), ErrKey)
}

// Whatever is set while calls come, each is decided under one of the limits, and what was
// counted stays.
func TestSetPlans_HammerWithCallers(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const small, large = 100, 1000
			made, _ := a.new(t, Config{Limit: small, MaxLimit: large})
			l := made.(*RateLimiter)
			var charged atomic.Int64
			gatetest.AtOnce(16, func(id int) {
				for i := range 500 {
					if id == 0 {
						assert.NoError(t, l.SetPlans([]map[string]int64{nil, {"a": large}}[i%2]))
					}
					if d, err := l.Allow(t.Context(), "a"); err == nil && d.Allowed {
						charged.Add(1)
					}
				}
			})
			require.GreaterOrEqual(t, charged.Load(), int64(small))
			require.LessOrEqual(t, charged.Load(), int64(large))
			require.NoError(t, l.SetPlans(map[string]int64{"a": large}))
			require.EqualValues(t, large, charged.Load()+int64(passed(t, l, "a", large)))
		})
	}
}

func TestSetBurst_KeepsWhatWasCounted(t *testing.T) {
	t.Parallel()
	made, clock := burst.new(t, Config{Name: "n", Limit: 10, Burst: 3})
	l := made.(*RateLimiter)
	require.Equal(t, 3, passed(t, l, "a", 20))
	require.NoError(t, l.SetBurst(5))
	require.EqualValues(t, 5, l.Describe()[0].Burst)
	require.Equal(t, 2, passed(t, l, "a", 20))
	require.NoError(t, l.SetBurst(1))
	require.Equal(t, 0, passed(t, l, "a", 20))
	clock.Add(int64(500*time.Millisecond) - 1)
	require.Equal(t, 0, passed(t, l, "a", 20), "five are paid for after half a second")
	clock.Add(1)
	require.Equal(t, 1, passed(t, l, "a", 20))
	require.NoError(t, l.SetBurst(0))
	require.EqualValues(t, 10, l.Describe()[0].Burst, "as many as the limit")
	require.Equal(t, 9, passed(t, l, "a", 20))

	require.ErrorIs(t, l.SetBurst(-1), ErrConfig)
	require.ErrorIs(t, l.SetBurst(MaxLimit+1), ErrConfig)
	other, _ := newCounter(t, Config{Name: "n", Limit: 10})
	require.EqualError(t, other.SetBurst(3), `limit: bad configuration of limiter "n": Burst is 3; want 0: only a Burst has one`)
	require.EqualValues(t, 10, l.Describe()[0].Burst)
}

// A call of its own limit counts with NewBurst too: as many at once as that says, at its pace.
func TestAllowLimit_OfABurstKeepsTheCalls(t *testing.T) {
	t.Parallel()
	made, clock := burst.new(t, Config{Limit: 5, MaxLimit: 20})
	l := made.(*RateLimiter)
	ask := func(n, limit int64) Decision {
		d, err := l.AllowLimit(t.Context(), "a", n, limit)
		require.NoError(t, err)
		return d
	}
	require.EqualValues(t, 17, ask(3, 20).Remaining)
	d := ask(1, 5)
	require.True(t, d.Allowed)
	require.EqualValues(t, 5, d.Limit)
	require.EqualValues(t, 1, d.Remaining)
	require.False(t, ask(1, 0).Allowed)
	require.True(t, ask(100, Exempt).Allowed)
	require.True(t, ask(1, Default).Allowed)
	require.False(t, ask(1, 5).Allowed)
	require.EqualValues(t, 13, ask(2, 20).Remaining)
	clock.Add(int64(50 * time.Millisecond))
	require.False(t, ask(15, 20).Allowed)
	require.True(t, ask(14, 20).Allowed)
	_, err := l.AllowLimit(t.Context(), "a", 1, 21)
	require.ErrorIs(t, err, ErrCount)
}

// Calls of one key under limits of their own: none is admitted beyond its own, and none is lost.
func TestAllowLimit_HammerLimitsOfOneKey(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, _ := a.new(t, Config{Limit: 1, MaxLimit: 1000})
			l := made.(*RateLimiter)
			limits := []int64{10, 100, 1000}
			var admitted [3]atomic.Int64
			gatetest.AtOnce(15, func(id int) {
				for range 300 {
					if d, err := l.AllowLimit(t.Context(), "a", 1, limits[id%3]); err == nil && d.Allowed {
						admitted[id%3].Add(1)
					}
				}
			})
			require.LessOrEqual(t, admitted[0].Load(), int64(10))
			require.LessOrEqual(t, admitted[0].Load()+admitted[1].Load(), int64(110))
			require.EqualValues(t, 1000, admitted[0].Load()+admitted[1].Load()+admitted[2].Load())
		})
	}
}

// What would be refused is not charged, so the mode changes nothing about how much is.
func TestSetMode_HammerWithCallers(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			made, _ := a.new(t, Config{Limit: 1000})
			l := made.(*RateLimiter)
			var charged, allowed, refused atomic.Int64
			gatetest.AtOnce(16, func(id int) {
				for i := range 200 {
					if id == 0 {
						assert.NoError(t, l.SetMode([]rule.Mode{rule.Enforce, rule.Shadow}[i%2]))
					}
					d, err := l.Allow(t.Context(), "a")
					assert.NoError(t, err)
					charged.Add(d.Charged)
					if d.Allowed {
						allowed.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
			s := l.Stats()
			require.EqualValues(t, 1000, charged.Load())
			require.Equal(t, []int64{allowed.Load(), refused.Load(), allowed.Load() - 1000}, []int64{s.Allowed, s.Refused, s.WouldRefuse})
		})
	}
}

// Never are more inside than the larger limit, and all places are free at the end.
func TestInFlight_HammerLimitsThatChange(t *testing.T) {
	t.Parallel()
	const small, large = 3, 7
	l, err := NewInFlight(Config{Limit: small, MaxLimit: large})
	require.NoError(t, err)
	var inside, most atomic.Int64
	gatetest.AtOnce(16, func(id int) {
		for i := range 500 {
			if id == 0 {
				assert.NoError(t, l.SetLimit([]int64{small, large}[i%2]))
				assert.NoError(t, l.SetPlans([]map[string]int64{nil, {"a": large}}[i/2%2]))
			}
			place, d, err := l.Acquire(t.Context(), "a")
			assert.NoError(t, err)
			if d.Allowed {
				n := inside.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				runtime.Gosched()
				inside.Add(-1)
			}
			place.Release()
			place.Release()
		}
	})
	require.LessOrEqual(t, most.Load(), int64(large))
	require.Zero(t, l.Stats().InFlight)
	require.NoError(t, l.SetPlans(nil))
	require.NoError(t, l.SetLimit(large))
	require.EqualValues(t, large, l.Peek("a").Remaining)
}
