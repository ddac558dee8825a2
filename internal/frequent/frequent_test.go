package frequent

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.nofailfile", "true") // what fails is printed; no files in the checkout
	goleak.VerifyTestMain(m)
}

func TestTop_MostFirst(t *testing.T) {
	t.Parallel()
	k := New(10)
	require.Empty(t, k.Top(3))
	for i := range 5 {
		for range i * i {
			k.Count(fmt.Sprint("key ", i), 2)
		}
	}
	k.Count("", 2)
	require.Equal(t, []Key{{"key 4", 32, 0}, {"key 3", 18, 0}, {"key 2", 8, 0}, {"", 2, 0}, {"key 1", 2, 0}}, k.Top(10))
	require.Equal(t, []Key{{"key 4", 32, 0}}, k.Top(1))
	require.Empty(t, k.Top(0))
	require.Empty(t, k.Top(-1))
}

// What Filtered Space-Saving promises: a count is never too low, too high by no more than
// Excess, Excess is no more than all by the number of counts, and what came more often than
// that is there.
func TestTop_KeepsThePromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.IntRange(1, 40).Draw(t, "counts")
		k := New(counts)
		k.cells = k.cells[:1<<rapid.IntRange(0, 3).Draw(t, "cells")] // so that keys meet in them
		truth := make(map[string]int64)
		all, largest := int64(0), int64(0)
		for _, key := range rapid.SliceOfN(rapid.IntRange(0, 60), 1, 2000).Draw(t, "keys") {
			name := strconv.Itoa(key * key / 60) // some more often than others
			n := int64(1 + key%3)
			k.Count(name, n)
			truth[name] += n
			all += n
			largest = max(largest, n)
		}
		top := k.Top(1000)
		seen := make(map[string]bool)
		sum := int64(0)
		for i, f := range top {
			seen[f.Key] = true
			sum += f.Count
			if f.Count < truth[f.Key] || f.Count-f.Excess > truth[f.Key] || f.Excess > all/int64(counts) {
				t.Fatalf("%+v came %d times of %d", f, truth[f.Key], all)
			}
			if i > 0 && f.Count > top[i-1].Count {
				t.Fatalf("%+v comes after %+v", f, top[i-1])
			}
		}
		if len(top) > counts || sum > all {
			t.Fatalf("%d of %d counts, %d of %d", len(top), counts, sum, all)
		}
		for key, n := range truth {
			if n > all/int64(counts) && !seen[key] {
				t.Fatalf("%s came %d times of %d and is not there", key, n, all)
			}
		}
	})
}

// Few keys that come often stand out of a flood of others, whatever its size, and the flood
// hardly ever takes the lock.
func TestTop_StandsOutOfAFlood(t *testing.T) {
	t.Parallel()
	k := New(100)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 200_000 {
		if i%10 == 0 {
			k.Count(fmt.Sprint("often ", random.IntN(5)), 1)
		} else {
			k.Count(fmt.Sprint("one of many ", i), 1)
		}
	}
	for _, f := range k.Top(5) {
		require.Contains(t, f.Key, "often ")
		require.InDelta(t, 4000, f.Count, 400)
	}
	require.Len(t, k.Top(1000), 100)
	require.Less(t, k.changes.Load()/2, uint64(200_000/10))
}

// The race: keys get counts and lose them while others count them. No count is ever too low,
// and none is certain of what did not come.
func TestTop_HammerNoCountIsTooLow(t *testing.T) {
	t.Parallel()
	for _, spread := range []int{10, 60, 400} {
		k := New(50)
		truth := make([]atomic.Int64, spread)
		gatetest.AtOnce(16, func(id int) {
			random := rand.New(rand.NewPCG(7, uint64(id)))
			for i := range gatetest.Rounds(5000) {
				key := min(random.IntN(spread), random.IntN(spread))
				truth[key].Add(1)
				k.Count(strconv.Itoa(key), 1)
				if i%500 == id {
					k.Top(3)
				}
			}
		})
		top := k.Top(100)
		require.Len(t, top, min(spread, 50))
		for _, f := range top {
			key, err := strconv.Atoi(f.Key)
			require.NoError(t, err)
			require.GreaterOrEqual(t, f.Count, truth[key].Load(), f)
			require.LessOrEqual(t, f.Count-f.Excess, truth[key].Load(), f)
			if spread < 50 {
				require.Zero(t, f.Excess)
			}
		}
		require.True(t, slices.IsSortedFunc(top, func(a, b Key) int { return int(b.Count - a.Count) }))
	}
}

// The race: keys get counts and lose them all the time, since they are few and share cells, while
// others look. What is seen holds of the calls that had ended before, and that had begun after.
func TestTop_HammerReadersSeeWhatHolds(t *testing.T) {
	t.Parallel()
	const spread = 12
	for round := range 15 {
		k := New(1 + round%5)
		k.cells = k.cells[:1<<(round%3)]
		var begun, ended [spread]atomic.Int64
		check := func() {
			var least [spread]int64
			for key := range least {
				least[key] = ended[key].Load()
			}
			for _, f := range k.Top(spread) {
				key, err := strconv.Atoi(f.Key)
				if err != nil || f.Count < least[key] || f.Count-f.Excess > begun[key].Load() {
					t.Errorf("%+v: it came %d to %d times", f, least[key], begun[key].Load())
				}
			}
		}
		gatetest.AtOnce(8, func(id int) {
			random := rand.New(rand.NewPCG(uint64(round), uint64(id)))
			for range gatetest.Rounds(400) {
				key := min(random.IntN(spread), random.IntN(spread))
				n := int64(1 + random.IntN(3))
				begun[key].Add(n)
				k.Count(strconv.Itoa(key), n)
				ended[key].Add(n)
				if id == 0 {
					check()
				}
			}
		})
		check()
	}
}

func TestCount_AllocatesNothingWhereNoKeyGetsACount(t *testing.T) {
	k := New(1)
	for range 1000 {
		k.Count("often", 1)
	}
	k.Count("seldom", 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		k.Count("often", 1)
		k.Count("seldom", 1)
	}))
}
