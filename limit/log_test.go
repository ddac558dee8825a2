package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The window of a log is (now − window, now]: what was admitted exactly a window ago has
// left it.
func TestLog_AdmissionsLeaveOneByOne(t *testing.T) {
	t.Parallel()
	l, clock := algorithms[2].new(t, Config{Limit: 3})
	for i := range int64(3) {
		clock.Store(minute + i*100*ms)
		require.True(t, allow(t, l, 1).Allowed)
	}
	for i := range int64(3) {
		clock.Store(minute + second + i*100*ms - 1)
		d := allow(t, l, 1)
		require.False(t, d.Allowed)
		require.Equal(t, time.Duration(1), d.RetryAfter)
		clock.Add(1)
		require.True(t, allow(t, l, 1).Allowed)
	}
}

func (e *exactLog) of(key string) *keyLog {
	p := e.store.keys.Find(e.store.keys.Hash(key), key)
	if p == nil {
		return nil
	}
	return &p.Value
}

func TestLog_TheRingGrowsWithUseAndNoFurther(t *testing.T) {
	t.Parallel()
	const limit = 1000
	l, clock := algorithms[2].new(t, Config{Limit: limit})
	e := l.(*RateLimiter).engine.(*store[keyLog]).algorithm.(*exactLog)
	allow(t, l, 1)
	require.Len(t, e.of("a").ring, fewAdmissions)
	require.Zero(t, l.Stats().Bytes)
	for i := range limit - 1 {
		clock.Add(1)
		require.True(t, allow(t, l, 1).Allowed)
		require.LessOrEqual(t, len(e.of("a").ring), max(fewAdmissions, 2*(i+2)))
	}
	require.Len(t, e.of("a").ring, limit, "as much as the limit needs")
	require.EqualValues(t, 16*limit, l.Stats().Bytes)
	for range 3 * limit { // it goes round
		d := allow(t, l, 1)
		if !d.Allowed {
			clock.Add(int64(d.RetryAfter))
		}
	}
	require.EqualValues(t, 16*limit, l.Stats().Bytes)
	require.Zero(t, l.Stats().Coarse)

	// In disuse it gets smaller, and with its key it goes.
	for range 10 {
		clock.Add(2 * second)
		require.True(t, allow(t, l, 1).Allowed)
	}
	require.Less(t, l.Stats().Bytes, int64(16*8))
	clock.Add(2 * second)
	l.Sweep()
	require.Zero(t, l.Stats().Bytes)
	require.Zero(t, l.Stats().Keys)
}

func TestLog_OneTimeIsOnePlace(t *testing.T) {
	t.Parallel()
	l, _ := algorithms[2].new(t, Config{Limit: 1 << 40})
	for range 1000 {
		require.True(t, allow(t, l, 1<<20).Allowed)
	}
	require.Zero(t, l.Stats().Bytes)
}

// With no memory left, a log admits no more than its limit in any true window, and tells
// waits that are true.
func TestLog_MaxBytesHolds(t *testing.T) {
	t.Parallel()
	const limit, keys = 100, 50
	l, clock := algorithms[2].new(t, Config{Limit: limit, MaxBytes: 2000})
	admitted := make(map[string][]charged)
	for i := range 40_000 {
		clock.Add(second / 5000)
		key := fmt.Sprint(i * 7 % keys)
		d := l.AllowNAt(clock.Load(), key, 1)
		if d.Allowed {
			admitted[key] = append(admitted[key], charged{at: clock.Load(), n: 1})
		} else {
			require.LessOrEqual(t, d.RetryAfter, time.Second)
		}
		require.LessOrEqual(t, l.Stats().Bytes, int64(2000))
	}
	require.Positive(t, l.Stats().Coarse)
	for key, all := range admitted {
		require.LessOrEqual(t, fullest(all, second), int64(limit))
		require.Greater(t, len(all), limit, "%s is let in again", key)
	}
	clock.Add(2 * second)
	l.Sweep()
	require.Zero(t, l.Stats().Bytes)
}

// Settlements can charge beyond the limit. That takes memory like the rest, and no more than
// there is.
func TestLog_DebtsTakeOfMaxBytes(t *testing.T) {
	t.Parallel()
	for _, maxBytes := range []int64{0, 640} {
		l, clock := algorithms[2].new(t, Config{Limit: 10, MaxBytes: maxBytes})
		for range 1000 {
			clock.Add(1)
			require.NoError(t, l.Settle(t.Context(), "a", Decision{}, 1))
		}
		s := l.Stats()
		if maxBytes == 0 {
			require.LessOrEqual(t, s.Bytes, int64(2*16*1000))
			require.Zero(t, s.Coarse)
		} else {
			require.LessOrEqual(t, s.Bytes, maxBytes)
			require.Positive(t, s.Coarse)
		}
		d := l.Peek("a")
		clock.Add(int64(d.ResetAfter))
		require.EqualValues(t, 10, l.Peek("a").Remaining)
		for range 20 {
			clock.Add(second)
			require.True(t, allow(t, l, 1).Allowed)
		}
		require.Zero(t, l.Stats().Bytes)
	}
}

// A refund of what was admitted long before the newest.
func TestLog_RefundInTheMiddle(t *testing.T) {
	t.Parallel()
	l, clock := algorithms[2].new(t, Config{Limit: 10})
	var all []Decision
	for range 5 {
		clock.Add(ms)
		all = append(all, allow(t, l, 2))
	}
	require.NoError(t, l.Refund(t.Context(), "a", all[1], 2))
	require.NoError(t, l.Refund(t.Context(), "a", all[3], 1))
	require.EqualValues(t, 3, l.Peek("a").Remaining)
	clock.Store(minute + second + 2*ms) // the first has left, and the place of the second
	require.EqualValues(t, 5, l.Peek("a").Remaining)
	require.NoError(t, l.Refund(t.Context(), "a", all[1], 2))
	require.EqualValues(t, 5, l.Peek("a").Remaining)
	clock.Store(minute + second + 4*ms)
	require.EqualValues(t, 8, l.Peek("a").Remaining)
	require.NoError(t, l.Refund(t.Context(), "a", all[4], 2))
	require.Equal(t, Decision{Allowed: true, Limit: 10, Remaining: 10}, l.Peek("a"))
}
