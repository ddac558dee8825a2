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

	"github.com/leapgate-go/leapgate/internal/gatetest"
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
	told := Refused(Calls{First: first, PerSecond: counts, Warm: 0}, w, limit)
	refused := replayed(t, times, 0, w, limit)
	assert.LessOrEqual(t, told.Low, refused, "%v limit %d: %+v", w, limit, told)
	assert.GreaterOrEqual(t, told.High, refused, "%v limit %d: %+v", w, limit, told)
	assert.LessOrEqual(t, told.Low, told.Likely)
	assert.GreaterOrEqual(t, told.High, told.Likely)
	if refused > many && refused > int64(len(times)/10) { // of fewer, it may not be known, and is said to be wide
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
		p := newPlayer(w, limit, 0)
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
	rates := []float64{0.5, 5, 40, 200}
	if gatetest.Race || testing.Short() { // nothing here runs at once
		rates = rates[:1]
	}
	for seed, rate := range rates {
		times := atRandom(rand.New(rand.NewPCG(uint64(seed), 1)), 600, func(int64) float64 { return rate })
		for _, w := range windows {
			for _, share := range []float64{0.5, 0.8} {
				holds(t, times, 10*time.Millisecond, w, int64(rate*share*w.Interval.Seconds()))
			}
		}
	}
}

// atRandom returns times of calls that know nothing of each other, at a rate for each second.
func atRandom(rng *rand.Rand, seconds int64, rate func(second int64) float64) (times []int64) {
	for at := 1_800_000_000 * second; len(times) == 0 || at < times[0]+seconds*second; {
		times = append(times, at)
		at += int64(rng.ExpFloat64() / rate(at/second) * float64(second))
	}
	return times
}

func evenly(rng *rand.Rand, seconds int64, rate float64) (times []int64) {
	gap := float64(second) / rate * (1 + 0.003*rng.Float64())
	for i := 0; float64(i)*gap < float64(seconds*second); i++ {
		times = append(times, 1_800_000_000*second+int64(float64(i)*gap)+rng.Int64N(2_000_000))
	}
	slices.Sort(times)
	return times
}

// Far from the mean, all depends on where in their seconds the calls lay. The truth is within what is told,
// whatever the traffic; and what is told is narrow, or is said to be wide.
func TestRefused_HoldsFarFromTheMean(t *testing.T) {
	t.Parallel()
	const seconds = 1800
	rates := []float64{3, 20, 100}
	if gatetest.Race { // nothing here runs at once
		rates = rates[1:2]
	}
	for _, rate := range rates {
		rng := rand.New(rand.NewPCG(uint64(rate), 1))
		for name, times := range map[string][]int64{
			"at random": atRandom(rng, seconds, func(int64) float64 { return rate }),
			"in bursts": atRandom(rng, seconds, func(second int64) float64 {
				if second%60 < 15 {
					return rate * 2
				}
				return rate / 2
			}),
			"evenly paced": evenly(rng, seconds, rate),
		} {
			t.Run(fmt.Sprint(name, " ", rate), func(t *testing.T) {
				t.Parallel()
				first, counts := perSecond(times, 10*time.Millisecond)
				many, wide := 0, 0
				for _, w := range []Window{windows[0], windows[1], windows[4], windows[6]} {
					for _, share := range []float64{0.8, 0.95, 1.1, 1.3, 1.6, 2.2} {
						limit := int64(rate * w.Interval.Seconds() * share)
						told := Refused(Calls{First: first, PerSecond: counts}, w, limit)
						refused := replayed(t, times, 0, w, limit)
						assert.LessOrEqual(t, told.Low, refused, "%v limit %d: %+v", w, limit, told)
						assert.GreaterOrEqual(t, told.High, refused, "%v limit %d: %+v", w, limit, told)
						if refused > 100 {
							many++
						}
						if told.IsWide() {
							wide++
						}
					}
				}
				t.Logf("%d of 24 with more than 100, %d wide", many, wide)
				assert.LessOrEqual(t, wide, 6)
			})
		}
	}
}

func TestRefused_NothingAndEverything(t *testing.T) {
	t.Parallel()
	counts := slices.Repeat([]int64{7, 0, 1_000_000}, 100)
	for _, w := range windows {
		require.Equal(t, Range{}, Refused(Calls{First: -5, PerSecond: counts, Warm: 0}, w, 1<<60), "%v", w)
		require.Equal(t, Range{100_000_700, 100_000_700, 100_000_700}, Refused(Calls{First: -5, PerSecond: counts, Warm: 0}, w, 0), "%v", w)
		require.Equal(t, Range{1_000_007, 1_000_007, 1_000_007}, Refused(Calls{First: -5, PerSecond: counts, Warm: 297}, w, 0), "%v", w)
		require.Equal(t, Range{}, Refused(Calls{First: 5, PerSecond: nil, Warm: 0}, w, 1), "%v", w)
	}
}

// What the window held before the time that is asked about is not counted, and counts.
func TestRefused_AfterTheWindowHasFilled(t *testing.T) {
	t.Parallel()
	counts := []int64{10, 0, 0, 0, 0, 0, 0, 0, 0, 5}
	w := Window{10 * time.Second, 10, false}
	require.EqualValues(t, 5, Refused(Calls{First: 0, PerSecond: counts, Warm: 5}, w, 8).Likely)
	require.EqualValues(t, 7, Refused(Calls{First: 0, PerSecond: counts, Warm: 0}, w, 8).Likely)
}
