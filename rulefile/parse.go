package rulefile

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// Parse reads the rules of one file: as it says them, without defaults filled in, and with empty
// Sources. Of the limits of keyed limiters it only finds out what is wrong; see [ParseFile]. name is what errors call it, and it says what it holds: a name that ends in .json
// means JSON; under any other, JSON and YAML are told apart by how they look. Data without
// rules, such as nil, is an error, unless it says that none are meant: see the package comment.
//
// The error, if any, is [Errors] with everything that is wrong, and there are no rules
// then. The rules have been validated as loading them would.
func Parse(name string, data []byte) (leapgate.Rules, error) {
	f, err := ParseFile(name, data)
	return f.Rules, err
}

// parser reads rules and limits, from one file or several, and keeps where everything stands.
type parser struct {
	program   *program // that they are for; nil if it is not known
	rules     kinds.Rules
	positions [][]position // of the rules of each kind, in the order of allKinds
	limits    []*readLimit
	errs      Errors
	untold    int // errors beyond those that are told
}

func newParser() *parser { return &parser{positions: make([][]position, len(allKinds))} }

// position is where a rule stands.
type position struct {
	file         string
	line, column int
	fields       map[string]*document.Node // the values, by the name in Go
	// faulty are the fields, by their name in Go, that have an error already. What
	// depends on them is not to be judged.
	faulty map[string]bool
}

// fault notes that a field has an error.
func (at *position) fault(goName string) {
	if at.faulty == nil {
		at.faulty = make(map[string]bool)
	}
	at.faulty[goName] = true
}

func (p *parser) add(name string, data []byte) {
	root, fault := document.Parse(data, isJSON(name))
	if fault != nil {
		p.fail(name, fault.Line, fault.Column, "", "%s", fault.Message)
		return
	}
	if root == nil || root.Type == document.Null {
		p.fail(name, 0, 0, "", "the file is empty; %s", wantNone())
		return
	}
	p.readRoot(name, root)
}

func isJSON(name string) bool { return strings.EqualFold(filepath.Ext(name), ".json") }

// finish validates what was read, all together, and returns it, or all errors.
func (p *parser) finish() (File, error) {
	for _, k := range allKinds {
		p.validate(k)
	}
	if p.program != nil {
		p.validateProgram(p.program)
	}
	if len(p.errs) == 0 {
		f := File{Rules: leapgate.Rules(p.rules)}
		for _, l := range p.limits {
			if f.Limits == nil {
				f.Limits = make(map[string]Limit, len(p.limits))
			}
			f.Limits[l.name] = l.Limit
		}
		return f, nil
	}
	// Files are read in the order of their names, and named in full.
	slices.SortStableFunc(p.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return File{}, p.errs.orNil(p.untold)
}

// wantNone says how a file says that it has no rules. One that only happens to have none was
// emptied, or cut off, by accident, as a rule.
func wantNone() string {
	return fmt.Sprintf("want rules, or %s: [] if none are meant", allKinds[0].Name())
}

// faults is how many faults there are so far, told or not.
func (p *parser) faults() int { return len(p.errs) + p.untold }

// note keeps an error, whose text is not made if it would not be told.
func (p *parser) note(made func() *Error) {
	if len(p.errs) >= maxErrors {
		p.untold++
		return
	}
	p.errs = append(p.errs, made())
}

func (p *parser) fail(file string, line, column int, field, format string, args ...any) {
	p.note(func() *Error {
		return &Error{File: file, Line: line, Column: column, Field: field, Message: fmt.Sprintf(format, args...)}
	})
}

// failValue reports a field that holds a wrong value, or none.
func (p *parser) failValue(file string, at *document.Node, field string, label func() string, value, want string) {
	p.note(func() *Error {
		return &Error{
			File: file, Line: at.Line, Column: at.Column, Field: field,
			Message: label() + ": " + wrongValue(field, value, want),
		}
	})
}

// wrongValue says what is wrong with a field.
func wrongValue(field, value, want string) string {
	if value == "" {
		return fmt.Sprintf("%s is missing; want %s", field, want)
	}
	return fmt.Sprintf("%s is %s; want %s", field, value, want)
}

func (p *parser) readRoot(file string, root *document.Node) {
	switch {
	case root.Type == document.List && len(root.Items) == 0:
		return // no rules, on purpose
	case root.Type != document.Mapping:
		hint := ""
		if looksLikeSentinel(root) {
			hint = "; these look like the rules of Sentinel, which leapgate convert translates"
		}
		p.fail(file, root.Line, root.Column, "", "%v; want a mapping with %s%s", root.Type, kindNames("and"), hint)
		return
	}
	before, faults := leapgate.Rules(p.rules).Len(), p.faults()
	limits := len(p.limits)
	none := false // whether the file says that it has no rules
	seen := map[string]int{}
	for i := range root.Fields {
		f := &root.Fields[i]
		if line, twice := seen[f.Key]; twice {
			p.fail(file, f.Line, f.Column, f.Key, "%s is there twice, first in line %d", escape.Short(f.Key), line)
			continue
		}
		seen[f.Key] = f.Line
		k := kindNamed(f.Key)
		switch {
		case k != nil:
			none = p.readList(file, k, f) || none
		case f.Key == limitsKey:
			none = p.readLimits(file, f) || none
		default:
			hint := ""
			if near := nearestKind(f.Key); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			p.fail(file, f.Line, f.Column, f.Key, "unknown field %s; want %s%s", escape.Quoted(f.Key), kindNames("or"), hint)
		}
	}
	if leapgate.Rules(p.rules).Len() == before && len(p.limits) == limits && !none && p.faults() == faults {
		p.fail(file, root.Line, root.Column, "", "the file has no rules; %s", wantNone())
	}
}

// looksLikeSentinel reports whether a list has a rule with a field that only Sentinel's rules
// have. Package sentinel knows them all; these are in nearly every list.
func looksLikeSentinel(root *document.Node) bool {
	return slices.ContainsFunc(root.Items, func(item *document.Node) bool {
		return slices.ContainsFunc(item.Fields, func(f document.Field) bool {
			return slices.Contains([]string{"count", "grade", "controlBehavior", "metricType"}, f.Key)
		})
	})
}

// readList reads the rules of a kind, and reports whether it is a list without any.
func (p *parser) readList(file string, k *kind, f *document.Field) (none bool) {
	list, name := f.Value, k.Name()
	switch {
	case list.Type == document.List:
	case list.Type == document.Null && list.Text != "":
		return false // as programs write a list that they do not have
	case list.Type == document.Null: // all rules were taken out, or the rest of the file is missing
		p.fail(file, f.Line, f.Column, name, "%s is empty; want a list of rules, or [] if none are meant", name)
		return false
	default:
		p.fail(file, list.Line, list.Column, name, "%s is %v; want a list of rules", name, list.Type)
		return false
	}
	for _, item := range list.Items {
		if item.Type != document.Mapping {
			p.fail(file, item.Line, item.Column, name, "%v in the list of %s rules; want a rule: a mapping with resource and %s",
				item, name, k.required())
			continue
		}
		p.positions[k.index] = append(p.positions[k.index], p.readRule(file, k, item))
	}
	return len(list.Items) == 0
}
