package history

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRow_JoinsWhatHappensInAStep(t *testing.T) {
	t.Parallel()
	r := NewRow(5, 720, math.MaxInt, Sum, Most, Newest)
	r.Fill(10, 1, 1, 1)
	r.Fill(12, 2, 7, 2)
	r.Fill(14, 3, 3, 3)
	steps, _ := all(r.Series, 0)
	require.Empty(t, steps)
	r.Fill(26, 4, 4, 4)
	r.Fill(9, 1, 9, 1) // the clock went back
	r.Fill(30, 0, 0, 0)
	steps, figures := all(r.Series, 0)
	require.Equal(t, []int64{2, 5}, steps)
	require.Equal(t, [][]int64{{6, 7, 3}, {5, 9, 1}}, figures)
}

func TestRow_LosesNoCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := NewRow(rapid.Int64Range(1, 7).Draw(t, "length"), 1000, math.MaxInt, Sum)
		at, given := int64(0), int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "times") {
			at = max(0, at+rapid.Int64Range(-2, 9).Draw(t, "later"))
			n := rapid.Int64Range(0, 1000).Draw(t, "n")
			given += n
			r.Fill(at, n)
		}
		r.Fill(at+1_000, 0)
		sum := int64(0)
		for _, f := range r.From(0) {
			sum += f[0]
		}
		require.Equal(t, given, sum)
	})
}

func TestPackNumber_ComesBack(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{0, 1, -1, 100, 1e6, 0.1, math.Inf(1), math.MaxFloat64} {
		require.Equal(t, f, UnpackNumber(PackNumber(f)))
	}
	require.Less(t, PackNumber(1_000_000), int64(1<<40), "few digits are a small number")
}
