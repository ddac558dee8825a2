package resource

import (
	"time"

	"go.uber.org/atomic"
)

// cpuBudget bounds the part of one processor that some work takes, to one in cpuPart, as GCRA
// does: due is when all that was done would have been done within that part. Work may begin
// while due is no further ahead than cpuBurst. The zero value is ready for use.
type cpuBudget struct {
	due  atomic.Int64
	last atomic.Int64 // how long the work took last, as an estimate of the next
}

const (
	cpuPart  = 4
	cpuBurst = 400 * time.Millisecond

	// What takes longer was held up, or the clock has jumped.
	maxWork = 100 * time.Millisecond
	// due is not further ahead unless the clock has gone back.
	maxAhead = cpuBurst + 16*cpuPart*maxWork
)

// begin reports whether work may begin at now. Then end must be called with the estimate.
func (b *cpuBudget) begin(now int64) (estimate int64, ok bool) {
	estimate = b.last.Load()
	for {
		due := b.due.Load()
		ahead := due - now
		if ahead < 0 || ahead > int64(maxAhead) {
			ahead = 0
		}
		if ahead > int64(cpuBurst) {
			return 0, false
		}
		if b.due.CompareAndSwap(due, now+ahead+cpuPart*estimate) {
			return estimate, true
		}
	}
}

// end notes how long the work has taken.
func (b *cpuBudget) end(estimate, took int64) {
	took = min(max(0, took), int64(maxWork))
	b.last.Store(took)
	b.due.Add(cpuPart * (took - estimate))
}
