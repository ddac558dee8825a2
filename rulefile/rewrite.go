package rulefile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// rewrite writes rules as a file of that name holds them, in place of what it held. Of YAML,
// what people wrote into it stays; lost reports whether comments did not.
func rewrite(rules leapgate.Rules, name string, before []byte) (data []byte, lost bool, err error) {
	old, nothing := ParseFile(name, before)
	next := File{rules, old.Limits}
	if strings.EqualFold(filepath.Ext(name), ".json") {
		data, err = next.JSON()
		return data, false, err
	}
	plain, err := next.YAML()
	if err != nil {
		return nil, false, err
	}
	wanted, err := ParseFile(name, plain)
	if err != nil {
		return nil, false, err
	}
	commented := bytes.Contains(before, []byte("#"))
	if nothing != nil {
		return plain, commented, nil //nolint:nilerr // there is nothing to begin with
	}
	lists, unsure := editsOf(old.Rules, wanted.Rules)
	var drop []string
	if wanted.Rules.Len() > 0 {
		drop = []string{"rules"} // none
	}
	data, lost, err = document.Rewrite(before, lists, drop...)
	if err != nil {
		return plain, commented, nil //nolint:nilerr // it is not written as we can change it
	}
	// What was written is what is loaded, so it must be what was meant.
	back, err := ParseFile(name, data)
	if err != nil || !reflect.DeepEqual(completed(back.Rules), completed(wanted.Rules)) || !reflect.DeepEqual(back.Limits, wanted.Limits) {
		return plain, commented, nil //nolint:nilerr // likewise
	}
	return data, lost || commented && unsure, nil
}

// losesComments reports whether saving its own rules would lose comments.
func (c *content) losesComments(rules leapgate.Rules) bool {
	if len(c.files) != 1 || !bytes.Contains(c.files[0].data, []byte("#")) {
		return false
	}
	_, lost, err := rewrite(rules, c.files[0].name, c.files[0].data)
	return err != nil || lost
}

// completed returns good rules with IDs and defaults filled in, as a gate has them.
func completed(rules leapgate.Rules) *kinds.Rules { return kinds.Completed((*kinds.Rules)(&rules)) }

// editsOf says how each list of rules is made from the one that is there. Unsure reports whether
// a rule that is gone may be one that is new, under another ID.
func editsOf(old, wanted leapgate.Rules) (lists []document.ListEdit, unsure bool) {
	before, after := completed(old), completed(wanted)
	for _, k := range allKinds {
		e := editor{k, (*kinds.Rules)(&old), (*kinds.Rules)(&wanted), before, after}
		list, maybe := e.list()
		lists, unsure = append(lists, list), unsure || maybe
	}
	return lists, unsure
}

// editor finds out how the list of a kind is made from the one that is there.
type editor struct {
	*kind
	old, wanted   *kinds.Rules // as they are written
	before, after *kinds.Rules // the same, completed
}

// list returns the edits of the list. What a rule does not say, because it means the default, it
// need not say afterwards.
func (e *editor) list() (list document.ListEdit, unsure bool) {
	from, unsure := e.match()
	list = document.ListEdit{Name: e.Name(), Items: make([]document.ItemEdit, len(from))}
	for at := range list.Items {
		item := document.ItemEdit{From: from[at]}
		for i, f := range e.fields {
			value, zero, err := e.Write(e.wanted, at, i)
			if err != nil {
				continue // it was written before
			}
			same := from[at] >= 0 && e.text(e.before, from[at], i) == e.text(e.after, at, i)
			if f.Name == "id" && same {
				// A given ID must be said: without, the rule would get another when one before it goes.
				same = zero || *e.Head(e.old, from[at]).ID != ""
			}
			if zero && !same && f.Required == "" {
				continue
			}
			text := value.Text
			if value.Type == field.Text {
				text = yamlText(text)
			}
			item.Fields = append(item.Fields, document.FieldEdit{Name: f.Name, Value: text, Keep: same})
		}
		list.Items[at] = item
	}
	return list, unsure
}

// match returns which of the rules before each rule after is, or −1. A rule is told by its ID; one
// that had none in the file, and got another in the gate than here, by all else.
func (e *editor) match() (from []int, unsure bool) {
	n := e.Len(e.before)
	byID, byRest := make(map[string]int, n), make(map[string][]int)
	for i := range n {
		byID[*e.Head(e.before, i).ID] = i
	}
	from = make([]int, e.Len(e.after))
	used := make([]bool, n)
	var left []int
	for k := range from {
		i, there := byID[*e.Head(e.after, k).ID]
		if !there {
			left = append(left, k)
			continue
		}
		from[k], used[i] = i, true
	}
	for i := range n {
		if !used[i] && *e.Head(e.old, i).ID == "" {
			rest := e.rest(e.before, i)
			byRest[rest] = append(byRest[rest], i)
		}
	}
	for _, k := range left {
		rest := e.rest(e.after, k)
		if from[k] = -1; len(byRest[rest]) > 0 {
			from[k], byRest[rest] = byRest[rest][0], byRest[rest][1:]
			continue
		}
		unsure = unsure || len(byRest) > 0
	}
	return from, unsure
}

// rest is all that a rule says but for its ID.
func (e *editor) rest(rules *kinds.Rules, at int) string {
	var all strings.Builder
	for i, f := range e.fields {
		if f.Name != "id" {
			fmt.Fprintf(&all, "%q", e.text(rules, at, i))
		}
	}
	return all.String()
}

// text is what a field of a good rule holds, as it is written.
func (e *editor) text(rules *kinds.Rules, at, fieldIndex int) string {
	value, _, _ := e.Write(rules, at, fieldIndex) // good rules can be written
	return value.Text
}
