package system

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/quota"
	"github.com/leapgate-go/leapgate/resource"
)

// A rule that blocks calls keeps room for the more critical ones.
//
// Of MaxInFlight, it keeps a few permits free for each rank. Their number grows when calls of that rank were
// blocked, and shrinks slowly when none was.
//
// Of MaxQPS, it admits a call only if the more critical calls of the next second would still fit, provided that
// they keep coming at the rate of late. Without that, the first callers of a bucket would take all the room that
// the oldest bucket of the window leaves behind.

const (
	ranks   = 4  // one for each criticality; 0 is the most critical
	buckets = 10 // of the window of MaxQPS

	// every is the interval at which the rule reads its signals and decides what to keep: one bucket of the window.
	every = time.Second / buckets
	// halfLife is the age at which calls count half in the measured demand.
	halfLife = time.Second
	// spread is the number of standard deviations by which more calls than expected still fit. A quarter is added to
	// the expected number: the measured demand is least certain when few calls come.
	spread = 2
	// negligible is the expected number of calls below which no room is kept: half a minute after the last call.
	negligible = 1e-9
	// calmTurns is the number of turns without a blocked call after which fewer permits are kept.
	calmTurns = 10
)

// rankOf orders the criticalities. Calls of rank 0 are the last to be blocked.
func rankOf(c resource.Criticality) int {
	switch c {
	case resource.Critical:
		return 0
	case resource.Sheddable:
		return 2
	case resource.Background:
		return 3
	default:
		return 1
	}
}

// demand counts the calls of each rank while the rule blocks calls.
type demand struct {
	calls   [ranks]atomic.Int64 // since the last turn
	unmet   [ranks]atomic.Int64 // calls that found no permit since the last turn
	blocked atomic.Int64        // since the rule was created

	// The fields below are guarded by the state's lock.
	turned int64          // time of the last turn
	came   int64          // start of the last bucket in which calls arrived
	recent [ranks]float64 // decayed sum of calls
	weight float64        // decayed number of buckets in which they arrived
	kept   [ranks]kept
}

// reset forgets what was measured. Measuring starts again at now.
func (d *demand) reset(now int64) {
	d.turned, d.came, d.recent, d.weight, d.kept = now, now, [ranks]float64{}, 0, [ranks]kept{}
	for i := range d.calls {
		d.calls[i].Store(0)
		d.unmet[i].Store(0)
	}
}

// turn adds the calls since the last turn to the measured demand. All of them arrived in the bucket of that turn.
// After a second without calls, everything is forgotten, also if somebody read figures meanwhile, which turns, too.
func (d *demand) turn(now int64) {
	var calls [ranks]float64
	for i := range d.calls {
		if calls[i] = float64(d.calls[i].Swap(0)); calls[i] > 0 {
			d.came = d.turned
		}
	}
	passed := now - d.turned
	decay, latest := math.Exp2(-float64(passed)/float64(halfLife)), 1.0
	if now-d.came >= second {
		decay, latest = 0, 0
	}
	d.turned = now
	d.weight = d.weight*decay + float64(passed)/float64(every)
	for i := range d.recent {
		d.recent[i] = d.recent[i]*decay + latest*calls[i]
	}
}

// permits sets how many of the permits are kept from calls of each rank.
func (d *demand) permits(limit int64, leaves *[ranks]int64) {
	most := min(limit/3, int64(math.Sqrt(float64(limit))))
	sum := int64(0)
	for i := range d.kept {
		leaves[i] = sum
		sum += d.kept[i].turn(d.unmet[i].Swap(0) > 0, most)
	}
}

// windows sets how much of MaxQPS calls of each rank may use, including what is used at now. The more critical
// calls that arrive after now come on top.
func (d *demand) windows(now, limit int64, q *quota.Quota, admits *[ranks]int64) {
	for i := range admits {
		admits[i] = limit
	}
	used := q.Window(now)
	for k := range int64(buckets) {
		free := limit - q.Window(now+k*int64(every))
		expected := 0.0 // more critical calls until the end of the bucket
		for i := range admits {
			room := float64(free)
			if expected > negligible {
				room -= expected + spread*math.Sqrt(expected+0.25)
			}
			admits[i] = min(admits[i], used+int64(math.Floor(room)))
			if d.weight > 0 {
				expected += d.recent[i] / d.weight * float64(k+1)
			}
		}
	}
}

// kept is the number of permits kept for calls of a rank.
type kept struct {
	permits int64
	calm    int // turns in a row in which no call of the rank was blocked
}

func (k *kept) turn(unmet bool, most int64) int64 {
	switch {
	case unmet:
		k.permits, k.calm = k.permits+max(1, k.permits/4), 0
	case k.calm < calmTurns-1:
		k.calm++
	default:
		k.permits, k.calm = max(0, k.permits-max(1, k.permits/8)), 0
	}
	k.permits = min(k.permits, most)
	return k.permits
}
