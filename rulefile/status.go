package rulefile

import "time"

// Status is what a [Watcher] is doing: what is active, and what is wrong with the path. It is
// a plain value.
type Status struct {
	// Path is Config.Path.
	Path string

	// Files are the files that the active rules were read from, in the order of their
	// names. It is empty if no rules were loaded yet.
	Files []string
	// Rules is how many rules of each kind are active, by the name of the kind, such as "flow".
	// A kind of which there are none is not in it.
	Rules map[string]int
	// Limits is of how many keyed limiters the files say something.
	Limits int
	// Since is when the active rules were given to the gate; zero if none were yet.
	Since time.Time
	// Loads is how often rules were given to the gate and taken by it. A path that is read
	// and holds what it held is not loaded again.
	Loads int64
	// LosesComments is whether the file has comments that Save could not keep: whoever saves
	// should be warned. It is false if there are several files, which Save refuses.
	LosesComments bool

	// Err is why the active rules are not what the path holds now: [Errors], with the
	// line of each fault, if files are missing or no good, or if the gate refused the
	// rules. Nil if all is well.
	Err error
	// ErrSince is since when there has been an Err: since the first one, if others came
	// after it. Zero without Err.
	ErrSince time.Time
}
