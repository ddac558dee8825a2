package leapprom

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/metric"
)

// The response times are counted in cells whose edges are those of schema 3, so the
// native buckets are the cells as they are, exactly. A classic one is a sum of cells, up to
// the edge that is nearest to its own.
const (
	perDoubling = 8
	numCells    = meter.LastCell - meter.FirstCell + 1

	maxBuckets   = 64
	lowestBucket = 1e-6 // s
	mostBucket   = 100  // s
	leastApart   = 1.0999
)

var (
	schema        int32 = 3
	zeroThreshold       = math.Exp2(float64(meter.FirstCell) / perDoubling)
)

// defaultBuckets are the upper edges of the classic buckets, in seconds, of which objectives are
// made.
var defaultBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.3, 0.5, 1, 2.5, 5, 10}

// classicBuckets are the classic buckets of every histogram.
type classicBuckets struct {
	edges []float64
	last  []int // the last cell of each
}

func newClassicBuckets(edges []float64) *classicBuckets {
	c := &classicBuckets{edges: edges}
	for _, edge := range edges {
		c.last = append(c.last, lastCell(edge))
	}
	return c
}

// lastCell returns the cell whose upper edge is nearest.
func lastCell(edge float64) int {
	return int(math.Round(math.Log2(edge)*perDoubling)) - meter.FirstCell
}

// histogram is a series of times.
type histogram struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair
	count   uint64
	sum     float64
	zero    uint64
	message dto.Histogram
}

// histogram adds a series of times, which are rt nanoseconds together.
// Their sum is never below 0: the sign is one more digit. Without classic buckets, that is nil.
func (s *samples) histogram(desc *prometheus.Desc, labels []*dto.LabelPair, created *timestamppb.Timestamp, times metric.Latencies, rt int64, classic *classicBuckets) {
	var cells [numCells]int64
	copy(cells[max(0, times.First-meter.FirstCell):], times.Counts)
	s.histograms = append(s.histograms, histogram{desc: desc, labels: labels, sum: float64(uint64(rt)) / 1e9, zero: uint64(cells[0])})
	h := &s.histograms[len(s.histograms)-1]
	h.message.CreatedTimestamp = created
	h.message.Schema, h.message.ZeroThreshold = &schema, &zeroThreshold
	for _, n := range cells {
		h.count += uint64(n)
	}
	h.native(&cells)
	if classic != nil {
		h.classic(&cells, classic)
	}
}

func (h *histogram) Desc() *prometheus.Desc { return h.desc }

func (h *histogram) Write(m *dto.Metric) error {
	h.message.SampleCount, h.message.SampleSum, h.message.ZeroCount = &h.count, &h.sum, &h.zero
	m.Label, m.Histogram = h.labels, &h.message
	return nil
}

// native sets the native buckets. What took no time that can be told is in the zero
// bucket. What took longer than the last edge is in the bucket above it, although it may
// have been longer still: a native histogram must hold each call in some bucket.
func (h *histogram) native(cells *[numCells]int64) {
	// Empty buckets between others cost a byte each, a further span two or more.
	const closeBy = 3
	used := 0
	for _, n := range cells[1:] {
		if n != 0 {
			used++
		}
	}
	deltas := make([]int64, 0, used)
	last, before := 0, int64(0) // the cell that came last, and its count
	for i, n := range cells[1:] {
		if n == 0 {
			continue
		}
		index := i + 1 + meter.FirstCell
		switch gap := index - last - 1; {
		case len(deltas) == 0:
			h.span(index)
		case gap > closeBy:
			h.span(gap)
		default:
			for range gap {
				deltas = append(deltas, -before)
				before = 0
				h.lengthen()
			}
		}
		deltas = append(deltas, n-before)
		last, before = index, n
		h.lengthen()
	}
	h.message.PositiveDelta = deltas
}

// span begins a span of buckets, so many after the end of the one before.
func (h *histogram) span(offset int) {
	made := &struct {
		span   dto.BucketSpan
		offset int32
		length uint32
	}{offset: int32(offset)}
	made.span.Offset, made.span.Length = &made.offset, &made.length
	h.message.PositiveSpan = append(h.message.PositiveSpan, &made.span)
}

func (h *histogram) lengthen() {
	*h.message.PositiveSpan[len(h.message.PositiveSpan)-1].Length++
}

func (h *histogram) classic(cells *[numCells]int64, of *classicBuckets) {
	type bucket struct {
		bucket dto.Bucket
		count  uint64
	}
	made := make([]bucket, len(of.edges))
	h.message.Bucket = make([]*dto.Bucket, len(made))
	below, cell := uint64(0), 0
	for i := range made {
		for ; cell <= of.last[i]; cell++ {
			below += uint64(cells[cell])
		}
		made[i].count = below
		made[i].bucket.CumulativeCount, made[i].bucket.UpperBound = &made[i].count, &of.edges[i]
		h.message.Bucket[i] = &made[i].bucket
	}
}
