package rulefile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
)

// finish validates the rules that were read, all together, and gives them, or all errors.
func (d *draft) finish() (Rules, error) {
	judge(d, flow.Validate(d.rules.Flow), flowFields, d.flow)
	judge(d, isolation.Validate(d.rules.Isolation), isolationFields, d.isolation)
	if len(d.errs) == 0 {
		return d.rules, nil
	}
	// Files are read in the order of their names, and named in full.
	slices.SortStableFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return Rules{}, d.errs.orNil(d.untold)
}

// judge gives the faults of rules the places in the files.
func judge[R any](d *draft, err error, fields *schema[R], places []place) {
	var faults resource.RuleErrors
	if !errors.As(err, &faults) {
		if err != nil { // it never is, but must not get lost
			d.errs = append(d.errs, &Error{Message: escape.Text(err.Error()), Err: err})
		}
		return
	}
	told := 0
	for _, fault := range faults {
		if told == mostErrors { // in the order of the rules, so no later one is told
			d.untold++
			continue
		}
		told++
		if fault.Index < 0 || fault.Index >= len(places) {
			d.errs = append(d.errs, &Error{Message: escape.Text(fault.Error()), Err: fault})
			continue
		}
		at := &places[fault.Index]
		i := slices.IndexFunc(fields.fields, func(f field[R]) bool { return f.goName == fault.Field })
		e := &Error{File: at.file, Line: at.line, Column: at.column, Field: fault.Field, Err: fault}
		if i < 0 {
			e.Message = escape.Text(fault.Error())
			d.errs = append(d.errs, e)
			continue
		}
		f := fields.fields[i]
		if at.faulty[f.goName] || slices.ContainsFunc(f.with, func(other string) bool { return at.faulty[other] }) {
			told-- // it may be a consequence
			continue
		}
		e.Field = f.name
		e.describe(fault, at, places)
		if p, there := at.fields[f.goName]; there {
			e.Line, e.Column = p.Line, p.Column
		}
		d.errs = append(d.errs, e)
	}
}

// refused returns why a gate refused good rules: it has others beside them. What it says about a rule
// that has an ID gets the place of that rule.
func (d *draft) refused(path string, refusal error) Errors {
	const because = "the gate refused the rules: "
	faults, all := faultsOf(refusal)
	if !all {
		return Errors{&Error{File: path, Message: because + oneLine(refusal), Err: refusal}}
	}
	errs := make(Errors, 0, min(len(faults), mostErrors))
	for _, fault := range faults[:min(len(faults), mostErrors)] {
		e := &Error{File: path, Message: because + oneLine(fault), Err: fault}
		if at := d.placeOf(fault); at != nil {
			e.File, e.Line, e.Column = at.file, at.line, at.column
		}
		errs = append(errs, e)
	}
	return errs
}

// faultsOf returns the faults of rules that an error consists of, and whether it has nothing else
// to say.
func faultsOf(err error) (faults []*resource.RuleError, all bool) {
	if fault, ok := err.(*resource.RuleError); ok { //nolint:errorlint // what wraps it has more to say
		return []*resource.RuleError{fault}, true
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, false
	}
	for _, err := range several.Unwrap() {
		some, all := faultsOf(err)
		if !all {
			return nil, false
		}
		faults = append(faults, some...)
	}
	return faults, len(faults) > 0
}

// placeOf returns where the rule of a fault stands, or nil if that cannot be told.
func (d *draft) placeOf(fault *resource.RuleError) *place {
	if fault.ID == "" {
		return nil
	}
	switch fault.Kind {
	case "flow":
		if i := slices.IndexFunc(d.rules.Flow, func(r flow.Rule) bool { return r.ID == fault.ID }); i >= 0 {
			return &d.flow[i]
		}
	case "isolation":
		if i := slices.IndexFunc(d.rules.Isolation, func(r isolation.Rule) bool { return r.ID == fault.ID }); i >= 0 {
			return &d.isolation[i]
		}
	}
	return nil
}

func labelOfFault(fault *resource.RuleError) string {
	switch {
	case fault.ID != "":
		return fmt.Sprintf("%s rule %s", fault.Kind, quoted(fault.ID))
	case fault.Resource != "":
		return fmt.Sprintf("%s rule on %s", fault.Kind, quoted(fault.Resource))
	default:
		return fault.Kind + " rule"
	}
}

// describe says what is wrong, in the words of rule files.
func (e *Error) describe(fault *resource.RuleError, at *place, places []place) {
	label := labelOfFault(fault) + ": "
	if text := sameID(fault, at, places); text != "" {
		e.Value, e.Want = quoted(fmt.Sprint(fault.Value)), "another"
		e.Message = label + text
		return
	}
	p, there := at.fields[fault.Field]
	if there {
		e.Value = described(p)
	}
	if _, users, unused := strings.Cut(fault.Want, ", since it is for "); unused && there {
		users = inFile(users)
		e.Want = "nothing, it is for " + users
		e.Message = fmt.Sprintf("%s%s is %s; leave it out, it is for %s", label, e.Field, e.Value, users)
		return
	}
	e.Want = fault.Want
	if fault.Field != "Resource" || !strings.HasPrefix(fault.Want, "a good ") { // there it has the pattern in it
		e.Want = inFile(fault.Want)
	}
	e.Want = escape.Text(e.Want)
	e.Message = label + verdict(e.Field, e.Value, e.Want)
	if behavior := at.fields["Behavior"]; fault.Kind == "flow" && fault.Field == "MaxWait" && (behavior == nil || behavior.Text != "pace") {
		e.Message += "; is behavior: pace meant?"
	}
}

// sameID tells of two rules with one ID, if that is what is wrong.
func sameID(fault *resource.RuleError, at *place, places []place) string {
	if number, twice := strings.CutPrefix(fault.Want, "one that is not the ID of rule "); twice && fault.Field == "ID" {
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(places) {
			where := fmt.Sprintf("in line %d", places[i].line)
			if places[i].file != at.file {
				where = fmt.Sprintf("at %s:%d", escape.Text(places[i].file), places[i].line)
			}
			if _, there := at.fields["ID"]; !there {
				return fmt.Sprintf("it gets the id %v, which the rule %s has; want an id", quoted(fmt.Sprint(fault.Value)), where)
			}
			if _, has := places[i].fields["ID"]; !has {
				return fmt.Sprintf("id is %v, which the rule %s gets, for it has none; want another", quoted(fmt.Sprint(fault.Value)), where)
			}
			return fmt.Sprintf("id is %v, as that of the rule %s; want another", quoted(fmt.Sprint(fault.Value)), where)
		}
	}
	return ""
}

// inFile puts the words of Go into those of rule files.
func inFile(want string) string { return goWords.Replace(want) }

var goWords = strings.NewReplacer(
	"24h0m0s", "24h",
	"rules without Associated", "rules without associated",
	"with Associated", "with associated",
	"with Match Default", "with match default",
	"Strategy WarmUp", "strategy warm-up",
	"Strategy MemoryAdaptive", "strategy memory-adaptive",
	"Behavior Pace", "behavior pace",
	"LowMemory", "lowMemory",
	"Threshold", "threshold",
	"Candidate", "candidate",
	"Direct", "direct",
	"Reject", "reject",
)
