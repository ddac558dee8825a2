package rulefile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/rule"

	"github.com/leapgate-go/leapgate/internal/escape"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
)

// finish validates the rules that were read, all together, and gives them, or all errors.
func (d *draft) finish() (Rules, error) {
	judge(d, d.rules.Flow, flowFields, d.flow)
	judge(d, d.rules.Isolation, isolationFields, d.isolation)
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
func judge[R comparable](d *draft, rules []R, fields *schema[R], places []place) {
	told := 0
	for _, fault := range fields.kind.Validate(rules) {
		if told == mostErrors { // in the order of the rules, so no later one is told
			d.untold++
			continue
		}
		at, f := &places[fault.Index], fields.known[fault.FileField]
		faulty := func(goName string) bool { return at.faulty[goName] }
		if faulty(fault.Field) || slices.ContainsFunc(f.With, faulty) {
			continue // it may be a consequence
		}
		told++
		e := &Error{File: at.file, Line: at.line, Column: at.column, Field: f.Name, Err: fault}
		e.describe(fault, at, places)
		if p, there := at.fields[fault.Field]; there {
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
func faultsOf(err error) (faults []*rule.Fault, all bool) {
	if fault, ok := err.(*rule.Fault); ok { //nolint:errorlint // what wraps it has more to say
		return []*rule.Fault{fault}, true
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
func (d *draft) placeOf(fault *rule.Fault) *place {
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

func labelOfFault(fault *rule.Fault) string {
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
func (e *Error) describe(fault *rule.Fault, at *place, places []place) {
	label := labelOfFault(fault) + ": "
	p, there := at.fields[fault.Field]
	if there {
		e.Value = described(p)
	}
	e.Want = escape.Text(fault.FileWant)
	switch {
	case fault.Code == rule.Duplicate:
		e.Value, e.Want = quoted(fmt.Sprint(fault.Value)), "another"
		e.Message = label + sameID(e.Value, at, &places[fault.Other])
	case fault.Code == rule.Unused && there:
		_, users, _ := strings.Cut(e.Want, ", ")
		e.Message = fmt.Sprintf("%s%s is %s; leave it out, %s", label, e.Field, e.Value, users)
	default:
		e.Message = label + verdict(e.Field, e.Value, e.Want)
	}
}

// sameID tells of two rules with one ID.
func sameID(id string, at, other *place) string {
	where := fmt.Sprintf("in line %d", other.line)
	if other.file != at.file {
		where = fmt.Sprintf("at %s:%d", escape.Text(other.file), other.line)
	}
	if _, there := at.fields["ID"]; !there {
		return fmt.Sprintf("it gets the id %s, which the rule %s has; want an id", id, where)
	}
	if _, has := other.fields["ID"]; !has {
		return fmt.Sprintf("id is %s, which the rule %s gets, for it has none; want another", id, where)
	}
	return fmt.Sprintf("id is %s, as that of the rule %s; want another", id, where)
}
