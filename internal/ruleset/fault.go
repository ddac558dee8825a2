package ruleset

import (
	"fmt"

	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// MaxIDLength is the length, in bytes, of the longest ID: there is room for the
// longest name and "/1".
const MaxIDLength = resource.MaxNameLength + 16

// everything is what the Resource of a rule reads that matches by default.
const everything = "*"

// Fault is one thing that is wrong with one rule.
type Fault = resource.RuleError

// Faults is everything that is wrong with a list of rules.
type Faults = resource.RuleErrors

// Report collects what is wrong with the rules of a list.
type Report struct {
	kind, id, resource string
	index              int
	faults             Faults
}

// at tells which rule the next faults are in.
func (r *Report) at(index int, id, resource string) {
	r.index, r.id, r.resource = index, id, resource
}

// Fault notes that a field of the rule at hand holds value, and what would be
// right.
func (r *Report) Fault(field string, value any, want string) {
	r.faults = append(r.faults, &Fault{
		Kind: r.kind, Index: r.index, ID: r.id, Resource: r.resource,
		Field: field, Value: value, Want: want,
	})
}

// Target completes and checks what the rules of all guards have in common: the ID,
// and which resources the rule binds.
func (r *Report) Target(id string, name *string, match resource.Match) {
	if len(id) > MaxIDLength {
		r.Fault("ID", id, fmt.Sprintf("at most %d bytes", MaxIDLength))
	}
	switch {
	case match > resource.Default:
		r.Fault("Match", uint8(match), "Exact (0), Glob (1), Regexp (2) or Default (3)")
	case match == resource.Default:
		if *name == "" {
			*name = everything
		}
		if *name != everything {
			r.Fault("Resource", *name, `"*" or nothing with Match Default`)
		}
	case resource.CheckName(*name) != nil:
		r.Fault("Resource", *name, fmt.Sprintf("a name of 1 to %d bytes", resource.MaxNameLength))
	case match != resource.Exact:
		if _, err := match.Compile(*name); err != nil {
			r.Fault("Resource", *name, fmt.Sprintf("a good %v: %v", match, err))
		}
	}
}

// Mode checks the mode of a rule.
func (r *Report) Mode(mode stat.Mode) {
	if mode > stat.Off {
		r.Fault("Mode", uint8(mode), "Enforce (0), Shadow (1) or Off (2)")
	}
}
