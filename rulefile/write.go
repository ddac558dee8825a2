package rulefile

import (
	"bytes"
	"encoding/json"
	"fmt"
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
// give equal text. The error is a value that no file can hold: a name that is not UTF-8, a
// threshold that is not finite, an unknown enumeration. Rules that are no good otherwise
// are written.
func YAML(rules leapgate.Rules) ([]byte, error) {
	lists, err := listsOf(rules)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, list := range lists {
		if len(list.rules) == 0 {
			continue
		}
		fmt.Fprintf(&out, "%s:\n", list.name)
		for _, rule := range list.rules {
			lead := "  - "
			for _, f := range rule {
				value := f.value
				if f.text {
					value = yamlText(value)
				}
				fmt.Fprintf(&out, "%s%s: %s\n", lead, f.name, value)
				lead = "    "
			}
		}
	}
	if out.Len() == 0 {
		return []byte(allKinds[0].Name() + ": []\n"), nil // says that none are meant
	}
	return out.Bytes(), nil
}

// JSON is like [YAML], but writes JSON.
func JSON(rules leapgate.Rules) ([]byte, error) {
	lists, err := listsOf(rules)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("{")
	comma := "\n"
	for _, list := range lists {
		if len(list.rules) == 0 {
			continue
		}
		fmt.Fprintf(&out, "%s  %q: [", comma, list.name)
		for i, rule := range list.rules {
			if i > 0 {
				out.WriteString(",")
			}
			out.WriteString("\n    {")
			for k, f := range rule {
				if k > 0 {
					out.WriteString(", ")
				}
				value := f.value
				if f.text {
					value = jsonText(value)
				}
				fmt.Fprintf(&out, "%q: %s", f.name, value)
			}
			out.WriteString("}")
		}
		out.WriteString("\n  ]")
		comma = ",\n"
	}
	if comma == "\n" {
		return fmt.Appendf(nil, "{%q: []}\n", allKinds[0].Name()), nil
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

type writtenList struct {
	name  string
	rules [][]writtenField
}

type writtenField struct {
	name, value string
	text        bool
}

// listsOf returns the rules of each kind, in the order in which they are written.
func listsOf(rules leapgate.Rules) ([]writtenList, error) {
	all := kinds.Rules(rules)
	lists := make([]writtenList, len(allKinds))
	for i, k := range allKinds {
		lists[i] = writtenList{k.Name(), make([][]writtenField, k.Len(&all))}
		for at := range lists[i].rules {
			fields, err := k.written(&all, at)
			if err != nil {
				return nil, fmt.Errorf("%w: %s rule %d: %w", ErrRuleFile, k.Name(), at, err)
			}
			lists[i].rules[at] = fields
		}
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
		fields = append(fields, writtenField{f.Name, s.Text, s.Type == field.Text})
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
