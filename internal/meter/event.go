package meter

// The events, in words: package metric has their types and says what they mean.
const (
	Pass = iota
	Block
	Exception
	Success
	RT
	OccupiedPass
	WouldBlock
	Ignored
	Wait

	NumEvents
)

// striped is the number of events that every call causes, and that have a place in
// each stripe. The others are rare.
const striped = OccupiedPass

// Counts holds one number per event. It is a plain array, so that it is assignable to
// Counts of package metric.
type Counts = [NumEvents]int64

// readOrder is the order in which totals are read, of all stripes, opposite to
// the order in which a call writes them: pass, RT, exception, success. What is
// read first was written last, so a success that is seen has been seen to pass.
//
// That success comes last is what keeps a call in flight until all of it is counted.
var readOrder = [striped]int{Success, Exception, RT, Pass, Block}
