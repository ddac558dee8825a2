package stats

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// Snapshot returns the resource's figures at now. The totals, the rules, the name
// and the time by the wall clock are the caller's to fill in.
func (s *Stats) Snapshot(now int64) stat.Snapshot {
	m := s.meter
	window := metric.Counts(m.Window(now))
	perSecond := func(e metric.Event) float64 { return float64(window[e]) / fineInterval.Seconds() }
	recent := s.recent(now)
	return stat.Snapshot{
		PassQPS: perSecond(metric.Pass), BlockQPS: perSecond(metric.Block),
		SuccessQPS: perSecond(metric.Success), ExceptionQPS: perSecond(metric.Exception),
		AvgRT: meter.AvgRT(window), MinRT: m.MinRT(now),
		MaxConcurrency: m.MaxConcurrency(now),
		P50:            recent.rt.Quantile(0.50), P95: recent.rt.Quantile(0.95), P99: recent.rt.Quantile(0.99),
		WaitP50: recent.waits.Quantile(0.50), WaitP95: recent.waits.Quantile(0.95), WaitP99: recent.waits.Quantile(0.99),
		Waiting: m.Waiting(), MaxWaiting: m.MaxWaiting(now),
	}
}

// SetTotals fills in the totals, and the concurrency that follows from them. An
// exception whose success was not seen yet is left for the next time.
func SetTotals(s *stat.Snapshot, c metric.Counts) {
	s.Pass, s.Block = c[metric.Pass], c[metric.Block]
	s.Success, s.Exception = c[metric.Success], min(c[metric.Exception], c[metric.Success])
	s.OccupiedPass, s.WouldBlock = c[metric.OccupiedPass], c[metric.WouldBlock]
	s.Ignored = min(c[metric.Ignored], c[metric.Success])
	s.Concurrency = c.Concurrency()
	s.WaitTime = time.Duration(c[metric.Wait])
}
