package system

import "math"

const (
	above   = 1.5 // of what is in flight at the best rate, the limit begins with
	floor   = 3   // below one of so many parts of that it does not fall
	fall    = 0.9 // of the limit, at most, with each sample
	rise    = 1.05
	oneMore = 0.25 // so that a limit of three rises as well
)

// finder finds how many calls may be in flight. The zero finder is not at it.
type finder struct {
	at, least float64
}

func (f *finder) active() bool { return f.at > 0 }

// begin begins with what is in flight at a rate with a response time.
func (f *finder) begin(rate, rt float64, most int64) {
	f.at = min(max(1, math.Ceil(above*rate*rt)), float64(most))
	f.least = max(1, f.at/floor)
}

// sample moves the limit when there is a new sample.
func (f *finder) sample(e excess, refused bool, most int64) {
	switch {
	case e.ratio > 0 && e.falls:
		f.at = max(f.least, f.at*max(fall, 1/e.ratio))
	case e.ratio == 0 && refused:
		f.at = min(f.at*rise+oneMore, float64(most))
	}
}

// limit is how many calls may be in flight.
func (f *finder) limit() int64 { return int64(math.Ceil(f.at)) }
