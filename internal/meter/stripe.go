package meter

import (
	"sync/atomic"
	"unsafe"

	"github.com/leapgate-go/leapgate/internal/stripes"
)

// A stripe is one cache line of totals. Every event of a call goes to the
// stripe that it picked when it was admitted, so a call touches one line.
// Processors with stripes of their own do not disturb each other.
//
// The counters are sync/atomic's, which are aligned to 64 bits everywhere.
type stripe struct {
	counts [striped]atomic.Int64
	times
	_ [64 - unsafe.Sizeof([striped + 1]int64{}) - 2*unsafe.Sizeof(uintptr(0))]byte

	// peak is the most calls in flight that a pass has left on this stripe, in the
	// bucket with that serial. It is written by passes that exceed it.
	//
	//	63    32 31        0
	//	 serial   in flight
	peak atomic.Uint64
}

const (
	maxStripes = stripes.Most

	// hotRate is the number of calls per second and stripe from which on the
	// stripes are doubled. It is low, for all stripes of all resources together are
	// never more than the calls per second that the machine does, divided by half
	// of this; each costs up to 2 KB.
	hotRate = 2_000
)

// stripeSet is the stripes of a metric that has more than one.
type stripeSet struct {
	mask int // their number − 1
	list [maxStripes]*stripe
}

// pick chooses the stripe for a call that begins.
func (m *Meter) pick() int {
	if set := m.stripes.Load(); set != nil {
		return set.pick()
	}
	return 0
}

func (s *stripeSet) pick() int { return stripes.Hint() & s.mask & (maxStripes - 1) }

// stripe returns the stripe that pick chose. It is there for good: stripes are
// added, never moved.
func (m *Meter) stripe(i int) *stripe {
	if i == 0 {
		return &m.first
	}
	return m.stripes.Load().list[i]
}

// numStripes is how many stripes there are to read.
func (m *Meter) numStripes() int { return m.stripes.Load().size() }

func (s *stripeSet) size() int {
	if s == nil {
		return 1
	}
	return s.mask + 1
}

// grow doubles the stripes if calls came faster than they are good for: n
// calls in the given number of nanoseconds.
func (m *Meter) grow(n, elapsed int64) {
	old := m.stripes.Load()
	have := old.size()
	if float64(n) < float64(have)*hotRate*float64(elapsed)/1e9 || have >= stripes.Wanted() {
		return
	}
	set := &stripeSet{mask: 2*have - 1}
	if old != nil {
		set.list = old.list
	}
	set.list[0] = &m.first
	for i := have; i < 2*have; i++ {
		set.list[i] = new(stripe)
	}
	m.stripes.CompareAndSwap(old, set) // if it fails, another has grown them
}
