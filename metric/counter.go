package metric

import (
	"sync/atomic"

	uber "go.uber.org/atomic"
)

// Counter is a total that many processors add to without disturbing each other:
// each has a cache line of its own. They are made at the first Add. The zero
// Counter is ready for use, by any number of goroutines at once.
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
	(*lines)[processorHint()&(len(*lines)-1)].n.Add(n)
}

//go:noinline
func (c *Counter) makeLines() *[]line {
	lines := make([]line, wantedStripes())
	c.lines.CompareAndSwap(nil, &lines)
	return c.lines.Load()
}

// Load gives the sum. What is added meanwhile may be missing.
func (c *Counter) Load() (sum int64) {
	if lines := c.lines.Load(); lines != nil {
		for i := range *lines {
			sum += (*lines)[i].n.Load()
		}
	}
	return sum
}
