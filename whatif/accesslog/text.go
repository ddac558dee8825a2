package accesslog

import (
	"bytes"
	"slices"
)

// text is a format whose lines are fields with fixed text between them. It is described like the log_format of
// nginx: `$remote_addr - $remote_user [$time_local] "$request" $status`.
type text struct {
	name    string
	prefix  []byte
	fields  []textField
	note    string
	typical func(*text) bool // reports whether the line parsed last looks like this format; nil means yes

	found [][]byte // the values of the fields of the line
	valid bool     // found is complete
	more  bool     // some line had more than the fields
}

type textField struct {
	name   string
	is     field
	until  []byte // the text after the field; empty for the rest of the line
	quoted bool   // the field is in quotes, and escapes quotes with a backslash
}

func (t *text) has(fields ...field) bool {
	return slices.ContainsFunc(t.fields, func(f textField) bool { return slices.Contains(fields, f.is) })
}

func (t *text) index(name string) (i int, ok bool) {
	i = slices.IndexFunc(t.fields, func(f textField) bool { return f.name == name })
	return i, i >= 0
}

// Name implements [Format].
func (t *text) Name() string { return t.name }

// Note implements [Format].
func (t *text) Note() string {
	if t.more && t.note != "" {
		return t.note + "; " + noteMore
	}
	return t.note
}

// Parse implements [Format].
func (t *text) Parse(line []byte, r *Record) error {
	*r = Record{Duration: -1, columns: t}
	if t.valid = t.cut(line); !t.valid {
		return NoField
	}
	for i := range t.fields {
		if is := t.fields[i].is; is != isColumn {
			if err := r.set(is, t.found[i]); err != nil {
				return err
			}
		}
	}
	return r.finish()
}

// cut finds the fields of a line.
func (t *text) cut(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, t.prefix)
	if !ok {
		return false
	}
	for i := range t.fields {
		f, end := &t.fields[i], 0
		switch {
		case f.is == isTimeLocal && len(rest) > clfLength && bytes.HasPrefix(rest[clfLength:], f.until):
			end = clfLength
		case f.quoted:
			if end = endOfQuoted(rest); end < 0 || !bytes.HasPrefix(rest[end:], f.until) {
				return false
			}
		case len(f.until) > 0:
			end = bytes.Index(rest, f.until)
		default: // the last field ends at a space
			if end = bytes.IndexByte(rest, ' '); end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return false
			}
		}
		if end < 0 {
			return false
		}
		t.found[i], rest = rest[:end], rest[end+len(f.until):]
	}
	t.more = t.more || len(rest) > 0
	return true
}

// endOfQuoted returns the index of the first quote without a backslash, or a negative number.
func endOfQuoted(line []byte) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			return i
		case '\\':
			i++ // Apache writes \" for a quote, nginx \x22
		}
	}
	return -1
}

func (t *text) column(name string) ([]byte, bool) {
	i, ok := t.index(name)
	if !ok || !t.valid {
		return nil, false
	}
	return t.found[i], true
}

// value returns the value of a field that the format has.
func (t *text) value(name string) []byte {
	value, _ := t.column(name)
	return value
}
