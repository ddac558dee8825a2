package limit

import (
	"fmt"
	"math/big"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The example of the field: 60 in the minute before, 20 in this one, half of it over. 30 of
// the 60 still count, so 50 are held, and half of a limit of 100 is left.
func TestCounter_Estimate(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms[:2] {
		l, clock := a.new(t, Config{Limit: 100, Window: time.Minute})
		require.True(t, allow(t, l, 60).Allowed)
		clock.Add(60 * second)
		require.True(t, allow(t, l, 20).Allowed)
		clock.Add(30 * second)
		require.EqualValues(t, 50, l.Peek("a").Remaining)
		require.False(t, allow(t, l, 51).Allowed)
		require.True(t, allow(t, l, 50).Allowed)
	}
}

// The share is rounded up, to the nanosecond: of 3 in 4 s, 2.25 count a second into the
// next window, and 2 from there on where it is 2.
func TestCounter_TheShareIsExact(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms[:2] {
		l, clock := a.new(t, Config{Limit: 3, Window: 4 * time.Second})
		require.True(t, allow(t, l, 3).Allowed)
		for _, step := range []struct {
			at   int64
			left int64
		}{
			{4 * second, 0},
			{5*second + second/3, 0},
			{5*second + second/3 + 1, 1}, // 4/3 s into it, which is no whole nanosecond
			{6*second + 2*second/3, 1},
			{6*second + 2*second/3 + 1, 2},
			{8*second - 1, 2},
			{8 * second, 3},
		} {
			clock.Store(minute + step.at)
			require.Equal(t, step.left, l.Peek("a").Remaining, "%v", time.Duration(step.at))
		}
	}
}

// No float drifts: against rational numbers, up to the largest limits and windows.
func TestSliding_AgreesWithRationalNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, MaxLimit).Draw(t, "limit")
		s := sliding{rapid.Int64Range(int64(MinWindow), int64(MaxWindow)).Draw(t, "length")}
		y := tally{
			previous: rapid.Int64Range(0, maxHeld).Draw(t, "previous"),
			current:  rapid.Int64Range(0, maxHeld).Draw(t, "current"),
			elapsed:  rapid.Int64Range(0, s.length-1).Draw(t, "elapsed"),
		}
		n := rapid.Int64Range(1, limit).Draw(t, "n")
		truth := big.NewRat(s.length-y.elapsed, s.length)
		truth.Mul(truth, big.NewRat(y.previous, 1))
		truth.Add(truth, big.NewRat(y.current, 1))
		fits := new(big.Rat).Add(truth, big.NewRat(n, 1)).Cmp(big.NewRat(limit, 1)) <= 0
		held := s.held(&y)
		if got := n <= limit-held; got != fits {
			t.Fatalf("%+v holds %d, and really %v", y, held, truth)
		}
		if fits {
			return
		}
		// The wait is the time from which on it fits.
		at := func(wait int64) bool {
			number, elapsed := s.split(y.elapsed + wait)
			then := s.turn(0, y.previous, y.current, number, elapsed)
			return n <= limit-s.held(&then)
		}
		wait := int64(s.wait(&y, limit, n))
		if wait <= 0 || !at(wait) || at(wait-1) {
			t.Fatalf("%+v: %d fit after %d: %v, and a nanosecond before: %v", y, n, wait, at(wait), at(wait-1))
		}
	})
}

// Cloudflare's worst case: a burst at the end of a window, and then a second limit, paced,
// while the burst leaves.
func TestCounter_WorstCaseIsReachedAndPaced(t *testing.T) {
	t.Parallel()
	const limit = 100
	c, clock := newCounter(t, Config{Limit: limit})
	clock.Store(minute - 1)
	require.True(t, c.AllowNAt(clock.Load(), "a", limit).Allowed)
	var times []int64
	for now := minute; now < minute+second-1; {
		d := c.AllowNAt(now, "a", 1)
		if d.Allowed {
			times = append(times, now)
			continue
		}
		now += int64(d.RetryAfter)
	}
	require.Len(t, times, limit-1, "just under twice the limit")
	for i := 1; i < len(times); i++ {
		require.InDelta(t, second/limit, times[i]-times[i-1], 1, "paced")
	}
}

// An untouched key whose window's number comes round again is not believed.
func TestCounter_NumbersThatWrapAround(t *testing.T) {
	t.Parallel()
	for shift := range 33 {
		for _, beside := range []int64{-2, -1, 0, 1, 2} {
			later := int64(1)<<shift + beside
			if later < 2 {
				continue
			}
			c, clock := newCounter(t, Config{Limit: 5, Window: time.Second})
			allow(t, c, 5)
			clock.Add(later * second)
			require.EqualValues(t, 5, c.Peek("a").Remaining, "%d windows later", later)
			require.True(t, allow(t, c, 5).Allowed)
			require.False(t, allow(t, c, 1).Allowed)
		}
	}
}

// Limits up to here are counted in one word, and beyond under a lock, with no difference.
func TestCounter_BothRepresentations(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1<<24 - 3, 1<<24 - 2, 1<<24 - 1, 1 << 24, 1 << 40, MaxLimit} {
		c, clock := newCounter(t, Config{Limit: limit})
		require.Equal(t, limit <= maxPacked, c.packed != nil)
		require.True(t, allow(t, c, limit-1).Allowed)
		require.True(t, allow(t, c, 1).Allowed)
		require.False(t, allow(t, c, 1).Allowed)
		clock.Add(second + second/2)
		require.Equal(t, limit/2, c.Peek("a").Remaining)
		require.True(t, allow(t, c, limit/2).Allowed)
		require.False(t, allow(t, c, 1).Allowed)
		require.NoError(t, c.Settle(t.Context(), "a", Decision{}, MaxLimit))
		require.Zero(t, c.Peek("a").Remaining)
		require.Equal(t, 1, c.Stats().Keys)
	}
}

func TestCounter_Sizes(t *testing.T) {
	t.Parallel()
	require.Equal(t, uintptr(8), unsafe.Sizeof(atomic.Uint64{}))
	require.Equal(t, uintptr(16), unsafe.Sizeof(cell{}), "beside the bytes of the key")
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.Equal(t, uintptr(88), unsafe.Sizeof(Decision{}), "it is copied from hand to hand")
		require.Equal(t, uintptr(16), unsafe.Sizeof(admission{}))
	}
	require.Equal(t, uintptr(admissionBytes), unsafe.Sizeof(admission{}))
}

func TestLimiter_DecisionsAllocateNothing(t *testing.T) {
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			l, _ := a.new(t, Config{Limit: 1 << 40, Offenders: 100})
			full, _ := a.new(t, Config{Limit: 1, Offenders: 100})
			g, none := All(l, full), All(full, l)
			ctx := t.Context()
			for _, key := range []string{"a", "known"} {
				_, _ = l.AllowN(ctx, key, 1)
				_, _ = full.AllowN(ctx, key, 1)
				_, _ = full.AllowN(ctx, key, 1)
			}
			for name, f := range map[string]func() bool{
				"admitted": func() bool { d, err := l.AllowN(ctx, "known", 1); return err == nil && d.Allowed },
				"refused":  func() bool { d, err := full.AllowN(ctx, "known", 1); return err == nil && !d.Allowed },
				"looked":   func() bool { return l.Peek("known").Allowed && !full.Peek("known").Allowed },
				"refunded": func() bool {
					d, _ := l.AllowN(ctx, "known", 5)
					return l.Refund(ctx, "known", d, 2) == nil && l.Settle(ctx, "known", d, 5) == nil
				},
				"refused by the second": func() bool { d, err := g.AllowN(ctx, "known", 1); return err == nil && !d.Allowed },
				"refused by the first":  func() bool { d, err := none.AllowN(ctx, "known", 1); return err == nil && !d.Allowed },
			} {
				ok := true
				want := 0.0
				if name == "refused by the second" {
					want = 2 // contexts that do not end, for the refund and what it hides
				}
				require.LessOrEqual(t, testing.AllocsPerRun(200, func() { ok = ok && f() }), want, name)
				require.True(t, ok, name)
			}
		})
	}
}

// A new key costs one allocation, and now and then the growth of its shard.
func TestCounter_ANewKeyAllocatesItsNode(t *testing.T) {
	c, _ := newCounter(t, Config{Limit: 5, MaxKeys: 10_000})
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint("client ", i)
	}
	i := 0
	require.Less(t, testing.AllocsPerRun(len(names)-1, func() { c.AllowNAt(minute, names[i], 1); i++ }), 1.1)
}

// A settlement that exceeds what a word holds fills the word, and no more: the window before it
// keeps its count, and the next window forgets the settlement as any other charge.
func TestCounter_SettlementFillsTheWord(t *testing.T) {
	t.Parallel()
	l, clock := algorithms[0].new(t, Config{Limit: maxPacked, Window: time.Second})
	require.NoError(t, l.Settle(t.Context(), "a", allow(t, l, 1000), MaxLimit))
	require.NoError(t, l.Settle(t.Context(), "a", Decision{}, MaxLimit))
	require.NoError(t, l.Settle(t.Context(), "new", Decision{}, MaxLimit))
	for _, key := range []string{"a", "new"} {
		d := l.Peek(key)
		require.False(t, d.Allowed)
		require.EqualValues(t, 0, d.Remaining)
		require.Equal(t, 2*time.Second, d.ResetAfter)
		d = l.AllowNAt(clock.Load()+3*second/2, key, maxPacked/2)
		require.True(t, d.Allowed, "half of it has left")
		require.EqualValues(t, 0, d.Remaining)
	}
}
