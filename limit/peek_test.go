package limit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// To look at a key, now or far in the future, changes no later decision: of two limiters that get
// the same calls, one is also asked with Peek and with AllowNAt of 0, and decides like the other.
func TestLimiter_LooksChangeNothing(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		for _, full := range []Policy{Evict, Deny, Share} {
			t.Run(a.name+" "+full.String(), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(24, uint64(full)))
				cfg := Config{Limit: 4, Window: 6 * time.Millisecond, MaxKeys: 3, WhenFull: full}
				l, clock := a.new(t, cfg)
				looked, _ := a.new(t, cfg)
				keys := []string{"a", "b", "c", "d", "e", "f"}
				for range 5000 {
					now := clock.Add(random.Int64N([]int64{1, 1e4, 1e6, 2e7}[random.IntN(4)]))
					for range random.IntN(3) {
						key := keys[random.IntN(len(keys))]
						ahead := random.Int64N([]int64{1, 1e7, 1e12}[random.IntN(3)])
						looked.AllowNAt(now+ahead, key, 0)
						looked.Peek(key)
					}
					key, n := keys[random.IntN(len(keys))], random.Int64N(3)+1
					require.Equal(t, l.AllowNAt(now, key, n), looked.AllowNAt(now, key, n))
				}
			})
		}
	}
}

// A key is paid off at a changed limit from its next call on, so the waits that Peek returns are at the limit before.
func TestBurst_PeekIsTrueAfterTheLimitHasChanged(t *testing.T) {
	t.Parallel()
	for _, limits := range [][2]int64{{2, 10}, {10, 2}} {
		for _, used := range []int64{3, 4} {
			asked, clock := newBurst(t, Config{Limit: limits[0], MaxLimit: 10, Burst: 4, Window: time.Second})
			require.True(t, asked.AllowNAt(clock.Load(), "a", used).Allowed)
			require.NoError(t, asked.SetLimit(limits[1]))
			peeked := asked.Peek("a")
			require.Equal(t, 4-used, peeked.Remaining)
			require.Equal(t, time.Duration(used)*time.Second/time.Duration(limits[0]), peeked.ResetAfter)
			if used == 4 {
				require.Equal(t, peeked.RetryAfter, peeked.MoreAfter)
				require.False(t, asked.AllowNAt(clock.Load()+int64(peeked.RetryAfter)-1, "a", 0).Allowed)
			} else {
				require.True(t, asked.AllowNAt(clock.Load(), "a", 1).Allowed)
				require.False(t, asked.AllowNAt(clock.Load()+int64(peeked.MoreAfter)-1, "a", 0).Allowed)
			}
			require.True(t, asked.AllowNAt(clock.Load()+int64(peeked.MoreAfter), "a", 1).Allowed, "%v, %d used", limits, used)
		}
	}
}
