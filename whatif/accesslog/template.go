package accesslog

import (
	"fmt"
	"strings"
)

// fieldsByName are the names that a template has for what Leapgate needs.
var fieldsByName = map[string]field{
	"time_local": isTimeLocal, "time_iso8601": isTime, "msec": isTime, "start_time": isStart,
	"request_time": isSeconds, "duration": isMillis, "millis": isMillis, "micros": isMicros, "nanos": isNanos,
	"request_processing_time": isPart, "target_processing_time": isPart, "response_processing_time": isPart,
	"request": isRequest, "request_method": isMethod, "request_uri": isURI, "status": isStatus,
	"remote_addr": isClient, "client": isClient, "x_forwarded_for": isForwarded, "response_flags": isFlags, "cost": isCost,
}

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
