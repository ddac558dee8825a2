package limit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// steady asks for keys so often, evenly, for some windows, and returns how many were refused.
func steady(l limiter, clock *fake, floods, honest int, perWindow int64) (refused int) {
	const flood = 200 // in a window
	type caller struct {
		key          string
		every, again int64
	}
	var all []caller
	for i := range floods {
		all = append(all, caller{fmt.Sprint("flood ", i), second / flood, minute + int64(i)*7919})
	}
	for i := range honest {
		all = append(all, caller{fmt.Sprint("honest ", i), second / perWindow, minute + second + int64(i)*7919})
	}
	for now := minute; now < minute+8*second; now += ms / 2 {
		clock.Store(now)
		for i := range all {
			for c := &all[i]; c.again <= now; c.again += c.every {
				if !l.AllowNAt(c.again, c.key, 1).Allowed && i >= floods {
					refused++
				}
			}
		}
	}
	return refused
}

// Some clients use up the memory. Others have what is theirs: with room for 20 times, they are not
// refused below 93 % of their limit.
func TestLog_EachKeyHasAShareOfMaxBytes(t *testing.T) {
	t.Parallel()
	const maxKeys, maxBytes = 100, 2 * 20 * 16 * 101
	for _, a := range algorithms[2:] {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Limit: 100, MaxKeys: maxKeys, MaxBytes: maxBytes}
			if a.name != "log" {
				cfg.Buckets = 1000
			}
			l, clock := a.new(t, cfg)
			require.Zero(t, steady(l, clock, 60, 5, 93))
			s := l.Stats()
			require.Positive(t, s.Coarse)
			require.Zero(t, s.Evicted)
			require.Greater(t, s.Bytes, int64(maxBytes)*3/4)
			require.LessOrEqual(t, s.Bytes, int64(maxBytes))
			clock.Add(2 * second)
			l.Sweep()
			require.Zero(t, l.Stats().Bytes)
			require.Zero(t, exactLogOf(l).beyond.Load())
		})
	}
}

// Without any share, each key has the few that it begins with, and 67 % of its limit.
func TestLog_WithoutAShareAKeyHasItsFew(t *testing.T) {
	t.Parallel()
	l, clock := algorithms[2].new(t, Config{Limit: 100, MaxKeys: 1000, MaxBytes: 2000})
	require.Zero(t, steady(l, clock, 60, 5, 66))
	require.Positive(t, l.Stats().Coarse)
}

// Memory goes with the buckets in which a key was admitted, not with those that it may
// have.
func TestBucketed_MemoryGoesWithTheBucketsInUse(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms[3:] {
		l, clock := a.new(t, Config{Limit: 1 << 40, Buckets: 1000})
		allow(t, l, 1)
		require.Zero(t, l.Stats().Bytes, "besides the first four times")
		most := int64(0)
		for used := int64(1); used <= 3000; used++ {
			allow(t, l, 5)
			bytes := l.Stats().Bytes
			require.LessOrEqual(t, bytes, max(64, 2*16*used))
			most = max(most, bytes)
			clock.Add(ms)
		}
		require.LessOrEqual(t, most, int64(16*1001))
		for range 12 {
			clock.Add(2 * second)
			allow(t, l, 1)
		}
		require.Zero(t, l.Stats().Bytes, "it is given back")
	}
}

// The first call of a key allocates the key's node and nothing more, whatever the number
// of buckets.
func TestBucketed_ANewKeyAllocatesItsNode(t *testing.T) {
	const calls = 5000
	for _, a := range algorithms[2:] {
		cfg := Config{Limit: 5, MaxKeys: 2 * calls}
		if a.name != "log" {
			cfg.Buckets = 1000
		}
		l, _ := a.new(t, cfg)
		names := make([]string, calls+1)
		for i := range names {
			names[i] = fmt.Sprint("client ", i)
		}
		i := 0
		require.Less(t, testing.AllocsPerRun(calls, func() { l.AllowNAt(minute, names[i], 1); i++ }), 1.1, a.name)
	}
}
