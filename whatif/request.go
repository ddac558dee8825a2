package whatif

import (
	"iter"
	"time"
)

// Request is one request of a log.
type Request struct {
	At       time.Time     // when it arrived
	Resource string        // what it asked for, as rules name it: "GET /orders/{id}"
	Key      string        // of whom, as limits per key count: an address, a tenant
	Duration time.Duration // how long it took; 0 if the log does not tell
	Status   int           // of its response; 0 if the log does not tell
	Cost     int64         // how much of a limit it takes; 0 means 1
	Refused  bool          // whether it was refused then, as all with status 429 were: it is demand all the same
}

// Source yields the requests of a log in the order of their arrival, and at last an error if
// not all could be read. It yields the same each time it is called, since some questions need
// more than one pass.
type Source = iter.Seq2[Request, error]
