package leapredis

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What no script replies is not believed, but tells nothing of the server: another may hold
// the key.
func TestCounter_RepliesThatCannotBe(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	for name, r := range map[string][]int64{
		"refused without a reason": {0},
		"below zero":               {0, -1, -1, -1, -1, -1},
		"too large":                {0, most, most, most, 0, most},
		"a long way ahead":         {0, 20, 20, 1, 0, most / 1000},
		"reset too often":          {1, 0, 1, 1, 1 << 18},
		"more than was asked for":  {1000, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := counter(t, strange(func() ([]int64, error) { return r, nil }), Config{Limit: 10, Lease: 10, WhenAway: Deny})
			for range 10 {
				d := allow(t, l, "a", 1)
				require.False(t, d.Allowed)
				require.True(t, d.Degraded)
				_, err := l.Peek(t.Context(), "a")
				require.NoError(t, err)
			}
			require.Equal(t, Closed, l.Link().State)
		})
	}
}
