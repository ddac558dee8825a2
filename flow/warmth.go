package flow

import (
	"time"

	uber "go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/leaparray"
)

// warmth is how warm a resource is, after Guava's SmoothWarmingUp: a store of
// permits that is full when the resource is cold. Every second brings a second's
// worth of them, up to the most, and takes those that were admitted; above the
// warning the threshold falls from full to its cold part.
//
// Permits are counted in seconds' worth, so that the threshold may change and the
// warmth stays. A ring of one bucket remembers them, with the admissions as they
// stood when it opened: so it does not matter when anybody looks.
type warmth struct {
	ring      *leaparray.LeapArray[fill]
	perSecond uber.Float64 // the threshold of the rule, for a second
	admitted  func() int64

	cold          float64 // the factor
	period        time.Duration
	warning, most float64
}

// fill is what is stored at the beginning of a second.
type fill struct {
	stored   float64
	admitted int64 // until then
}

// newWarmth makes the warmth of a rule that is cold, and whose admissions admitted
// counts.
func newWarmth(r *Rule, admitted func() int64) *warmth {
	period := r.WarmUpPeriod.Seconds()
	w := &warmth{admitted: admitted, cold: r.ColdFactor, period: r.WarmUpPeriod}
	w.warning = period / (r.ColdFactor - 1)
	w.most = w.warning + 2*period/(1+r.ColdFactor)
	ring, err := leaparray.New(1, time.Second, w.open)
	if err != nil {
		panic(err) // it is a constant
	}
	w.ring = ring
	return w
}

func (w *warmth) fits(r *Rule) bool { return w.cold == r.ColdFactor && w.period == r.WarmUpPeriod }

func (w *warmth) open(start int64, prev *leaparray.WindowWrap[fill]) *fill {
	if prev == nil {
		return &fill{w.most, w.admitted()}
	}
	f := w.after(prev, start)
	return &f
}

// after is the fill at the beginning of a later second.
func (w *warmth) after(prev *leaparray.WindowWrap[fill], start int64) fill {
	f, perSecond := *prev.Value(), w.perSecond.Load()
	admitted := w.admitted()
	n := float64(max(0, admitted-f.admitted)) // refunds may have come late
	if perSecond == 0 {
		return fill{w.most, admitted}
	}
	if f.stored < w.warning || n < perSecond/w.cold {
		f.stored = min(w.most, f.stored+1)
	}
	f.stored = max(0, f.stored-n/perSecond)
	// All that was admitted was in the second of prev; the others were idle.
	idle := float64((start-prev.Start())/int64(time.Second) - 1)
	return fill{min(w.most, f.stored+idle), admitted}
}

// turn opens the second of now.
func (w *warmth) turn(now int64) {
	if !w.ring.Newest().Covers(now) {
		w.ring.Current(now)
	}
}

// at is what part of the threshold holds at now, which may be in the future: then it is
// what it will be if nobody comes.
func (w *warmth) at(now int64) float64 {
	newest := w.ring.Newest()
	switch {
	case newest == nil:
		return 1 / w.cold
	case newest.Covers(now) || now < newest.Start():
		return w.part(newest.Value().stored)
	default:
		const second = int64(time.Second)
		later := (now - newest.Start()) / second * second
		return w.part(w.after(newest, newest.Start()+later).stored)
	}
}

func (w *warmth) part(stored float64) float64 {
	if stored <= w.warning {
		return 1
	}
	return 1 / (1 + (w.cold-1)*(stored-w.warning)/(w.most-w.warning))
}
