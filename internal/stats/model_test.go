package stats

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// naive is a log of all events, and the 100 ms that each was counted in.
type naive struct {
	opened bool
	newest int64
	log    []entry
}

type entry struct {
	bucket int64
	counts metric.Counts
	peak   int64 // the most calls in flight while it happened
}

func (n *naive) add(now int64, c metric.Counts, peak int64) {
	if start := floor(now, 100*ms); !n.opened || start > n.newest {
		n.opened, n.newest = true, start
	}
	n.log = append(n.log, entry{n.newest, c, peak})
}

// window sums up the entries in those buckets of the given length that start in
// (aligned now − interval, aligned now].
func (n *naive) window(now, length, interval int64) (sum metric.Counts) {
	end := max(floor(now, length), floor(n.newest, length))
	for _, e := range n.log {
		if start := floor(e.bucket, length); start > end-interval && start <= end {
			sum = sum.Plus(e.counts)
		}
	}
	return sum
}

// history returns the seconds from first on.
func (n *naive) history(first, now int64) (history [61]stat.Second) {
	var sums [61]metric.Counts
	var peaks [61]int64
	end := max(floor(now, sec), floor(n.newest, sec))
	for _, e := range n.log {
		start := floor(e.bucket, sec)
		if i := (start - first) / sec; start > end-61*sec && i >= 0 && i <= 60 {
			sums[i], peaks[i] = sums[i].Plus(e.counts), max(peaks[i], e.peak)
		}
	}
	for i, c := range sums {
		history[i] = stat.Second{
			Start: first + int64(i)*sec,
			Pass:  c[metric.Pass], Block: c[metric.Block],
			Success: c[metric.Success], Exception: c[metric.Exception],
			AvgRT: meter.AvgRT(c), MaxConcurrency: peaks[i],
		}
	}
	return history
}

func floor(now, length int64) int64 {
	return int64(math.Floor(float64(now/ms)/float64(length/ms))) * length
}

func TestStat_AgreesWithANaiveLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, model := New(), &naive{}
		clock := minute + rapid.Int64Range(-200_000, 200_000).Draw(t, "clock")*ms
		if rapid.Bool().Draw(t, "around zero") {
			clock -= minute
		}
		trimmed := int64(math.MinInt64)
		step := rapid.Map(rapid.OneOf(
			rapid.Int64Range(0, 150),
			rapid.Int64Range(-1500, 2500),
			rapid.Int64Range(-15_000, 70_000),
		), func(n int64) int64 { return n * ms })
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				n := rapid.Int64Range(1, 3).Draw(t, "n")
				rt := rapid.Int64Range(0, 1000).Draw(t, "rt") * ms
				failed := rapid.Bool().Draw(t, "failed")
				c := metric.Counts{metric.Pass: n, metric.Success: n, metric.RT: n * rt}
				if failed {
					c[metric.Exception] = n
				}
				model.add(clock, c, n)
				call(s, clock, n, time.Duration(rt), failed)
			},
			"block": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				model.add(clock, metric.Counts{metric.Block: 1}, 0)
				s.Meter().Add(clock, meter.Block, 1)
			},
			"trim": func(t *rapid.T) {
				trimmed = max(trimmed, clock+step.Draw(t, "now"))
				s.Trim(trimmed)
			},
			"": func(t *rapid.T) {
				now := max(trimmed, clock+step.Draw(t, "now"))
				history := s.History(now)
				require.Len(t, history, 61)
				for i, want := range model.history(floor(now, sec)-60*sec, now) {
					if got := history[i]; got != want {
						t.Fatalf("second %d at %d: %+v, want %+v", i, now, got, want)
					}
				}
				require.Equal(t, model.window(now, 2*sec, 10*sec)[metric.Success], s.Recent(now).Count())
				require.Equal(t, model.window(now, 10*sec, 60*sec)[metric.Success], s.Minute(now).Count())
				window := model.window(now, 100*ms, sec)
				snapshot := s.Snapshot(now)
				require.EqualValues(t, window[metric.Pass], snapshot.PassQPS)
				require.EqualValues(t, window[metric.Block], snapshot.BlockQPS)
				require.EqualValues(t, window[metric.Success], snapshot.SuccessQPS)
				require.EqualValues(t, window[metric.Exception], snapshot.ExceptionQPS)
				require.Equal(t, meter.AvgRT(window), snapshot.AvgRT)
			},
		})
	})
}
