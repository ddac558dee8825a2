package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// object is a format whose lines are JSON objects.
type object struct {
	name   string
	roles  map[string][]string // the paths of members that may have what Leapgate needs: "request.uri"
	only   map[string]string   // what a member must be for the line to be about a request
	note   string
	line   map[string]json.RawMessage
	nested map[string]map[string]json.RawMessage // of the line, by the path, as far as asked for
}

// What a member of a JSON object may be.
const (
	roleEnd     = "end"     // when the request ended: a number of seconds since 1970, or a time
	roleStart   = "start"   // when it arrived, in the same ways
	roleSeconds = "seconds" // how long it took
	roleMicros  = "micros"  // the same, in microseconds
	roleNanos   = "nanos"   // the same, in nanoseconds
	roleRequest = "request" // the request line
	roleMethod  = "method"
	roleURI     = "uri"
	roleStatus  = "status"
	roleClient  = "client"

	roleResource = "resource" // its name, in place of what the path says
	roleKey      = "key"      // of the request, in place of the client
	roleRefused  = "refused"  // that it was refused then, unless it is empty or false
)

// Roles are what the members of a JSON log may be, with what they mean.
var Roles = map[string]string{
	roleEnd:   "when the request ended, or, if no duration is there, arrived: a time, or seconds since 1970",
	roleStart: "when it arrived", roleSeconds: "how long it took in seconds", roleMicros: "in microseconds", roleNanos: "in nanoseconds",
	roleRequest: "the request line", roleMethod: "the method", roleURI: "the target", roleStatus: "the status", roleClient: "the address of the client",
	roleResource: "the name of the resource, in place of what the target says", roleKey: "the key, in place of the client",
	roleRefused: "whether it was refused then",
}

var durations = []struct {
	role string
	unit time.Duration
}{{roleSeconds, time.Second}, {roleMicros, time.Microsecond}, {roleNanos, time.Nanosecond}}

// JSON makes a format of lines that are JSON objects. members says by which path each role is
// found: {"end": "ts", "uri": "request.uri"}; see [Roles].
func JSON(members map[string]string) (Format, error) {
	roles := make(map[string][]string)
	for _, role := range slices.Sorted(maps.Keys(members)) {
		roles[role] = []string{members[role]}
		if Roles[role] == "" {
			return nil, fmt.Errorf("accesslog: there is no role %q; want one of %s", role, strings.Join(slices.Sorted(maps.Keys(Roles)), ", "))
		}
	}
	if members[roleEnd] == "" && members[roleStart] == "" {
		return nil, fmt.Errorf("accesslog: no member has the role %s or %s", roleEnd, roleStart)
	}
	if members[roleRequest] == "" && members[roleURI] == "" && members[roleResource] == "" {
		return nil, fmt.Errorf("accesslog: no member has the role %s, %s or %s", roleRequest, roleURI, roleResource)
	}
	note := ""
	if members[roleStart] == "" && members[roleSeconds] == "" && members[roleMicros] == "" && members[roleNanos] == "" {
		note = noteNoDuration
	}
	return &object{name: "json", roles: roles, note: note}, nil
}

// Name returns what the format is called.
func (o *object) Name() string { return o.name }

// Note says what is to be known of the time of arrival.
func (o *object) Note() string { return o.note }

// Clone returns another Format like it.
func (o *object) Clone() Format {
	clone := *o
	clone.line, clone.nested = nil, nil
	return &clone
}

// Parse reads a line.
func (o *object) Parse(line []byte, r *Record) error {
	*r = Record{Duration: -1, columns: o}
	clear(o.line)
	clear(o.nested)
	if json.Unmarshal(line, &o.line) != nil || o.line == nil {
		return NoJSON
	}
	for path, want := range o.only {
		if value, ok := o.column(path); !ok || string(value) != want {
			return ErrNoRequest
		}
	}
	if o.roles[roleResource] != nil {
		if r.Resource, _ = o.role(roleResource); len(r.Resource) == 0 {
			return ErrNoRequest
		}
	}
	start, ok := o.time(roleStart)
	if !ok {
		return NoTime
	}
	end, ok := o.time(roleEnd)
	if !ok || start == 0 && end == 0 {
		return NoTime
	}
	for _, d := range durations {
		if value, ok := o.role(d.role); ok && !r.took(value, d.unit) {
			return NoDuration
		}
	}
	if r.At = start; start == 0 {
		r.At = end - max(0, int64(r.Duration))
	}
	if value, ok := o.role(roleRequest); ok {
		r.Method, r.Path = requestOf(value)
	} else {
		r.Method, _ = o.role(roleMethod)
		value, _ = o.role(roleURI)
		r.Path = pathOf(value)
	}
	if value, ok := o.role(roleStatus); ok {
		if r.Status, ok = statusOf(value); !ok {
			return NoStatus
		}
	}
	client, _ := o.role(roleClient)
	r.Client = addressOf(client)
	r.Key, _ = o.role(roleKey)
	refused, ok := o.role(roleRefused)
	r.Refused = ok && len(refused) > 0 && string(refused) != "false"
	return nil
}

// time returns the time of a role, 0 if the line has none.
func (o *object) time(role string) (ns int64, ok bool) {
	value, there := o.role(role)
	if !there || len(value) == 0 {
		return 0, true
	}
	if ns, ok = isoTime(value); ok {
		return ns, true
	}
	if ns, ok = new(clfTime).parse(value); ok {
		return ns, true
	}
	return unixTime(value)
}

func (o *object) role(role string) (value []byte, ok bool) {
	for _, path := range o.roles[role] {
		if value, ok = o.column(path); ok {
			break
		}
	}
	return value, ok
}

// column returns a member by its path: text without its quotes, anything else as it stands.
func (o *object) column(path string) (value []byte, ok bool) {
	members, name := o.line, path
	if i := strings.LastIndexByte(path, '.'); i >= 0 && o.line[path] == nil {
		members, name = o.members(path[:i]), path[i+1:]
	}
	raw := members[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, false
	}
	if raw[0] != '"' {
		return raw, true
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, false
	}
	return []byte(s), true
}

// members returns the object at a path of the line.
func (o *object) members(path string) map[string]json.RawMessage {
	if found, ok := o.nested[path]; ok {
		return found
	}
	var found map[string]json.RawMessage
	members, name := o.line, path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		members, name = o.members(path[:i]), path[i+1:]
	}
	if json.Unmarshal(members[name], &found) != nil {
		found = nil
	}
	if o.nested == nil {
		o.nested = make(map[string]map[string]json.RawMessage)
	}
	o.nested[path] = found
	return found
}
