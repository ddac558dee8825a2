package metric

// Event is one kind of thing that is counted.
type Event uint8

// The events. A call with a count of n adds n to each event it causes, and n
// times its response time to RT, so that averages stay per call.
const (
	Pass         Event = iota // calls that were admitted
	Block                     // calls that were refused
	Exception                 // completed calls that failed
	Success                   // completed calls, failed or not
	RT                        // sum of the response times of completed calls, in nanoseconds
	OccupiedPass              // admitted calls that borrowed from a later bucket
	WouldBlock                // admitted calls that a rule in shadow mode would have refused
	Ignored                   // completed calls that say nothing about what was called, such as those that were given up

	numEvents
)

// striped is the number of events that every call causes, and that have a place in
// each stripe. The others are rare.
const striped = int(OccupiedPass)

var eventNames = [numEvents]string{"pass", "block", "exception", "success", "rt", "occupied-pass", "would-block", "ignored"}

// String is the event's name: "pass", "occupied-pass".
func (e Event) String() string {
	if e < numEvents {
		return eventNames[e]
	}
	return "unknown event"
}

// Counts holds one number per event: counts[metric.Pass].
type Counts [numEvents]int64

// Plus gives the sum of c and d, event by event.
func (c Counts) Plus(d Counts) Counts {
	for e := range c {
		c[e] += d[e]
	}
	return c
}

// Minus gives what c has more than d, event by event.
func (c Counts) Minus(d Counts) Counts {
	for e := range c {
		c[e] -= d[e]
	}
	return c
}

// Concurrency is the number of calls in flight: passes that did not complete.
func (c Counts) Concurrency() int64 { return c[Pass] - c[Success] }

// readOrder is the order in which totals are read, of all stripes, opposite to
// the order in which a call writes them: pass, RT, exception, success. What is
// read first was written last, so a success that is seen has been seen to pass.
//
// That success comes last is what keeps a call in flight until all of it is counted.
var readOrder = [striped]Event{Success, Exception, RT, Pass, Block}
