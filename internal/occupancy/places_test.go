package occupancy_test

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/occupancy"
)

func TestPlaces_AreThoseOfTheKey(t *testing.T) {
	t.Parallel()
	p := occupancy.New(2, func(key string) bool { return key == "kept" })
	a, taken, _ := p.Take("a", 2, 3)
	require.NotNil(t, a)
	require.EqualValues(t, 2, taken)
	none, taken, crowded := p.Take("a", 2, 3)
	require.Nil(t, none)
	require.EqualValues(t, 2, taken)
	require.False(t, crowded)
	none, taken, _ = p.Take("a", 4, 3)
	require.Nil(t, none)
	require.EqualValues(t, 2, taken, "also for more than there ever are")
	empty, _, _ := p.Take("", 1, 1)
	require.NotNil(t, empty)
	_, _, crowded = p.Take("b", 1, 1)
	require.True(t, crowded)
	taken, crowded = p.Taken("b")
	require.Zero(t, taken)
	require.True(t, crowded)
	kept, _, _ := p.Take("kept", 1, 1)
	require.NotNil(t, kept)
	require.EqualValues(t, 4, p.InFlight())
	for held, n := range map[*occupancy.Held]int64{a: 2, empty: 1, kept: 1} {
		p.Give(held, n)
	}
	require.Equal(t, 3, p.Keys(), "they are kept until there is need")
	p.Sweep()
	require.Equal(t, []int64{0, 3, 1}, []int64{int64(p.Keys()), p.Expired(), p.Crowded()})
}

// The race: many take and give back while keys come and go. Never is one above the limit; at the end
// every key that there may be finds room, so that none is taken for one that has places.
func TestPlaces_HammerNoneIsLost(t *testing.T) {
	t.Parallel()
	const maxKeys, limit = 20, 2
	p := occupancy.New(maxKeys, nil)
	var inside [maxKeys * 2]atomic.Int64
	gatetest.AtOnce(32, func(id int) {
		random := rand.New(rand.NewPCG(1, uint64(id)))
		for range gatetest.Rounds(5000) {
			key := random.IntN(len(inside))
			n := int64(1 + random.IntN(2))
			held, _, _ := p.Take(strconv.Itoa(key), n, limit)
			if held == nil {
				continue
			}
			if now := inside[key].Add(n); now > limit {
				t.Errorf("%d of %d", now, limit)
			}
			inside[key].Add(-n)
			p.Give(held, n)
			if random.IntN(100) == 0 {
				p.Sweep()
			}
		}
	})
	require.Zero(t, p.InFlight())
	for i := range maxKeys {
		held, taken, crowded := p.Take("new "+strconv.Itoa(i), limit, limit)
		require.NotNil(t, held)
		require.EqualValues(t, limit, taken)
		require.False(t, crowded)
	}
	_, _, crowded := p.Take("one more", 1, limit)
	require.True(t, crowded)
}
