package rulefile

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/escape"
)

// readRule reads one rule of a kind and returns its position.
func (p *parser) readRule(file string, k *kind, item *document.Node) position {
	index := k.Add(&p.rules)
	at := position{file: file, line: item.Line, column: item.Column, fields: map[string]*document.Node{}}
	goName := func(name string) string { return k.fields[k.byName[name]].GoName }
	label := sync.OnceValue(func() string { return labelOf(k.Name(), item) })
	p.readFields(file, item, label, k.names, k.synonyms, func(f *document.Field) string {
		at.fields[goName(f.Key)] = f.Value
		if f.Value.Type == document.Null {
			return "a value, or the line left out"
		}
		return k.Read(&p.rules, index, k.byName[f.Key], f.Value.Scalar())
	}, func(name string) { at.fault(goName(name)) })
	for i := range k.fields {
		f := &k.fields[i]
		if _, there := at.fields[f.GoName]; f.Required != "" && !there && !at.faulty[f.GoName] {
			at.fault(f.GoName)
			p.failValue(file, item, f.Name, label, "", f.Required)
		}
	}
	return at
}

// readFields reads the fields of a mapping. It calls read once for each known field; read returns what would be right,
// or "". For each field with an error, and for the field probably meant by an unknown one, it calls bad.
func (p *parser) readFields(file string, item *document.Node, label func() string, names []string, synonyms map[string]string,
	read func(*document.Field) (want string), bad func(name string),
) {
	seen := make(map[string]int, min(len(item.Fields), len(names)))
	for i := range item.Fields {
		f := &item.Fields[i]
		fail := func(format string, args ...any) {
			p.fail(file, f.Line, f.Column, f.Key, "%s: %s", label(), fmt.Sprintf(format, args...))
		}
		if line, twice := seen[f.Key]; twice {
			fail("%s is there twice, first in line %d", escape.Short(f.Key), line)
			continue
		}
		seen[f.Key] = f.Line
		if slices.Contains(names, f.Key) {
			if want := read(f); want != "" {
				bad(f.Key)
				p.failValue(file, f.Value, f.Key, label, emptyOr(f.Value), want)
			}
		} else if near := nearest(f.Key, names, synonyms); near != "" {
			bad(near)
			fail("unknown field %s; did you mean %s?", escape.Quoted(f.Key), near)
		} else {
			fail("unknown field %s; want one of %s", escape.Quoted(f.Key), strings.Join(names, ", "))
		}
	}
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
