package accesslog

import (
	"bytes"
	"net/netip"
	"time"
)

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

// statusOf reads a status. nginx writes 000 and 009 for requests that got no answer.
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

// maxCost is the most that a request can cost.
const maxCost = 1 << 40

// costOf reads how much a request takes of a limit. "-" stands for what is not known.
func costOf(value []byte) (cost int64, ok bool) {
	if string(value) == "-" {
		return 0, true
	}
	ns, ok := decimal(value, 1)
	return ns, ok && ns >= 0 && ns <= maxCost
}

const httpVersion = "HTTP/"

// requestOf returns the method and the path of a request line. Clients send all kinds of things:
// what is not HTTP has neither.
func requestOf(line []byte) (method, path []byte) {
	blank := 0
	for blank < len(line) && 'A' <= line[blank] && line[blank] <= 'Z' {
		blank++
	}
	if blank == 0 || blank == len(line) || line[blank] != ' ' {
		return nil, nil
	}
	method, rest := line[:blank], line[blank+1:]
	end := bytes.LastIndexByte(rest, ' ')
	if end < 0 || !bytes.HasPrefix(rest[end+1:], []byte(httpVersion)) {
		if end = bytes.LastIndex(rest, []byte(" "+httpVersion)); end < 0 {
			return nil, nil
		}
	}
	return method, pathOf(rest[:end])
}

// pathOf returns the path of a target: "/orders" of "/orders?page=2" and of
// "https://example.com/orders#top".
func pathOf(target []byte) []byte {
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	if i := bytes.IndexByte(target, '#'); i >= 0 {
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
	first := bytes.IndexByte(s, ':')
	if first < 0 {
		if string(s) == "-" {
			return nil
		}
		return s
	}
	last := bytes.LastIndexByte(s, ':')
	if first > 0 && last == first {
		return s[:last]
	}
	if last > 0 { // ALB writes 2001:db8::1:443 without brackets too
		if _, err := netip.ParseAddr(string(s)); err != nil {
			return s[:last]
		}
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
