package rule

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrFault is what every fault of a rule is: errors.Is(err, rule.ErrFault).
var ErrFault = errors.New("leapgate: bad rule")

// Code says what sort of fault it is, for programs.
type Code string

// The codes.
const (
	Invalid    Code = "invalid"     // a value that the field cannot hold
	Missing    Code = "missing"     // nothing, where this field or another one must hold something
	Unused     Code = "unused"      // a field that would do nothing, because of what another one holds
	Duplicate  Code = "duplicate"   // the ID of another rule; see Fault.Other
	BadPattern Code = "bad-pattern" // a pattern that cannot be compiled, or is too large
)

// Fault is one thing that is wrong with one rule of a list: which rule, which field, what
// it holds, and what would be right.
type Fault struct {
	Kind     string // of the rule: "flow"
	Index    int    // of the rule in the list, from 0
	ID       string // as given, so perhaps empty
	Resource string // as given
	Field    string // its name in Go: "MaxWait"
	Value    any    // what it holds
	Code     Code
	Other    int    // with Duplicate, the index of the rule that has the ID
	Want     string // what would be right: "0 to 24h with Behavior Pace"

	// The same in the words of rule files and of the API.
	FileField string // "maxWait"
	FileWant  string // "0 to 24h with behavior pace"
}

// Error reads: flow rule 3 ("orders-qps" on "GET /orders"): Threshold is NaN;
// want a finite number of at least 0.
func (f *Fault) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s rule %d", f.Kind, f.Index)
	switch {
	case f.ID != "" && f.Resource != "":
		fmt.Fprintf(&text, " (%q on %q)", clip(f.ID), clip(f.Resource))
	case f.Resource != "":
		fmt.Fprintf(&text, " (on %q)", clip(f.Resource))
	case f.ID != "":
		fmt.Fprintf(&text, " (%q)", clip(f.ID))
	}
	value := f.Value
	if s, ok := value.(string); ok {
		value = fmt.Sprintf("%q", clip(s))
	}
	fmt.Fprintf(&text, ": %s is %v; want %s", f.Field, value, f.Want)
	return text.String()
}

// Unwrap returns [ErrFault].
func (f *Fault) Unwrap() error { return ErrFault }

// clip shortens what may be of any length, for a message.
func clip(s string) string {
	end := 64
	if len(s) <= end {
		return s
	}
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// Faults is everything that is wrong with a list of rules, in order, one to a line.
// errors.As finds the first [Fault] in it.
type Faults []*Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults one by one.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, fault := range f {
		errs[i] = fault
	}
	return errs
}
