package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// object is a format whose lines are JSON objects.
type object struct {
	name     string
	paths    map[field][]string // the members of each field, such as "request.uri"; the first that is not empty counts
	only     map[string]string  // the values that members must have if the line is about a request
	guessed  bool               // paths are common names, which other programs may use for something else
	note     string
	line     map[string]any
	unitless string // a member that may be a duration, in an unknown unit
}

// roles are the names of fields in a description for [JSON].
var roles = map[string]field{
	"end": isTime, "start": isStart, "seconds": isSeconds, "millis": isMillis, "micros": isMicros, "nanos": isNanos,
	"request": isRequest, "method": isMethod, "uri": isURI, "status": isStatus, "client": isClient, "cost": isCost,
	"resource": isResource, "key": isKey, "refused": isRefused, "dropped": isDropped,
}

// unitless are common names of durations whose unit depends on the program.
var unitless = []string{"duration", "request_time", "response_time", "responseTime", "latency", "elapsed", "took"}

// JSON returns a format for lines that are JSON objects. members maps roles to the paths of members:
// {"end": "ts", "uri": "request.uri"}.
func JSON(members map[string]string) (Format, error) {
	o := &object{name: "json", paths: make(map[field][]string), note: noteNoDuration}
	for _, role := range slices.Sorted(maps.Keys(members)) {
		f, ok := roles[role]
		if !ok {
			return nil, fmt.Errorf("accesslog: there is no role %q; want one of %s", role, strings.Join(slices.Sorted(maps.Keys(roles)), ", "))
		}
		o.paths[f] = []string{members[role]}
		if isStart <= f && f <= isNanos {
			o.note = ""
		}
	}
	if o.paths[isTime] == nil && o.paths[isStart] == nil {
		return nil, errors.New("accesslog: no member has the role end or start")
	}
	if o.paths[isRequest] == nil && o.paths[isURI] == nil && o.paths[isResource] == nil {
		return nil, errors.New("accesslog: no member has the role request, uri or resource")
	}
	return o, nil
}

// Name implements [Format].
func (o *object) Name() string { return o.name }

// Note implements [Format].
func (o *object) Note() string {
	if o.unitless != "" {
		return fmt.Sprintf("the lines have the member %q, which may be a duration, but its unit is unknown: it is not used; "+
			"give the format, with seconds=%[1]s or millis=%[1]s", o.unitless)
	}
	return o.note
}

// Parse implements [Format].
func (o *object) Parse(line []byte, r *Record) error {
	*r = Record{Duration: -1, columns: o}
	// With escape=default, nginx writes \x22 for a quote, which is not JSON.
	if !o.decode(line) && !o.decode(bytes.ReplaceAll(line, []byte(`\x`), []byte(`\u00`))) {
		return NoJSON
	}
	for path, want := range o.only {
		if value, ok := o.column(path); !ok || string(value) != want {
			return ErrNoRequest
		}
	}
	var values [numFields][]byte
	for f, paths := range o.paths {
		for _, path := range paths {
			if values[f], _ = o.column(path); len(values[f]) > 0 {
				break
			}
		}
	}
	if !o.isRequest(&values) {
		n, _ := digits(values[isDropped])
		r.Dropped = int(n)
		return ErrNoRequest
	}
	if o.guessed && !likeSeconds(values[isSeconds]) {
		values[isSeconds] = nil
	}
	for f, value := range values {
		if len(value) == 0 {
			continue
		}
		if err := r.set(field(f), value); err != nil {
			return err
		}
	}
	if o.guessed && r.Duration < 0 && o.unitless == "" {
		for _, name := range unitless {
			if value, ok := o.column(name); ok && len(value) > 0 && isDigit(value[0]) {
				o.unitless = name
			}
		}
	}
	return r.finish()
}

// decode parses a line, and reports whether it is a JSON object.
func (o *object) decode(line []byte) bool {
	o.line = nil
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if d.Decode(&o.line) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF) && o.line != nil
}

// isRequest reports whether a line with these values is about a request.
func (o *object) isRequest(values *[numFields][]byte) bool {
	line := values[isRequest]
	if len(line) > 0 && line[0] == '/' { // Apache's %U is often called request
		values[isURI], values[isRequest], line = line, nil, nil
	}
	hasTarget := len(values[isURI]) > 0
	if o.guessed && len(values[isMethod]) == 0 { // other lines have paths of files
		hasTarget = hasTarget && len(values[isStatus]) > 0
	}
	return len(values[isDropped]) == 0 && (len(line) > 0 || hasTarget || len(values[isResource]) > 0)
}

func (o *object) column(path string) ([]byte, bool) { return member(o.line, path) }

// member returns the value at a path such as "request.uri". Names may contain dots.
func member(object map[string]any, path string) (value []byte, ok bool) {
	if v, ok := object[path]; ok {
		return scalar(v)
	}
	name, rest, more := strings.Cut(path, ".")
	inner, _ := object[name].(map[string]any)
	if !more || inner == nil {
		return nil, false
	}
	return member(inner, rest)
}

// scalar returns a value as text. Of a list, which Caddy writes for headers, it is the first element.
func scalar(value any) (text []byte, ok bool) {
	switch v := value.(type) {
	case string:
		return []byte(v), true
	case json.Number:
		return []byte(v), true
	case bool:
		return strconv.AppendBool(nil, v), true
	case []any:
		if len(v) > 0 {
			return scalar(v[0])
		}
	}
	return nil, false
}
