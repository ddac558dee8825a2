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
// native buckets are the cells as they are. The classic ones are sums of cells: their
// edges are whole powers of 2, which are every eighth edge. Both are exact.
const (
	perDoubling   = 8
	classicLowest = -11 // 2^−11 s = 0.49 ms
	classicMost   = 4   // 16 s
	classicEdges  = classicMost - classicLowest + 1
	numCells      = meter.LastCell - meter.FirstCell + 1
)

var (
	schema        int32 = 3
	zeroThreshold       = math.Exp2(float64(meter.FirstCell) / perDoubling)
	classicEdge         = func() (edges [classicEdges]float64) {
		for i := range edges {
			edges[i] = math.Exp2(float64(classicLowest + i))
		}
		return edges
	}()
)

type cells [numCells]int64

func (c *cells) add(l metric.Latencies, times int64) {
	for i, n := range l.Counts {
		c[l.First+i-meter.FirstCell] += times * n
	}
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

// histogram adds a series of the calls in cells, which took so many nanoseconds together.
// Their sum is never below 0: the sign is one more digit.
func (s *samples) histogram(desc *prometheus.Desc, labels []*dto.LabelPair, created *timestamppb.Timestamp, cells *cells, rt int64, classic bool) {
	s.histograms = append(s.histograms, histogram{desc: desc, labels: labels, sum: float64(uint64(rt)) / 1e9, zero: uint64(cells[0])})
	h := &s.histograms[len(s.histograms)-1]
	h.message.CreatedTimestamp = created
	h.message.Schema, h.message.ZeroThreshold = &schema, &zeroThreshold
	for _, n := range cells {
		h.count += uint64(n)
	}
	h.native(cells)
	if classic {
		h.classic(cells)
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
func (h *histogram) native(cells *cells) {
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

func (h *histogram) classic(cells *cells) {
	made := new(struct {
		buckets  [classicEdges]dto.Bucket
		pointers [classicEdges]*dto.Bucket
		counts   [classicEdges]uint64
	})
	below, cell := uint64(0), 0
	for i := range made.buckets {
		for ; cell <= (classicLowest+i)*perDoubling-meter.FirstCell; cell++ {
			below += uint64(cells[cell])
		}
		made.counts[i] = below
		made.buckets[i].CumulativeCount, made.buckets[i].UpperBound = &made.counts[i], &classicEdge[i]
		made.pointers[i] = &made.buckets[i]
	}
	h.message.Bucket = made.pointers[:]
}
