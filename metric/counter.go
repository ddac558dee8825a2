package metric

import "github.com/leapgate-go/leapgate/internal/stripes"

// Counter is a total that many processors add to without disturbing each other:
// each has a cache line of its own. They are made at the first Add. The zero
// Counter is ready for use, by any number of goroutines at once.
type Counter struct{ total stripes.Counter }

// Add adds n.
func (c *Counter) Add(n int64) { c.total.Add(n) }

// Load gives the sum. What is added meanwhile may be missing.
func (c *Counter) Load() (sum int64) { return c.total.Load() }
