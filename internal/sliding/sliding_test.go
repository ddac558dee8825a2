package sliding

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func fits(limit, n, previous, current, elapsed, length int64) bool {
	share := new(big.Int).Mul(big.NewInt(previous), big.NewInt(length-elapsed))
	room := new(big.Int).Mul(big.NewInt(limit-current-n), big.NewInt(length))
	return share.Cmp(room) <= 0
}

// at is what is held some time later.
func at(previous, current, elapsed, length, later int64) (int64, int64, int64) {
	switch elapsed += later; {
	case elapsed < length:
		return previous, current, elapsed
	case elapsed < 2*length:
		return current, 0, elapsed - length
	default:
		return 0, 0, 0
	}
}

func TestProperty_HeldWaitAndReset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, 1<<55).Draw(t, "length")
		limit := rapid.Int64Range(0, 1<<61).Draw(t, "limit")
		previous := rapid.Int64Range(0, 1<<61).Draw(t, "previous")
		current := rapid.Int64Range(0, 1<<61).Draw(t, "current")
		elapsed := rapid.Int64Range(0, length-1).Draw(t, "elapsed")
		n := rapid.Int64Range(0, limit).Draw(t, "n")

		require.Equal(t, fits(limit, n, previous, current, elapsed, length),
			Held(previous, current, elapsed, length)+n <= limit)
		if !fits(limit, n, previous, current, elapsed, length) {
			wait := Wait(limit, n, previous, current, elapsed, length)
			require.Positive(t, wait)
			p, c, e := at(previous, current, elapsed, length, wait)
			require.True(t, fits(limit, n, p, c, e, length))
			p, c, e = at(previous, current, elapsed, length, wait-1)
			require.False(t, fits(limit, n, p, c, e, length))
		}
		reset := Reset(previous, current, elapsed, length)
		p, c, e := at(previous, current, elapsed, length, reset)
		require.Zero(t, Held(p, c, e, length))
		require.Equal(t, reset > 0, Held(previous, current, elapsed, length) > 0)
	})
}
