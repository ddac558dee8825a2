// Package stripes counts what many processors count at a time without letting them
// disturb each other: each has a stripe of its own, on cache lines of its own.
package stripes

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	uber "go.uber.org/atomic"
)

// Most bounds the memory of one counter. Processors beyond it share. It is a power of
// two, as every number of stripes is.
const Most = 64

// Wanted is how many stripes what is counted much should have.
func Wanted() int {
	n := max(runtime.GOMAXPROCS(0), minStripes)
	return min(1<<bits.Len(uint(n-1)), Most)
}

// Counter is a total. The stripes are made at the first Add. The zero Counter is ready
// for use, by any number of goroutines at once.
type Counter struct {
	lines uber.Pointer[[]line]
}

type line struct {
	n atomic.Int64
	_ [64 - 8]byte
}

// Add adds n.
func (c *Counter) Add(n int64) {
	lines := c.lines.Load()
	if lines == nil {
		lines = c.makeLines()
	}
	(*lines)[Hint()&(len(*lines)-1)].n.Add(n)
}

//go:noinline
func (c *Counter) makeLines() *[]line {
	lines := make([]line, Wanted())
	c.lines.CompareAndSwap(nil, &lines)
	return c.lines.Load()
}

// Load returns the sum. What is added meanwhile may be missing.
func (c *Counter) Load() (sum int64) {
	if lines := c.lines.Load(); lines != nil {
		for i := range *lines {
			sum += (*lines)[i].n.Load()
		}
	}
	return sum
}
