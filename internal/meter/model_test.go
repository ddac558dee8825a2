package meter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naiveMetric keeps a log of all events, and the bucket that each was counted in.
type naiveMetric struct {
	length, interval int64
	opened           bool
	newest           int64
	log              []logged
}

type logged struct {
	bucket int64
	counts Counts
	rt     int64 // −1: not a completed call
	before int64 // the calls in flight before
}

func (n *naiveMetric) align(now int64) int64 {
	for ; now%n.length != 0; now-- {
	}
	return now
}

func (n *naiveMetric) add(now int64, counts Counts, rt int64) {
	if start := n.align(now); !n.opened || start > n.newest {
		n.opened, n.newest = true, start
	}
	n.log = append(n.log, logged{n.newest, counts, rt, inFlight(n.total())})
}

func (n *naiveMetric) total() (sum Counts) {
	for _, l := range n.log {
		sum = plus(sum, l.counts)
	}
	return sum
}

// peak is the most calls in flight in the window of now.
func (n *naiveMetric) peak(now int64) int64 {
	end := max(n.align(now), n.newest)
	most := inFlight(n.total())
	for _, l := range n.log {
		if l.bucket > end-n.interval && l.bucket <= end {
			most = max(most, l.before, l.before+inFlight(l.counts))
		}
	}
	return max(0, most)
}

func (n *naiveMetric) window(now int64) (sum Counts, minRT int64) {
	end := max(n.align(now), n.newest)
	minRT = math.MaxInt64
	for _, l := range n.log {
		if l.bucket > end-n.interval && l.bucket <= end {
			sum = plus(sum, l.counts)
			if l.rt >= 0 {
				minRT = min(minRT, l.rt)
			}
		}
	}
	if minRT == math.MaxInt64 {
		minRT = 0
	}
	return sum, minRT
}

func TestMetric_AgreesWithANaiveLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		buckets := rapid.IntRange(1, 6).Draw(t, "buckets")
		length := rapid.Int64Range(1, 12).Draw(t, "length")
		model := &naiveMetric{length: length, interval: length * int64(buckets)}
		m, err := New(buckets, time.Duration(model.interval))
		require.NoError(t, err)
		type call struct {
			stripe int
			n      int64
		}
		var inFlight []call
		clock := rapid.Int64Range(-50, 50).Draw(t, "clock")
		trimmed := int64(math.MinInt64) // a reader with an older now may miss something
		step := rapid.OneOf(
			rapid.Int64Range(0, length),
			rapid.Int64Range(-model.interval, model.interval),
			rapid.Int64Range(0, 3*model.interval),
		)
		count := rapid.Int64Range(1, 5)
		rt := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 200_000_000_000))
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := uint8(rapid.IntRange(0, NumEvents-1).Draw(t, "event"))
				n := count.Draw(t, "n")
				if total := model.total(); e == Exception && total[Exception]+n > total[Success] {
					t.Skip("exceptions are some of the completed calls")
				}
				clock += step.Draw(t, "step")
				c := Counts{}
				c[e] = n
				model.add(clock, c, -1)
				m.Add(clock, e, n)
			},
			"add rt": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				rt := rt.Draw(t, "rt")
				model.add(clock, Counts{Success: 1, RT: rt}, rt)
				m.AddRT(clock, time.Duration(rt))
			},
			"pass": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				n := count.Draw(t, "n")
				model.add(clock, Counts{Pass: n}, -1)
				inFlight = append(inFlight, call{m.Pass(clock, n), n})
			},
			"complete": func(t *rapid.T) {
				if len(inFlight) == 0 {
					t.Skip()
				}
				clock += step.Draw(t, "step")
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "call")
				c := inFlight[i]
				inFlight = append(inFlight[:i], inFlight[i+1:]...)
				rt := rt.Draw(t, "rt")
				counts := Counts{Success: c.n, RT: c.n * rt}
				failed := rapid.Bool().Draw(t, "failed")
				if failed {
					counts[Exception] = c.n
				}
				model.add(clock, counts, rt)
				m.Complete(clock, c.stripe, c.n, rt, failed)
			},
			"block": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				n := count.Draw(t, "n")
				model.add(clock, Counts{Block: n}, -1)
				m.Add(clock, Block, n)
			},
			"grow": func(t *rapid.T) { m.grow(math.MaxInt64, 1) },
			"trim": func(t *rapid.T) {
				trimmed = max(trimmed, clock+step.Draw(t, "now"))
				m.Trim(trimmed)
			},
			"": func(t *rapid.T) {
				now := max(trimmed, clock+step.Draw(t, "now"))
				sum, minRT := model.window(now)
				require.Equal(t, sum, m.Window(now), "window at %d", now)
				require.EqualValues(t, minRT, m.MinRT(now))
				if peak := model.peak(now); m.numStripes() == 1 {
					require.Equal(t, peak, m.MaxConcurrency(now))
				} else {
					require.LessOrEqual(t, m.MaxConcurrency(now), peak)
					require.GreaterOrEqual(t, m.MaxConcurrency(now), m.Concurrency())
				}
				var avg time.Duration
				if sum[Success] > 0 {
					avg = time.Duration(sum[RT] / sum[Success])
				}
				require.Equal(t, avg, m.AvgRT(now))
				total := model.total()
				require.Equal(t, total, m.Totals())
				for e := range uint8(NumEvents) {
					require.Equal(t, sum[e], m.Sum(now, e), "%v at %d", e, now)
					require.Equal(t, float64(sum[e])/time.Duration(model.interval).Seconds(), m.QPS(now, e), "%v at %d", e, now)
					require.Equal(t, total[e], m.Total(e))
				}
				if model.opened {
					require.Equal(t, model.newest+length, m.LastBucket())
				}
			},
		})
	})
}
