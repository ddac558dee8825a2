package flow

import (
	"math"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/internal/quota"
)

// decider decides by one threshold. A rule has one, and another for its candidate.
type decider struct {
	threshold atomic.Float64 // of a plain rule it changes when the rule does
	memory    *memory        // with MemoryAdaptive, if it can be known
	waits     bool           // calls wait for their turns, with Pace
	history   history
}

// memoryInUse reports how much memory is in use, in bytes, if that is known.
type memoryInUse interface {
	Used() (bytes int64, known bool)
}

// memory is how the threshold of a rule falls as memory grows scarce.
type memory struct {
	used      memoryInUse
	low, high int64   // bytes
	threshold float64 // from high on
}

// history is what a decider remembers.
type history struct {
	quota  *quota.Quota // with Reject
	pacer  *pacer       // with Pace
	warmth *warmth      // with WarmUp
}

// newDecider makes the decider of a complete rule, with what is left of the history that
// the rule had.
func newDecider(r *Rule, threshold float64, h history, used memoryInUse) decider {
	var d decider
	d.threshold.Store(threshold)
	if r.Strategy == MemoryAdaptive && used != nil {
		d.memory = &memory{used, r.LowMemory, r.HighMemory, r.HighMemoryThreshold}
	}
	switch {
	case r.Behavior == Pace && h.pacer == nil:
		h.pacer = newPacer()
	case r.Behavior == Reject && h.quota == nil:
		q, err := quota.New(r.Interval, r.Buckets, r.Strict)
		if err != nil {
			panic(err) // complete has let a rule through that it should not have
		}
		h.quota = q
	}
	if r.Strategy != WarmUp {
		h.warmth = nil
	} else if h.warmth == nil || !h.warmth.fits(r) {
		h.warmth = newWarmth(r, h.begun)
	}
	d.history = h
	return d
}

func whole(threshold float64) int64 {
	if threshold < quota.MaxLimit {
		return int64(threshold) // towards 0, which is down
	}
	return quota.MaxLimit
}

// admitted is how much was admitted, less what was given back.
func (h history) admitted() int64 {
	if h.pacer != nil {
		return h.pacer.admitted.Load()
	}
	return h.quota.Admitted()
}

// begun is how much of it has begun: calls in the queue have not.
func (h history) begun() int64 {
	if h.pacer != nil {
		return h.pacer.admitted.Load() - h.pacer.backlog.Load()
	}
	return h.quota.Admitted()
}

// at is the threshold that holds at now, which may be in the future.
func (d *decider) at(now int64) float64 {
	full := d.threshold.Load()
	switch {
	case d.history.warmth != nil:
		return coldest(full*d.history.warmth.at(now, full), full)
	case d.memory != nil:
		return d.byMemory(full)
	default:
		return full
	}
}

// byMemory is what holds of the full threshold while so much memory is in use as now.
func (d *decider) byMemory(full float64) float64 {
	used, known := d.memory.used.Used()
	low, high := d.memory.low, d.memory.high
	switch {
	case !known || used <= low:
		return full
	case used >= high:
		return d.memory.threshold
	default:
		part := float64(used-low) / float64(high-low)
		return full - part*(full-d.memory.threshold)
	}
}

type outcome struct {
	ok        bool
	ticket    int64         // if ok
	threshold float64       // that held
	observed  float64       // if not ok, or if the call has to wait
	wait      time.Duration // if ok, what the call has to wait; if not, what wait says
	turn      *turn         // if the call has to wait for its turn in a queue
}

func (d *decider) reserve(r *Rule, now, n int64, priority bool) outcome {
	threshold := d.threshold.Load()
	if r.Strategy != Direct {
		if d.history.warmth != nil {
			d.history.warmth.turn(now, threshold)
		}
		threshold = d.at(now)
	}
	if r.Behavior == Pace {
		return d.pace(r, now, n, threshold)
	}
	var o quota.Outcome
	if priority {
		o = d.history.quota.Borrow(now, n, whole(threshold), maxBorrowWait(r))
	} else {
		o = d.history.quota.Take(now, n, whole(threshold))
	}
	if !o.OK && r.Strategy != Direct { // the limit may be another by then
		o.Wait = d.wait(r, now, n)
	}
	return outcome{ok: o.OK, ticket: o.Ticket, threshold: threshold, observed: float64(o.Held + n), wait: o.Wait}
}

// maxBorrowWait is how long a call with priority may wait for room.
func maxBorrowWait(r *Rule) time.Duration {
	if r.MaxWait > 0 {
		return r.MaxWait
	}
	return min(priorityWait, r.Interval)
}

func (d *decider) pace(r *Rule, now, n int64, threshold float64) outcome {
	gap, ok := d.gap(r, n, threshold)
	if !ok {
		return outcome{threshold: threshold, observed: float64(n), wait: quota.Unknown}
	}
	at, turn, ok := d.history.pacer.take(now, n, gap, int64(r.MaxWait), d.waits)
	o := outcome{ok: ok, ticket: at, threshold: threshold, wait: clock.Until(now, at), turn: turn}
	// The rate at which the queue would have to move to be as short as it may be.
	faster := float64(int64(o.wait)+gap) / float64(int64(r.MaxWait)+gap)
	o.observed = min(threshold*faster, math.MaxFloat64)
	if ok {
		d.history.pacer.admitted.Add(n)
	} else {
		o.wait = d.wait(r, now, n)
	}
	return o
}

// load lets the calls that wait for their turns do so at the pace of the rule. With MemoryAdaptive they keep their
// turns: reading the memory may run the program's code, and rules are loaded under a lock.
func (d *decider) load(r *Rule, now int64) {
	if d.history.pacer == nil {
		return
	}
	if d.memory != nil {
		d.history.pacer.load(now, math.Inf(1), nil)
		return
	}
	var spacing func(now int64) float64
	if d.history.warmth != nil {
		spacing = func(now int64) float64 {
			d.history.warmth.turn(now, d.threshold.Load())
			return float64(r.Interval) / d.at(now)
		}
	}
	d.history.pacer.load(now, float64(r.Interval)/d.at(now), spacing)
}

// gap is how far n calls must be from those before, which is never if n is more than
// the threshold of the rule.
func (d *decider) gap(r *Rule, n int64, threshold float64) (gap int64, ok bool) {
	const maxGap = math.MaxInt64 / 8
	ns := math.Ceil(float64(n) * float64(r.Interval) / threshold)
	if float64(n) > d.threshold.Load() || !(ns < maxGap) {
		return 0, false
	}
	return int64(ns), true
}

// longestGap is how far a call of a rule that paces may have to be from the one before, when
// the threshold is lowest.
func (r *Rule) longestGap() time.Duration {
	switch longest := float64(r.Interval); r.Strategy {
	case WarmUp:
		return time.Duration(min(longest*r.ColdFactor, longAgo))
	case MemoryAdaptive: // which may fall to 0, and no gap is long enough then
		return time.Duration(min(longest*max(r.Threshold, r.Candidate)/r.HighMemoryThreshold, float64(MaxInterval)))
	default:
		return r.Interval
	}
}

func (d *decider) refund(r *Rule, ticket, n int64) {
	if r.Behavior == Reject {
		d.history.quota.Refund(ticket, n)
		return
	}
	// The gap at the full threshold is the shortest: with it, what is given back
	// is never too much.
	gap, _ := d.gap(r, n, d.threshold.Load())
	d.history.pacer.giveBack(ticket, gap)
	d.history.pacer.admitted.Add(-n)
}

// wait returns how long after now n more would be admitted if nobody else came,
// [quota.Unknown] if that is never or cannot be told.
func (d *decider) wait(r *Rule, now, n int64) time.Duration {
	if r.Strategy == Direct && r.Behavior == Reject {
		return d.history.quota.Wait(now, n, whole(d.threshold.Load()))
	}
	// The threshold changes with time, and so does what is to be waited for.
	const enough = 16
	t := now
	for range enough {
		more := d.waitAt(r, t, n, d.at(t))
		if d.history.warmth != nil {
			// It rises once at most: if nobody comes, it only falls from then on.
			rise, rises := d.history.warmth.rises(t, d.threshold.Load())
			if rises && (more < 0 || more > clock.Until(t, rise)) {
				t = rise
				continue
			}
		}
		switch {
		case more < 0:
			return quota.Unknown
		case more == 0:
			return time.Duration(t - now)
		}
		t += int64(more)
	}
	return quota.Unknown
}

// waitAt is wait if the threshold were to stand.
func (d *decider) waitAt(r *Rule, now, n int64, threshold float64) time.Duration {
	if r.Behavior == Reject {
		return d.history.quota.Wait(now, n, whole(threshold))
	}
	gap, ok := d.gap(r, n, threshold)
	if !ok {
		return quota.Unknown
	}
	return max(0, clock.Until(now, d.history.pacer.next(gap))-r.MaxWait)
}
