package metric

import (
	"math"
	"time"

	"github.com/leapgate-go/leapgate/internal/meter"
)

// Latencies says how many calls took how long. The calls are counted in cells whose edges
// are 2^(i/8) seconds: eight to the doubling, which is schema 3 of the native histograms of
// Prometheus. The zero Latencies has no calls.
//
// Counts[0] is the number of calls in the cell with the index First, Counts[1] of those in
// the next, and so on; cells that no call has been in may be left out on either side. The
// cell with index i holds the calls that took more than 2^((i−1)/8) seconds, and up to and
// including 2^(i/8). The first of all, −160, has all that took less than a microsecond
// (more exactly up to 0.95 µs), and the last, 55, all that took more than 108 s: of those
// no more is known.
type Latencies struct {
	First  int // −160 to 55
	Counts []int64
}

// Since returns the latencies that l has and mark, an earlier state of it, has not.
func (l Latencies) Since(mark Latencies) Latencies {
	if len(mark.Counts) == 0 {
		return l
	}
	since := Latencies{First: l.First, Counts: append([]int64(nil), l.Counts...)}
	for i, n := range mark.Counts {
		if at := mark.First - l.First + i; at >= 0 && at < len(since.Counts) {
			since.Counts[at] = max(0, since.Counts[at]-n)
		}
	}
	return since
}

// Plus returns the calls of l and those of m.
func (l Latencies) Plus(m Latencies) Latencies {
	switch {
	case len(m.Counts) == 0:
		return l
	case len(l.Counts) == 0:
		return m
	}
	first := min(l.First, m.First)
	sum := Latencies{First: first, Counts: make([]int64, max(l.First+len(l.Counts), m.First+len(m.Counts))-first)}
	copy(sum.Counts[l.First-first:], l.Counts)
	for i, n := range m.Counts {
		sum.Counts[m.First-first+i] += n
	}
	return sum
}

// Count is the number of calls.
func (l Latencies) Count() (sum int64) {
	for _, n := range l.Counts {
		sum += n
	}
	return sum
}

// Quantile returns the time that the share q of the calls did not
// exceed: q = 0.5 is the median, 0.99 the 99th percentile. It lies in the
// cell that this call fell in, at most 4.4 % away from the truth; those in the first
// cell of all count as 0.95 µs, those in the last as 108 s. It is 0 with no calls. A q
// outside 0 to 1 is taken for the nearer of the two, and NaN for 0.
func (l Latencies) Quantile(q float64) time.Duration {
	count := l.Count()
	if count <= 0 {
		return 0
	}
	rank := int64(1)
	if q > 0 {
		rank = max(1, int64(math.Ceil(min(q, 1)*float64(count))))
	}
	cell := l.First
	for _, n := range l.Counts {
		if rank -= n; rank <= 0 {
			break
		}
		cell++
	}
	switch {
	case cell <= meter.FirstCell:
		return seconds(meter.FirstCell, 1)
	case cell >= meter.LastCell:
		return seconds(meter.LastCell-1, 1)
	default:
		return seconds(cell, leastWrong)
	}
}

// seconds returns so much of the upper edge of a cell.
func seconds(cell int, part float64) time.Duration {
	return time.Duration(math.Exp2(float64(cell)/8) * part * 1e9)
}

// leastWrong is where in a cell, as a part of its upper edge, what is told is as far from
// that edge as from the lower one, each taken for the truth: 2 / (1 + 2^(1/8)). The geometric
// middle would be 4.43 % off at the lower edge.
const leastWrong = 0.956705382500610821
