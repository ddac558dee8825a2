package rulefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// YAML writes rules as a rule file: [Parse] reads the same rules from it, except for
// their Sources, which no file has. Fields that hold their zero are left out. Equal rules
// make equal text. The error is a value that no file can hold: a name that is not UTF-8, a
// threshold that is not finite, an unknown enumeration. Rules that are no good otherwise
// are written.
func YAML(rules leapgate.Rules) ([]byte, error) { return File{Rules: rules}.YAML() }

// JSON is like [YAML], but writes JSON.
func JSON(rules leapgate.Rules) ([]byte, error) { return File{Rules: rules}.JSON() }

// YAML is like the function [YAML], and writes the limits too.
func (f File) YAML() ([]byte, error) {
	lists, err := f.written()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, list := range lists {
		fmt.Fprintf(&out, "%s:\n", list.name)
		for _, item := range list.items {
			lead := "  - "
			if item.name != "" {
				fmt.Fprintf(&out, "  %s:\n", yamlText(item.name))
				lead = "    "
			}
			for _, f := range item.fields {
				writeYAML(&out, lead, f)
				lead = "    "
			}
		}
	}
	if out.Len() == 0 {
		return []byte(allKinds[0].Name() + ": []\n"), nil // says that none are meant
	}
	return out.Bytes(), nil
}

func writeYAML(out *bytes.Buffer, lead string, f writtenField) {
	name, value := f.name, f.value
	if f.text {
		value = yamlText(value)
	}
	if f.inner == nil {
		fmt.Fprintf(out, "%s%s: %s\n", lead, name, value)
		return
	}
	fmt.Fprintf(out, "%s%s:\n", lead, name)
	for _, f := range f.inner {
		f.name = yamlText(f.name)
		writeYAML(out, lead+"  ", f)
	}
}

// JSON is like YAML, but writes JSON.
func (f File) JSON() ([]byte, error) {
	lists, err := f.written()
	if err != nil {
		return nil, err
	}
	if len(lists) == 0 {
		return fmt.Appendf(nil, "{%q: []}\n", allKinds[0].Name()), nil
	}
	var out bytes.Buffer
	for i, list := range lists {
		comma, begin, end := ",", "[", "]"
		if i == 0 {
			comma = "{"
		}
		if list.name == limitsKey {
			begin, end = "{", "}"
		}
		fmt.Fprintf(&out, "%s\n  %q: %s", comma, list.name, begin)
		for k, item := range list.items {
			if k > 0 {
				out.WriteString(",")
			}
			out.WriteString("\n    ")
			if item.name != "" {
				out.WriteString(jsonText(item.name) + ": ")
			}
			writeJSON(&out, item.fields)
		}
		out.WriteString("\n  " + end)
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

func writeJSON(out *bytes.Buffer, fields []writtenField) {
	out.WriteString("{")
	for i, f := range fields {
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(jsonText(f.name) + ": ")
		switch {
		case f.inner != nil:
			writeJSON(out, f.inner)
		case f.text:
			out.WriteString(jsonText(f.value))
		default:
			out.WriteString(f.value)
		}
	}
	out.WriteString("}")
}

// writtenList is a list of rules, or the mapping of limits.
type writtenList struct {
	name  string
	items []writtenItem
}

type writtenItem struct {
	name   string // of a limit; a rule has none
	fields []writtenField
}

type writtenField struct {
	name, value string
	text        bool
	inner       []writtenField // instead of a value: a mapping
}

// written returns the rules of each kind and the limits, in the order in which they are written:
// those of which there are any.
func (f File) written() (lists []writtenList, err error) {
	all := kinds.Rules(f.Rules)
	for _, k := range allKinds {
		list := writtenList{name: k.Name()}
		for at := range k.Len(&all) {
			fields, err := k.written(&all, at)
			if err != nil {
				return nil, fmt.Errorf("%w: %s rule %d: %w", ErrRuleFile, k.Name(), at, err)
			}
			list.items = append(list.items, writtenItem{"", fields})
		}
		if len(list.items) > 0 {
			lists = append(lists, list)
		}
	}
	limits := writtenList{name: limitsKey}
	for _, name := range slices.Sorted(maps.Keys(f.Limits)) {
		fields, err := f.Limits[name].written(name)
		if err != nil {
			return nil, fmt.Errorf("%w: limit %s: %w", ErrRuleFile, escape.Quoted(name), err)
		}
		limits.items = append(limits.items, writtenItem{name, fields})
	}
	if len(limits.items) > 0 {
		lists = append(lists, limits)
	}
	return lists, nil
}

// written returns the fields of a rule that are written.
func (k *kind) written(rules *kinds.Rules, at int) (fields []writtenField, err error) {
	for i := range k.fields {
		f := &k.fields[i]
		s, zero, err := k.Write(rules, at, i)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		case zero && f.Required == "":
			continue
		case !utf8.ValidString(s.Text):
			return nil, fmt.Errorf("%s is %s, which is not UTF-8", f.Name, escape.Quoted(s.Text))
		}
		fields = append(fields, writtenField{name: f.Name, value: s.Text, text: s.Type == field.Text})
	}
	return fields, nil
}

func jsonText(s string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic(err) // text can always be written
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// yamlText writes text so that every reader of YAML takes it for this text: without quotes
// only if nobody could think of anything else.
func yamlText(s string) string {
	if isPlain(s) {
		return s
	}
	return strconv.Quote(s) // YAML has all escapes of Go
}

func isPlain(s string) bool {
	if s == "" || strings.HasSuffix(s, " ") {
		return false
	}
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		inside := r >= '0' && r <= '9' || strings.ContainsRune(" /_.-", r)
		if !letter && (i == 0 && r != '/' || !inside) {
			// Durations and sizes begin with a digit, and have a letter.
			if i == 0 && r >= '1' && r <= '9' && isQuantity(s) {
				continue
			}
			return false
		}
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "y", "n":
		return false
	default:
		return true // off is text in YAML 1.2, and reads better bare as a mode
	}
}

// isQuantity reports whether s is a duration or a size of memory, as they are written.
func isQuantity(s string) bool {
	text := field.Scalar{Type: field.Text, Text: s}
	if _, want := field.Bytes.Parse(text); want == "" {
		return true
	}
	d, want := field.Duration.Parse(text)
	return want == "" && field.ShortDuration(d) == s
}
