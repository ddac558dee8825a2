// Package structured reads and writes lists of structured fields for HTTP (RFC 9651), as far
// as Leapgate has a use for them: a list of items, the parameters of which are integers where
// their values matter. Lists with an inner list or a display string are not accepted.
package structured

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Type is the type of a value.
type Type uint8

// The types. A value that is not there, or is malformed, is None.
const (
	None Type = iota
	Integer
	Decimal
	String
	Token
	Bytes
	Boolean
	Date
)

// Value is what an item or a parameter is.
type Value struct {
	Type Type
	Int  int64 // of an Integer; the values of other types are not kept
}

// Item is a member of a list.
type Item struct {
	Value
	params []param // as they were written: the last of a key counts
}

type param struct {
	key   string
	value Value
}

// Param returns the value of a parameter. Its type is None if there is none.
func (i *Item) Param(key string) Value {
	for n := len(i.params) - 1; n >= 0; n-- {
		if i.params[n].key == key {
			return i.params[n].value
		}
	}
	return Value{}
}

// ParseList reads a list. The lines of a field are joined by commas before. It reports
// whether the list is well-formed; otherwise nothing of it counts, as RFC 9651 has it. An
// empty list is well-formed.
func ParseList(s string) (items []Item, ok bool) {
	p := parser{strings.Trim(s, " ")}
	for p.rest != "" {
		item := Item{Value: p.value()}
		if item.params, ok = p.params(); item.Type == None || !ok {
			return nil, false
		}
		items = append(items, item)
		p.skipAll(" \t")
		if p.rest == "" {
			break
		}
		if !p.skip(',') {
			return nil, false
		}
		if p.skipAll(" \t"); p.rest == "" {
			return nil, false // a comma at the end
		}
	}
	return items, true
}

// parser takes what RFC 9651 knows off the beginning of a field.
type parser struct{ rest string }

func (p *parser) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) skipAll(these string) { p.rest = strings.TrimLeft(p.rest, these) }

// while takes off the bytes that are good.
func (p *parser) while(good func(c byte) bool) string {
	end := 0
	for end < len(p.rest) && good(p.rest[end]) {
		end++
	}
	taken := p.rest[:end]
	p.rest = p.rest[end:]
	return taken
}

func (p *parser) params() (params []param, ok bool) {
	for p.skip(';') {
		p.skipAll(" ")
		if p.rest == "" || !isLower(p.rest[0]) && p.rest[0] != '*' {
			return nil, false
		}
		key := p.while(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
		value := Value{Type: Boolean}
		if p.skip('=') {
			value = p.value()
		}
		if value.Type == None {
			return nil, false
		}
		params = append(params, param{key, value})
	}
	return params, true
}

// value takes off a bare item.
func (p *parser) value() Value {
	switch {
	case p.rest == "":
		return Value{}
	case p.rest[0] == '*' || isAlpha(p.rest[0]):
		p.while(func(c byte) bool { return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0 })
		return Value{Type: Token}
	case p.rest[0] == '"':
		return Value{Type: p.quoted()}
	case p.skip(':'):
		return Value{Type: p.bytes()}
	case p.skip('?'):
		if p.skip('0') || p.skip('1') {
			return Value{Type: Boolean}
		}
	case p.skip('@'):
		if p.number().Type == Integer {
			return Value{Type: Date}
		}
	default:
		return p.number()
	}
	return Value{}
}

func (p *parser) number() Value {
	sign := ""
	if p.skip('-') {
		sign = "-"
	}
	whole := p.while(isDigit)
	if !p.skip('.') {
		n, err := strconv.ParseInt(sign+whole, 10, 64)
		if err != nil || len(whole) > 15 {
			return Value{}
		}
		return Value{Integer, n}
	}
	if part := p.while(isDigit); whole == "" || len(whole) > 12 || part == "" || len(part) > 3 {
		return Value{}
	}
	return Value{Type: Decimal}
}

func (p *parser) quoted() Type {
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return String
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return None
			}
		case !isPrintable(c):
			return None
		}
	}
	return None
}

// bytes takes off base64 and the colon after it. Padding may be left out.
func (p *parser) bytes() Type {
	text := p.while(func(c byte) bool { return c != ':' && isPrintable(c) })
	if _, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=")); err != nil || !p.skip(':') {
		return None
	}
	return Bytes
}

func isDigit(c byte) bool     { return '0' <= c && c <= '9' }
func isLower(c byte) bool     { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool     { return isLower(c | 0x20) }
func isPrintable(c byte) bool { return ' ' <= c && c <= '~' }
