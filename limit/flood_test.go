package limit

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// A flood of keys that nobody has seen before, and one client that was there first. Memory
// stays flat whatever comes; the known client's count is kept, or, with Evict, kept by
// holding more than those that come.
func TestLimiter_FloodOfKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	flood, maxKeys := 5_000_000, 100_000
	if gatetest.Race {
		flood, maxKeys = 20_000, 5_000
	}
	for _, policy := range []Policy{Evict, Deny, Share} {
		t.Run(policy.String(), func(t *testing.T) {
			const limit = 10
			l, clock := algorithms[0].new(t, Config{Limit: limit, Window: time.Minute, MaxKeys: maxKeys, WhenFull: policy})
			l.AllowNAt(minute, "known", limit-1)
			var heap []uint64
			key := make([]byte, 0, 32)
			admitted := 0
			for i := range flood {
				if i%(flood/10) == 0 {
					heap = append(heap, gatetest.LiveHeap())
				}
				key = strconv.AppendInt(append(key[:0], "198.51.100."...), int64(i), 10)
				d, err := l.AllowN(t.Context(), string(key), 1)
				if d.Allowed {
					admitted++
				} else if err != nil || policy == Deny && (!d.Crowded || d.RetryAfter != 2*time.Minute) {
					t.Fatalf("%s: %+v, %v", key, d, err)
				}
			}
			require.EqualValues(t, 1, l.Peek("known").Remaining)
			require.True(t, l.AllowNAt(minute, "known", 1).Allowed)
			require.False(t, l.AllowNAt(minute, "known", 1).Allowed)
			s := l.Stats()
			require.Equal(t, maxKeys, s.Keys)
			require.Zero(t, s.Expired)
			switch policy {
			case Evict:
				require.Equal(t, flood, admitted)
				require.EqualValues(t, flood+1-maxKeys, s.Evicted, "each is reported")
				require.Zero(t, s.Crowded)
			case Deny:
				require.Equal(t, maxKeys-1, admitted)
				require.EqualValues(t, flood+1-maxKeys, s.Crowded)
			case Share:
				require.Equal(t, maxKeys-1+limit, admitted, "all new ones have one limit together")
				require.EqualValues(t, flood+1-maxKeys, s.Crowded)
			}
			// From when all places were taken on, it does not grow.
			require.Less(t, float64(heap[len(heap)-1]), float64(heap[len(heap)/2])*1.05+1<<20, "%d", heap)

			// Later they have all expired, and make room, a few with each new key.
			clock.Add(int64(2 * time.Minute))
			for i := range maxKeys {
				key = strconv.AppendInt(append(key[:0], "203.0.113."...), int64(i), 10)
				if !l.AllowNAt(clock.Load(), string(key), 1).Allowed {
					t.Fatalf("%q is refused", key)
				}
			}
			require.Equal(t, s.Evicted, l.Stats().Evicted)
			require.Equal(t, s.Crowded, l.Stats().Crowded)
		})
	}
}

// The same for every algorithm, in small.
func TestLimiter_CrowdedAtMaxKeys(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const maxKeys, limit = 100, 10
			for _, policy := range []Policy{Evict, Deny, Share} {
				l, clock := a.new(t, Config{Limit: limit, MaxKeys: maxKeys, WhenFull: policy})
				l.AllowNAt(minute, "known", limit)
				admitted := 0
				for i := range 1000 {
					d := l.AllowNAt(minute, fmt.Sprint(i), 1)
					if d.Allowed {
						admitted++
					}
					require.Equal(t, policy != Evict && i >= maxKeys-1, d.Crowded)
					require.LessOrEqual(t, l.Stats().Keys, maxKeys)
				}
				require.Zero(t, l.Peek("known").Remaining, "the known client is not disturbed")
				s := l.Stats()
				switch policy {
				case Evict:
					require.Equal(t, 1000, admitted)
					require.EqualValues(t, 901, s.Evicted)
				case Deny:
					require.Equal(t, 99, admitted)
					require.EqualValues(t, 901, s.Crowded)
					d := l.Peek("new")
					require.False(t, d.Allowed)
					require.True(t, d.Crowded)
					require.Equal(t, Never, l.AllowNAt(minute, "new", limit+1).RetryAfter)
					clock.Add(int64(d.RetryAfter))
					require.True(t, l.Peek("new").Allowed, "by then there is a place")
					require.True(t, allow(t, l, 1).Allowed)
				case Share:
					require.Equal(t, 99+limit, admitted)
					d := l.AllowNAt(minute, "new", 1)
					require.False(t, d.Allowed)
					require.Positive(t, d.RetryAfter)
					require.False(t, l.Peek("new").Allowed)
					clock.Add(int64(d.RetryAfter) - 1)
					require.False(t, l.Peek("new").Allowed)
				}
			}
		})
	}
}

// The count that new keys share goes with any clock.
func TestLimiter_SharedAtAnyTime(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, begin := range []int64{-minute, 0, minute} {
				l, _ := a.new(t, Config{Limit: 2, MaxKeys: 1, WhenFull: Share})
				for round := range int64(5) {
					now := begin + round*a.carry*second
					l.AllowNAt(now, "only", 1)
					admitted := 0
					for i := range 5 {
						if d := l.AllowNAt(now, fmt.Sprint("new ", i), 1); d.Allowed && d.Crowded {
							admitted++
						}
					}
					require.Equal(t, 2, admitted, "round %d from %d", round, begin)
				}
			}
		})
	}
}

// What one of those that share was charged can be given back.
func TestLimiter_SharedRefundAndSettle(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 10, MaxKeys: 1, WhenFull: Share})
			l.AllowNAt(minute, "only", 1)
			d := allow(t, l, 6)
			require.True(t, d.Crowded)
			require.EqualValues(t, 4, l.Peek("b").Remaining)
			require.NoError(t, l.Refund(t.Context(), "a", d, 2))
			require.EqualValues(t, 6, l.Peek("b").Remaining)
			require.NoError(t, l.Settle(t.Context(), "b", Decision{}, 5))
			require.EqualValues(t, 1, l.Peek("c").Remaining)
			require.NoError(t, l.Settle(t.Context(), "only", Decision{}, 4))
			require.EqualValues(t, 5, l.Peek("only").Remaining)

			l, _ = a.new(t, Config{Limit: 10, MaxKeys: 1, WhenFull: Deny})
			l.AllowNAt(minute, "only", 1)
			require.NoError(t, l.Settle(t.Context(), "a", Decision{}, 5), "there is nowhere to charge it")
		})
	}
}

// A key that holds much is not pushed out by a flood of those that hold little.
func TestLimiter_EvictionTakesTheColdest(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 100, MaxKeys: 2000})
			for i := range 50 {
				l.AllowNAt(minute, fmt.Sprint("hot ", i), 80)
			}
			flood := 20_000
			if gatetest.Race || testing.Short() {
				flood = 5_000
			}
			for i := range flood {
				l.AllowNAt(minute, fmt.Sprint(rand.Uint64(), i), 1)
			}
			for i := range 50 {
				require.EqualValues(t, 20, l.Peek(fmt.Sprint("hot ", i)).Remaining)
			}
		})
	}
}

// With Evict, a new key always gets a place, also when others want one at the same time.
func TestLimiter_HammerNewKeysAreNeverRefusedUnderEvict(t *testing.T) {
	t.Parallel()
	const goroutines = 8
	keys := gatetest.Rounds(30_000)
	c, _ := newCounter(t, Config{Limit: 1, Window: time.Hour, MaxKeys: 10_000})
	var refused atomic.Int64
	gatetest.AtOnce(goroutines, func(id int) {
		for i := range keys {
			d, err := c.Allow(t.Context(), fmt.Sprint(id, " ", i))
			if err != nil || !d.Allowed {
				refused.Add(1)
			}
		}
	})
	require.Zero(t, refused.Load())
	require.LessOrEqual(t, c.Stats().Keys, 10_000)
}
