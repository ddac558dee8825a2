package leaphttp

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/structured"
)

// maxWait is more than any header field should say. The waits that fields have, and those
// that are read from them, are no longer.
const maxWait = 100 * 366 * 24 * time.Hour

// pauseAsked is how long a server asks to wait with a refusal; 0 if it does not.
func pauseAsked(h http.Header, now time.Time) time.Duration {
	if values := h["Retry-After"]; len(values) > 0 {
		if wait, ok := parseRetryAfter(values[0], h.Get("Date"), now); ok {
			return wait
		}
	}
	return pauseUsedUp(h)
}

// pauseUsedUp is how long nothing is left, by RateLimit; 0 if it does not say.
func pauseUsedUp(h http.Header) time.Duration {
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
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return duration(seconds), true
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

// duration is that of seconds, or maxWait.
func duration(seconds uint64) time.Duration {
	return time.Duration(min(seconds, uint64(maxWait/time.Second))) * time.Second
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

// maxField bounds the length of a RateLimit that is read.
const maxField = 4096

// parseRateLimit reads a RateLimit of draft-ietf-httpapi-ratelimit-headers-08 to -11, and
// returns the longest t of the policies of which nothing is left (r=0). A field that is not
// as it should be counts as none, as RFC 9651 says.
func parseRateLimit(field string) (wait time.Duration, ok bool) {
	if len(field) > maxField {
		return 0, false
	}
	policies, ok := structured.ParseList(field)
	for _, p := range policies {
		r, t := p.Param("r"), p.Param("t")
		if p.Type != structured.String && p.Type != structured.Token ||
			r.Type != structured.Integer && r.Type != structured.None || t.Type != structured.Integer && t.Type != structured.None {
			return 0, false
		}
		if r.Type == structured.Integer && r.Int == 0 {
			wait = max(wait, duration(uint64(max(0, t.Int))))
		}
	}
	return wait, ok && len(policies) > 0
}
