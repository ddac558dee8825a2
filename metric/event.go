package metric

import "github.com/leapgate-go/leapgate/internal/meter"

// Event is one kind of thing that is counted.
type Event uint8

// The events. A call with a count of n adds n to each event it causes, and n
// times its times to RT and Wait, so that averages stay per call. RT counts from the
// begin of a call: the caller saw it wait, and then take its response time.
const (
	Pass         Event = meter.Pass         // calls that were admitted
	Block        Event = meter.Block        // calls that were refused
	Exception    Event = meter.Exception    // completed calls that failed
	Success      Event = meter.Success      // completed calls, failed or not
	RT           Event = meter.RT           // sum of the response times of completed calls, in nanoseconds
	OccupiedPass Event = meter.OccupiedPass // admitted calls that borrowed from a later bucket
	WouldBlock   Event = meter.WouldBlock   // admitted calls that a rule in shadow mode would have refused
	Ignored      Event = meter.Ignored      // completed calls that say nothing about what was called, such as those that were given up
	Wait         Event = meter.Wait         // sum of the times that calls waited before they began or gave up, in nanoseconds
)

var eventNames = [meter.NumEvents]string{"pass", "block", "exception", "success", "rt", "occupied-pass", "would-block", "ignored", "wait"}

// String returns the event's name: "pass", "occupied-pass".
func (e Event) String() string {
	if e < meter.NumEvents {
		return eventNames[e]
	}
	return "unknown event"
}

// Counts holds one number per event: counts[metric.Pass].
type Counts [meter.NumEvents]int64

// Plus returns the sum of c and d, event by event.
func (c Counts) Plus(d Counts) Counts {
	for e := range c {
		c[e] += d[e]
	}
	return c
}

// Minus returns what c has more than d, event by event.
func (c Counts) Minus(d Counts) Counts {
	for e := range c {
		c[e] -= d[e]
	}
	return c
}

// Concurrency is the number of calls in flight: passes that did not complete.
func (c Counts) Concurrency() int64 { return c[Pass] - c[Success] }
