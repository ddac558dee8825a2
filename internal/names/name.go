package names

import (
	"fmt"
	"slices"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/rule"
)

// Other is the name of the resource that serves the names beyond the bound on resources.
const Other = "other"

// Check returns what is wrong with a name, if anything: callerror.ErrName.
func Check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty; want 1 to %d bytes", callerror.ErrName, rule.MaxNameLength)
	case len(name) > rule.MaxNameLength:
		return fmt.Errorf("%w: %.32q… has %d bytes; want 1 to %d", callerror.ErrName, name, len(name), rule.MaxNameLength)
	}
	return nil
}

// Set is a set of names, such as those of the resources for which other rules were loaded.
type Set struct {
	Names    []string          // these, whether they are known or not
	Matching func(string) bool // and, if not nil, all known ones that match
}

// And returns the names of both sets.
func (s Set) And(t Set) Set {
	if len(s.Names) == 0 && s.Matching == nil {
		return t // as it mostly is, and may be long
	}
	both := Set{Names: slices.Concat(s.Names, t.Names), Matching: s.Matching}
	switch {
	case both.Matching == nil:
		both.Matching = t.Matching
	case t.Matching != nil:
		both.Matching = func(name string) bool { return s.Matching(name) || t.Matching(name) }
	}
	return both
}
