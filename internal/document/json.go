package document

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/internal/field"
)

// parseJSON reads what encoding/json takes for valid. It is written out because that
// package reports no positions.
func parseJSON(data []byte) (*Node, *Fault) {
	p := &jsonParser{data: data, cursor: cursor{data: data, line: 1, column: 1}}
	p.space()
	node := p.value(0)
	p.space()
	if p.fault == nil && p.at < len(p.data) {
		p.fail(p.at, fmt.Sprintf("%s after the end of the document", p.found()))
	}
	if p.fault != nil {
		return nil, p.fault
	}
	return node, nil
}

// jsonParser stands at a byte of the data. After the first fault everything it returns is
// void.
type jsonParser struct {
	data   []byte
	at     int
	values int
	cursor cursor
	fault  *Fault
}

func (p *jsonParser) fail(offset int, message string) {
	if p.fault == nil {
		// The cursor only goes forward, and may be beyond the place.
		line, column := (&cursor{data: p.data, line: 1, column: 1}).to(offset)
		p.fault = &Fault{line, column, message}
	}
}

// found names what stands at p, for faults.
func (p *jsonParser) found() string {
	if p.at >= len(p.data) {
		return "the end of the file"
	}
	switch r, _ := utf8.DecodeRune(p.data[p.at:]); r {
	case '/', '#':
		return fmt.Sprintf("%q (JSON has no comments)", r)
	case '\'':
		return `"'" (JSON wants double quotes)`
	default:
		return fmt.Sprintf("%q", r)
	}
}

func (p *jsonParser) space() {
	for p.at < len(p.data) && strings.IndexByte(" \t\r\n", p.data[p.at]) >= 0 {
		p.at++
	}
}

// next reports whether b stands at p, and goes on if it does.
func (p *jsonParser) next(b byte) bool {
	if p.fault == nil && p.at < len(p.data) && p.data[p.at] == b {
		p.at++
		return true
	}
	return false
}

func (p *jsonParser) count(line, column int) {
	if p.values++; p.values > MaxValues && p.fault == nil {
		p.fault = tooMany(line, column)
	}
}

func (p *jsonParser) value(depth int) *Node {
	if p.fault != nil {
		return nil
	}
	line, column := p.cursor.to(p.at)
	p.count(line, column)
	node := &Node{Line: line, Column: column}
	switch {
	case p.at >= len(p.data):
		p.fail(p.at, "the file ends where a value should be")
	case p.data[p.at] == '{' || p.data[p.at] == '[':
		if depth == MaxDepth {
			p.fault = tooDeep(line, column)
			return nil
		}
		if p.next('{') {
			node.Type = Mapping
			p.mapping(node, depth)
		} else {
			p.at++
			node.Type = List
			p.list(node, depth)
		}
	case p.data[p.at] == '"':
		node.Type = Text
		node.Text = p.text()
	default:
		p.bare(node)
	}
	return node
}

func (p *jsonParser) mapping(node *Node, depth int) {
	if p.space(); p.next('}') {
		return
	}
	for p.fault == nil {
		p.space()
		if p.at >= len(p.data) || p.data[p.at] != '"' {
			p.fail(p.at, fmt.Sprintf("%s; want a field's name in double quotes", p.found()))
			return
		}
		field := Field{}
		field.Line, field.Column = p.cursor.to(p.at)
		p.count(field.Line, field.Column)
		field.Key = p.text()
		if p.space(); !p.next(':') {
			p.fail(p.at, fmt.Sprintf("%s after a field's name; want a colon", p.found()))
			return
		}
		p.space()
		field.Value = p.value(depth + 1)
		node.Fields = append(node.Fields, field)
		if !p.more('}') {
			return
		}
	}
}

func (p *jsonParser) list(node *Node, depth int) {
	if p.space(); p.next(']') {
		return
	}
	for p.fault == nil {
		p.space()
		node.Items = append(node.Items, p.value(depth+1))
		if !p.more(']') {
			return
		}
	}
}

// more reads what comes after an item: a comma, or the end.
func (p *jsonParser) more(end byte) bool {
	p.space()
	comma := p.at
	switch {
	case p.next(end):
		return false
	case p.next(','):
		if p.space(); p.at < len(p.data) && p.data[p.at] == end {
			p.fail(comma, fmt.Sprintf("a comma before %q", end))
			return false
		}
		return p.fault == nil
	default:
		p.fail(p.at, fmt.Sprintf("%s; want a comma or %q", p.found(), end))
		return false
	}
}

func (p *jsonParser) text() string {
	start := p.at
	for p.at++; p.at < len(p.data); p.at++ {
		switch b := p.data[p.at]; {
		case b == '"':
			p.at++
			return p.unquote(start)
		case b < ' ':
			p.fail(p.at, fmt.Sprintf("%q in text; want the text on one line, and \\n or \\t in it", b))
			return ""
		case b == '\\':
			p.at++
		}
	}
	p.at = len(p.data)
	p.fail(start, "text that does not end")
	return ""
}

// escapedMark is the escape of the character that stands for half a character.
var escapedMark = regexp.MustCompile(`(?i)\\ufffd`)

func (p *jsonParser) unquote(start int) string {
	quoted := p.data[start:p.at]
	var s string
	if err := stdjson.Unmarshal(quoted, &s); err != nil {
		p.fail(start, "text with a bad escape; want \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u and four hexadecimal digits")
		return ""
	}
	if strings.ContainsRune(s, utf8.RuneError) && !bytes.ContainsRune(quoted, utf8.RuneError) && !escapedMark.Match(quoted) {
		p.fail(start, "text with a \\u that is half of a pair")
	}
	return s
}

func (p *jsonParser) bare(node *Node) {
	start := p.at
	for p.at < len(p.data) && strings.IndexByte(" \t\r\n,:]}[{\"", p.data[p.at]) < 0 {
		p.at++
	}
	node.Text = string(p.data[start:p.at])
	switch {
	case node.Text == "null":
		node.Type = Null
	case node.Text == "true" || node.Text == "false":
		node.Type = Bool
	case field.IsNumber(node.Text):
		node.Type = Number
	case node.Text == "":
		p.fail(start, fmt.Sprintf("%s where a value should be", p.found()))
	default:
		p.at = start
		if found := p.found(); strings.Contains(found, "JSON") {
			p.fail(start, found)
			return
		}
		p.fail(start, fmt.Sprintf("%.40q; want text in double quotes, a number, true, false or null", node.Text))
	}
}
