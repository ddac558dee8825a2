package accesslog

import (
	"math"
	"strconv"
	"time"
)

// Times that nanoseconds in an int64 can hold, with room for what is added to them.
const (
	firstYear = 1970
	lastYear  = 2200
)

// clfTime reads "20/May/2024:00:00:18 +0000". Lines that follow each other mostly have the same
// date and zone, so what they begin with is kept.
type clfTime struct {
	day   [12]byte // "20/May/2024:"
	zone  [5]byte
	start int64 // of the day in the zone
}

func (c *clfTime) parse(s []byte) (ns int64, ok bool) {
	const length = len("20/May/2024:00:00:18 +0000")
	if len(s) != length || s[20] != ' ' {
		return 0, false
	}
	if string(s[:12]) != string(c.day[:]) || string(s[21:]) != string(c.zone[:]) {
		// time.Parse does not take a time of day as good that does not exist.
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(s[:12])+"00:00:00 "+string(s[21:]))
		if err != nil || !inRange(at) {
			return 0, false
		}
		copy(c.day[:], s)
		copy(c.zone[:], s[21:])
		c.start = at.Unix()
	}
	seconds, ok := timeOfDay(s[12:20])
	return (c.start + seconds) * int64(time.Second), ok
}

// timeOfDay reads "00:00:18". A second of 60 is a leap second, which is the next one.
func timeOfDay(s []byte) (seconds int64, ok bool) {
	hour, ok1 := digits(s[0:2])
	minute, ok2 := digits(s[3:5])
	second, ok3 := digits(s[6:8])
	ok = ok1 && ok2 && ok3 && s[2] == ':' && s[5] == ':' && hour < 24 && minute < 60 && second <= 60
	return hour*3600 + minute*60 + second, ok
}

// isoTime reads "2024-05-20T00:00:18.25Z", and with an offset.
func isoTime(s []byte) (ns int64, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil || !inRange(at) {
		return 0, false
	}
	return at.UnixNano(), true
}

// unixTime reads "1716163218.250", of a time that can be.
func unixTime(s []byte) (ns int64, ok bool) {
	ns, ok = decimal(s, time.Second)
	return ns, ok && ns >= 0 && inRange(time.Unix(0, ns))
}

func inRange(at time.Time) bool {
	year := at.Year()
	return year >= firstYear && year < lastYear && at.Unix() >= 0
}

// decimal reads a number such as "1646861401.5241024" times a unit, without the error that a
// floating-point number has. What is below a nanosecond is cut off.
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
