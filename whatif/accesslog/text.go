package accesslog

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// What a field of a line may be besides text.
const (
	timeCLF        = "time_local"   // 20/May/2024:00:00:18 +0000
	timeISO        = "time_iso8601" // 2024-05-20T00:00:18Z
	timeUnix       = "msec"         // 1716163218.250
	startISO       = "start_time"   // as time_iso8601, of the arrival
	durationSecond = "request_time" // 3.500
	durationMillis = "duration"     // 3500
	durationPart1  = "request_processing_time"
	durationPart2  = "target_processing_time"
	durationPart3  = "response_processing_time"
	requestLine    = "request" // GET /orders?page=2 HTTP/1.1
	methodField    = "request_method"
	uriField       = "request_uri"
	statusField    = "status"
	remoteAddr     = "remote_addr"
	forwardedFor   = "x_forwarded_for"
	flagsField     = "response_flags"
	clientField    = "client"
)

var needed = []string{
	timeCLF, timeISO, timeUnix, startISO, durationSecond, durationMillis, durationPart1, durationPart2, durationPart3,
	requestLine, methodField, uriField, statusField, remoteAddr, forwardedFor, flagsField, clientField,
}

// text is a format whose lines are fields with something fixed between them. It is written as
// nginx' log_format is: `$remote_addr - $remote_user [$time_local] "$request" $status`.
type text struct {
	name   string
	prefix []byte
	fields []textField
	note   string
	clf    clfTime
	found  [][]byte // the fields of the line
}

type textField struct {
	name   string
	until  []byte // what comes after it; empty for the rest of the line
	quoted bool   // it stands in quotes, and has others in it with a backslash
	column bool   // it is nothing that Leapgate needs
}

// Template makes a format of a description like that of nginx' log_format: text that stands in
// every line, and the names of fields after a dollar sign. What a line has after the last field is passed
// over. These names say what Leapgate needs; others are columns:
//
//	time_local, time_iso8601, msec   when the request ended, or if no duration is there, when it arrived
//	start_time                       when it arrived, as time_iso8601
//	request_time, duration           how long it took, in seconds; in milliseconds
//	request                          the request line; or request_method and request_uri
//	status                           the status
//	remote_addr                      the client
func Template(template string) (Format, error) {
	t, err := newText("template", template)
	if err != nil {
		return nil, err
	}
	for _, need := range [][]string{
		{timeCLF, timeISO, timeUnix, startISO}, {requestLine, uriField},
	} {
		if !t.has(need...) {
			return nil, fmt.Errorf("accesslog: the format %q has no $%s", template, strings.Join(need, " or $"))
		}
	}
	if !t.has(durationSecond, durationMillis, startISO) {
		t.note = noteNoDuration
	}
	return t, nil
}

const noteNoDuration = "the lines do not say how long requests took: their times are taken for those of arrivals, which is true for Apache, " +
	"while nginx and others write them when a request ends"

func newText(name, template string) (*text, error) {
	t := &text{name: name}
	rest := template
	before, rest, more := strings.Cut(rest, "$")
	t.prefix = []byte(before)
	if !more {
		return nil, fmt.Errorf("accesslog: the format %q has no fields; want some such as $time_local", template)
	}
	for more {
		n := 0
		for n < len(rest) && (rest[n] == '_' || isDigit(rest[n]) || 'a' <= rest[n] && rest[n] <= 'z' || 'A' <= rest[n] && rest[n] <= 'Z') {
			n++
		}
		if n == 0 {
			return nil, fmt.Errorf("accesslog: the format %q has a $ without a name", template)
		}
		f := textField{name: rest[:n], quoted: strings.HasSuffix(before, `"`), column: !slices.Contains(needed, rest[:n])}
		if t.has(f.name) {
			return nil, fmt.Errorf("accesslog: the format %q has $%s twice", template, f.name)
		}
		before, rest, more = strings.Cut(rest[n:], "$")
		f.until = []byte(before)
		if more && before == "" {
			return nil, fmt.Errorf("accesslog: the format %q has nothing between $%s and the next field", template, f.name)
		}
		t.fields = append(t.fields, f)
	}
	return t, nil
}

func mustText(name, template, note string) *text {
	t, err := newText(name, template)
	if err != nil {
		panic(err) // a constant
	}
	t.note = note
	return t
}

func (t *text) has(names ...string) bool {
	for _, f := range t.fields {
		for _, name := range names {
			if f.name == name {
				return true
			}
		}
	}
	return false
}

// Name returns what the format is called.
func (t *text) Name() string { return t.name }

// Note says what is to be known of the time of arrival.
func (t *text) Note() string { return t.note }

// Clone returns another Format like it.
func (t *text) Clone() Format {
	clone := *t
	clone.found = nil
	return &clone
}

// Parse reads a line.
func (t *text) Parse(line []byte, r *Record) error {
	*r = Record{Duration: -1, columns: t}
	if !t.cut(line) {
		return NoField
	}
	at, timed, arrived := int64(0), false, false
	var parts parts
	for i := range t.fields {
		f := &t.fields[i]
		if f.column {
			continue
		}
		value, ok, fault := t.found[i], true, NoTime
		switch f.name {
		case timeCLF:
			at, ok = t.clf.parse(value)
			timed = true
		case timeISO:
			at, ok = isoTime(value)
			timed = true
		case startISO:
			if string(value) != "-" {
				at, ok = isoTime(value)
				timed, arrived = true, true
			}
		case timeUnix:
			at, ok = unixTime(value)
			timed = true
		case durationSecond:
			fault, ok = NoDuration, r.took(value, time.Second)
		case durationMillis:
			fault, ok = NoDuration, r.took(value, time.Millisecond)
		case durationPart1, durationPart2, durationPart3:
			fault, ok = NoDuration, parts.add(value)
		case requestLine:
			r.Method, r.Path = requestOf(value)
		case methodField:
			r.Method = value
		case uriField:
			r.Path = pathOf(value)
		case statusField:
			fault = NoStatus
			r.Status, ok = statusOf(value)
		case remoteAddr, clientField:
			r.Client = addressOf(value)
		case forwardedFor:
			r.Client = addressOf(lastOf(value))
		case flagsField:
			r.Refused = refusedByEnvoy(value)
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
	r.At = at
	if !arrived && r.Duration > 0 {
		r.At -= int64(r.Duration)
	}
	return nil
}

// cut finds the fields of a line.
func (t *text) cut(line []byte) bool {
	t.found = t.found[:0]
	line, ok := bytes.CutPrefix(line, t.prefix)
	for i := 0; ok && i < len(t.fields); i++ {
		f := &t.fields[i]
		end := len(line)
		switch {
		case f.quoted:
			end = endOfQuoted(line)
			ok = end >= 0 && bytes.HasPrefix(line[end:], f.until)
		case len(f.until) == 1:
			end = bytes.IndexByte(line, f.until[0])
			ok = end >= 0
		case len(f.until) > 0:
			end = bytes.Index(line, f.until)
			ok = end >= 0
		default: // what comes after the last field is passed over
			if blank := bytes.IndexByte(line, ' '); blank >= 0 {
				end = blank
			}
			ok = end > 0
		}
		if ok {
			t.found = append(t.found, line[:end])
			line = line[min(len(line), end+len(f.until)):]
		}
	}
	return ok
}

// endOfQuoted returns where the text that a line begins with ends: at a quote without a backslash.
// It is negative if there is none.
func endOfQuoted(line []byte) int {
	if end := bytes.IndexByte(line, '"'); end < 0 || bytes.IndexByte(line[:end], '\\') < 0 {
		return end
	}
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
	for i, f := range t.fields {
		if f.name == name && i < len(t.found) {
			return t.found[i], true
		}
	}
	return nil, false
}

// took notes how long a request took, and reports whether that can be read. "-" and negative
// numbers stand for what is not known.
func (r *Record) took(value []byte, unit time.Duration) bool {
	if string(value) == "-" {
		return true
	}
	ns, ok := decimal(value, unit)
	if ok && ns >= 0 {
		r.Duration = time.Duration(ns)
	}
	return ok && ns < maxDuration
}

// parts are a duration that a line has in parts, in seconds. It is not known if one of them is
// negative.
type parts struct {
	sum      time.Duration
	n        int
	negative bool
}

func (p *parts) add(value []byte) bool {
	ns, ok := decimal(value, time.Second)
	p.sum += time.Duration(ns)
	p.n++
	p.negative = p.negative || ns < 0
	return ok && ns < maxDuration
}

func (p *parts) known() bool { return p.n > 0 && !p.negative }

// maxDuration is how long a request may take, in nanoseconds: a year. More is no duration.
const maxDuration = int64(365 * 24 * time.Hour)

func statusOf(value []byte) (status int, ok bool) {
	if string(value) == "-" || string(value) == "0" {
		return 0, true
	}
	n, ok := digits(value)
	return int(n), ok && len(value) == 3 && n >= 100
}

// requestOf returns the method and the path of a request line. Clients send all kinds of things:
// what is not HTTP has neither.
func requestOf(line []byte) (method, path []byte) {
	method, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, nil
	}
	end := bytes.LastIndex(rest, []byte(" HTTP/"))
	if end < 0 || len(method) == 0 {
		return nil, nil
	}
	for _, b := range method {
		if b < 'A' || b > 'Z' {
			return nil, nil
		}
	}
	return method, pathOf(rest[:end])
}

// pathOf returns the path of a target: "/orders" of "/orders?page=2" and of
// "https://example.com/orders#top".
func pathOf(target []byte) []byte {
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if len(target) > 0 && target[0] == '/' {
		return target
	}
	if _, rest, ok := bytes.Cut(target, []byte("://")); ok {
		if i := bytes.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
		return []byte("/")
	}
	return target
}

// addressOf returns an address without its port: of "192.0.2.1:443", and of "[2001:db8::1]:443".
func addressOf(s []byte) []byte {
	if len(s) > 0 && s[0] == '[' {
		if end := bytes.IndexByte(s, ']'); end > 0 {
			return s[1:end]
		}
	}
	if i := bytes.LastIndexByte(s, ':'); i > 0 && bytes.IndexByte(s, ':') == i {
		return s[:i]
	}
	if i := bytes.LastIndexByte(s, ':'); i > 0 { // ALB writes 2001:db8::1:443 without brackets too
		if _, err := netip.ParseAddr(string(s)); err != nil {
			return s[:i]
		}
	}
	if string(s) == "-" {
		return nil
	}
	return s
}

// lastOf returns the last of a list: a proxy appends the address that it saw.
func lastOf(list []byte) []byte {
	return bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:])
}

// refusedByEnvoy reports whether Envoy refused the request: rate limited, overflow, no healthy
// upstream.
func refusedByEnvoy(flags []byte) bool {
	for flag := range bytes.SplitSeq(flags, []byte(",")) {
		switch string(flag) {
		case "RL", "UO", "UH":
			return true
		}
	}
	return false
}
