package accesslog

import (
	"fmt"
	"regexp"
	"strings"
)

// fieldsByName are the names of the fields that a template may use. Other names are columns.
var fieldsByName = map[string]field{
	"time_local": isTimeLocal, "time_iso8601": isTime, "msec": isTime, "start_time": isStart,
	"request_time": isSeconds, "duration": isMillis, "millis": isMillis, "micros": isMicros, "nanos": isNanos,
	"request_processing_time": isPart, "target_processing_time": isPart, "response_processing_time": isPart,
	"request": isRequest, "request_method": isMethod, "request_uri": isURI, "status": isStatus,
	"remote_addr": isClient, "client": isClient, "x_forwarded_for": isForwarded, "response_flags": isFlags, "cost": isCost,
}

// Template returns a format for a description like the log_format of nginx: text that every line contains, and the
// names of fields after a dollar sign, in braces if a letter follows. The whole directive of nginx is accepted, too.
// Text after the last field is ignored. Names other than these are columns:
//
//	time_local, time_iso8601, msec   the end of the request, or its arrival if the line has no duration
//	start_time                       the arrival, in any of these forms
//	request_time                     the duration in seconds
//	millis or duration               the duration in milliseconds
//	micros, nanos                    the duration in microseconds or nanoseconds
//	request                          the request line; or request_method and request_uri
//	status                           the status
//	remote_addr                      the client
//	cost                             how much of a limit the request consumes
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
	if _, ok := t.index("msec"); ok { // the most precise one
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

const noteNoDuration = "the lines have no durations: their times count as arrivals, which is true for Apache, " +
	"while nginx and others write them when a request ends"

const noteMore = "the ends of the lines are not read: if they contain durations, give the format"

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
	t.found = make([][]byte, len(t.fields))
	return t, nil
}

// fieldName returns the name at the start of a text, which may be in braces, and the rest of the text.
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

// logFormat matches the log_format directive of nginx before its quoted pieces.
var logFormat = regexp.MustCompile(`^log_format\s+\S+\s+(escape=\w+\s+)?`)

// directive returns the concatenated pieces of a log_format directive of nginx, with or without its first words.
// Other text is returned unchanged.
func directive(text string) (string, error) {
	text = strings.TrimSpace(text)
	start := logFormat.FindString(text)
	if start == "" && text[:min(1, len(text))] != "'" {
		return text, nil
	}
	var all strings.Builder
	rest := strings.TrimSpace(strings.TrimSuffix(text[len(start):], ";"))
	for ; rest != ""; rest = strings.TrimSpace(rest) {
		end := strings.IndexByte(rest[1:], rest[0]) + 1
		if end == 0 || rest[0] != '\'' && rest[0] != '"' {
			return "", fmt.Errorf("accesslog: the log_format has %.64q; want pieces in quotes without backslashes, such as '$remote_addr [$time_local] '", rest)
		}
		all.WriteString(rest[1:end])
		rest = rest[end+1:]
	}
	return all.String(), nil
}

func mustText(name, template, note string, typical func(*text) bool) *text {
	t, err := newText(name, template)
	if err != nil {
		panic(err) // a constant
	}
	t.note, t.typical = note, typical
	return t
}
