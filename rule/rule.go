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

// Everything is what the Resource of a rule reads that matches by [Default].
const Everything = "*"

// Head points to the fields that rules of every kind have.
type Head struct {
	ID       *string
	Resource *string // the name of the resource, or the pattern that names must match
	Match    *Match
	Mode     *Mode
	Source   *string // where the rule is kept: a rule file, or nothing if the program made it
}

// Target is what a rule without an ID is called after: its Resource, or [Everything] if it
// matches by [Default].
func (h Head) Target() string {
	if *h.Match == Default {
		return Everything
	}
	return *h.Resource
}
