package leaphttp

import (
	"net/http"
	"strings"
	"time"
)

// forever is more than any server should ask for; it is bounded further by MaxPause.
const forever = 1 << 62 * time.Nanosecond

// wish is how long a server asks to wait with a refusal; 0 if it does not say.
func wish(h http.Header, now time.Time) time.Duration {
	if values := h["Retry-After"]; len(values) > 0 {
		if wait, ok := parseRetryAfter(values[0], h.Get("Date"), now); ok {
			return wait
		}
	}
	return untilMore(h)
}

// untilMore is how long nothing is left, by RateLimit; 0 if it does not say.
func untilMore(h http.Header) time.Duration {
	lines := h["Ratelimit"]
	if len(lines) == 0 {
		return 0
	}
	wait, _ := parseRateLimit(strings.Join(lines, ", "))
	return wait
}

// parseRetryAfter reads a Retry-After (RFC 9110): seconds, or a date. The date is of the
// server's clock, so the wait is from what that showed with the response.
func parseRetryAfter(value, date string, now time.Time) (time.Duration, bool) {
	value = trim(value)
	if wait, ok := parseSeconds(value); ok {
		return wait, true
	}
	at, ok := parseDate(value)
	if !ok {
		return 0, false
	}
	if sent, ok := parseDate(date); ok {
		now = sent
	}
	return max(0, at.Sub(now)), true
}

// parseSeconds reads digits. What is too large is forever.
func parseSeconds(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	var n time.Duration
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n = 10*n + time.Duration(s[i]-'0'); n > forever/time.Second/10 {
			n = forever / time.Second / 10
		}
	}
	return n * time.Second, true
}

// parseDate reads an HTTP date. Some servers end it with UTC, where GMT must be.
func parseDate(s string) (time.Time, bool) {
	if len(s) > 64 {
		return time.Time{}, false
	}
	if rest, ok := strings.CutSuffix(s, " UTC"); ok {
		s = rest + " GMT"
	}
	at, err := http.ParseTime(s)
	return at, err == nil
}

// parseRateLimit reads a RateLimit of draft-ietf-httpapi-ratelimit-headers-08 to -11, a
// List of RFC 9651, and gives the longest t of the policies of which nothing is left
// (r=0). A field that is not written as it should be counts as none, as RFC 9651 says.
func parseRateLimit(field string) (wait time.Duration, ok bool) {
	if len(field) > maxField {
		return 0, false
	}
	p := parser{strings.Trim(field, " ")}
	for p.rest != "" {
		if kind, _ := p.bareItem(); kind != kindString && kind != kindToken {
			return 0, false
		}
		remaining, t := "", ""
		for p.skip(';') {
			p.blanks(" ")
			key := p.key()
			kind, value := kindBoolean, ""
			if p.skip('=') {
				kind, value = p.bareItem()
			}
			if key == "" || kind == kindNone {
				return 0, false
			}
			switch {
			case key != "r" && key != "t":
			case kind != kindInteger:
				return 0, false
			case key == "r":
				remaining = value
			default:
				t = value
			}
		}
		if remaining != "" && strings.Trim(remaining, "-0") == "" {
			if d, ok := parseSeconds(t); ok { // a negative one is none
				wait = max(wait, d)
			}
		}
		p.blanks(" \t")
		if p.rest == "" {
			return wait, true
		}
		if !p.skip(',') {
			return 0, false
		}
		if p.blanks(" \t"); p.rest == "" {
			return 0, false // a comma at the end
		}
	}
	return 0, false
}

// maxField bounds the length of a RateLimit that is read.
const maxField = 4096

// parser takes what RFC 9651 knows off the beginning of a field.
type parser struct{ rest string }

type itemKind uint8

const (
	kindNone itemKind = iota // it is not written as it should be
	kindInteger
	kindDecimal
	kindString
	kindToken
	kindBytes
	kindBoolean
)

func (p *parser) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) blanks(which string) { p.rest = strings.TrimLeft(p.rest, which) }

// while takes the bytes off that are as they should be.
func (p *parser) while(good func(c byte) bool) string {
	end := 0
	for end < len(p.rest) && good(p.rest[end]) {
		end++
	}
	taken := p.rest[:end]
	p.rest = p.rest[end:]
	return taken
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func (p *parser) key() string {
	if p.rest == "" || !isLower(p.rest[0]) && p.rest[0] != '*' {
		return ""
	}
	return p.while(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

// bareItem takes a bare item off. The value is that of an integer only.
func (p *parser) bareItem() (kind itemKind, value string) {
	if p.rest == "" {
		return kindNone, ""
	}
	switch c := p.rest[0]; {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		return p.quoted(), ""
	case c == '*' || isAlphanumeric(c):
		p.while(func(c byte) bool { return isTokenByte(c) || c == ':' || c == '/' })
		return kindToken, ""
	case c == ':':
		p.skip(':')
		p.while(func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("+/=", c) >= 0 })
		if p.skip(':') {
			return kindBytes, ""
		}
	case c == '?':
		p.skip('?')
		if p.skip('0') || p.skip('1') {
			return kindBoolean, ""
		}
	}
	return kindNone, ""
}

func (p *parser) number() (kind itemKind, value string) {
	sign := ""
	if p.skip('-') {
		sign = "-"
	}
	whole := p.while(isDigit)
	if !p.skip('.') {
		if whole == "" || len(whole) > 15 {
			return kindNone, ""
		}
		return kindInteger, sign + whole
	}
	if part := p.while(isDigit); whole == "" || len(whole) > 12 || part == "" || len(part) > 3 {
		return kindNone, ""
	}
	return kindDecimal, ""
}

func (p *parser) quoted() itemKind {
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return kindString
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return kindNone
			}
		case c < ' ' || c > '~':
			return kindNone
		}
	}
	return kindNone
}
