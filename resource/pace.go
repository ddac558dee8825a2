package resource

import (
	"time"

	"go.uber.org/atomic"
)

// pace bounds the part of one processor that some work takes, to one in paceShare, as GCRA
// does: due is when all that was done would have been done at that pace. Work may begin
// while due is no further ahead than paceBurst. The zero value is ready for use.
type pace struct {
	due  atomic.Int64
	last atomic.Int64 // how long the work took last, as an estimate of the next
}

const (
	paceShare = 4
	paceBurst = 400 * time.Millisecond

	// What takes longer was held up, or the clock has jumped.
	paceLongest = 100 * time.Millisecond
	// due is not further ahead unless the clock has gone back.
	paceFurthest = paceBurst + 16*paceShare*paceLongest
)

// begin reports whether work may begin at now. Then end must be called with the estimate.
func (p *pace) begin(now int64) (estimate int64, ok bool) {
	estimate = p.last.Load()
	for {
		due := p.due.Load()
		ahead := due - now
		if ahead < 0 || ahead > int64(paceFurthest) {
			ahead = 0
		}
		if ahead > int64(paceBurst) {
			return 0, false
		}
		if p.due.CompareAndSwap(due, now+ahead+paceShare*estimate) {
			return estimate, true
		}
	}
}

// end notes how long the work has taken.
func (p *pace) end(estimate, took int64) {
	took = min(max(0, took), int64(paceLongest))
	p.last.Store(took)
	p.due.Add(paceShare * (took - estimate))
}
