package system

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/resource"
)

const (
	classes = 4  // criticalities
	cohorts = 32 // of each
	levels  = classes * cohorts

	// every is how often it is worked out anew what to refuse.
	every = 100 * time.Millisecond
	// remembers is the time in which half of what was seen is forgotten.
	remembers = 500 * time.Millisecond
	// holdsFor is how many times calls above the cut must all have found places, until one
	// fewer is held for them.
	holdsFor = 10
)

// rank orders the criticalities: 0 is the last to be refused.
func rank(c resource.Criticality) int {
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

// levelOf is the level of a call: its criticality, and in that its cohort. 0 is the last to be
// refused. The cohort is a hash (FNV-1a) of the hour and the origin, the same in every process
// whose clock shows the same.
func levelOf(by resource.Caller, now int64) int {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for hour := uint64(now / int64(time.Hour)); hour > 0; hour >>= 8 {
		h = (h ^ uint32(hour&0xff)) * prime
	}
	for i := range len(by.Origin) {
		h = (h ^ uint32(by.Origin[i])) * prime
	}
	return rank(by.Criticality)*cohorts + int(h>>16^h)&(cohorts-1)
}

// cut is what to refuse: all levels beyond one, and of that all but a share.
type cut struct {
	level int    // levels: nobody
	share uint64 // of the calls at the level that are admitted, in parts of whole
	// guarded is up to where nothing matters more: the criticality of level, or level if
	// there are no calls of others above it.
	guarded int
}

// whole is a share of 1.
const whole = 1 << 32

var uncut = cut{level: levels, guarded: levels}

// offers is what calls there were of late, by level.
type offers struct {
	calls  [levels]atomic.Int64 // since the last cut
	unmet  [last]atomic.Int64   // of them, those of the first and next tier that found no place
	stride atomic.Uint64        // in parts of whole
	// refused are all that were refused since the rule was made.
	refused atomic.Int64

	// What is below is guarded by the state's lock.
	mark    int64 // refused at the last cut
	recent  [levels]float64
	met     float64 // of recent
	held    [last]hold
	lastCut int64
}

// admits reports whether a call of a level is above a cut. At its very level it takes part
// in the sharing out, unless it only looks.
func (o *offers) admits(c cut, level int, looks bool) bool {
	if level != c.level {
		return level < c.level
	}
	if looks {
		sum := o.stride.Load()
		return (sum+c.share)/whole != sum/whole
	}
	sum := o.stride.Add(c.share)
	return sum/whole != (sum-c.share)/whole
}

// turn works out the next cut, at now, and how many places are held for those above it.
// free is how many there are, of most.
func (o *offers) turn(now, free, most int64) (c cut, holds [last]int64) {
	forget := math.Exp2(-float64(now-o.lastCut) / float64(remembers))
	refused := o.refused.Load()
	var came, recent float64
	for i := range o.calls {
		n := float64(o.calls[i].Swap(0))
		came += n
		o.recent[i] = o.recent[i]*forget + n
		recent += o.recent[i]
	}
	o.met = o.met*forget + min(came, max(0, came-float64(refused-o.mark))+float64(max(0, free)))
	o.mark, o.lastCut = refused, now
	c = o.cut(recent)
	can := min(most/3, int64(math.Sqrt(float64(most))))
	if class := c.level / cohorts * cohorts; class < levels && recent-sum(o.recent[class:class+cohorts]) < 1 {
		can = min(can, most/10) // only cohorts differ
	}
	for t := range o.held {
		o.held[t].turn(o.unmet[t].Swap(0), can)
		if c == uncut {
			o.held[t] = hold{}
		}
		holds[t] = o.held[t].places
	}
	return c, holds
}

// cut is where those that are served end, when they are served by level.
func (o *offers) cut(recent float64) cut {
	left := o.met
	if left >= recent*(1-1e-9) { // they were added up in another order
		return uncut
	}
	for level, n := range o.recent {
		if left < n {
			guarded := level / cohorts * cohorts
			if o.met == left+sum(o.recent[guarded:level]) {
				guarded = level
			}
			return cut{level, uint64(left / n * whole), guarded}
		}
		left -= n
	}
	return uncut
}

// tier is how a call stands to a cut.
type tier uint8

const (
	first tier = iota // nothing matters more: it is of a criticality above that at the boundary
	next              // it is above the cut
	last              // it is beyond the cut
)

// hold is how many places are held for calls of a tier.
type hold struct {
	places int64
	enough int // how many times in a row all calls found a place
}

// turn moves the number of places: up when calls found none, and slowly down when all did. A place that is
// held is mostly free, and so many go up and down by chance: there are at most so many.
func (h *hold) turn(unmet, most int64) {
	switch {
	case unmet > 0:
		h.places, h.enough = h.places+max(1, h.places/4), 0
	default:
		if h.enough++; h.enough >= holdsFor {
			h.places, h.enough = max(0, h.places-max(1, h.places/8)), 0
		}
	}
	h.places = min(h.places, most)
}

func sum(of []float64) (total float64) {
	for _, v := range of {
		total += v
	}
	return total
}
