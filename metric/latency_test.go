package metric

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/meter"
)

// naiveCell is the first cell whose upper edge a response time does not exceed.
const numCells = meter.LastCell - meter.FirstCell + 1

var exactEdges = func() (edges [numCells - 1]int64) {
	for i := range edges {
		edges[i] = gatetest.LatencyEdge(i + meter.FirstCell)
	}
	return edges
}()

// counted returns the latencies of these response times, counted by a metric.
func counted(rts ...int64) (*Metric, Latencies) {
	m := newMetric()
	for _, rt := range rts {
		m.AddRT(0, time.Duration(rt))
	}
	return m, m.Latencies()
}

// cellsOf has the calls of each cell that is not empty, by its index.
func cellsOf(l Latencies) map[int]int64 {
	cells := make(map[int]int64)
	for i, n := range l.Counts {
		if n != 0 {
			cells[l.First+i] = n
		}
	}
	return cells
}

func outliers(l Latencies) (fast, slow int64) {
	cells := cellsOf(l)
	return cells[meter.FirstCell], cells[meter.LastCell]
}

func TestLatencies_None(t *testing.T) {
	t.Parallel()
	_, none := counted()
	for _, l := range []Latencies{{}, none, none.Since(none), none.Since(Latencies{}), Latencies{}.Since(none)} {
		require.Zero(t, l.Count())
		fast, slow := outliers(l)
		require.Zero(t, fast)
		require.Zero(t, slow)
		for _, q := range []float64{0, 0.5, 1, -1, 2, math.NaN(), math.Inf(1), math.Inf(-1)} {
			require.Zero(t, l.Quantile(q))
		}
	}
	_, some := counted(1000)
	require.Zero(t, some.Since(some).Count(), "cells are there, and empty")
	require.Zero(t, some.Since(some).Quantile(0.5))
}

func TestLatencies_Outliers(t *testing.T) {
	t.Parallel()
	lowest, highest := exactEdges[0], exactEdges[numCells-2]
	for _, c := range []struct {
		name       string
		rts        []int64
		fast, slow int64
	}{
		{"none", []int64{1000, int64(time.Second), int64(100 * time.Second)}, 0, 0},
		{"at the edges", []int64{lowest, highest}, 1, 0},
		{"just inside", []int64{lowest + 1, highest}, 0, 0},
		{"just outside", []int64{lowest, highest + 1}, 1, 1},
		{"far out", []int64{0, 1, 1, math.MaxInt64, math.MaxInt64 / 2}, 3, 2},
		{"negative counts as 0", []int64{-1, math.MinInt64}, 2, 0},
		{"only fast", []int64{5}, 1, 0},
		{"only slow", []int64{1e12}, 0, 1},
	} {
		_, l := counted(c.rts...)
		fast, slow := outliers(l)
		require.Equal(t, c.fast, fast, c.name)
		require.Equal(t, c.slow, slow, c.name)
		require.EqualValues(t, len(c.rts), l.Count(), c.name)
	}
}

func TestQuantile_OutliersAreClamped(t *testing.T) {
	t.Parallel()
	_, l := counted(0, 5, 1e12, math.MaxInt64)
	require.EqualValues(t, exactEdges[0], l.Quantile(0))
	require.EqualValues(t, exactEdges[0], l.Quantile(0.5))
	require.EqualValues(t, exactEdges[numCells-2], l.Quantile(0.51))
	require.EqualValues(t, exactEdges[numCells-2], l.Quantile(1))
	require.EqualValues(t, 953, exactEdges[0])
	require.Equal(t, int64(107_634_741_152), exactEdges[numCells-2])
}

func TestQuantile_OutOfRange(t *testing.T) {
	t.Parallel()
	_, l := counted(1_000_000, 50_000_000)
	least, most := l.Quantile(0), l.Quantile(1)
	require.Less(t, least, 2*time.Millisecond)
	require.Greater(t, most, 40*time.Millisecond)
	for q, want := range map[float64]time.Duration{
		-1: least, math.Inf(-1): least, math.Copysign(0, -1): least, 0.5: least,
		0.500001: most, 1.5: most, math.Inf(1): most, math.MaxFloat64: most,
	} {
		require.Equal(t, want, l.Quantile(q), "q = %v", q)
	}
	require.Equal(t, least, l.Quantile(math.NaN()))
}

// exactQuantile is the least of the sorted response times that the share q of all
// does not exceed.
func exactQuantile(rts []int64, q float64) int64 {
	for i, rt := range rts {
		if float64(i+1) >= q*float64(len(rts)) {
			return rt
		}
	}
	return rts[len(rts)-1]
}

func TestQuantile_IsCloseToTheExactOne(t *testing.T) {
	t.Parallel()
	worst := (math.Exp2(1.0/8) - 1) / (math.Exp2(1.0/8) + 1) // as far from one edge as from the other: 4.33 %
	anyRT := rapid.OneOf(
		rapid.Int64Range(0, 2000),
		rapid.Int64Range(900, 1_000_000),
		rapid.Int64Range(1_000_000, 1_000_000_000),
		rapid.Int64Range(1, 200_000_000_000),
	)
	rapid.Check(t, func(t *rapid.T) {
		rts := rapid.SliceOfN(anyRT, 1, 200).Draw(t, "rts")
		q := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 0.5, 0.9, 0.95, 0.99, 1})).Draw(t, "q")
		_, l := counted(rts...)
		slices.Sort(rts)
		exact := exactQuantile(rts, q)
		got := int64(l.Quantile(q))
		switch {
		case exact <= exactEdges[0]:
			require.Equal(t, exactEdges[0], got)
		case exact > exactEdges[numCells-2]:
			require.Equal(t, exactEdges[numCells-2], got)
		default:
			require.InDelta(t, exact, got, worst*float64(exact)+1)
		}
		require.EqualValues(t, len(rts), l.Count())
	})
}

func TestQuantile_RisesWithQ(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	rts := make([]int64, 500)
	for i := range rts {
		rts[i] = int64(math.Exp2(9 + 29*random.Float64()))
	}
	_, l := counted(rts...)
	last := time.Duration(0)
	for q := 0.0; q <= 1; q += 1.0 / 1024 {
		got := l.Quantile(q)
		require.GreaterOrEqual(t, got, last, "q = %v", q)
		last = got
	}
}

func TestLatenciesSince_OnlyWhatCameAfter(t *testing.T) {
	t.Parallel()
	m, mark := counted(1_000_000, 1_000_000, 2_000_000)
	require.EqualValues(t, 3, mark.Count())
	// Cells on either side, so that the later one begins and ends elsewhere.
	for _, rt := range []time.Duration{500, 1_000_000, 900_000_000, 200 * time.Second} {
		m.AddRT(0, rt)
	}
	now := m.Latencies()
	require.EqualValues(t, 7, now.Count())
	require.EqualValues(t, 3, mark.Count(), "a Latencies does not change")

	since := now.Since(mark)
	require.EqualValues(t, 4, since.Count())
	fast, slow := outliers(since)
	require.EqualValues(t, 1, fast)
	require.EqualValues(t, 1, slow)
	require.InDelta(t, 1_000_000, int64(since.Quantile(0.5)), 44_275)
	require.InDelta(t, 900_000_000, int64(since.Quantile(0.75)), 39_850_000)
	require.EqualValues(t, 7, now.Count(), "nor does what it was taken from")
	require.Equal(t, now, now.Since(Latencies{}))
	require.Zero(t, now.Since(now).Count())
}

// The two the wrong way round: nothing, rather than less than nothing.
func TestLatenciesSince_LaterMark(t *testing.T) {
	t.Parallel()
	m, earlier := counted(1_000_000, 1_000_000, 2_000_000)
	for _, rt := range []time.Duration{500, 1_000_000, 900_000_000} {
		m.AddRT(0, rt)
	}
	since := earlier.Since(m.Latencies())
	require.Zero(t, since.Count())
	require.Zero(t, since.Quantile(0.5))
	require.EqualValues(t, 3, earlier.Count())
}

func TestLatenciesSince_AgreesWithASecondMetric(t *testing.T) {
	t.Parallel()
	rt := rapid.Custom(func(t *rapid.T) int64 {
		return rapid.Int64Range(0, math.MaxInt64).Draw(t, "rt") >> rapid.IntRange(0, 62).Draw(t, "shift")
	})
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rt, 0, 20).Draw(t, "before")
		after := rapid.SliceOfN(rt, 0, 20).Draw(t, "after")
		m, mark := counted(before...)
		for _, rt := range after {
			m.AddRT(0, time.Duration(rt))
		}
		since := m.Latencies().Since(mark)
		_, want := counted(after...)
		require.Equal(t, want.Count(), since.Count())
		fast, slow := outliers(since)
		wantFast, wantSlow := outliers(want)
		require.Equal(t, wantFast, fast)
		require.Equal(t, wantSlow, slow)
		for q := 0.0; q <= 1; q += 0.125 {
			require.Equal(t, want.Quantile(q), since.Quantile(q), "q = %v", q)
		}
	})
}

// latenciesOf counts one call for each response time.
func latenciesOf(rts []int64) Latencies {
	m := newMetric()
	for _, rt := range rts {
		m.AddRT(0, time.Duration(rt))
	}
	return m.Latencies()
}

func TestLatencies_PlusIsTheCallsOfBoth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.Int64Range(0, 200e9), 0, 5)
		a, b := some.Draw(t, "a"), some.Draw(t, "b")
		want := cellsOf(latenciesOf(slices.Concat(a, b)))
		la, lb := latenciesOf(a), latenciesOf(b)
		before := cellsOf(la)
		sum := la.Plus(lb)
		if got := cellsOf(sum); !maps.Equal(got, want) {
			t.Fatalf("%v and %v are %v, want %v", la, lb, got, want)
		}
		if !maps.Equal(cellsOf(la), before) {
			t.Fatal("Plus has changed one of them")
		}
		if got := cellsOf(sum.Since(lb)); !maps.Equal(got, before) {
			t.Fatalf("less %v it is %v, want %v", lb, got, before)
		}
	})
}

func TestLatencies_CellsAreThoseOfSchema3(t *testing.T) {
	t.Parallel()
	var rts, want []int64
	for i, edge := range exactEdges {
		rts = append(rts, edge, edge+1) // the last of a cell, and the first of the next
		want = append(want, int64(i+meter.FirstCell), int64(i+1+meter.FirstCell))
	}
	var got []int64
	for i, n := range cellsOf(latenciesOf(rts)) {
		for range n {
			got = append(got, int64(i))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
	require.EqualValues(t, -160, meter.FirstCell)
	require.EqualValues(t, 55, meter.LastCell)
	require.EqualValues(t, meter.FirstCell, got[0])
	require.EqualValues(t, meter.LastCell, got[len(got)-1])
}

// The promise is about the truth that is furthest from what is told: one at an edge of its cell.
func TestQuantile_IsAtMost44PerMilleOff(t *testing.T) {
	t.Parallel()
	for cell := 32; cell < numCells-1; cell++ {
		for _, truth := range []int64{exactEdges[cell-1] + 1, exactEdges[cell]} {
			_, l := counted(truth)
			require.InEpsilon(t, truth, int64(l.Quantile(0.5)), 0.044)
		}
	}
}
