package meter

import (
	"math"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func naiveCell(rt int64) uint8 {
	return uint8(sort.Search(numCells-1, func(i int) bool { return rt <= exactEdges[i] }))
}

var exactEdges = func() (exact [numCells - 1]int64) {
	for i := range exact {
		exact[i] = gatetest.LatencyEdge(i + FirstCell)
	}
	return exact
}()

func TestEdges_AreEighthsOfADoubling(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(1e9), exactEdges[0-FirstCell])
	require.Equal(t, int64(64e9), exactEdges[48-FirstCell])
	for i, want := range exactEdges {
		require.Equal(t, want, edges[i], "cell %d", i)
	}
	for i := numCells - 1; i < len(edges); i++ {
		require.Equal(t, int64(math.MaxInt64), edges[i], "cell %d", i)
	}
	require.Less(t, edges[0], int64(time.Microsecond))
	require.Greater(t, edges[numCells-2], int64(100*time.Second))
}

func TestCellOf_EdgeIsInItsCell(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, numCells, 256, "a cell is a byte")
	for i, edge := range exactEdges {
		require.EqualValues(t, i, cellOf(edge), "%d ns", edge)
		require.EqualValues(t, i+1, cellOf(edge+1), "%d ns", edge+1)
	}
	require.EqualValues(t, 0, cellOf(0))
	require.EqualValues(t, numCells-1, cellOf(math.MaxInt64))
}

func TestCellOf_AgreesWithASearch(t *testing.T) {
	t.Parallel()
	check := func(rt int64) {
		if rt >= 0 {
			if got, want := cellOf(rt), naiveCell(rt); got != want {
				t.Fatalf("%d ns is in cell %d, want %d", rt, got, want)
			}
		}
	}
	for rt := range int64(20_000) {
		check(rt)
	}
	// Where an element of the table of guesses begins.
	for length := 5; length < 64; length++ {
		for next := range int64(16) {
			for d := int64(-2); d <= 2; d++ {
				check((16+next)<<(length-5) + d)
			}
		}
	}
	for _, edge := range exactEdges {
		for d := int64(-2); d <= 2; d++ {
			check(edge + d)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(random.Int64() >> random.IntN(63))
	}
}

// sumOf is the number of calls in l.
func sumOf(l Latencies) (sum int64) {
	for _, n := range l.Counts {
		sum += n
	}
	return sum
}

func TestTotalsAndLatencies_Agree(t *testing.T) {
	t.Parallel()
	m := newMetric()
	var stop atomic.Bool
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for i := int64(0); !stop.Load(); i++ {
				m.Complete(i*ms/10, m.Pass(i*ms/10, 1), 1, i%1e6*1000, i%3 == 0)
			}
		})
	}
	var before Counts
	for range fewer(5_000) {
		c, l := m.TotalsAndLatencies()
		require.Equal(t, c[Success], sumOf(l))
		require.LessOrEqual(t, c[Success], c[Pass])
		for e := range c {
			require.GreaterOrEqual(t, c[e], before[e])
		}
		before = c
	}
	stop.Store(true)
	calls.Wait()
	c, l := m.TotalsAndLatencies()
	require.Equal(t, m.Totals(), c)
	require.Equal(t, c[Success], sumOf(l))
	m.Add(0, Pass, 2)
	m.Add(0, Success, 2) // by hand, without a response time
	c, l = m.TotalsAndLatencies()
	require.Equal(t, c[Success], sumOf(l))
	require.Equal(t, m.Totals()[Success]-2, c[Success])
}
