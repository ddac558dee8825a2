package field

import "github.com/leapgate-go/leapgate/rule"

// Everything is what the Resource of a rule reads that matches by [rule.Default] or [rule.All].
const Everything = "*"

// Head points to the fields that rules of every kind have.
type Head struct {
	ID       *string
	Resource *string // the name of the resource, or the pattern that names must match
	Match    *rule.Match
	Mode     *rule.Mode
	Source   *string // where the rule is kept: a rule file, or nothing if the program made it
}

// Target is what a rule without an ID is called after: its Resource, or [Everything] if it
// matches by [rule.Default].
func (h Head) Target() string {
	if *h.Match == rule.Default || *h.Match == rule.All {
		return Everything
	}
	return *h.Resource
}
