package rulefile

import (
	"fmt"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/rule"
)

// validate reports the faults of the rules of a kind, with where they stand in the files.
func (p *parser) validate(k *kind) {
	positions := p.positions[k.index]
	told := 0
	for _, fault := range k.Validate(&p.rules) {
		if told == maxErrors { // in the order of the rules, so no later one is told
			p.untold++
			continue
		}
		at, f := &positions[fault.Index], &k.fields[k.byName[fault.FileField]]
		faulty := func(goName string) bool { return at.faulty[goName] }
		if f.IsDue(fault.Code, faulty) {
			continue
		}
		told++
		e := &Error{File: at.file, Line: at.line, Column: at.column, Field: f.Name, Err: fault}
		e.describe(fault, at, positions)
		if value, there := at.fields[fault.Field]; there {
			e.Line, e.Column = value.Line, value.Column
		}
		p.errs = append(p.errs, e)
	}
}

// describe sets the message, in the words of rule files.
func (e *Error) describe(fault *rule.Fault, at *position, positions []position) {
	value := ""
	if node, there := at.fields[fault.Field]; there {
		value = node.String()
	}
	e.Message = labelOfFault(fault) + ": " + wrongValue(e.Field, value, escape.Text(fault.FileWant))
	if fault.Code == rule.Duplicate {
		other := &positions[fault.Other]
		where := fmt.Sprintf("in line %d", other.line)
		if other.file != at.file {
			where = fmt.Sprintf("at %s:%d", escape.Text(other.file), other.line)
		}
		// A rule without an id gets one when it is loaded.
		e.Message = fmt.Sprintf("%s: the rule %s has the same id; want another", labelOfFault(fault), where)
	}
}

func labelOfFault(fault *rule.Fault) string {
	switch {
	case fault.ID != "":
		return fmt.Sprintf("%s rule %s", fault.Kind, escape.Quoted(fault.ID))
	case fault.Resource != "":
		return fmt.Sprintf("%s rule on %s", fault.Kind, escape.Quoted(fault.Resource))
	default:
		return fault.Kind + " rule"
	}
}

// refused returns why a gate refused good rules: it has others beside them. What it says about a rule
// that has an ID gets the position of that rule.
func (p *parser) refused(path string, refusal error) Errors {
	const because = "the gate refused the rules: "
	faults, only := refusal.(rule.Faults) //nolint:errorlint // what wraps them has more to say
	if !only {
		return Errors{&Error{File: path, Message: because + oneLine(refusal), Err: refusal}}
	}
	errs := make(Errors, 0, min(len(faults), maxErrors))
	for _, fault := range faults[:cap(errs)] {
		e := &Error{File: path, Message: because + oneLine(fault), Err: fault}
		if at := p.positionOf(fault); at != nil {
			e.File, e.Line, e.Column = at.file, at.line, at.column
		}
		errs = append(errs, e)
	}
	return errs
}

// positionOf returns where the rule of a fault stands, or nil if that cannot be told.
func (p *parser) positionOf(fault *rule.Fault) *position {
	k := kindNamed(fault.Kind)
	if k == nil || fault.ID == "" {
		return nil
	}
	for i := range p.positions[k.index] {
		if *k.Head(&p.rules, i).ID == fault.ID {
			return &p.positions[k.index][i]
		}
	}
	return nil
}
