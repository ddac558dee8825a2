package accesslog

import (
	"math"
	"strconv"
	"time"
)

// The years that int64 nanoseconds can hold, with room for durations.
const (
	firstYear = 1970
	lastYear  = 2200
)

const (
	clfLayout = "02/Jan/2006:15:04:05 -0700"
	clfLength = len(clfLayout)
)

var isoLayouts = [...]string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700",
}

// parseTime parses "20/May/2024:00:00:18 +0000", which Apache writes in brackets, "2024-05-20T00:00:18.25Z", and
// numbers as [unixTime] does.
func parseTime(s []byte) (ns int64, ok bool) {
	if n := len(s); n > 2 && s[0] == '[' && s[n-1] == ']' {
		s = s[1 : n-1]
	}
	switch {
	case len(s) > 4 && s[4] == '-':
		for _, layout := range isoLayouts {
			if at, err := time.Parse(layout, string(s)); err == nil {
				return at.UnixNano(), inRange(at)
			}
		}
		return 0, false
	case len(s) > 2 && s[2] == '/':
		at, err := time.Parse(clfLayout, string(s))
		return at.UnixNano(), err == nil && inRange(at)
	}
	return unixTime(s)
}

// unixTime parses "1716163218.250". Numbers that are too large for seconds are milliseconds, microseconds or
// nanoseconds. No time after 1973 is ambiguous.
func unixTime(s []byte) (ns int64, ok bool) {
	unit := time.Second
	for n := 0; n < len(s) && isDigit(s[n]); n++ {
		switch n + 1 {
		case 12, 15, 18:
			unit /= 1000
		}
	}
	ns, ok = decimal(s, unit)
	return ns, ok && ns >= 0 && inRange(time.Unix(0, ns))
}

func inRange(at time.Time) bool {
	year := at.UTC().Year()
	return year >= firstYear && year < lastYear
}

// decimal returns a number such as "1646861401.5241024" times a unit, without the rounding error of a floating-point
// number. Fractions of a nanosecond are cut off.
func decimal(s []byte, unit time.Duration) (ns int64, ok bool) {
	sign, text := int64(1), s
	if len(s) > 0 && s[0] == '-' {
		sign, s = -1, s[1:]
	}
	whole, n := int64(0), 0
	for ; n < len(s) && isDigit(s[n]); n++ {
		if whole > (math.MaxInt64/int64(unit)-10)/10 {
			return 0, false
		}
		whole = whole*10 + int64(s[n]-'0')
	}
	if n == 0 {
		return 0, false
	}
	ns = whole * int64(unit)
	if n < len(s) && s[n] == '.' {
		part := int64(unit)
		for n++; n < len(s) && isDigit(s[n]); n++ {
			part /= 10
			ns += int64(s[n]-'0') * part
		}
	}
	if n == len(s) {
		return sign * ns, true
	}
	f, err := strconv.ParseFloat(string(text), 64) // with an exponent
	f *= float64(unit)
	return int64(f), err == nil && math.Abs(f) < math.MaxInt64/2
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func digits(s []byte) (n int64, ok bool) {
	for _, b := range s {
		if !isDigit(b) || n > math.MaxInt32 {
			return 0, false
		}
		n = n*10 + int64(b-'0')
	}
	return n, len(s) > 0
}
