package load

import (
	"sync/atomic"

	"github.com/leapgate-go/leapgate/stat"
)

// Signals are what is known of the load at one time.
type Signals = stat.Signals

// Signal is one of the [Signals].
type Signal = stat.Signal

// Known is a signal that has stood at v for long.
func Known(v float64) Signal { return Signal{Value: v, Raw: v, Known: true} }

// Given is a source of signals that the program sets: a test, or a program that measures its
// load in another way. That of the zero Given are unknown. It must not be copied.
type Given struct {
	last atomic.Pointer[Signals]
}

// Set is a sample. Its Seq is one more than that of the sample before, whatever s has.
func (g *Given) Set(s Signals) {
	for {
		last := g.last.Load()
		if s.Seq = 1; last != nil {
			s.Seq = last.Seq + 1
		}
		if g.last.CompareAndSwap(last, &s) {
			return
		}
	}
}

// Signals returns what was set last. It must not be changed.
func (g *Given) Signals() *Signals {
	if s := g.last.Load(); s != nil {
		return s
	}
	return &unknown
}

// unknown is what is known before the first sample, and when there are no more.
var unknown Signals
