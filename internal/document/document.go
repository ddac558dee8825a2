// Package document reads YAML and JSON into one tree, in which every value
// and every key knows where it stands.
//
// It reads what both can say: mappings with text as keys, lists, text, numbers,
// true, false and null. What only YAML has (anchors and aliases, merge keys, tags,
// several documents) is a fault. So a small document cannot become a large one, and
// a limit on the size of the text and on the number of values bounds the memory.
package document

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
)

// Limits of a document.
const (
	// MaxSize is the most bytes. It is four times what a ConfigMap may hold.
	MaxSize = 4 << 20
	// MaxValues is the most values and keys. The YAML reader takes up to 800 bytes
	// for each, for as long as it reads: 200 MB for the worst document.
	MaxValues = 250_000
	// MaxDepth is how deep lists and mappings may be in each other.
	MaxDepth = 32
)

// Type is what a value is.
type Type uint8

// The types of values.
const (
	Null Type = iota
	Bool
	Number
	Text
	List
	Mapping
)

// String names a type as in "a number".
func (t Type) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[t]
}

// Node is one value.
type Node struct {
	Type   Type
	Text   string  // of a scalar: text without its quotes, anything else as it is written
	Items  []*Node // of a list
	Fields []Field // of a mapping, in order; keys may come twice
	Line   int     // from 1
	Column int     // in characters, from 1; a tab is one
}

// Scalar is the value as the fields of rules read it.
func (n *Node) Scalar() field.Scalar {
	types := [...]field.ScalarType{field.Null, field.Boolean, field.Numeral, field.Text, field.NoScalar, field.NoScalar}
	s := field.Scalar{Type: types[n.Type], Text: n.Text}
	if n.Type == Mapping {
		s.Text = n.pairs()
	}
	return s
}

// pairs is a mapping of scalars as the text that [field.Pairs] reads; else empty.
func (n *Node) pairs() string {
	var text strings.Builder
	for i := range n.Fields {
		f := &n.Fields[i]
		if f.Value.Type != Number && f.Value.Type != Text {
			return ""
		}
		if i > 0 {
			text.WriteString(", ")
		}
		key := f.Key
		if key == "" || strings.ContainsAny(key, "\",") || strings.TrimSpace(key) != key {
			key = strconv.Quote(key)
		}
		text.WriteString(key + "=" + f.Value.Text)
	}
	return text.String()
}

// String is the value as messages show it: short, and what is not text without quotes.
func (n *Node) String() string {
	switch n.Type {
	case Text:
		return escape.Quoted(n.Text)
	case Bool, Number:
		return escape.Short(n.Text)
	default:
		return n.Type.String()
	}
}

// Field is one key of a mapping and what it holds.
type Field struct {
	Key          string
	Line, Column int // of the key
	Value        *Node
}

// Fault is one thing that is wrong with a document.
type Fault struct {
	Line, Column int // from 1; 0 if it is the whole
	Message      string
}

// Parse reads a document. What is valid JSON is read as JSON; anything else is YAML,
// unless json says that it should have been JSON. A document that holds nothing is a
// nil Node. A byte order mark is skipped.
func Parse(data []byte, json bool) (*Node, *Fault) {
	if len(data) > MaxSize {
		return nil, &Fault{Message: fmt.Sprintf("the file is larger than %d MiB", MaxSize>>20)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if fault := checkUTF8(data); fault != nil {
		return nil, fault
	}
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) == 0 {
		return nil, nil
	}
	if json {
		return parseJSON(data)
	}
	// YAML is said to contain JSON, but its readers differ over tabs and escapes.
	if trimmed[0] == '{' || trimmed[0] == '[' {
		if node, fault := parseJSON(data); fault == nil {
			return node, nil
		}
	}
	return parseYAML(data)
}

func checkUTF8(data []byte) *Fault {
	for i, r := range string(data) {
		if r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\ufffd")) {
			line, column := newCursor(data).to(i)
			return &Fault{line, column, fmt.Sprintf("byte 0x%02x is not UTF-8; want UTF-8 text", data[i])}
		}
	}
	return nil
}

// cursor returns the line and the column of offsets that are asked for in rising order.
type cursor struct {
	data         []byte
	at           int
	line, column int
}

func newCursor(data []byte) *cursor { return &cursor{data: data, line: 1, column: 1} }

func (c *cursor) to(offset int) (line, column int) {
	for c.at < offset {
		r, size := utf8.DecodeRune(c.data[c.at:])
		c.at += size
		switch {
		case r == '\n', r == '\r' && !bytes.HasPrefix(c.data[c.at:], []byte("\n")):
			c.line, c.column = c.line+1, 1
		case r != '\r':
			c.column++
		}
	}
	return c.line, c.column
}

func tooMany(line, column int) *Fault {
	return &Fault{line, column, fmt.Sprintf("more than %d values; split the file", MaxValues)}
}

func tooDeep(line, column int) *Fault {
	return &Fault{line, column, fmt.Sprintf("more than %d lists and mappings in each other", MaxDepth)}
}
