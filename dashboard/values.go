package dashboard

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

// number is a figure in JSON. A guard that a program brings may return one that is not finite,
// which is null.
type number float64

func (n number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

func appendNumber(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	a := math.Abs(f)
	if a >= 1e15 || a != 0 && a < 1e-6 {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	if whole := int64(f); float64(whole) == f {
		return strconv.AppendInt(b, whole, 10)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// millis is a measured duration in JSON: a number of milliseconds, to the microsecond.
type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) { return appendMillis(nil, time.Duration(m)), nil }

func appendMillis(b []byte, d time.Duration) []byte {
	micros := d.Round(time.Microsecond).Microseconds()
	if micros < 0 {
		b, micros = append(b, '-'), -micros
	}
	b = strconv.AppendInt(b, micros/1000, 10)
	if rest := micros % 1000; rest != 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
		b = bytes.TrimRight(b, "0")
	}
	return b
}

type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) { return appendStamp(nil, time.Time(s)), nil }

func appendStamp(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, `"2006-01-02T15:04:05.000Z"`)
}

// appendText appends a text. What is not UTF-8 in it becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // text can always be written
	}
	return append(b, text...)
}

// rawOf is a name that is not UTF-8 as it goes into a query; "" for all others, which go
// there as they are shown.
func rawOf(name string) string {
	if utf8.ValidString(name) {
		return ""
	}
	return url.QueryEscape(name)
}
