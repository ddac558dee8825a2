package rulefile

import "time"

// Status is what a [Watcher] is doing. It is a plain value.
type Status struct {
	// Path is Config.Path.
	Path string

	// Files are the files that the active rules were read from, in the order of their
	// names. It is empty if no rules were loaded yet.
	Files []string
	// FlowRules and IsolationRules are how many rules are active.
	FlowRules, IsolationRules int
	// Since is when the active rules were given to the gate; zero if none were yet.
	Since time.Time
	// Loads is how often rules were given to the gate and taken by it. A path that is read
	// and holds what it held is not loaded again.
	Loads int64

	// Err is why the active rules are not what the path holds now: [Errors], if files are
	// missing or no good, or if the gate refused the rules. Nil if all is well.
	Err error
	// ErrSince is when Err was found first; zero without Err.
	ErrSince time.Time
}
