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

// stamps reads times in any way that is known. Lines that follow each other mostly have the same
// date and zone, so what they begin with is kept.
type stamps struct {
	clf clfTime
	iso isoTime
}

// parse reads "20/May/2024:00:00:18 +0000", which Apache puts in brackets, "2024-05-20T00:00:18.25Z", and a number
// as [unixTime] does.
func (t *stamps) parse(s []byte) (ns int64, ok bool) {
	switch n := len(s); {
	case n > 4 && s[4] == '-':
		return t.iso.parse(s)
	case n > 2 && s[2] == '/':
		return t.clf.parse(s)
	case n > 2 && s[0] == '[' && s[n-1] == ']':
		return t.clf.parse(s[1 : n-1])
	}
	return unixTime(s)
}

// clfTime reads "20/May/2024:00:00:18 +0000".
type clfTime struct {
	day   [12]byte // "20/May/2024:"
	zone  [6]byte  // " +0000"
	start int64    // of the day in the zone
}

const clfLength = len("20/May/2024:00:00:18 +0000")

func (c *clfTime) parse(s []byte) (ns int64, ok bool) {
	if len(s) != clfLength || s[20] != ' ' {
		return 0, false
	}
	if [12]byte(s[:12]) != c.day || [6]byte(s[20:]) != c.zone {
		// time.Parse does not take a time of day as good that does not exist.
		at, err := time.Parse("02/Jan/2006: -0700", string(s[:12])+string(s[20:]))
		if err != nil || !inRange(at) {
			return 0, false
		}
		c.day, c.zone, c.start = [12]byte(s[:12]), [6]byte(s[20:]), at.Unix()
	}
	seconds, ok := timeOfDay(s[12:20])
	return (c.start + seconds) * int64(time.Second), ok
}

// timeOfDay reads "00:00:18". A second of 60 is a leap second, which is the next one.
func timeOfDay(s []byte) (seconds int64, ok bool) {
	_ = s[7]
	h1, h2, m1, m2, s1, s2 := s[0]-'0', s[1]-'0', s[3]-'0', s[4]-'0', s[6]-'0', s[7]-'0'
	hour, minute, second := int64(h1)*10+int64(h2), int64(m1)*10+int64(m2), int64(s1)*10+int64(s2)
	ok = h1 <= 9 && h2 <= 9 && m1 <= 9 && m2 <= 9 && s1 <= 9 && s2 <= 9 &&
		s[2] == ':' && s[5] == ':' && hour < 24 && minute < 60 && second <= 60
	return hour*3600 + minute*60 + second, ok
}

// isoTime reads "2024-05-20T00:00:18.25Z", with an offset such as +02:00 or +0200, and with a blank in
// place of the T.
type isoTime struct {
	day   [10]byte // "2024-05-20"
	start int64    // in UTC
}

func (c *isoTime) parse(s []byte) (ns int64, ok bool) {
	const seconds = len("2024-05-20T00:00:18")
	if len(s) <= seconds || s[4] != '-' || s[10] != 'T' && s[10] != ' ' {
		return 0, false
	}
	if [10]byte(s[:10]) != c.day {
		at, err := time.Parse(time.DateOnly, string(s[:10]))
		if err != nil || !inRange(at) {
			return 0, false
		}
		c.day, c.start = [10]byte(s[:10]), at.Unix()
	}
	at, ok := timeOfDay(s[11:seconds])
	if !ok {
		return 0, false
	}
	rest := s[seconds:]
	if rest[0] == '.' || rest[0] == ',' {
		n, digit := 1, int64(time.Second)
		for ; n < len(rest) && isDigit(rest[n]); n++ {
			digit /= 10
			ns += int64(rest[n]-'0') * digit
		}
		if rest = rest[n:]; n == 1 {
			return 0, false
		}
	}
	east, ok := offset(rest)
	at += c.start - east
	return at*int64(time.Second) + ns, ok && at >= 0
}

// offset reads "Z", "+02:00" and "+0200", after a blank too, as seconds to the east.
func offset(s []byte) (east int64, ok bool) {
	if len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	if len(s) == 1 {
		return 0, s[0] == 'Z'
	}
	if len(s) == 6 && s[3] == ':' {
		s = append(append(make([]byte, 0, 5), s[:3]...), s[4:]...)
	}
	if len(s) != 5 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	n, ok := digits(s[1:])
	if east = n/100*3600 + n%100*60; s[0] == '-' {
		east = -east
	}
	return east, ok && n/100 < 24 && n%100 < 60
}

// unixTime reads "1716163218.250", of a time that can be. Numbers that are too large for seconds
// are milliseconds, microseconds or nanoseconds: there is no time after 1973 that can be taken for another.
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
