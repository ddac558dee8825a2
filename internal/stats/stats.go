// Package stat keeps the statistics of one resource: what happened in the last
// second, second by second in the last minute, and since the beginning.
//
// A [Stat] is a [metric.Metric] of 10 buckets of 100 ms, and three coarser rings
// of marks over the same totals: the seconds of the last minute, and the
// latencies of the last ten seconds and of the last minute. An event is counted
// once. Only the fine ring is looked at while calls come and go; opening one of
// its buckets looks after the others, which are made at first use.
package stat

import (
	"slices"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/leaparray"
	"github.com/leapgate-go/leapgate/metric"
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

// Stat is the statistics of one resource. Make one with [New]. All methods may
// be called by any number of goroutines at once; none takes a lock.
type Stat struct {
	metric *metric.Metric
	coarse atomic.Pointer[rings] // nil before the first event
}

type rings struct {
	seconds *leaparray.LeapArray[metric.Mark]
	recent  *leaparray.LeapArray[metric.Latencies]
	minute  *leaparray.LeapArray[metric.Latencies]
}

// New makes the statistics of a resource that nobody has called yet.
func New() *Stat {
	s := &Stat{metric: must(metric.New(fineBuckets, fineInterval))}
	s.metric.WhenOpening(s.openCoarse)
	return s
}

// must is for rings whose configuration is a constant.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Metric is where the events of the resource are counted.
func (s *Stat) Metric() *metric.Metric { return s.metric }

// openCoarse opens the coarse buckets that a fine bucket lies in, before the
// fine one opens.
func (s *Stat) openCoarse(start int64, mark *metric.Mark) {
	r := s.coarse.Load()
	if r == nil {
		r = s.newRings()
	}
	mark.LieUnder(r.seconds.Current(start).Value())
	r.recent.Current(start)
	r.minute.Current(start)
}

func (s *Stat) newRings() *rings {
	latencies := func(int64, *leaparray.WindowWrap[metric.Latencies]) *metric.Latencies {
		l := s.metric.Latencies()
		return &l
	}
	r := &rings{
		seconds: must(leaparray.New(historySeconds+1, (historySeconds+1)*time.Second,
			func(int64, *leaparray.WindowWrap[metric.Mark]) *metric.Mark { return s.metric.Mark() })),
		recent: must(leaparray.New(recentBuckets, recentInterval, latencies)),
		minute: must(leaparray.New(minuteBuckets, minuteInterval, latencies)),
	}
	if !s.coarse.CompareAndSwap(nil, r) {
		return s.coarse.Load()
	}
	return r
}

// Recent gives the latencies of the calls completed in the last ten seconds, in
// whole buckets of two: the one that is running and the four before it.
func (s *Stat) Recent(now int64) metric.Latencies {
	r := s.coarse.Load()
	if r == nil {
		return metric.Latencies{}
	}
	return s.latencies(r.recent, now)
}

// Minute gives the latencies of the calls completed in the last minute, in whole
// buckets of ten seconds: the one that is running and the five before it.
func (s *Stat) Minute(now int64) metric.Latencies {
	r := s.coarse.Load()
	if r == nil {
		return metric.Latencies{}
	}
	return s.latencies(r.minute, now)
}

func (s *Stat) latencies(ring *leaparray.LeapArray[metric.Latencies], now int64) metric.Latencies {
	for {
		newest := ring.Newest()
		oldest := ring.Oldest(now)
		if oldest == nil {
			return metric.Latencies{}
		}
		since := s.metric.Latencies().Since(*oldest.Value())
		// As in metric.Metric.Sum: the totals must not be from after the window.
		if ring.Newest() == newest {
			return since
		}
	}
}

// Second is what happened in one second of the clock.
type Second struct {
	Start                           int64 // nanoseconds on the axis of now
	Pass, Block, Success, Exception int64
	AvgRT                           time.Duration // 0 with no completed calls
	MaxConcurrency                  int64         // the most calls in flight; see [metric.Metric.MaxConcurrency]
}

// History gives the last minute second by second, oldest first: the 60 seconds
// before that of now, and that of now as far as it has come. Seconds in which
// nothing happened are there too, with the calls that were in flight.
func (s *Stat) History(now int64) []Second {
	const ns = int64(time.Second)
	first := now - ((now%ns)+ns)%ns - historySeconds*ns
	history := make([]Second, historySeconds+1)
	for i := range history {
		history[i].Start = first + int64(i)*ns
	}
	r := s.coarse.Load()
	if r == nil {
		return history
	}
	var marks []*leaparray.WindowWrap[metric.Mark]
	var totals metric.Counts
	for newest := r.seconds.Newest(); ; newest = r.seconds.Newest() {
		marks = slices.AppendSeq(marks[:0], r.seconds.Live(now))
		totals = s.metric.Totals()
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
			mark.Saw(s.metric.Concurrency())
		}
		i := (w.Start() - first) / ns
		silence(i, mark.Counts.Concurrency())
		if i < 0 || i >= int64(len(history)) { // now is older than the newest bucket
			continue
		}
		next = i + 1
		c := until.Minus(mark.Counts)
		history[i] = Second{
			Start: w.Start(),
			Pass:  c[metric.Pass], Block: c[metric.Block],
			Success: c[metric.Success], Exception: c[metric.Exception],
			AvgRT: metric.AvgRT(c), MaxConcurrency: mark.MaxConcurrency(),
		}
	}
	silence(int64(len(history)), totals.Concurrency())
	return history
}

// Trim lets go of the marks that are out of date. A resource that was busy and
// is not any more would keep their memory otherwise.
func (s *Stat) Trim(now int64) {
	s.metric.Trim(now)
	if r := s.coarse.Load(); r != nil {
		r.seconds.Trim(now)
		r.recent.Trim(now)
		r.minute.Trim(now)
	}
}
