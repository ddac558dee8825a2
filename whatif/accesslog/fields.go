package accesslog

import (
	"bytes"
	"net/netip"
	"time"
)

// field is the meaning of a field of a line. JSON lines assign their fields in this order, so that a request line
// overrides a method and a target.
type field uint8

const (
	isColumn    field = iota // no meaning: it is only a column
	isTimeLocal              // 20/May/2024:00:00:18 +0000
	isTime                   // the time of the line, in any known form
	isStart                  // the time of arrival, in any known form
	isSeconds                // 3.500
	isMillis                 // 3500
	isMicros                 // 3500000
	isNanos                  // 3500000000
	isPart                   // a part of the duration, in seconds
	isMethod
	isURI
	isRequest // GET /orders?page=2 HTTP/1.1
	isStatus
	isClient
	isForwarded // the addresses that proxies saw
	isFlags     // the response flags of Envoy
	isCost
	isResource
	isKey
	isRefused // empty or false if the request was admitted
	isDropped
	numFields
)

var units = map[field]time.Duration{
	isSeconds: time.Second, isMillis: time.Millisecond, isMicros: time.Microsecond, isNanos: time.Nanosecond,
}

// set stores the value of a field.
func (r *Record) set(f field, value []byte) error {
	ok, fault := true, NoTime
	switch f {
	case isTimeLocal, isTime, isStart:
		if f == isStart && string(value) == "-" {
			break
		}
		at := int64(0)
		if at, ok = parseTime(value); !r.started {
			r.Stamp, r.stamped, r.started = at, true, f == isStart
		}
	case isSeconds, isMillis, isMicros, isNanos:
		fault, ok = NoDuration, r.took(value, units[f])
	case isPart:
		ns, valid := decimal(value, time.Second)
		fault, ok = NoDuration, valid && ns < maxDuration
		if r.hasParts = true; ns < 0 {
			r.parts = -maxParts
		}
		r.parts += time.Duration(ns)
	case isMethod:
		r.Method = value
	case isURI:
		r.Path = pathOf(value)
	case isRequest:
		r.Method, r.Path = requestOf(value)
	case isStatus:
		fault = NoStatus
		r.Status, ok = statusOf(value)
	case isClient:
		r.Client = addressOf(value)
	case isForwarded: // a proxy appends the address that it saw
		r.Client = addressOf(bytes.TrimSpace(value[bytes.LastIndexByte(value, ',')+1:]))
	case isFlags:
		r.Refused = refusedByEnvoy(value)
	case isCost:
		fault = NoCost
		r.Cost, ok = costOf(value)
	case isResource:
		r.Resource = value
	case isKey:
		r.Key = value
	case isRefused:
		r.Refused = string(value) != "false"
	case isColumn, isDropped, numFields: // nothing to store
	}
	if !ok {
		return fault
	}
	return nil
}

// finish computes the time of arrival after all fields are set.
func (r *Record) finish() error {
	if !r.stamped {
		return NoTime
	}
	if r.hasParts && r.parts >= 0 {
		r.Duration = r.parts
	}
	if r.At = r.Stamp; !r.started {
		r.At -= max(0, int64(r.Duration))
	}
	return nil
}

// took stores a duration, and reports whether it can be read. "-" and negative numbers mean that it is unknown.
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

const (
	maxDuration = int64(365 * 24 * time.Hour) // of one request, in nanoseconds
	maxParts    = 10 * time.Duration(maxDuration)
	maxCost     = 1<<32 - 1
)

// statusOf parses a status. nginx writes 000 and 009 for requests without a response.
func statusOf(value []byte) (status int, ok bool) {
	if len(value) != 3 {
		return 0, string(value) == "-" || string(value) == "0"
	}
	n, ok := digits(value)
	if n < 100 {
		n = 0
	}
	return int(n), ok
}

// costOf parses a cost. "-" means that it is unknown.
func costOf(value []byte) (cost int64, ok bool) {
	if string(value) == "-" {
		return 0, true
	}
	cost, ok = decimal(value, 1)
	return cost, ok && cost >= 0 && cost <= maxCost
}

const httpVersion = "HTTP/"

// requestOf returns the method and the path of a request line. Both are empty if the line is not HTTP.
func requestOf(line []byte) (method, path []byte) {
	blank := 0
	for blank < len(line) && 'A' <= line[blank] && line[blank] <= 'Z' {
		blank++
	}
	if blank == 0 || blank == len(line) || line[blank] != ' ' {
		return nil, nil
	}
	method, rest := line[:blank], line[blank+1:]
	end := bytes.LastIndex(rest, []byte(" "+httpVersion))
	if end < 0 {
		return nil, nil
	}
	return method, pathOf(rest[:end])
}

// pathOf returns the path of a request target: "/orders" for "/orders?page=2" and for
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
	if string(s) == "-" {
		return nil
	}
	last := bytes.LastIndexByte(s, ':')
	if last <= 0 {
		return s
	}
	if bytes.IndexByte(s, ':') < last { // ALB also writes 2001:db8::1:443 without brackets
		if _, err := netip.ParseAddr(string(s)); err == nil {
			return s
		}
	}
	return s[:last]
}

// refusedByEnvoy reports whether Envoy itself blocked the request: rate limited, overflow, no healthy upstream.
func refusedByEnvoy(flags []byte) bool {
	for flag := range bytes.SplitSeq(flags, []byte(",")) {
		switch string(flag) {
		case "RL", "UO", "UH":
			return true
		}
	}
	return false
}
