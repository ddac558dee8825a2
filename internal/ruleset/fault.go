package ruleset

import (
	"fmt"

	"github.com/leapgate-go/leapgate/internal/escape"
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
	pattern            *resource.Pattern // of the rule, if it has one that is good
	size               int               // of the patterns so far
	faults             Faults
}

// maxPatternsSize is how large the patterns of a list may be together, in steps: enough for
// ten thousand of 50, and no more than 110 MB. A rule file of 4 MB could take gigabytes.
const maxPatternsSize = 500_000

// at tells which rule the next faults are in.
func (r *Report) at(index int, id, resource string) {
	r.index, r.id, r.resource, r.pattern = index, id, resource, nil
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
		r.Pattern(*name, match)
	case resource.CheckName(*name) != nil:
		r.Fault("Resource", *name, fmt.Sprintf("a name of 1 to %d bytes", resource.MaxNameLength))
	case match != resource.Exact:
		r.Pattern(*name, match)
	}
}

// Pattern compiles what a rule says about the resources that it binds, unless the patterns
// before have been too large together.
func (r *Report) Pattern(text string, match resource.Match) {
	if r.size > maxPatternsSize {
		return
	}
	pattern, err := match.Compile(text)
	if err != nil {
		r.Fault("Resource", text, fmt.Sprintf("a good %v: %s", match, escape.Text(err.Error())))
		return
	}
	if r.size += pattern.Size(); r.size > maxPatternsSize {
		r.Fault("Resource", text, fmt.Sprintf("fewer or smaller patterns: up to this one they have %d steps, and may have %d",
			r.size, maxPatternsSize))
		return
	}
	r.pattern = pattern
}

// Mode checks the mode of a rule.
func (r *Report) Mode(mode stat.Mode) {
	if mode > stat.Off {
		r.Fault("Mode", uint8(mode), "Enforce (0), Shadow (1) or Off (2)")
	}
}
