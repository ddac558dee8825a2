// Package accesslog reads the access logs of common web servers and proxies, a line at a time.
//
// What counts for a limit is when a request arrived. Most servers write a line when a request
// ends, so its arrival is that time less how long it took, if the line has both.
package accesslog

import "time"

// Record is what one line says of a request. Its texts are part of the line, and good until the
// next line is read.
type Record struct {
	// At is when the request arrived, in nanoseconds since 1970.
	At int64
	// Stamp is the time that stands in the line, from which At was found: how exact it is shows how
	// exact times are. 0 stands for At.
	Stamp int64
	// Duration is how long it took; negative if the line does not say.
	Duration time.Duration
	// Method and Path are of the request; Path has no query. Both are empty if what the
	// client sent was nothing like HTTP.
	Method, Path []byte
	// Client is the address that the request came from, without a port; empty if the line
	// does not say.
	Client []byte
	// Resource and Key are those of the request if the log has them, as that of package leaphttp
	// does; empty otherwise.
	Resource, Key []byte
	// Status is the answer's, 0 if there was none.
	Status int
	// Refused reports that the proxy itself refused the request then, because of a limit.
	Refused bool
	// Cost is how much of a limit the request takes; 0 if the line does not say.
	Cost int64
	// Dropped is how many lines could not be written before this one, which is about nothing else:
	// the error is [ErrNoRequest].
	Dropped int

	columns columns
}

// Column returns another part of the line by the name that the format has for it, and reports
// whether there is one: "user_agent", or in JSON a path such as "request.host".
func (r *Record) Column(name string) (value []byte, ok bool) { return r.columns.column(name) }

type columns interface {
	column(name string) ([]byte, bool)
}

// Format is a way to write a request in a line. A Format keeps what it needs for a line, so
// it must not be used by two goroutines at once; [Format.Clone] makes another.
type Format interface {
	// Name is what the format is called: "combined".
	Name() string
	// Parse reads a line without its end. The error is a [Fault], or [ErrNoRequest] for a good
	// line that is about something else.
	Parse(line []byte, r *Record) error
	// Note is what a reader should know about how the time of arrival was found; empty if there is
	// nothing.
	Note() string
	// Clone returns another Format like it.
	Clone() Format
}

// Fault is what is wrong with a line: the part of it that cannot be read.
type Fault string

// Error reads: no status that can be read.
func (f Fault) Error() string {
	switch f {
	case NoField:
		return "a field that is missing or cannot be read"
	case TooLong:
		return "a length of more than 1 MiB"
	default:
		return "no " + string(f) + " that can be read"
	}
}

// The faults of a line.
const (
	NoTime     Fault = "time"
	NoDuration Fault = "duration"
	NoRequest  Fault = "request"
	NoStatus   Fault = "status"
	NoCost     Fault = "cost"
	NoField    Fault = "field"
	NoJSON     Fault = "JSON object"
	TooLong    Fault = "length"
)

// ErrNoRequest is the error for a good line that is about something else than a request, such as
// another message of the same program.
var ErrNoRequest = noRequest{}

type noRequest struct{}

func (noRequest) Error() string { return "not about a request" }
