package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// object is a format whose lines are JSON objects.
type object struct {
	name     string
	roles    map[string][]string // the paths of members that may have what Leapgate needs: "request.uri"
	only     map[string]string   // what a member must be for the line to be about a request
	guessed  bool                // roles are what the names of members mostly mean
	note     string
	line     members
	stamps   stamps
	unitless string // a member of some line that may be how long the request took, in what unit nobody knows
}

// What a member of a JSON object may be.
const (
	roleEnd     = "end"     // when the request ended: a number of seconds since 1970, or a time
	roleStart   = "start"   // when it arrived, in the same ways
	roleSeconds = "seconds" // how long it took
	roleMillis  = "millis"  // the same, in milliseconds
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
	roleCost     = "cost"     // how much of a limit it takes
	roleDropped  = "dropped"  // lines that could not be written before this one, which is about nothing else
)

// Roles are what the members of a JSON log may be, with what they mean.
var Roles = map[string]string{
	roleEnd:   "when the request ended, or, if no duration is there, arrived: a time, or seconds, milliseconds, microseconds or nanoseconds since 1970",
	roleStart: "when it arrived", roleSeconds: "how long it took in seconds", roleMillis: "in milliseconds", roleMicros: "in microseconds", roleNanos: "in nanoseconds",
	roleRequest: "the request line", roleMethod: "the method", roleURI: "the target", roleStatus: "the status", roleClient: "the address of the client",
	roleResource: "the name of the resource, in place of what the target says", roleKey: "the key, in place of the client",
	roleRefused: "whether it was refused then", roleCost: "how much of a limit it takes",
	roleDropped: "how many lines were lost before this one, which is about nothing else",
}

var durations = []struct {
	role string
	unit time.Duration
}{{roleSeconds, time.Second}, {roleMillis, time.Millisecond}, {roleMicros, time.Microsecond}, {roleNanos, time.Nanosecond}}

// unitless are names of members that say how long a request took, in a unit that depends on the program.
var unitless = []string{"duration", "request_time", "response_time", "responseTime", "latency", "elapsed", "took"}

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
	note := noteNoDuration
	if members[roleStart] != "" {
		note = ""
	}
	for _, d := range durations {
		if members[d.role] != "" {
			note = ""
		}
	}
	return &object{name: "json", roles: roles, note: note}, nil
}

// Name returns what the format is called.
func (o *object) Name() string { return o.name }

// Note says what is to be known of the time of arrival.
func (o *object) Note() string {
	if o.unitless != "" {
		return fmt.Sprintf("the lines have the member %q, which may be how long a request took, but not in which unit: it is not used; "+
			"give the format, with seconds=%[1]s or millis=%[1]s", o.unitless)
	}
	return o.note
}

// Clone returns another Format like it.
func (o *object) Clone() Format {
	clone := *o
	clone.line, clone.unitless = members{}, ""
	return &clone
}

// Parse reads a line.
func (o *object) Parse(line []byte, r *Record) error {
	*r = Record{Duration: -1, columns: o}
	if !o.line.scan(line) {
		return NoJSON
	}
	for path, want := range o.only {
		if value, ok := o.column(path); !ok || string(value) != want {
			return ErrNoRequest
		}
	}
	if !o.isRequest(r) {
		return ErrNoRequest
	}
	if err := o.time(r); err != nil {
		return err
	}
	if value, ok := o.role(roleStatus); ok {
		if r.Status, ok = statusOf(value); !ok {
			return NoStatus
		}
	}
	if value, ok := o.role(roleCost); ok {
		if r.Cost, ok = costOf(value); !ok {
			return NoCost
		}
	}
	client, _ := o.role(roleClient)
	r.Client = addressOf(client)
	r.Key, _ = o.role(roleKey)
	refused, ok := o.role(roleRefused)
	r.Refused = ok && len(refused) > 0 && string(refused) != "false"
	return nil
}

// isRequest reports whether the line has what a request is for, and reads it.
func (o *object) isRequest(r *Record) bool {
	if dropped, ok := o.role(roleDropped); ok {
		n, ok := digits(dropped)
		if ok {
			r.Dropped = int(n)
		}
		return false
	}
	r.Resource, _ = o.role(roleResource)
	method, hasMethod := o.role(roleMethod)
	line, hasLine := o.role(roleRequest)
	target, hasTarget := o.role(roleURI)
	if hasLine && len(line) > 0 && line[0] == '/' { // Apache's %U is often called so
		target, hasTarget, hasLine = line, true, false
	}
	if r.Method, r.Path = method, pathOf(target); hasLine {
		r.Method, r.Path = requestOf(line)
	}
	if o.guessed && !hasLine && !hasMethod {
		_, hasStatus := o.role(roleStatus)
		hasTarget = hasTarget && hasStatus // other lines have paths too, of files
	}
	if o.roles[roleResource] != nil && !hasLine && !hasTarget {
		return len(r.Resource) > 0
	}
	return hasLine || hasTarget
}

// time reads when the request arrived, and how long it took.
func (o *object) time(r *Record) error {
	at, ok := int64(0), false
	end, ended := o.role(roleEnd)
	start, started := o.role(roleStart)
	switch {
	case started:
		at, ok = o.stamps.parse(start)
	case ended:
		at, ok = o.stamps.parse(end)
	}
	if !ok {
		return NoTime
	}
	for _, d := range durations {
		value, ok := o.role(d.role)
		if !ok || o.guessed && d.unit == time.Second && !likeSeconds(value) {
			continue
		}
		if !r.took(value, d.unit) {
			return NoDuration
		}
	}
	if r.Stamp, r.At = at, at; !started {
		r.At -= max(0, int64(r.Duration))
	}
	if o.guessed && r.Duration < 0 && o.unitless == "" {
		for _, name := range unitless {
			if value, ok := o.scalar(name); ok && len(value) > 0 && isDigit(value[0]) {
				o.unitless = name
			}
		}
	}
	return nil
}

// role returns the first member of a role that there is. An empty text says nothing.
func (o *object) role(role string) (value []byte, ok bool) {
	for _, path := range o.roles[role] {
		if value, ok = o.scalar(path); ok && len(value) > 0 {
			return value, true
		}
	}
	return nil, false
}

// scalar returns a member that is neither an object nor an array.
func (o *object) scalar(path string) (value []byte, ok bool) {
	i, ok := o.line.find(path)
	if !ok {
		return nil, false
	}
	if raw := o.line.all[i].value; raw[0] == '{' || raw[0] == '[' {
		return nil, false
	}
	return o.line.text(i)
}

// column returns a member by its path: text without its quotes, anything else as it stands.
func (o *object) column(path string) ([]byte, bool) {
	i, ok := o.line.find(path)
	if !ok {
		return nil, false
	}
	return o.line.text(i)
}
