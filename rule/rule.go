// Package rule is what the rules of all kinds have in common: how a rule says which
// resources it binds ([Match]), what is done with its decisions ([Mode]), and what can be
// wrong with it ([Fault]).
//
// It knows nothing about time or calls. Each kind is a package of its own, such as flow.
package rule

// Bounds of names.
const (
	// MaxNameLength is the length, in bytes, of the longest name of a resource.
	MaxNameLength = 1024

	// MaxIDLength is the length, in bytes, of the longest ID of a rule: there is room for
	// the longest name and "/1".
	MaxIDLength = MaxNameLength + 16
)
