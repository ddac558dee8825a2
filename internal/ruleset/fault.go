package ruleset

import "github.com/leapgate-go/leapgate/resource"

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
