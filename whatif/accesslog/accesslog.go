// Package accesslog reads the access logs of common web servers and proxies.
//
// A limit counts requests when they arrive. Most servers write a line when a request ends, so the arrival is the
// time of the line minus the duration, if the line has both.
package accesslog

import (
	"errors"
	"time"
)

// Record is one line of a log. Its byte slices may refer to the line and are valid until the next line is parsed.
type Record struct {
	// At is the time of arrival, in nanoseconds since 1970.
	At int64
	// Stamp is the time in the line. At is computed from it.
	Stamp int64
	// Duration is negative if the line has no duration.
	Duration time.Duration
	// Method and Path come from the request line. Path has no query. Both are empty if the client did not send HTTP.
	Method, Path []byte
	// Client is the address of the client without a port. It is empty if the line has none.
	Client []byte
	// Resource and Key are set by logs that contain them, such as the decision log of package leaphttp.
	Resource, Key []byte
	// Status is the status of the response, or 0 if there was none.
	Status int
	// Refused reports whether the proxy itself blocked the request because of a limit.
	Refused bool
	// Cost is the number of units that the request consumes of a limit, or 0 if the line has no cost.
	Cost int64
	// Dropped is the number of lines that the writer of the log lost before this one. Such a line has no request:
	// Parse returns [ErrNoRequest].
	Dropped int

	columns          columns
	stamped, started bool          // Stamp is set; it is the time of arrival
	parts            time.Duration // the sum of the parts of a duration, negative if one is unknown
	hasParts         bool
}

// Column returns the value of a column, and reports whether the line has it. The name is a field of the
// format, such as "http_user_agent", or a path such as "request.host" in JSON.
func (r *Record) Column(name string) (value []byte, ok bool) { return r.columns.column(name) }

type columns interface {
	column(name string) ([]byte, bool)
}

// Format parses the lines of one kind of log. It must not be used by multiple goroutines at once.
type Format interface {
	// Name returns the name of the format, such as "combined".
	Name() string
	// Parse parses a line without its line break. The error is a [Fault], or [ErrNoRequest] for a valid line that
	// is not about a request.
	Parse(line []byte, r *Record) error
	// Note returns a sentence about the precision of arrival times in the lines parsed so far, or an empty string.
	Note() string
}

// Fault is the part of a line that cannot be read.
type Fault string

// Error returns a message such as "no status that can be read".
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
	NoStatus   Fault = "status"
	NoCost     Fault = "cost"
	NoField    Fault = "field"
	NoJSON     Fault = "JSON object"
	TooLong    Fault = "length"
)

// ErrNoRequest is returned for a valid line that is not about a request, such as another message of the same program.
var ErrNoRequest = errors.New("not about a request")
