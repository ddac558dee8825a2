package stripes

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestCounter_Zero(t *testing.T) {
	t.Parallel()
	var c Counter
	require.Zero(t, c.Load())
	c.Add(5)
	c.Add(-2)
	require.EqualValues(t, 3, c.Load())
}

func TestCounter_Layout(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 64, unsafe.Sizeof(line{}))
	counters := make([]Counter, 50)
	for i := range counters {
		counters[i].Add(1)
		lines := *counters[i].lines.Load()
		require.Len(t, lines, Wanted())
		for j := range lines {
			require.Zero(t, uintptr(unsafe.Pointer(&lines[j]))%64, "line %d", j)
		}
	}
}

func TestCounter_Allocations(t *testing.T) {
	var c Counter
	c.Add(1)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Add(1) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Load() }))
}

func TestCounter_HammerAdds(t *testing.T) {
	t.Parallel()
	const goroutines, adds = 8, 50_000
	var c Counter
	gatetest.AtOnce(goroutines, func(g int) {
		for range adds {
			c.Add(int64(g + 1))
		}
	})
	require.EqualValues(t, adds*goroutines*(goroutines+1)/2, c.Load())
}

// The first adds make the lines. Only those of one goroutine may be kept, and what
// the others add must not go to theirs.
func TestCounter_HammerFirstAdds(t *testing.T) {
	t.Parallel()
	const goroutines = 4
	counters := make([]Counter, 30_000)
	gatetest.AtOnce(goroutines, func(int) {
		for i := range counters {
			counters[i].Add(1)
		}
	})
	for i := range counters {
		require.EqualValues(t, goroutines, counters[i].Load(), "round %d", i)
	}
}
