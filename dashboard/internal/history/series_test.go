package history

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func all(s *Series, from int64) (steps []int64, figures [][]int64) {
	for step, f := range s.From(from) {
		steps = append(steps, step)
		figures = append(figures, slices.Clone(f))
	}
	return steps, figures
}

func TestSeries_AgreesWithAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 10).Draw(t, "figures")
		keep := rapid.Int64Range(1, 50).Draw(t, "steps")
		s := New(count, keep, rapid.Int64Range(1, 20).Draw(t, "chunk"), math.MaxInt)
		model := map[int64][]int64{}
		step := rapid.Int64Range(-1000, 1000).Draw(t, "first")
		value := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64())
		for range rapid.IntRange(1, 100).Draw(t, "added") {
			figures := rapid.SliceOfN(value, count, count).Draw(t, "values")
			require.True(t, s.Add(step, figures...))
			model[step] = figures
			require.False(t, s.Add(step-rapid.Int64Range(0, 2).Draw(t, "back"), figures...))
			step += 1 + rapid.Int64Range(0, 40).Draw(t, "missing")*rapid.Int64Range(0, 1).Draw(t, "gap")
			newest := slices.Max(slices.Collect(maps.Keys(model)))
			from := newest - rapid.Int64Range(0, keep-1).Draw(t, "from")
			var want []int64
			for _, k := range slices.Sorted(maps.Keys(model)) {
				if k >= from {
					want = append(want, k)
				}
			}
			steps, got := all(s, from)
			require.Equal(t, want, steps)
			for i, k := range steps {
				require.Equal(t, model[k], got[i])
			}
		}
	})
}

func TestSeries_TakesAByteForAStepThatChangesNothing(t *testing.T) {
	t.Parallel()
	s := New(9, 720, 60, math.MaxInt)
	for step := range int64(10_000) {
		s.Add(step, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	}
	chunks := 720/60 + 1
	require.LessOrEqual(t, s.Bytes(), 780+chunks*(overhead+10))
	require.LessOrEqual(t, cap(s.chunks), 2*chunks)
}

// What changes at every step, by much, drives out the oldest steps and not the newest.
func TestSeries_KeepsToItsBytes(t *testing.T) {
	t.Parallel()
	s := New(3, 3600, 60, 4096)
	for step := range int64(10_000) {
		s.Add(step, step<<40, -step, step%2)
		require.LessOrEqual(t, s.Bytes(), 4096)
		if step > 200 {
			steps, _ := all(s, step-100)
			require.Len(t, steps, 101)
		}
	}
}

// A series that gets one step after a long time forgets all that is old, but for the chunk that it
// cannot part.
func TestSeries_ForgetsAfterALongTime(t *testing.T) {
	t.Parallel()
	s := New(1, 60, 10, math.MaxInt)
	for step := range int64(100) {
		s.Add(step, step)
	}
	s.Add(1_000_000, 7)
	steps, _ := all(s, 0)
	require.Equal(t, []int64{1_000_000}, steps)
}

func TestPackTime_IsAlmostExact(t *testing.T) {
	t.Parallel()
	require.Zero(t, PackTime(0))
	require.Zero(t, PackTime(-1))
	require.Zero(t, UnpackTime(0))
	require.EqualValues(t, 1, UnpackTime(PackTime(1)))
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(1000, math.MaxInt64/2).Draw(t, "ns")
		require.InEpsilon(t, ns, UnpackTime(PackTime(ns)), 0.006)
		require.Equal(t, PackTime(ns), PackTime(UnpackTime(PackTime(ns))))
	})
}

func TestPackLevel_IsAlmostExact(t *testing.T) {
	t.Parallel()
	require.Zero(t, PackLevel(0))
	require.Zero(t, PackLevel(-1))
	require.Zero(t, PackLevel(math.NaN()))
	require.Zero(t, UnpackLevel(0))
	for n := range 500 {
		require.InDelta(t, n, UnpackLevel(PackLevel(float64(n))), 0.5)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(1e-9, 1e18).Draw(t, "level")
		require.InEpsilon(t, f, UnpackLevel(PackLevel(f)), 0.006)
		require.InDelta(t, PackLevel(f), PackLevel(f*1.01), 9, "near it")
	})
}
