package flow

import (
	"math"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/metric"
)

// pacer gives calls their turns, one after the other with a gap between them: a
// leaky bucket used as a queue.
type pacer struct {
	last     atomic.Int64 // the latest turn that was given
	admitted metric.Counter
}

func newPacer() *pacer {
	p := new(pacer)
	p.last.Store(math.MinInt64 / 2) // long ago
	return p
}

// next is the first turn that is gap after all others.
func (p *pacer) next(gap int64) int64 { return p.last.Load() + gap }

// take takes the next turn, unless it is later than the longest wait.
func (p *pacer) take(now, gap, longest int64) (turn int64, ok bool) {
	for {
		last := p.last.Load()
		turn = max(now, last+gap)
		if turn-now > longest {
			return turn, false
		}
		if p.last.CompareAndSwap(last, turn) {
			return turn, true
		}
	}
}

// giveBack gives a turn back that comes gap after the one before, if nobody queues
// behind it; otherwise it is lost.
func (p *pacer) giveBack(turn, gap int64) { p.last.CompareAndSwap(turn, turn-gap) }
