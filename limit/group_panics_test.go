package limit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fragile is a limiter of a program that panics when it is told to.
type fragile struct {
	limiter
	asked, refunded, settled bool // what panics
}

func (f *fragile) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	if f.asked {
		panic("asked")
	}
	return f.limiter.AllowN(ctx, key, n)
}

func (f *fragile) Refund(ctx context.Context, key string, d Decision, n int64) error {
	if f.refunded {
		panic("refunded")
	}
	return f.limiter.Refund(ctx, key, d, n)
}

func (f *fragile) Settle(ctx context.Context, key string, d Decision, actual int64) error {
	if f.settled {
		panic("settled")
	}
	return f.limiter.Settle(ctx, key, d, actual)
}

// fragileGroup is three limits of 10, the second of which may break, and what is left of
// each.
func fragileGroup(t *testing.T, a variant) (g *Group, f *fragile, left func() [3]int64) {
	t.Helper()
	var each [3]limiter
	for i := range each {
		each[i], _ = a.new(t, Config{Limit: 10})
	}
	f = &fragile{limiter: each[1]}
	return All(each[0], f, each[2]), f, func() (left [3]int64) {
		for i, l := range each {
			left[i] = l.Peek("a").Remaining
		}
		return left
	}
}

func TestAll_OnePanicsAndTheOthersGetBackWhatTheyTook(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		g, f, left := fragileGroup(t, a)
		f.asked = true
		require.PanicsWithValue(t, "asked", func() { _, _ = g.AllowN(t.Context(), "a", 4) }, a.name)
		require.Equal(t, [3]int64{10, 10, 10}, left(), a.name)
	}
}

func TestAll_OnePanicsAndTheOthersAreRefundedAndSettled(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		g, f, left := fragileGroup(t, a)
		d, err := g.AllowN(t.Context(), "a", 4)
		require.NoError(t, err)
		f.refunded, f.settled = true, true
		require.PanicsWithValue(t, "refunded", func() { _ = g.Refund(t.Context(), "a", d, 1) }, a.name)
		require.Equal(t, [3]int64{7, 6, 7}, left(), a.name)
		require.PanicsWithValue(t, "settled", func() { _ = g.Settle(t.Context(), "a", d, 6) }, a.name)
		require.Equal(t, [3]int64{5, 6, 5}, left(), a.name)

		// The last refuses: the first gets back what it took, also if the second breaks.
		_, err = g.limiters[2].AllowN(t.Context(), "a", 5)
		require.NoError(t, err)
		require.PanicsWithValue(t, "refunded", func() { _, _ = g.AllowN(t.Context(), "a", 1) }, a.name)
		require.Equal(t, [3]int64{5, 5, 0}, left(), a.name)
	}
}

// Of limits with windows of different lengths, what comes late goes back to those whose
// windows have not ended.
func TestAll_LateRefundsGoToTheWindowsThatLast(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			short, clock := a.new(t, Config{Limit: 10})
			long, other := a.new(t, Config{Limit: 10, Window: 10 * time.Minute, Buckets: boolToInt(a.name == "bucketed" || a.name == "strict")})
			g := All(short, long)
			d, err := g.AllowN(t.Context(), "a", 4)
			require.NoError(t, err)
			clock.Add(5 * second)
			other.Store(clock.Load())
			later, err := g.AllowN(t.Context(), "a", 3)
			require.NoError(t, err)
			require.NoError(t, g.Refund(t.Context(), "a", d, 4))
			require.EqualValues(t, 7, short.Peek("a").Remaining)
			require.EqualValues(t, 7, long.Peek("a").Remaining)
			require.NoError(t, g.Settle(t.Context(), "a", later, 0))
			require.EqualValues(t, 10, short.Peek("a").Remaining)
			require.EqualValues(t, 10, long.Peek("a").Remaining)
		})
	}
}
