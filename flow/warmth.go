package flow

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/leaparray"
)

// warmth is how warm a resource is, after Guava's SmoothWarmingUp: a store of
// permits that is full when the resource is cold. Every step brings its own worth
// of them, up to the most, and takes those that were admitted; above the
// warning the threshold falls from full to its cold part.
//
// Permits are counted in seconds' worth, so that the threshold may change and the
// warmth stays. A ring of one bucket remembers them, with the admissions as they
// stood when it opened: so it does not matter when anybody looks.
//
// A step is a second, or the window of the rule if that is longer: what a long
// window admits may all come in its first second, and the others are not idle then. A
// strict rule counts a bucket more than its interval has: that is its window here.
type warmth struct {
	ring      *leaparray.LeapArray[fill]
	threshold atomic.Uint64 // of the call that opens a step, in the rule's window; the bits of a float64
	admitted  func() int64

	window, step  time.Duration
	paced         bool
	cold          float64 // the factor
	period        time.Duration
	warning, most float64
}

// fill is what is stored at the beginning of a step.
type fill struct {
	stored   float64
	admitted int64 // until then
}

// newWarmth makes the warmth of a rule that is cold, and whose admissions admitted
// counts.
func newWarmth(r *Rule, admitted func() int64) *warmth {
	period, window := r.WarmUpPeriod.Seconds(), windowOf(r)
	w := &warmth{
		admitted: admitted, cold: r.ColdFactor, period: r.WarmUpPeriod,
		window: window, step: max(time.Second, window), paced: r.Behavior == Pace,
	}
	w.warning = period / (r.ColdFactor - 1)
	w.most = w.warning + 2*period/(1+r.ColdFactor)
	ring, err := leaparray.New(1, w.step, w.open)
	if err != nil {
		panic(err) // one bucket divides everything
	}
	w.ring = ring
	return w
}

// windowOf is the shortest time in which the threshold can be admitted again and again.
func windowOf(r *Rule) time.Duration {
	if r.Strict {
		return r.Interval + r.Interval/time.Duration(r.Buckets)
	}
	return r.Interval
}

func (w *warmth) fits(r *Rule) bool {
	return w.cold == r.ColdFactor && w.period == r.WarmUpPeriod && w.window == windowOf(r)
}

func (w *warmth) open(f *fill, start int64, prev *leaparray.WindowWrap[fill]) {
	if prev == nil {
		*f = fill{w.most, w.admitted()}
	} else {
		*f = w.after(prev, start, math.Float64frombits(w.threshold.Load()))
	}
}

// after is the fill at the beginning of a later step.
func (w *warmth) after(prev *leaparray.WindowWrap[fill], start int64, threshold float64) fill {
	f, admitted := *prev.Value(), w.admitted()
	n := float64(max(0, admitted-f.admitted)) // refunds may have come late
	if threshold == 0 {
		return fill{w.most, admitted}
	}
	step := w.step.Seconds()
	if f.stored < w.warning || n < w.coldUse(threshold) {
		f.stored = min(w.most, f.stored+step)
	}
	f.stored = max(0, f.stored-n/threshold*w.window.Seconds())
	// All that was admitted was in the step of prev; the others were idle.
	idle := float64(int64(clock.Until(prev.Start(), start))/int64(w.step) - 1)
	return fill{min(w.most, f.stored+idle*step), admitted}
}

// coldUse is what full use of the coldest threshold admits in a step, at least.
// That is less than its share of the threshold where only whole calls and whole
// windows count: a resource that does what it may must get warm.
func (w *warmth) coldUse(threshold float64) float64 {
	share := threshold / w.cold
	windows := float64(w.step) / float64(w.window)
	least := coldest(share, threshold)
	if w.paced {
		return min(share*windows, math.Floor(least*windows))
	}
	return min(share*windows, math.Floor(least)*math.Floor(windows))
}

// coldest is what holds of a threshold of which there is a part: it lets one call
// in, or the resource would never get warm.
func coldest(part, threshold float64) float64 { return max(part, min(1, threshold)) }

// turn opens the step of now. The threshold is that of the rule.
func (w *warmth) turn(now int64, threshold float64) {
	if !w.ring.Newest().Covers(now) {
		w.threshold.Store(math.Float64bits(threshold))
		w.ring.Current(now)
	}
}

// at is what part of the threshold holds at now, which may be in the future: then it is
// what it will be if nobody comes. The threshold is that of the rule.
func (w *warmth) at(now int64, threshold float64) float64 {
	newest := w.ring.Newest()
	switch {
	case newest == nil:
		return 1 / w.cold
	case newest.Covers(now) || now < newest.Start():
		return w.part(newest.Value().stored)
	default:
		step := int64(w.step)
		later := int64(clock.Until(newest.Start(), now)) / step * step
		return w.part(w.after(newest, newest.Start()+later, threshold).stored)
	}
}

// rises reports whether a larger part of the threshold holds in the step after that of now,
// and when that begins, if nobody comes. After a step without calls it does not.
func (w *warmth) rises(now int64, threshold float64) (at int64, ok bool) {
	newest := w.ring.Newest()
	if newest == nil || now > newest.Start() && !newest.Covers(now) {
		return 0, false
	}
	at = newest.Start() + int64(w.step)
	return at, w.at(at, threshold) > w.part(newest.Value().stored)
}

// longAgo is longer than any gate runs, and added to a time it does not overflow.
const longAgo = math.MaxInt64 / 8

// cools is how long after its last call a resource that is warm is cold again, at the latest.
func (w *warmth) cools() time.Duration {
	steps := math.Ceil(w.most/w.step.Seconds()) + 1
	return time.Duration(min(steps*float64(w.step), longAgo))
}

func (w *warmth) part(stored float64) float64 {
	if stored <= w.warning {
		return 1
	}
	return 1 / (1 + (w.cold-1)*(stored-w.warning)/(w.most-w.warning))
}
