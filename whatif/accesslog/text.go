package accesslog

import (
	"bytes"
	"fmt"
	"strings"
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

// fieldsByName are the names that a template has for what Leapgate needs.
var fieldsByName = map[string]field{
	"time_local": isTimeLocal, "time_iso8601": isTime, "msec": isTime, "start_time": isStart,
	"request_time": isSeconds, "duration": isMillis, "millis": isMillis, "micros": isMicros, "nanos": isNanos,
	"request_processing_time": isPart, "target_processing_time": isPart, "response_processing_time": isPart,
	"request": isRequest, "request_method": isMethod, "request_uri": isURI, "status": isStatus,
	"remote_addr": isClient, "client": isClient, "x_forwarded_for": isForwarded, "response_flags": isFlags, "cost": isCost,
}

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

// Template makes a format of a description like that of nginx' log_format: text that stands in
// every line, and the names of fields after a dollar sign, in braces where a letter follows. It may also be
// the whole directive as it stands in the configuration of nginx, or its quoted pieces. What a line has after
// the last field is passed over. These names say what Leapgate needs; others are columns:
//
//	time_local, time_iso8601, msec   when the request ended, or if no duration is there, when it arrived
//	start_time                       when it arrived: as any of these
//	request_time                     how long it took, in seconds
//	millis or duration               the same in milliseconds
//	micros, nanos                    in microseconds, in nanoseconds
//	request                          the request line; or request_method and request_uri
//	status                           the status
//	remote_addr                      the client
//	cost                             how much of a limit it takes
//
// Apache writes when a request arrived, so its %t is start_time, and its %D is micros.
func Template(template string) (Format, error) {
	pieces, err := directive(template)
	if err != nil {
		return nil, err
	}
	t, err := newText("template", pieces)
	if err != nil {
		return nil, err
	}
	if _, ok := t.index("msec"); ok { // it is finer
		for i := range t.fields {
			if f := &t.fields[i]; f.is == isTimeLocal || f.is == isTime && f.name != "msec" {
				f.is = isColumn
			}
		}
	}
	switch {
	case !t.has(isTimeLocal, isTime, isStart):
		return nil, fmt.Errorf("accesslog: the format %q has no $time_local or $time_iso8601 or $msec or $start_time", template)
	case !t.has(isRequest, isURI):
		return nil, fmt.Errorf("accesslog: the format %q has no $request or $request_uri", template)
	case !t.has(isSeconds, isMillis, isMicros, isNanos, isStart):
		t.note = noteNoDuration
	}
	return t, nil
}

const noteNoDuration = "the lines do not say how long requests took: their times are taken for those of arrivals, which is true for Apache, " +
	"while nginx and others write them when a request ends"

const noteMore = "what the lines have at their ends is not read: if it says how long requests took, give the format"

func newText(name, template string) (*text, error) {
	t := &text{name: name}
	before, rest, more := strings.Cut(template, "$")
	t.prefix = []byte(before)
	if !more {
		return nil, fmt.Errorf("accesslog: the format %q has no fields; want some such as $time_local", template)
	}
	for more {
		field, after := fieldName(rest)
		if field == "" {
			return nil, fmt.Errorf("accesslog: the format %q has a $ without a name", template)
		}
		f := textField{name: field, is: fieldsByName[field], quoted: strings.HasSuffix(before, `"`)}
		if _, twice := t.index(field); twice {
			return nil, fmt.Errorf("accesslog: the format %q has $%s twice", template, f.name)
		}
		before, rest, more = strings.Cut(after, "$")
		f.until = []byte(before)
		if more && before == "" {
			return nil, fmt.Errorf("accesslog: the format %q has nothing between $%s and the next field", template, f.name)
		}
		t.fields = append(t.fields, f)
	}
	t.found = make([]span, len(t.fields))
	return t, nil
}

// fieldName returns the name that a text begins with, which may be in braces, and what is after it.
func fieldName(s string) (name, after string) {
	braced, ok := strings.CutPrefix(s, "{")
	if ok {
		s = braced
	}
	n := 0
	for n < len(s) && (s[n] == '_' || isDigit(s[n]) || 'a' <= s[n] && s[n] <= 'z' || 'A' <= s[n] && s[n] <= 'Z') {
		n++
	}
	if name, after = s[:n], s[n:]; ok {
		if after, ok = strings.CutPrefix(after, "}"); !ok {
			return "", ""
		}
	}
	return name, after
}

// directive returns the format that a directive of nginx says, or its quoted pieces; another text
// is returned as it is.
func directive(text string) (string, error) {
	word, rest := cutWord(text)
	named := word == "log_format"
	if named {
		_, rest = cutWord(rest) // its name
		if word, after := cutWord(rest); strings.HasPrefix(word, "escape=") {
			rest = after
		}
	} else {
		rest = strings.TrimSpace(text)
	}
	if !named && !strings.HasPrefix(rest, "'") {
		return text, nil
	}
	var all strings.Builder
	for ; rest != "" && rest != ";"; rest = strings.TrimSpace(rest) {
		quote := rest[0]
		if quote != '\'' && quote != '"' {
			return "", fmt.Errorf("accesslog: the format has %.64q, where a quote is to begin; want pieces in quotes, such as '$remote_addr [$time_local] '", rest)
		}
		end := 1
		for ; end < len(rest) && rest[end] != quote; end++ {
			if rest[end] == '\\' && end+1 < len(rest) && strings.IndexByte(`'"\`, rest[end+1]) >= 0 {
				end++
			}
			all.WriteByte(rest[end])
		}
		if end == len(rest) {
			return "", fmt.Errorf("accesslog: the format has %.64q without the quote at its end", rest)
		}
		rest = rest[end+1:]
	}
	return all.String(), nil
}

func cutWord(s string) (word, rest string) {
	s = strings.TrimSpace(s)
	end := strings.IndexAny(s, " \t\r\n")
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimSpace(s[end:])
}

func mustText(name, template, note string, typical func(*text) bool) *text {
	t, err := newText(name, template)
	if err != nil {
		panic(err) // a constant
	}
	t.note, t.typical = note, typical
	return t
}

func (t *text) has(any ...field) bool {
	for i := range t.fields {
		for _, is := range any {
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
		if is == isColumn {
			continue
		}
		value, ok, fault := line[t.found[i].from:t.found[i].to], true, NoTime
		switch is {
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
