package rulefile

import (
	"fmt"
	"sync"

	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/escape"
)

// readRule reads one rule of a kind, and returns where it stands.
func (p *parser) readRule(file string, k *kind, item *document.Node) position {
	index := k.Add(&p.rules)
	most := min(len(item.Fields), len(k.fields))
	at := position{file: file, line: item.Line, column: item.Column, fields: make(map[string]*document.Node, most)}
	// Few rules have errors. One that has very many is looked through for its name once.
	label := sync.OnceValue(func() string { return labelOf(k.Name(), item) })
	fail := func(line, column int, field, message string) {
		p.fail(file, line, column, field, "%s: %s", label(), message)
	}
	seen := make(map[string]int, most)
	for i := range item.Fields {
		f := &item.Fields[i]
		line, twice := seen[f.Key]
		which, known := k.byName[f.Key]
		if twice {
			fail(f.Line, f.Column, f.Key, fmt.Sprintf("%s is there twice, first in line %d", escape.Short(f.Key), line))
			continue
		}
		seen[f.Key] = f.Line
		if !known {
			message, near := k.unknown(f.Key)
			if near != "" {
				at.fault(k.fields[k.byName[near]].GoName) // it is there, under another name
			}
			fail(f.Line, f.Column, f.Key, message)
			continue
		}
		goName := k.fields[which].GoName
		at.fields[goName] = f.Value
		if f.Value.Type == document.Null {
			at.fault(goName)
			fail(f.Value.Line, f.Value.Column, f.Key, f.Key+" is empty; want a value, or the line left out")
			continue
		}
		if want := k.Read(&p.rules, index, which, f.Value.Scalar()); want != "" {
			at.fault(goName)
			p.failValue(file, f.Value, f.Key, label, f.Value.String(), want)
		}
	}
	for i := range k.fields {
		f := &k.fields[i]
		if _, there := at.fields[f.GoName]; f.Required != "" && !there && !at.faulty[f.GoName] {
			at.fault(f.GoName)
			p.failValue(file, item, f.Name, label, "", f.Required)
		}
	}
	return at
}

// labelOf names a rule: flow rule "orders-qps", flow rule on "GET /orders".
func labelOf(kind string, item *document.Node) string {
	for _, by := range []struct{ key, form string }{{"id", "%s rule %s"}, {"resource", "%s rule on %s"}} {
		for _, f := range item.Fields {
			if f.Key == by.key && f.Value.Type == document.Text && f.Value.Text != "" {
				return fmt.Sprintf(by.form, kind, escape.Quoted(f.Value.Text))
			}
		}
	}
	return kind + " rule"
}
