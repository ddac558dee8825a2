package field

import (
	"encoding"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// Scalar is one value as it stands in a rule file.
type Scalar struct {
	Type ScalarType
	Text string // without its quotes; for a Number, Bool or Null as it is written; for a mapping see Pairs
}

// ScalarType is what a scalar is.
type ScalarType uint8

// The types of scalars.
const (
	Null     ScalarType = iota
	Boolean             // true or false
	Numeral             // a number
	Text                // in quotes, or as good as
	NoScalar            // a list or a mapping
)

// Codec reads and writes the values of fields of one type.
type Codec[T comparable] struct {
	// Type names the type: "text", "number", "whole", "flag", "duration", "bytes" or "enum".
	Type string
	// Options are the names of an enumeration's values, the default first.
	Options []string
	// Parse returns the value of a scalar that is not Null, or says what would be right.
	Parse func(s Scalar) (v T, want string)
	// Format returns a value as a scalar. The error is a value that no file can hold.
	Format func(v T) (Scalar, error)
}

// The codecs.
var (
	// String reads text, and only text, so that a number or a flag is not taken for a name.
	String = Codec[string]{
		Type: "text",
		Parse: func(s Scalar) (string, string) {
			switch s.Type {
			case Text:
				return s.Text, ""
			case Boolean, Numeral:
				return "", fmt.Sprintf(`text: "%s", in quotes`, escape.Short(s.Text))
			default:
				return "", "text"
			}
		},
		Format: func(v string) (Scalar, error) { return Scalar{Text, v}, nil },
	}

	// Pairs reads text such as "a=1, b=2", also from a mapping, {a: 1, b: 2}.
	Pairs = Codec[string]{
		Type: "text",
		Parse: func(s Scalar) (string, string) {
			if (s.Type == Text || s.Type == NoScalar) && s.Text != "" {
				return s.Text, ""
			}
			return "", `a mapping such as {vip: 10, ban: 0}, or text: "vip=10, ban=0"`
		},
		Format: func(v string) (Scalar, error) { return Scalar{Text, v}, nil },
	}

	// Flag reads true and false.
	Flag = Codec[bool]{
		Type: "flag",
		Parse: func(s Scalar) (bool, string) {
			if s.Type != Boolean {
				return false, "true or false, without quotes"
			}
			return s.Text == "true" || s.Text == "True" || s.Text == "TRUE", ""
		},
		Format: func(v bool) (Scalar, error) { return Scalar{Boolean, strconv.FormatBool(v)}, nil },
	}

	// Number reads decimal numbers.
	Number = Codec[float64]{
		Type: "number",
		Parse: func(s Scalar) (float64, string) {
			if s.Type != Numeral || !IsNumber(s.Text) {
				return 0, "a decimal number, such as 100 or 0.5" + unquote(s)
			}
			v, err := strconv.ParseFloat(s.Text, 64)
			if err != nil {
				return 0, "a number that is not so large"
			}
			return v, ""
		},
		Format: formatNumber,
	}

	// Int and Int64 read whole numbers, also as 1e6.
	Int = Codec[int]{
		Type: "whole",
		Parse: func(s Scalar) (int, string) {
			v, want := whole(s, math.MaxInt32)
			return int(v), want
		},
		Format: func(v int) (Scalar, error) { return Scalar{Numeral, strconv.Itoa(v)}, nil },
	}
	Int64 = Codec[int64]{
		Type:   "whole",
		Parse:  func(s Scalar) (int64, string) { return whole(s, math.MaxInt64) },
		Format: func(v int64) (Scalar, error) { return Scalar{Numeral, strconv.FormatInt(v, 10)}, nil },
	}

	// Duration reads durations with their unit, such as "1h30m".
	Duration = Codec[time.Duration]{
		Type:   "duration",
		Parse:  parseDuration,
		Format: func(v time.Duration) (Scalar, error) { return Scalar{Text, ShortDuration(v)}, nil },
	}

	// Bytes reads amounts of memory: a number of bytes, or text with one of the units of
	// GOMEMLIMIT. (What people call MB is now one thing, now another.)
	Bytes = Codec[int64]{Type: "bytes", Parse: parseBytes, Format: formatBytes}
)

func formatNumber(v float64) (Scalar, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Scalar{}, fmt.Errorf("%v; want a finite number", v)
	}
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
		format = 'e'
	}
	return Scalar{Numeral, strconv.FormatFloat(v, format, -1, 64)}, nil
}

var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// IsNumber reports whether text is a decimal number as in JSON.
func IsNumber(text string) bool { return number.MatchString(text) }

// unquote helps with what is right but for its quotes.
func unquote(s Scalar) string {
	if s.Type == Text && IsNumber(s.Text) {
		return ", without quotes"
	}
	return ""
}

// whole reads whole numbers, also as 1e6.
func whole(s Scalar, most int64) (int64, string) {
	if s.Type != Numeral || !IsNumber(s.Text) {
		return 0, "a whole number" + unquote(s)
	}
	if v, err := strconv.ParseInt(s.Text, 10, 64); err == nil && v >= -most && v <= most {
		return v, ""
	}
	v, err := strconv.ParseFloat(s.Text, 64)
	switch {
	case err != nil || math.Abs(v) > float64(most):
		return 0, fmt.Sprintf("a whole number of at most %d", most)
	case v != math.Trunc(v) || math.Abs(v) >= 1<<53: // beyond, a float64 is not exact
		return 0, "a whole number"
	default:
		return int64(v), ""
	}
}

const wantDuration = `a duration such as "250ms", "1s" or "1h30m"`

func parseDuration(s Scalar) (time.Duration, string) {
	switch s.Type {
	case Text:
		d, err := time.ParseDuration(s.Text)
		if err == nil {
			return d, ""
		}
		if days, ok := strings.CutSuffix(s.Text, "d"); ok && IsNumber(days) {
			return 0, wantDuration + "; the largest unit is h"
		}
		if IsNumber(s.Text) {
			return 0, fmt.Sprintf("%s; there is no unit, perhaps \"%ss\" is meant", wantDuration, escape.Short(s.Text))
		}
		return 0, wantDuration
	case Numeral:
		return 0, wantDuration + "; a number has no unit"
	default:
		return 0, wantDuration
	}
}

// ShortDuration is a duration without the zeros at its end: 24h, not 24h0m0s.
func ShortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

const wantBytes = `a number of bytes, or text such as "512MiB" or "2GiB"`

func parseBytes(s Scalar) (int64, string) {
	switch s.Type {
	case Numeral:
		if v, want := whole(s, math.MaxInt64); want == "" {
			return v, ""
		}
		return 0, wantBytes
	case Text:
		for _, unit := range units {
			digits, ok := strings.CutSuffix(s.Text, unit.name)
			if !ok || !IsNumber(digits) {
				continue
			}
			v, err := strconv.ParseInt(digits, 10, 64)
			if err != nil || v > math.MaxInt64/unit.bytes || v < math.MinInt64/unit.bytes {
				return 0, wantBytes + "; whole numbers only"
			}
			return v * unit.bytes, ""
		}
		return 0, wantBytes + "; the units are B, KiB, MiB, GiB and TiB"
	default:
		return 0, wantBytes
	}
}

func formatBytes(v int64) (Scalar, error) {
	for _, unit := range units {
		if v != 0 && unit.bytes > 1 && v%unit.bytes == 0 {
			return Scalar{Text, strconv.FormatInt(v/unit.bytes, 10) + unit.name}, nil
		}
	}
	return Scalar{Numeral, strconv.FormatInt(v, 10)}, nil
}

// Enum reads and writes an enumeration by the names of its values, which begin at 0.
func Enum[T interface {
	~uint8
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}]() Codec[T] {
	var names []string
	for v := T(0); ; v++ {
		name, err := v.MarshalText()
		if err != nil {
			break
		}
		names = append(names, string(name))
	}
	last := len(names) - 1
	want := strings.Join(names[:last], ", ") + " or " + names[last]
	return Codec[T]{
		Type: "enum", Options: names,
		Parse: func(s Scalar) (T, string) {
			var v T
			if s.Type == Text && P(&v).UnmarshalText([]byte(s.Text)) == nil {
				return v, ""
			}
			if lower := T(0); s.Type == Text && P(&lower).UnmarshalText([]byte(strings.ToLower(s.Text))) == nil {
				return v, want + ", in small letters"
			}
			return v, want
		},
		Format: func(v T) (Scalar, error) {
			name, err := v.MarshalText()
			return Scalar{Text, string(name)}, err
		},
	}
}
