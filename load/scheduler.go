package load

import (
	"math"
	"runtime/metrics"
)

// scheduler reads how long goroutines wait to run, as the Go runtime measures it.
type scheduler struct {
	samples []metrics.Sample // one, once it has been read
	before  []uint64         // the counts of the latencies at the last reading; nil: there was none
}

// latency returns the 99th percentile of the latencies since the last reading, in seconds. It is
// 0 if there were none.
func (s *scheduler) latency() (seconds float64, ok bool) {
	if s.samples == nil {
		s.samples = []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	}
	metrics.Read(s.samples)
	if s.samples[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0, false
	}
	h := s.samples[0].Value.Float64Histogram()
	if ok = len(s.before) == len(h.Counts); ok {
		seconds = percentile99(h.Buckets, h.Counts, s.before)
	}
	s.before = append(s.before[:0], h.Counts...) // for the next reading writes over them
	return seconds, ok
}

// percentile99 returns the upper end of the bucket that has the 99th percentile of what came
// since before; of the last bucket, which has none, the lower.
func percentile99(edges []float64, counts, before []uint64) float64 {
	total := uint64(0)
	for i := range counts {
		total += counts[i] - before[i]
	}
	above := total / 100 // so many may be above it
	for i := len(counts) - 1; i >= 0; i-- {
		n := counts[i] - before[i]
		if n > above {
			if math.IsInf(edges[i+1], 1) {
				return edges[i]
			}
			return edges[i+1]
		}
		above -= n
	}
	return 0
}
