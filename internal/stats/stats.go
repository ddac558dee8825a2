// Package stats keeps the statistics of one resource: what happened in the last
// second, second by second in the last minute, and since the beginning.
//
// A [Stats] is a [meter.Meter] of 10 buckets of 100 ms, and three coarser rings
// of marks over the same totals: the seconds of the last minute, and the
// latencies of the last ten seconds and of the last minute. An event is counted
// once. Only the fine ring is looked at while calls come and go; opening one of
// its buckets looks after the others, which are made at first use.
package stats

import (
	"slices"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/leaparray"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

const (
	fineBuckets  = 10
	fineInterval = time.Second

	historySeconds = 60 // besides the second that is running

	recentBuckets  = 5
	recentInterval = 10 * time.Second
	minuteBuckets  = 6
	minuteInterval = time.Minute
)

// Stats is the statistics of one resource. Make one with [New]. All methods may
// be called by any number of goroutines at once; none takes a lock.
type Stats struct {
	meter  *meter.Meter
	coarse atomic.Pointer[rings] // nil before the first event
}

type rings struct {
	seconds *leaparray.LeapArray[meter.Mark]
	recent  *leaparray.LeapArray[times]
	minute  *leaparray.LeapArray[times]
}

type times struct{ rt, waits metric.Latencies }

func (s *Stats) times() times {
	return times{metric.Latencies(s.meter.Latencies()), metric.Latencies(s.meter.Waits())}
}

// New makes the statistics of a resource that nobody has called yet.
func New() *Stats {
	s := &Stats{meter: must(meter.New(fineBuckets, fineInterval))}
	s.meter.WhenOpening(s.openCoarse)
	return s
}

// must is for rings whose configuration is a constant.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Meter is where the events of the resource are counted.
func (s *Stats) Meter() *meter.Meter { return s.meter }

// openCoarse opens the coarse buckets that a fine bucket lies in, before the
// fine one opens.
func (s *Stats) openCoarse(start int64, mark *meter.Mark) {
	r := s.coarse.Load()
	if r == nil {
		r = s.newRings()
	}
	mark.LieUnder(r.seconds.Current(start).Value())
	r.recent.Current(start)
	r.minute.Current(start)
}

func (s *Stats) newRings() *rings {
	mark := func(t *times, _ int64, _ *leaparray.WindowWrap[times]) { *t = s.times() }
	r := &rings{
		seconds: must(leaparray.New(historySeconds+1, (historySeconds+1)*time.Second,
			func(mark *meter.Mark, _ int64, _ *leaparray.WindowWrap[meter.Mark]) { s.meter.Mark(mark) })),
		recent: must(leaparray.New(recentBuckets, recentInterval, mark)),
		minute: must(leaparray.New(minuteBuckets, minuteInterval, mark)),
	}
	if !s.coarse.CompareAndSwap(nil, r) {
		return s.coarse.Load()
	}
	return r
}

// Recent returns the latencies of the calls completed in the last ten seconds, in
// whole buckets of two: the one that is running and the four before it.
func (s *Stats) Recent(now int64) metric.Latencies { return s.recent(now).rt }

func (s *Stats) recent(now int64) times {
	r := s.coarse.Load()
	if r == nil {
		return times{}
	}
	return s.since(r.recent, now)
}

// Minute returns the latencies of the calls completed in the last minute, in whole
// buckets of ten seconds: the one that is running and the five before it.
func (s *Stats) Minute(now int64) metric.Latencies {
	r := s.coarse.Load()
	if r == nil {
		return metric.Latencies{}
	}
	return s.since(r.minute, now).rt
}

// since returns the times in the window of a ring.
func (s *Stats) since(ring *leaparray.LeapArray[times], now int64) times {
	for {
		newest := ring.Newest()
		oldest := ring.Oldest(now)
		if oldest == nil {
			return times{}
		}
		t, mark := s.times(), oldest.Value()
		// As in meter.Meter.Sum: the totals must not be from after the window.
		if ring.Newest() == newest {
			return times{t.rt.Since(mark.rt), t.waits.Since(mark.waits)}
		}
	}
}

// History returns the last minute second by second, oldest first: the 60 seconds
// before that of now, and that of now as far as it has come. Seconds in which
// nothing happened are there too, with the calls that were in flight.
func (s *Stats) History(now int64) []stat.Second {
	const ns = int64(time.Second)
	first := now - ((now%ns)+ns)%ns - historySeconds*ns
	history := make([]stat.Second, historySeconds+1)
	for i := range history {
		history[i].Start = first + int64(i)*ns
	}
	r := s.coarse.Load()
	if r == nil {
		return history
	}
	var marks []*leaparray.WindowWrap[meter.Mark]
	var totals metric.Counts
	for newest := r.seconds.Newest(); ; newest = r.seconds.Newest() {
		marks = slices.AppendSeq(marks[:0], r.seconds.Live(now))
		totals = s.meter.Totals()
		if r.seconds.Newest() == newest {
			break
		}
	}
	next := int64(0)
	// Where there is no bucket nothing happened, and calls stayed in flight.
	silence := func(until, concurrency int64) {
		for ; next < min(until, int64(len(history))); next++ {
			history[next].MaxConcurrency = concurrency
		}
	}
	for k, w := range marks {
		mark, until := w.Value(), totals
		if k+1 < len(marks) {
			until = marks[k+1].Value().Counts
		} else {
			mark.Saw(s.meter.Concurrency())
		}
		i := (w.Start() - first) / ns
		silence(i, metric.Counts(mark.Counts).Concurrency())
		if i < 0 || i >= int64(len(history)) { // now is older than the newest bucket
			continue
		}
		next = i + 1
		c := until.Minus(mark.Counts)
		history[i] = stat.Second{
			Start: w.Start(),
			Pass:  c[metric.Pass], Block: c[metric.Block],
			Success: c[metric.Success], Exception: c[metric.Exception],
			AvgRT: meter.AvgRT(c), MaxConcurrency: mark.MaxConcurrency(),
		}
	}
	silence(int64(len(history)), totals.Concurrency())
	return history
}

// Trim lets go of the marks that are out of date. A resource that was busy and
// is not any more would keep their memory otherwise.
func (s *Stats) Trim(now int64) {
	s.meter.Trim(now)
	if r := s.coarse.Load(); r != nil {
		r.seconds.Trim(now)
		r.recent.Trim(now)
		r.minute.Trim(now)
	}
}
