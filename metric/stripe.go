package metric

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A stripe is one cache line of totals. Every event of a call goes to the
// stripe that it picked when it was admitted, so a call touches one line.
// Processors with stripes of their own do not disturb each other.
//
// The counters are sync/atomic's, which are aligned to 64 bits everywhere.
type stripe struct {
	counts  [numEvents]atomic.Int64
	_       [8 - unsafe.Sizeof(uintptr(0))]byte // not last: there, an empty array takes room
	latency atomic.Pointer[histogram]           // nil until a call completed here
}

// histogram holds one total per latency cell.
type histogram struct {
	// span tells which cells are in use, so that readers need not look at all. It
	// only widens, before the first count is added to a cell.
	//
	//	31     16  15   8  7   0
	//	  unused   last    first
	span  atomic.Uint32
	_     [4]byte
	cells [latencyCells]atomic.Int64
}

// emptySpan has its first cell behind its last.
const emptySpan = 0<<8 | 0xff

// add counts n calls in a cell.
func (h *histogram) add(cell uint8, n int64) {
	if span := h.span.Load(); cell < uint8(span) || cell > uint8(span>>8) {
		h.widen(cell)
	}
	h.cells[cell].Add(n)
}

//go:noinline
func (h *histogram) widen(cell uint8) {
	for {
		old := h.span.Load()
		first, last := min(cell, uint8(old)), max(cell, uint8(old>>8))
		if h.span.CompareAndSwap(old, uint32(last)<<8|uint32(first)) {
			return
		}
	}
}

// used gives the cells from the first to the last in use, and the index of the first.
func (h *histogram) used() (first int, cells []atomic.Int64) {
	span := h.span.Load()
	if span == emptySpan {
		return 0, nil
	}
	first = int(uint8(span))
	return first, h.cells[first : int(uint8(span>>8))+1]
}

// read gives a total of the stripe. A completed call adds no success of its own: it
// is counted in one cell of the histogram, and the cells are added up here. That
// is one atomic add less for a call, and some loads more for a reader.
func (s *stripe) read(e Event) int64 {
	n := s.counts[e].Load()
	if e == Success {
		if h := s.latency.Load(); h != nil {
			_, cells := h.used()
			for i := range cells {
				n += cells[i].Load()
			}
		}
	}
	return n
}

const (
	// maxStripes bounds the memory of one hot metric. Processors beyond it
	// share. It is a power of two, as every number of stripes is.
	maxStripes = 64

	// hotRate is the number of calls per second and stripe from which on the
	// stripes are doubled. Below it two processors rarely want the same line at
	// the same time; a stripe costs 2 KB.
	hotRate = 200_000
)

// stripeSet is the stripes of a metric that has more than one.
type stripeSet struct {
	mask int // their number − 1
	list [maxStripes]*stripe
}

// pick chooses the stripe for a call that begins.
func (m *Metric) pick() int {
	if set := m.stripes.Load(); set != nil {
		return set.pick()
	}
	return 0
}

func (s *stripeSet) pick() int {
	i := procPin()
	procUnpin()
	return i & s.mask & (maxStripes - 1)
}

// stripe gives the stripe that pick chose. It is there for good: stripes are
// added, never moved.
func (m *Metric) stripe(i int) *stripe {
	if i == 0 {
		return &m.first
	}
	return m.stripes.Load().list[i]
}

// numStripes is how many stripes there are to read.
func (m *Metric) numStripes() int {
	if set := m.stripes.Load(); set != nil {
		return set.mask + 1
	}
	return 1
}

// grow doubles the stripes if calls came faster than they are good for: n
// calls in the given number of nanoseconds.
func (m *Metric) grow(n, elapsed int64) {
	have := m.numStripes()
	if float64(n) < float64(have)*hotRate*float64(elapsed)/1e9 || have >= wantedStripes() {
		return
	}
	old := m.stripes.Load()
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

// wantedStripes is how many stripes the hottest metric gets.
func wantedStripes() int {
	n := max(runtime.GOMAXPROCS(0), minHotStripes)
	return min(1<<bits.Len(uint(n-1)), maxStripes)
}

//go:noinline
func (s *stripe) addHistogram() *histogram {
	h := new(histogram)
	h.span.Store(emptySpan)
	s.latency.CompareAndSwap(nil, h)
	return s.latency.Load()
}
