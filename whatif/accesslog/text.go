package accesslog

import (
	"bytes"
	"time"
)

// field is what a field of a line is to Leapgate.
type field uint8

const (
	isColumn    field = iota // nothing that it needs
	isTimeLocal              // 20/May/2024:00:00:18 +0000
	isTime                   // in any way that is known
	isStart                  // likewise, of the arrival
	isSeconds                // 3.500
	isMillis                 // 3500
	isMicros                 // 3500000
	isNanos                  // 3500000000
	isPart                   // of a duration, in seconds
	isRequest                // GET /orders?page=2 HTTP/1.1
	isMethod
	isURI
	isStatus
	isClient
	isForwarded // the addresses that proxies saw
	isFlags     // of Envoy
	isCost
)

// text is a format whose lines are fields with something fixed between them. It is written as
// nginx' log_format is: `$remote_addr - $remote_user [$time_local] "$request" $status`.
type text struct {
	name    string
	prefix  []byte
	fields  []textField
	note    string
	typical func(*text) bool // of the line that was parsed: whether it looks like one of the format
	stamps  stamps

	line  []byte
	found []span // the fields of the line
	more  bool   // some line had more than the fields
}

type textField struct {
	name   string
	is     field
	until  []byte // what comes after it; empty for the rest of the line
	quoted bool   // it stands in quotes, and has others in it with a backslash
}

// span is a part of a line.
type span struct{ from, to int32 }

func (t *text) has(fields ...field) bool {
	for i := range t.fields {
		for _, is := range fields {
			if t.fields[i].is == is {
				return true
			}
		}
	}
	return false
}

func (t *text) index(name string) (i int, ok bool) {
	for i := range t.fields {
		if t.fields[i].name == name {
			return i, true
		}
	}
	return 0, false
}

// Name returns what the format is called.
func (t *text) Name() string { return t.name }

// Note says what is to be known of the time of arrival.
func (t *text) Note() string {
	if t.more && t.note != "" {
		return t.note + "; " + noteMore
	}
	return t.note
}

// Clone returns another Format like it.
func (t *text) Clone() Format {
	clone := *t
	clone.line, clone.found, clone.more = nil, make([]span, len(t.fields)), false
	return &clone
}

// Parse reads a line.
func (t *text) Parse(line []byte, r *Record) error {
	*r = Record{Duration: -1, columns: t}
	t.line = line
	if !t.cut(line) {
		t.line = nil
		return NoField
	}
	at, timed, arrived := int64(0), false, false
	var parts parts
	for i := range t.fields {
		is := t.fields[i].is
		value, ok, fault := line[t.found[i].from:t.found[i].to], true, NoTime
		switch is {
		case isColumn:
		case isTimeLocal:
			if at, ok = t.stamps.clf.parse(value); !arrived {
				r.Stamp, timed = at, true
			}
		case isTime:
			if at, ok = t.stamps.parse(value); !arrived {
				r.Stamp, timed = at, true
			}
		case isStart:
			if string(value) != "-" {
				r.Stamp, ok = t.stamps.parse(value)
				timed, arrived = true, true
			}
		case isSeconds:
			fault, ok = NoDuration, r.took(value, time.Second)
		case isMillis:
			fault, ok = NoDuration, r.took(value, time.Millisecond)
		case isMicros:
			fault, ok = NoDuration, r.took(value, time.Microsecond)
		case isNanos:
			fault, ok = NoDuration, r.took(value, time.Nanosecond)
		case isPart:
			fault, ok = NoDuration, parts.add(value)
		case isRequest:
			r.Method, r.Path = requestOf(value)
		case isMethod:
			r.Method = value
		case isURI:
			r.Path = pathOf(value)
		case isStatus:
			fault = NoStatus
			r.Status, ok = statusOf(value)
		case isClient:
			r.Client = addressOf(value)
		case isForwarded:
			r.Client = addressOf(lastOf(value))
		case isFlags:
			r.Refused = refusedByEnvoy(value)
		case isCost:
			fault = NoCost
			r.Cost, ok = costOf(value)
		}
		if !ok {
			return fault
		}
	}
	if !timed {
		return NoTime
	}
	if parts.known() {
		r.Duration = parts.sum
	}
	r.At = r.Stamp
	if !arrived && r.Duration > 0 {
		r.At -= int64(r.Duration)
	}
	return nil
}

// cut finds the fields of a line.
func (t *text) cut(line []byte) bool {
	at := len(t.prefix)
	if !bytes.HasPrefix(line, t.prefix) {
		return false
	}
	escaped := bytes.IndexByte(line, '\\') >= 0
	for i := range t.fields {
		f, rest, end := &t.fields[i], line[at:], 0
		switch {
		case f.is == isTimeLocal && len(rest) > clfLength && bytes.HasPrefix(rest[clfLength:], f.until):
			end = clfLength
		case f.quoted && escaped:
			if end = endOfQuoted(rest); end < 0 || !bytes.HasPrefix(rest[end:], f.until) {
				return false
			}
		case f.quoted:
			if end = bytes.IndexByte(rest, '"'); end < 0 || !bytes.HasPrefix(rest[end:], f.until) {
				return false
			}
		case len(f.until) > 0:
			end = indexOf(rest, f.until)
		default: // what comes after the last field is passed over
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
		t.found[i] = span{int32(at), int32(at + end)}
		at += end + len(f.until)
	}
	if at < len(line) {
		t.more = true
	}
	return true
}

// indexOf is bytes.Index for a text that mostly stands where its first byte does.
func indexOf(s, text []byte) int {
	from := bytes.IndexByte(s, text[0])
	if len(text) == 1 || from < 0 || bytes.HasPrefix(s[from:], text) {
		return from
	}
	if i := bytes.Index(s[from:], text); i >= 0 {
		return from + i
	}
	return -1
}

// endOfQuoted returns where the text that a line begins with ends: at a quote without a backslash.
// It is negative if there is none.
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
	if !ok || t.line == nil {
		return nil, false
	}
	return t.line[t.found[i].from:t.found[i].to], true
}

// value returns the field of a name that the format has.
func (t *text) value(name string) []byte {
	value, _ := t.column(name)
	return value
}
