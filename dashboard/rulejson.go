package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// encodeRule returns a rule as a rule file in JSON has it: without its zeros. Its texts are
// UTF-8.
func encodeRule(k kinds.Kind, rules *kinds.Rules, i int) json.RawMessage {
	out := []byte{'{'}
	for n, f := range k.Fields() {
		value, zero, err := k.Write(rules, i, n)
		if err != nil {
			panic(err) // rules of a gate are good
		}
		if zero && f.Required == "" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ", "...)
		}
		out = append(strconv.AppendQuote(out, f.Name), ": "...)
		out = append(out, encodeScalar(value)...)
	}
	return append(out, '}')
}

func encodeScalar(s field.Scalar) json.RawMessage {
	if s.Type != field.Text {
		return json.RawMessage(s.Text)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // people read it in the log
	if err := encoder.Encode(s.Text); err != nil {
		panic(err) // text can always be written
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// decodeRule reads one rule as a rule file in JSON has it, or returns what is wrong with it. In place of a text
// that is a key of hidden, it takes the value.
func decodeRule(k kinds.Kind, data []byte, hidden map[string]string) (*kinds.Rules, []fault) {
	d := ruleDecoder{kind: k, fields: k.Fields(), rule: new(kinds.Rules), hidden: hidden}
	d.sent, d.faulty = make([]string, len(d.fields)), make([]bool, len(d.fields))
	members, message := membersOf(data)
	if message != "" {
		return d.rule, []fault{{Message: message}}
	}
	k.Add(d.rule)
	d.read(members)
	d.validate()
	if len(d.faults) > maxFaults {
		d.faults = append(d.faults[:maxFaults], andMore)
	}
	return d.rule, d.faults
}

// ruleDecoder reads one rule. What it knows of a field stands at the index of the field.
type ruleDecoder struct {
	kind   kinds.Kind
	rule   *kinds.Rules // a list of one
	fields []kinds.Field
	hidden map[string]string
	sent   []string // its value for people; "" if it was not sent
	faulty []bool   // something has been said of it
	faults []fault
}

// fault notes that a field holds a wrong value, or none.
func (d *ruleDecoder) fault(n int, want string) {
	d.faulty[n] = true
	d.faults = append(d.faults, valueFault(d.fields[n].Name, d.sent[n], want))
}

// read takes in what was sent.
func (d *ruleDecoder) read(members []member) {
	for _, m := range members {
		n := slices.IndexFunc(d.fields, func(f kinds.Field) bool { return f.Name == m.name })
		switch {
		case len(d.faults) > maxFaults:
			return
		case n < 0:
			d.faults = append(d.faults, fault{
				Field: shortened(m.name), Message: fmt.Sprintf("unknown field %s; want one of %s", quoted(m.name), d.names()),
			})
			continue
		case d.sent[n] != "":
			d.faults = append(d.faults, fault{Field: m.name, Message: m.name + " is there twice"})
			continue
		}
		var value field.Scalar
		value, d.sent[n] = scalarOf(m.value)
		if text, ok := d.hidden[value.Text]; ok && d.fields[n].Private {
			value.Text = text
		}
		if value.Type == field.Null {
			d.fault(n, "a value, or the field left out")
		} else if want := d.kind.Read(d.rule, 0, n, value); want != "" {
			d.fault(n, want)
		}
	}
	for n, f := range d.fields {
		if f.Required != "" && d.sent[n] == "" {
			d.fault(n, f.Required)
		}
	}
}

func (d *ruleDecoder) names() string {
	names := make([]string, len(d.fields))
	for n, f := range d.fields {
		names[n] = f.Name
	}
	return strings.Join(names, ", ")
}

// validate looks for what is wrong with the rule that was read, but for what may be due to a
// field that could not be read.
func (d *ruleDecoder) validate() {
	unread := slices.Clone(d.faulty)
	isUnread := func(goName string) bool { return unread[d.index(goName)] }
	for _, f := range d.kind.Validate(d.rule) {
		n := d.index(f.Field)
		if !d.fields[n].IsDue(f.Code, isUnread) {
			d.fault(n, escape.Text(f.FileWant))
		}
	}
}

// index is that of the field with a name in Go.
func (d *ruleDecoder) index(goName string) int {
	return slices.IndexFunc(d.fields, func(f kinds.Field) bool { return f.GoName == goName })
}

type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of an object in order, those that come twice included, or
// says what is wrong.
func membersOf(data []byte) (members []member, message string) {
	var one json.RawMessage // so that the body is one value
	if err := json.Unmarshal(data, &one); err != nil {
		return nil, "the body is not JSON: " + escape.Text(err.Error())
	}
	if !utf8.Valid(data) {
		return nil, "the body is not UTF-8"
	}
	if _, shown := scalarOf(one); one[0] != '{' {
		return nil, "the body is " + shown + "; want an object: a rule"
	}
	decoder := json.NewDecoder(bytes.NewReader(one))
	_, err := decoder.Token() // the brace
	for err == nil && decoder.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = decoder.Token(); err == nil {
			err = decoder.Decode(&value)
		}
		text, _ := name.(string)
		members = append(members, member{text, value})
	}
	if err != nil {
		panic(err) // it is JSON
	}
	return members, ""
}

// escapedMark is the escape of the character that stands for half a character.
var escapedMark = regexp.MustCompile(`(?i)\\ufffd`)

// scalarOf returns a value that was sent, and what people are shown of it.
func scalarOf(raw json.RawMessage) (s field.Scalar, shown string) {
	switch raw[0] {
	case '{':
		return field.Scalar{Type: field.NoScalar}, "an object"
	case '[':
		return field.Scalar{Type: field.NoScalar}, "a list"
	case 'n':
		return field.Scalar{Type: field.Null}, "null"
	case 't', 'f':
		return field.Scalar{Type: field.Boolean, Text: string(raw)}, string(raw)
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			panic(err) // it is JSON
		}
		if strings.ContainsRune(text, utf8.RuneError) && !bytes.ContainsRune(raw, utf8.RuneError) && !escapedMark.Match(raw) {
			return field.Scalar{Type: field.NoScalar}, `text with a \u that is half of a pair`
		}
		return field.Scalar{Type: field.Text, Text: text}, quoted(text)
	default:
		return field.Scalar{Type: field.Numeral, Text: string(raw)}, shortened(string(raw))
	}
}
