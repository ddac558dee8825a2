package rulefile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
)

// rewrite writes the rules as a file of that name holds them, in place of what it held. Of YAML,
// what people wrote into it stays; lost reports whether comments did not.
func (r Rules) rewrite(name string, before []byte) (data []byte, lost bool, err error) {
	if strings.EqualFold(filepath.Ext(name), ".json") {
		data, err = r.JSON()
		return data, false, err
	}
	plain, err := r.YAML()
	if err != nil {
		return nil, false, err
	}
	wanted, err := Parse(name, plain)
	if err != nil {
		return nil, false, err
	}
	commented := bytes.Contains(before, []byte("#"))
	old, err := Parse(name, before)
	if err != nil {
		return plain, commented, nil //nolint:nilerr // there is nothing to begin with
	}
	flows, unsure := flowFields.edits("flow", old.Flow, wanted.Flow)
	isolations, alsoUnsure := isolationFields.edits("isolation", old.Isolation, wanted.Isolation)
	var drop []string
	if wanted.Len() > 0 {
		drop = []string{"rules"} // none
	}
	data, lost, err = document.Rewrite(before, []document.ListEdit{flows, isolations}, drop...)
	if err != nil {
		return plain, commented, nil //nolint:nilerr // it is not written as we can change it
	}
	// What was written is what is loaded, so it must be what was meant.
	back, err := Parse(name, data)
	if err != nil || !reflect.DeepEqual(back.completed(), wanted.completed()) {
		return plain, commented, nil //nolint:nilerr // likewise
	}
	return data, lost || commented && (unsure || alsoUnsure), nil
}

// losesComments reports whether saving its own rules would lose comments.
func (c *content) losesComments(rules Rules) bool {
	if len(c.files) != 1 || !bytes.Contains(c.files[0].data, []byte("#")) {
		return false
	}
	_, lost, err := rules.rewrite(c.files[0].name, c.files[0].data)
	return err != nil || lost
}

// completed returns good rules with IDs and defaults filled in, as a gate has them.
func (r Rules) completed() Rules {
	return Rules{Flow: flowFields.completed(r.Flow), Isolation: isolationFields.completed(r.Isolation)}
}

func (s *schema[R]) completed(rules []R) []R {
	set := ruleset.New(s.kind, ruleset.Env{})
	load, faults := set.Prepare(rules)
	if faults != nil {
		return rules
	}
	load()
	return set.Rules()
}

// edits says how a list of rules is made from the one that is there. What a rule does not say,
// because it means the default, it need not say afterwards. Unsure reports whether a rule that
// is gone may be one that is new, under another ID.
func (s *schema[R]) edits(name string, old, wanted []R) (list document.ListEdit, unsure bool) {
	before, after := s.completed(old), s.completed(wanted)
	from, unsure := s.match(old, before, after)
	list = document.ListEdit{Name: name, Items: make([]document.ItemEdit, len(wanted))}
	for k := range wanted {
		item := document.ItemEdit{From: from[k]}
		for _, f := range s.fields {
			value, zero, err := f.Write(&wanted[k])
			if err != nil {
				continue // it was written before
			}
			same := from[k] >= 0 && textOf(&f, &before[from[k]]) == textOf(&f, &after[k])
			if f.Name == "id" && same {
				// A given ID must be said: without, the rule would get another when one before it goes.
				same = zero || textOf(&f, &old[from[k]]) != ""
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
		list.Items[k] = item
	}
	return list, unsure
}

// match returns which of the rules before each rule after is, or −1. A rule is told by its ID; one
// that had none in the file, and got another in the gate than here, by all else.
func (s *schema[R]) match(old, before, after []R) (from []int, unsure bool) {
	id := s.known["id"]
	byID, byRest := make(map[string]int, len(old)), make(map[string][]int)
	for i := range before {
		byID[textOf(id, &before[i])] = i
	}
	from = make([]int, len(after))
	used := make([]bool, len(old))
	var left []int
	for k := range after {
		i, there := byID[textOf(id, &after[k])]
		if !there {
			left = append(left, k)
			continue
		}
		from[k], used[i] = i, true
	}
	for i := range before {
		if !used[i] && textOf(id, &old[i]) == "" {
			rest := s.rest(&before[i])
			byRest[rest] = append(byRest[rest], i)
		}
	}
	for _, k := range left {
		rest := s.rest(&after[k])
		if from[k] = -1; len(byRest[rest]) > 0 {
			from[k], byRest[rest] = byRest[rest][0], byRest[rest][1:]
			continue
		}
		unsure = unsure || len(byRest) > 0
	}
	return from, unsure
}

// rest is all that a rule says but for its ID.
func (s *schema[R]) rest(r *R) string {
	var all strings.Builder
	for _, f := range s.fields {
		if f.Name != "id" {
			fmt.Fprintf(&all, "%q", textOf(&f, r))
		}
	}
	return all.String()
}

// textOf is what a field of a good rule holds, as it is written.
func textOf[R any](f *field.Field[R], r *R) string {
	value, _, _ := f.Write(r) // good rules can be written
	return value.Text
}
