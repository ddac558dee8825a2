package rulefile

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/leapgate-go/leapgate/internal/document"
)

// Parse reads the rules of one file. name is what errors call it, and it says what it
// holds: a name that ends in .json means JSON; under any other, JSON and YAML are told
// apart by how they look. Data without rules, such as nil, is an error, unless it says that
// none are meant: see the package comment.
//
// The error, if any, is [Errors] with everything that is wrong, and there are no rules
// then. The rules have been validated as loading them would.
func Parse(name string, data []byte) (Rules, error) {
	var d draft
	d.add(name, data)
	return d.finish()
}

// draft is rules that are being read, from one file or several, with where everything
// stands.
type draft struct {
	rules     Rules
	flow      []place // of rules.Flow
	isolation []place // of rules.Isolation
	errs      Errors
	untold    int // errors beyond those that are told
}

// place is where a rule stands.
type place struct {
	file         string
	line, column int
	fields       map[string]*document.Node // the values, by the name in Go
	// faulty are the fields, by their name in Go, that have an error already. What
	// depends on them is not to be judged.
	faulty map[string]bool
}

// fault notes that a field has an error.
func (p *place) fault(goName string) {
	if p.faulty == nil {
		p.faulty = make(map[string]bool)
	}
	p.faulty[goName] = true
}

func (d *draft) add(name string, data []byte) {
	root, fault := document.Parse(data, strings.EqualFold(filepath.Ext(name), ".json"))
	if fault != nil {
		d.fail(name, fault.Line, fault.Column, "", "%s", fault.Message)
		return
	}
	if root == nil || root.Kind == document.Null {
		d.fail(name, 0, 0, "", "the file is empty; %s", wantNone)
		return
	}
	d.readRoot(name, root)
}

// wantNone says how a file says that it has no rules. One that only happens to have none was
// emptied, or cut off, by accident, as a rule.
const wantNone = "want rules, or flow: [] if none are meant"

// full reports whether what is read from here on need not be told: it comes after more errors
// than are told at once. It is to be asked before the text of an error is made.
func (d *draft) full() bool { return len(d.errs) >= mostErrors }

// faults is how many faults there are so far, told or not.
func (d *draft) faults() int { return len(d.errs) + d.untold }

func (d *draft) fail(file string, line, column int, field, format string, args ...any) {
	if d.full() {
		d.untold++
		return
	}
	d.errs = append(d.errs, &Error{File: file, Line: line, Column: column, Field: field, Message: fmt.Sprintf(format, args...)})
}

// failValue tells of a field that holds a wrong value, or none.
func (d *draft) failValue(file string, at *document.Node, field string, label func() string, value, want string) {
	if d.full() {
		d.untold++
		return
	}
	d.errs = append(d.errs, &Error{
		File: file, Line: at.Line, Column: at.Column, Field: field, Value: value, Want: want,
		Message: label() + ": " + verdict(field, value, want),
	})
}

// verdict says what is wrong with a field.
func verdict(field, value, want string) string {
	if value == "" {
		return fmt.Sprintf("%s is missing; want %s", field, want)
	}
	return fmt.Sprintf("%s is %s; want %s", field, value, want)
}

var topFields = []string{"flow", "isolation"}

func (d *draft) readRoot(file string, root *document.Node) {
	switch {
	case root.Kind == document.List && len(root.Items) == 0:
		return // no rules, on purpose
	case root.Kind != document.Mapping:
		hint := ""
		if looksLikeSentinel(root) {
			hint = "; these look like the rules of Sentinel, which leapgate convert translates"
		}
		d.fail(file, root.Line, root.Column, "", "%v; want a mapping with flow and isolation%s", root.Kind, hint)
		return
	}
	before, faults := d.rules.Len(), d.faults()
	none := false // whether the file says that it has no rules
	var rules *document.Field
	seen := map[string]int{}
	for i := range root.Fields {
		f := &root.Fields[i]
		if line, twice := seen[f.Key]; twice {
			if d.full() {
				d.untold++
				continue
			}
			d.fail(file, f.Line, f.Column, f.Key, "%s is there twice, first in line %d", short(f.Key), line)
			continue
		}
		seen[f.Key] = f.Line
		switch f.Key {
		case "flow":
			none = readList(d, file, "flow", f, flowFields, &d.rules.Flow, &d.flow) || none
		case "isolation":
			none = readList(d, file, "isolation", f, isolationFields, &d.rules.Isolation, &d.isolation) || none
		case "rules":
			if f.Value.Kind == document.Text && f.Value.Text == "none" {
				none, rules = true, f
				continue
			}
			d.fail(file, f.Line, f.Column, f.Key, "rules is %s; want none, or the rules in lists that are called flow and isolation", described(f.Value))
		default:
			if d.full() {
				d.untold++
				continue
			}
			hint := ""
			if near := nearest(f.Key, topFields, topSynonyms); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			d.fail(file, f.Line, f.Column, f.Key, "unknown field %s; want flow or isolation%s", quoted(f.Key), hint)
		}
	}
	switch {
	case d.rules.Len() > before && rules != nil:
		d.fail(file, rules.Line, rules.Column, rules.Key, "rules is none, and the file has some; want that line left out")
	case d.rules.Len() == before && !none && d.faults() == faults:
		d.fail(file, root.Line, root.Column, "", "the file has no rules; %s", wantNone)
	}
}

// readList reads the rules of one guard, and reports whether it is a list without any.
func readList[R comparable](d *draft, file, guard string, f *document.Field, fields *schema[R], rules *[]R, places *[]place) (none bool) {
	list := f.Value
	switch {
	case list.Kind == document.List:
	case list.Kind == document.Null && list.Text != "":
		return false // as programs write a list that they do not have
	case list.Kind == document.Null: // all rules were taken out, or the rest of the file is missing
		d.fail(file, f.Line, f.Column, guard, "%s is empty; want a list of rules, or [] if none are meant", guard)
		return false
	default:
		d.fail(file, list.Line, list.Column, guard, "%s is %v; want a list of rules", guard, list.Kind)
		return false
	}
	for _, item := range list.Items {
		if item.Kind != document.Mapping {
			if d.full() {
				d.untold++
				continue
			}
			d.fail(file, item.Line, item.Column, guard, "%s in the list of %s rules; want a rule: a mapping with resource and %s",
				described(item), guard, fields.required())
			continue
		}
		rule, at := readRule(d, file, guard, item, fields)
		*rules = append(*rules, rule)
		*places = append(*places, at)
	}
	return len(list.Items) == 0
}

func readRule[R comparable](d *draft, file, guard string, item *document.Node, fields *schema[R]) (R, place) {
	var rule R
	at := place{file: file, line: item.Line, column: item.Column, fields: make(map[string]*document.Node, min(len(item.Fields), len(fields.fields)))}
	// Few rules have errors. One that has very many is looked through for its name once.
	label := sync.OnceValue(func() string { return labelOf(guard, item) })
	fail := func(line, column int, field, message string) {
		d.fail(file, line, column, field, "%s: %s", label(), message)
	}
	seen := make(map[string]int, min(len(item.Fields), len(fields.fields)))
	for i := range item.Fields {
		f := &item.Fields[i]
		line, twice := seen[f.Key]
		field := fields.known[f.Key]
		switch {
		case twice && d.full(), field == nil && d.full():
			d.untold++
			continue
		case twice:
			fail(f.Line, f.Column, f.Key, fmt.Sprintf("%s is there twice, first in line %d", short(f.Key), line))
			continue
		}
		seen[f.Key] = f.Line
		if field == nil {
			message, near := unknown(f.Key, fields.names)
			if near != "" {
				at.fault(fields.known[near].GoName) // it is there, under another name
			}
			fail(f.Line, f.Column, f.Key, message)
			continue
		}
		at.fields[field.GoName] = f.Value
		if f.Value.Kind == document.Null {
			at.fault(field.GoName)
			fail(f.Value.Line, f.Value.Column, f.Key, f.Key+" is empty; want a value, or the line left out")
			continue
		}
		if want := field.Read(&rule, scalarOf(f.Value)); want != "" {
			at.fault(field.GoName)
			d.failValue(file, f.Value, f.Key, label, described(f.Value), want)
		}
	}
	for _, f := range fields.fields {
		if _, there := at.fields[f.GoName]; f.Required != "" && !there && !at.faulty[f.GoName] {
			at.fault(f.GoName)
			d.failValue(file, item, f.Name, label, "", f.Required)
		}
	}
	return rule, at
}

// labelOf names a rule: flow rule "orders-qps", flow rule on "GET /orders".
func labelOf(guard string, item *document.Node) string {
	for _, by := range []struct{ key, form string }{{"id", "%s rule %s"}, {"resource", "%s rule on %s"}} {
		for _, f := range item.Fields {
			if f.Key == by.key && f.Value.Kind == document.Text && f.Value.Text != "" {
				return fmt.Sprintf(by.form, guard, quoted(f.Value.Text))
			}
		}
	}
	return guard + " rule"
}

// described is a value as errors show it.
func described(n *document.Node) string {
	switch n.Kind {
	case document.Text:
		return quoted(n.Text)
	case document.Bool, document.Number:
		return short(n.Text)
	default:
		return n.Kind.String()
	}
}
