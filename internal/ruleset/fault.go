package ruleset

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with one rule.
type Fault struct {
	Kind     string // the guard: "flow"
	Index    int    // of the rule in the list that was loaded, from 0
	ID       string // as given, so perhaps empty
	Resource string // as given
	Field    string // the name of the field: "Threshold"
	Value    any    // what it holds
	Want     string // what would be right: "a finite number of at least 0"
}

// Error reads: flow rule 3 ("orders-qps" on "GET /orders"): Threshold is NaN;
// want a finite number of at least 0.
func (f *Fault) Error() string {
	var rule strings.Builder
	fmt.Fprintf(&rule, "%s rule %d", f.Kind, f.Index)
	switch {
	case f.ID != "" && f.Resource != "":
		fmt.Fprintf(&rule, " (%q on %q)", clip(f.ID), clip(f.Resource))
	case f.Resource != "":
		fmt.Fprintf(&rule, " (on %q)", clip(f.Resource))
	case f.ID != "":
		fmt.Fprintf(&rule, " (%q)", clip(f.ID))
	}
	value := f.Value
	if s, ok := value.(string); ok {
		value = fmt.Sprintf("%q", clip(s))
	}
	return fmt.Sprintf("%s: %s is %v; want %s", rule.String(), f.Field, value, f.Want)
}

// clip shortens what may be of any length, for a message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// Faults is everything that is wrong with a list of rules, in order. errors.As
// finds each [Fault] in it.
type Faults []*Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults one by one.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, fault := range f {
		errs[i] = fault
	}
	return errs
}

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
