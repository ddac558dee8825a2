package demand

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/quota"
)

// replayed returns how many of the calls at these times a window refuses.
func replayed(t require.TestingT, times []int64, from int64, w Window, limit int64) (refused int64) {
	q, err := quota.New(w.Interval, w.Buckets, w.Strict)
	require.NoError(t, err)
	for _, at := range times {
		if (limit == 0 || !q.Take(at, 1, limit).OK) && at >= from {
			refused++
		}
	}
	return refused
}

// perSecond counts calls by their seconds, each of which ends so much too late.
func perSecond(times []int64, late time.Duration) (first int64, counts []int64) {
	first = (times[0] - int64(late)) / second
	counts = make([]int64, (times[len(times)-1]-int64(late))/second-first+1)
	for _, at := range times {
		counts[(at-int64(late))/second-first]++
	}
	return first, counts
}

var windows = []Window{
	{time.Second, 10, false},
	{time.Second, 10, true},
	{time.Second, 1, false},
	{time.Second, 1000, true},
	{1500 * time.Millisecond, 3, false},
	{5 * time.Second, 10, false},
	{10 * time.Second, 10, false},
	{time.Minute, 10, false},
	{time.Minute, 10, true},
}

func (w Window) String() string {
	return fmt.Sprintf("%v/%d strict %v", w.Interval, w.Buckets, w.Strict)
}

// holds checks that a replay lies within what is told, and that this is narrow.
func holds(t *testing.T, times []int64, late time.Duration, w Window, limit int64) {
	t.Helper()
	first, counts := perSecond(times, late)
	told := Refused(first, counts, 0, w, limit)
	refused := replayed(t, times, 0, w, limit)
	assert.LessOrEqual(t, told.Low, refused, "%v limit %d: %+v", w, limit, told)
	assert.GreaterOrEqual(t, told.High, refused, "%v limit %d: %+v", w, limit, told)
	assert.LessOrEqual(t, told.Low, told.Likely)
	assert.GreaterOrEqual(t, told.High, told.Likely)
	if refused > many {
		assert.LessOrEqual(t, float64(told.High-told.Low), 0.2*float64(refused), "%v limit %d: %+v", w, limit, told)
	}
}

// The window that is played decides as the one that is counted does.
func TestPlayer_AgreesWithTheQuota(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(windows).Draw(t, "window")
		if w.Buckets > 100 {
			return // joined
		}
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		p := newPlayer(w, limit)
		var times []int64
		at := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			at += rapid.Int64Range(0, int64(w.Interval)/2).Draw(t, "pause")
			times = append(times, at)
			p.come(at/p.length, 1)
		}
		require.Equal(t, replayed(t, times, 0, w, limit), p.refused)
	})
}

func TestRefused_CallsAtRandom(t *testing.T) {
	t.Parallel()
	for seed, rate := range []float64{0.5, 5, 40, 200} {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		var times []int64
		for at := 1_800_000_000 * second; len(times) == 0 || at < times[0]+600*second; at += int64(rng.ExpFloat64() / rate * float64(second)) {
			times = append(times, at)
		}
		for _, w := range windows {
			for _, share := range []float64{0.5, 0.8} {
				holds(t, times, 10*time.Millisecond, w, int64(rate*share*w.Interval.Seconds()))
			}
		}
	}
}

func TestRefused_NothingAndEverything(t *testing.T) {
	t.Parallel()
	counts := slices.Repeat([]int64{7, 0, 1_000_000}, 100)
	for _, w := range windows {
		require.Equal(t, Range{}, Refused(-5, counts, 0, w, 1<<60), "%v", w)
		require.Equal(t, Range{100_000_700, 100_000_700, 100_000_700}, Refused(-5, counts, 0, w, 0), "%v", w)
		require.Equal(t, Range{1_000_007, 1_000_007, 1_000_007}, Refused(-5, counts, 297, w, 0), "%v", w)
		require.Equal(t, Range{}, Refused(5, nil, 0, w, 1), "%v", w)
	}
}

// What the window held before the time that is asked about is not counted, and counts.
func TestRefused_AfterTheWindowHasFilled(t *testing.T) {
	t.Parallel()
	counts := []int64{10, 0, 0, 0, 0, 0, 0, 0, 0, 5}
	w := Window{10 * time.Second, 10, false}
	require.EqualValues(t, 5, Refused(0, counts, 5, w, 8).Likely)
	require.EqualValues(t, 7, Refused(0, counts, 0, w, 8).Likely)
}
