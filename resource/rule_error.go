package resource

import (
	"errors"
	"fmt"
	"strings"
)

// ErrRule is what every fault of a rule is: errors.Is(err, ErrRule).
var ErrRule = errors.New("leapgate: bad rule")

// RuleError is one thing that is wrong with one rule of a list.
type RuleError struct {
	Kind     string // the guard: "flow"
	Index    int    // of the rule in the list, from 0
	ID       string // as given, so perhaps empty
	Resource string // as given
	Field    string // the name of the field: "Threshold"
	Value    any    // what it holds
	Want     string // what would be right: "a finite number of at least 0"
}

// Error reads: flow rule 3 ("orders-qps" on "GET /orders"): Threshold is NaN;
// want a finite number of at least 0.
func (e *RuleError) Error() string {
	var rule strings.Builder
	fmt.Fprintf(&rule, "%s rule %d", e.Kind, e.Index)
	switch {
	case e.ID != "" && e.Resource != "":
		fmt.Fprintf(&rule, " (%q on %q)", clip(e.ID), clip(e.Resource))
	case e.Resource != "":
		fmt.Fprintf(&rule, " (on %q)", clip(e.Resource))
	case e.ID != "":
		fmt.Fprintf(&rule, " (%q)", clip(e.ID))
	}
	value := e.Value
	if s, ok := value.(string); ok {
		value = fmt.Sprintf("%q", clip(s))
	}
	return fmt.Sprintf("%s: %s is %v; want %s", rule.String(), e.Field, value, e.Want)
}

// Unwrap gives [ErrRule].
func (e *RuleError) Unwrap() error { return ErrRule }

// clip shortens what may be of any length, for a message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// RuleErrors is everything that is wrong with a list of rules, in order, one to a
// line. errors.As finds the first [RuleError] in it.
type RuleErrors []*RuleError

func (e RuleErrors) Error() string {
	lines := make([]string, len(e))
	for i, fault := range e {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults one by one.
func (e RuleErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, fault := range e {
		errs[i] = fault
	}
	return errs
}
