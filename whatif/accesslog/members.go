package accesslog

import (
	"bytes"
	"encoding/json"
	"strings"
)

// members are those of a line that is a JSON object, and of the objects in it. They are found in one
// pass over the line, which copies nothing. What is JSON is read as package encoding/json reads it; lines are
// read too in which some text is not quite.
type members struct {
	all  []member
	line []byte // what is still to be scanned
}

type member struct {
	of    int // the index of the member that it is in, or inLine
	key   []byte
	value []byte // as it stands in the line
}

const (
	inLine     = -1
	inArray    = -2   // or in more objects than maxObjects: not kept
	maxObjects = 5    // one in the other
	maxNesting = 1000 // of arrays and objects
)

// scan reads a line, and reports whether it is a JSON object.
func (m *members) scan(line []byte) bool {
	m.all, m.line = m.all[:0], line
	ok := m.next() == '{' && m.value(inLine, 1) && m.next() == 0 && len(m.line) == 0
	m.line = nil
	return ok
}

// next returns what comes after blanks, 0 at the end.
func (m *members) next() byte {
	for len(m.line) > 0 {
		switch b := m.line[0]; b {
		case ' ', '\t', '\r', '\n':
			m.line = m.line[1:]
		default:
			return b
		}
	}
	return 0
}

// value passes over a value, and keeps the members of an object.
func (m *members) value(of, depth int) bool {
	switch b := m.next(); {
	case b == '"':
		_, ok := m.quoted()
		return ok
	case b == '{':
		return depth <= maxNesting && m.object(of, depth)
	case b == '[':
		return depth <= maxNesting && m.list(func() bool { return m.value(inArray, depth+1) }, ']')
	case b == '-' || isDigit(b):
		n := 1
		for n < len(m.line) && (isDigit(m.line[n]) || strings.IndexByte("+-.eE", m.line[n]) >= 0) {
			n++
		}
		m.line = m.line[n:]
		return true
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(m.line, []byte(word)) {
			m.line = m.line[len(word):]
			return true
		}
	}
	return false
}

// list passes over what is between two brackets, of which the first is next.
func (m *members) list(element func() bool, end byte) bool {
	m.line = m.line[1:]
	if m.next() == end {
		m.line = m.line[1:]
		return true
	}
	for element() {
		switch m.next() {
		case ',':
			m.line = m.line[1:]
		case end:
			m.line = m.line[1:]
			return true
		default:
			return false
		}
	}
	return false
}

func (m *members) object(of, depth int) bool {
	return m.list(func() bool {
		if m.next() != '"' {
			return false
		}
		key, ok := m.quoted()
		if !ok || m.next() != ':' {
			return false
		}
		m.line = m.line[1:]
		_ = m.next()
		i, value := inArray, m.line
		if of != inArray && depth <= maxObjects {
			i = len(m.all)
			m.all = append(m.all, member{of: of, key: unescaped(key)})
		}
		if !m.value(i, depth+1) {
			return false
		}
		if i >= 0 {
			m.all[i].value = value[:len(value)-len(m.line)]
		}
		return true
	}, '}')
}

// quoted passes over a text, of which the quote is next, and returns what is in it.
func (m *members) quoted() (inner []byte, ok bool) {
	end := bytes.IndexByte(m.line[1:], '"')
	if end > 0 && bytes.IndexByte(m.line[1:1+end], '\\') >= 0 {
		end = endOfQuoted(m.line[1:])
	}
	if end < 0 {
		return nil, false
	}
	inner = m.line[1 : 1+end]
	m.line = m.line[end+2:]
	return inner, true
}

// unescaped returns a text without its backslashes.
func unescaped(inner []byte) []byte {
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(append(append([]byte{'"'}, inner...), '"'), &s) != nil {
		return inner
	}
	return []byte(s)
}

// find returns the index of the member at a path: "request.uri". Of several of one name the last
// is meant.
func (m *members) find(path string) (i int, ok bool) {
	of := inLine
	for {
		if i, ok = m.in(of, path); ok {
			return i, true
		}
		name, rest, more := strings.Cut(path, ".")
		if i, ok = m.in(of, name); !ok || !more {
			return 0, false
		}
		of, path = i, rest
	}
}

func (m *members) in(of int, name string) (i int, ok bool) {
	for i := len(m.all) - 1; i >= 0; i-- {
		if m.all[i].of == of && string(m.all[i].key) == name {
			return i, true
		}
	}
	return 0, false
}

// text returns a member's text without its quotes, and anything else as it stands. There is none if
// it is null.
func (m *members) text(i int) (value []byte, ok bool) {
	raw := m.all[i].value
	switch raw[0] {
	case 'n':
		return nil, false
	case '"':
		return unescaped(raw[1 : len(raw)-1]), true
	}
	return raw, true
}
