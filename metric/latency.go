package metric

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// Latencies are counted in cells whose edges are 2^(i/8) seconds: eight to the
// doubling, which is schema 3 of Prometheus' native histograms. A cell holds
// what is above its lower edge, up to and including its upper one.
const (
	latencyLowest  = -160 // the upper edge of cell 0: 2^(−160/8) s = 0.95 µs
	latencyHighest = 54   // the upper edge of the last cell but one: 2^(54/8) s = 108 s
	latencyCells   = latencyHighest - latencyLowest + 2
)

// latencyEdge holds the upper edges in nanoseconds, rounded down: response
// times are whole nanoseconds, so that comparing with these is exact. It is
// longer than the cells are many, so that any byte is an index.
var latencyEdge = func() (edge [256]int64) {
	for i := range edge {
		edge[i] = math.MaxInt64
		if i < latencyCells-1 {
			edge[i] = int64(math.Exp2(float64(i+latencyLowest)/8) * 1e9)
		}
	}
	return edge
}()

// latencyGuess gives, for the length in bits of a response time and the four
// bits after its first, the cell of the smallest such time. The times that share
// an element differ by less than one part in sixteen, the edges by one in
// eleven, so that the cell is the one guessed or the next.
var latencyGuess = func() (guess [64 << 4]uint8) {
	cell := uint8(0)
	for length := 5; length < 64; length++ {
		for next := range 16 {
			for smallest := int64(16+next) << (length - 5); smallest > latencyEdge[cell]; {
				cell++
			}
			guess[length<<4|next] = cell
		}
	}
	return guess
}()

// latencyCell gives the cell of a response time, which is not negative.
func latencyCell(rt int64) uint8 {
	t := uint64(rt) | 16 // what is below 16 ns may as well be that: it is in cell 0
	length := bits.Len64(t)
	cell := latencyGuess[(length<<4|int(t>>(uint(length-5)&63)&15))&(len(latencyGuess)-1)]
	if rt > latencyEdge[cell] {
		cell++
	}
	return cell
}

// Latencies tells how many calls took how long. It is a value that does not
// change; the zero Latencies has no calls.
type Latencies struct {
	first  int     // the cell of counts[0]: the empty cells on either side are left out
	counts []int64 // per cell
}

// Latencies gives those of all calls since the metric was made.
func (m *Metric) Latencies() Latencies {
	var sum [latencyCells]int64
	low, high := latencyCells, 0
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
	return Latencies{first: low, counts: append([]int64(nil), sum[low:high]...)}
}

// Since gives the latencies that l has and mark, an earlier state of it, has not.
func (l Latencies) Since(mark Latencies) Latencies {
	if len(mark.counts) == 0 {
		return l
	}
	since := Latencies{first: l.first, counts: append([]int64(nil), l.counts...)}
	for i, n := range mark.counts {
		if at := mark.first - l.first + i; at >= 0 && at < len(since.counts) {
			since.counts[at] = max(0, since.counts[at]-n)
		}
	}
	return since
}

// Plus gives the calls of l and those of m.
func (l Latencies) Plus(m Latencies) Latencies {
	switch {
	case len(m.counts) == 0:
		return l
	case len(l.counts) == 0:
		return m
	}
	first := min(l.first, m.first)
	sum := Latencies{first: first, counts: make([]int64, max(l.first+len(l.counts), m.first+len(m.counts))-first)}
	copy(sum.counts[l.first-first:], l.counts)
	for i, n := range m.counts {
		sum.counts[m.first-first+i] += n
	}
	return sum
}

// The first and the last index that [Latencies.Cells] gives.
const (
	FirstCell = latencyLowest
	LastCell  = latencyHighest + 1
)

// Cells gives the number of calls by response time, from fast to slow, without the
// cells that are empty. A cell with index i holds the calls that took more than
// 2^((i−1)/8) seconds, and up to and including 2^(i/8): the buckets of a native
// histogram of schema 3 in Prometheus. That of [FirstCell] has all that were faster,
// and that of [LastCell] all that were slower.
func (l Latencies) Cells() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for i, n := range l.counts {
			if n != 0 && !yield(l.first+i+latencyLowest, n) {
				return
			}
		}
	}
}

// Count is the number of calls.
func (l Latencies) Count() int64 {
	var sum int64
	for _, n := range l.counts {
		sum += n
	}
	return sum
}

// Outliers counts the calls that were faster than a microsecond (more exactly
// 0.95 µs) or slower than 100 seconds (108 s), of which no more is known.
func (l Latencies) Outliers() (fast, slow int64) {
	for i, n := range l.counts {
		switch l.first + i {
		case 0:
			fast = n
		case latencyCells - 1:
			slow = n
		}
	}
	return fast, slow
}

// Quantile gives the response time that the share q of the calls did not
// exceed: q = 0.5 is the median, 0.99 the 99th percentile. It lies in the
// cell that this call fell in, at most 4.4 % away from the truth; outliers
// count as 0.95 µs and 108 s. It is 0 with no calls. A q outside 0 to 1 is
// taken for the nearer of the two, and NaN for 0.
func (l Latencies) Quantile(q float64) time.Duration {
	count := l.Count()
	if count <= 0 {
		return 0
	}
	rank := int64(1)
	if q > 0 {
		rank = max(1, int64(math.Ceil(min(q, 1)*float64(count))))
	}
	cell := l.first
	for _, n := range l.counts {
		if rank -= n; rank <= 0 {
			break
		}
		cell++
	}
	switch {
	case cell == 0:
		return time.Duration(latencyEdge[0])
	case cell >= latencyCells-1:
		return time.Duration(latencyEdge[latencyCells-2])
	default:
		upper := math.Exp2(float64(cell+latencyLowest) / 8)
		return time.Duration(upper * leastWrong * 1e9)
	}
}

// leastWrong is where in a cell, as a part of its upper edge, what is told is as far from
// that edge as from the lower one, each taken for the truth: 2 / (1 + 2^(1/8)). The geometric
// middle would be 4.43 % off at the lower edge.
const leastWrong = 0.956705382500610821
