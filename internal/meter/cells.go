package meter

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Latencies are counted in cells whose edges are 2^(i/8) seconds: eight to the
// doubling, which is schema 3 of Prometheus' native histograms. A cell holds
// what is above its lower edge, up to and including its upper one.
//
// FirstCell has all that is below its upper edge, and LastCell all that is above its lower
// one. In between, the cell with index i ends at 2^(i/8) seconds.
const (
	FirstCell = -160 // up to 2^(−160/8) s = 0.95 µs
	LastCell  = 55   // from 2^(54/8) s = 108 s on

	numCells = LastCell - FirstCell + 1
)

// edges holds the upper edges in nanoseconds, rounded down: response
// times are whole nanoseconds, so that comparing with these is exact. It is
// longer than the cells are many, so that any byte is an index.
var edges = func() (edge [256]int64) {
	for i := range edge {
		edge[i] = math.MaxInt64
		if i < numCells-1 {
			edge[i] = int64(math.Exp2(float64(i+FirstCell)/8) * 1e9)
		}
	}
	return edge
}()

// guesses holds, for the length in bits of a response time and the four
// bits after its first, the cell of the smallest such time. The times that share
// an element differ by less than one part in sixteen, the edges by one in
// eleven, so that the cell is the one guessed or the next.
var guesses = func() (guess [64 << 4]uint8) {
	cell := uint8(0)
	for length := 5; length < 64; length++ {
		for next := range 16 {
			for smallest := int64(16+next) << (length - 5); smallest > edges[cell]; {
				cell++
			}
			guess[length<<4|next] = cell
		}
	}
	return guess
}()

// cellOf returns the cell of a response time, which is not negative.
func cellOf(rt int64) uint8 {
	t := uint64(rt) | 16 // what is below 16 ns may as well be that: it is in cell 0
	length := bits.Len64(t)
	cell := guesses[(length<<4|int(t>>(uint(length-5)&63)&15))&(len(guesses)-1)]
	if rt > edges[cell] {
		cell++
	}
	return cell
}

// times counts calls by how long something took, in cells.
type times struct {
	// span says which cells of the histogram are in use, so that readers need not
	// look at all. It only widens, before the first count is added to a cell. The
	// first is kept inverted: then 0 is a span that no cell lies in.
	//
	//	31  16   15   8   7      0
	//	   0      last     255−first
	span    atomic.Uint32
	latency atomic.Pointer[histogram] // nil until something was counted here
}

// histogram holds one total per cell.
type histogram [numCells]atomic.Int64

// add counts n calls, which took so many nanoseconds each.
func (t *times) add(took, n int64) {
	cell := cellOf(took)
	if !inSpan(t.span.Load(), cell) {
		t.widen(cell)
	}
	t.latency.Load()[cell].Add(n)
}

// inSpan reports whether a span includes a cell.
func inSpan(span uint32, cell uint8) bool {
	return cell >= ^uint8(span) && cell <= uint8(span>>8)
}

// widen makes the span include a cell, of a histogram that is made if need be.
//
//go:noinline
func (t *times) widen(cell uint8) {
	if t.latency.Load() == nil {
		t.latency.CompareAndSwap(nil, new(histogram))
	}
	for old := t.span.Load(); !inSpan(old, cell); old = t.span.Load() {
		first, last := min(cell, ^uint8(old)), max(cell, uint8(old>>8))
		t.span.CompareAndSwap(old, uint32(last)<<8|uint32(^first))
	}
}

// cells returns those from the first to the last in use, and the index of the first.
func (t *times) cells() (first int, cells []atomic.Int64) {
	span := t.span.Load()
	if span == 0 {
		return 0, nil
	}
	first = int(^uint8(span))
	return first, t.latency.Load()[first : int(uint8(span>>8))+1]
}

// Latencies says how many calls took how long: Counts[i] is the number of those in the cell
// with the index First + i. Empty cells on either side are left out. See Latencies of
// package metric.
type Latencies struct {
	First  int
	Counts []int64
}

// Latencies returns those of all calls since the meter was made.
func (m *Meter) Latencies() Latencies {
	var sum [numCells]int64
	low, high := numCells, 0
	for s := range m.numStripes() {
		first, cells := m.stripe(s).cells()
		for i := range cells {
			sum[first+i] += cells[i].Load()
		}
		if len(cells) > 0 {
			low, high = min(low, first), max(high, first+len(cells))
		}
	}
	if low >= high {
		return Latencies{}
	}
	return Latencies{First: low + FirstCell, Counts: append([]int64(nil), sum[low:high]...)}
}
