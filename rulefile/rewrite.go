package rulefile

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// rewrite returns the content of the named file with other rules. Comments and formatting of YAML are preserved if
// possible; lost reports whether the comments of the whole file are lost.
func rewrite(rules leapgate.Rules, name string, before []byte) (data []byte, lost bool, err error) {
	old, nothing := ParseFile(name, before)
	next := File{rules, old.Limits}
	if isJSON(name) {
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
	if nothing == nil {
		data, err = document.Rewrite(before, editsOf(old.Rules, wanted.Rules))
		if err == nil {
			back, err := ParseFile(name, data)
			if err == nil && reflect.DeepEqual(completed(back.Rules), completed(wanted.Rules)) && reflect.DeepEqual(back.Limits, wanted.Limits) {
				return data, false, nil
			}
		}
	}
	return plain, len(comments(before)) > 0, nil // the file is written in a way that cannot be edited
}

// losesComments reports whether saving the same rules would lose comments.
func (c *content) losesComments(rules leapgate.Rules) bool {
	if len(c.files) != 1 || isJSON(c.files[0].name) {
		return false
	}
	before := c.files[0].data
	kept := comments(before)
	if len(kept) == 0 {
		return false
	}
	data, lost, err := rewrite(rules, c.files[0].name, before)
	for comment, n := range comments(data) {
		kept[comment] -= n
	}
	for _, n := range kept {
		lost = lost || n > 0
	}
	return lost || err != nil
}

// comments returns the number of occurrences of each comment in YAML. It takes quoted text with " #" for a comment.
func comments(data []byte) map[string]int {
	found := make(map[string]int)
	for line := range strings.Lines(string(data)) {
		if _, comment, ok := strings.Cut(" "+strings.ReplaceAll(line, "\t", " "), " #"); ok {
			found[strings.TrimSpace(comment)]++
		}
	}
	return found
}

// completed returns good rules with IDs and defaults filled in, as a gate has them.
func completed(rules leapgate.Rules) *kinds.Rules { return kinds.Completed((*kinds.Rules)(&rules)) }

// editsOf returns the edits that turn each list of rules into the wanted one.
func editsOf(old, wanted leapgate.Rules) (lists []document.ListEdit) {
	before, after := completed(old), completed(wanted)
	for _, k := range allKinds {
		e := editor{k, (*kinds.Rules)(&old), (*kinds.Rules)(&wanted), before, after}
		lists = append(lists, e.list())
	}
	return lists
}

// editor finds out how the list of a kind is made from the one that is there.
type editor struct {
	*kind
	old, wanted   *kinds.Rules // as they are written
	before, after *kinds.Rules // the same, completed
}

// list returns the edits of the list. What a rule does not say, because it means the default, it
// need not say afterwards.
func (e *editor) list() document.ListEdit {
	from := e.match()
	list := document.ListEdit{Name: e.Name(), Items: make([]document.ItemEdit, len(from))}
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
	return list
}

// match returns which of the rules before each rule after is, or −1. A rule is told by its ID; one
// that had none in the file, and got another in the gate than here, by all else.
func (e *editor) match() (from []int) {
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
		}
	}
	return from
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
