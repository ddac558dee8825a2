package rulefile

import (
	"encoding"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/document"
)

// kind is how the values of fields of one type are read and written.
type kind[T comparable] struct {
	// parse gives the value of a node that is not null, or says what would be right.
	parse func(n *document.Node) (v T, want string)
	// format gives a value as it stands in a file; text is true if that goes in quotes
	// where it must.
	format func(v T) (s string, text bool, err error)
}

var textKind = kind[string]{
	parse: func(n *document.Node) (string, string) {
		switch n.Kind {
		case document.Text:
			return n.Text, ""
		case document.Bool, document.Number:
			return "", fmt.Sprintf(`text: "%s", in quotes`, short(n.Text))
		default:
			return "", "text"
		}
	},
	format: func(v string) (string, bool, error) { return v, true, nil },
}

var flagKind = kind[bool]{
	parse: func(n *document.Node) (bool, string) {
		if n.Kind != document.Bool {
			return false, "true or false, without quotes"
		}
		return n.Text == "true" || n.Text == "True" || n.Text == "TRUE", ""
	},
	format: func(v bool) (string, bool, error) { return strconv.FormatBool(v), false, nil },
}

var numberKind = kind[float64]{
	parse: func(n *document.Node) (float64, string) {
		if n.Kind != document.Number || !document.IsNumber(n.Text) {
			return 0, "a decimal number, such as 100 or 0.5" + unquote(n)
		}
		v, err := strconv.ParseFloat(n.Text, 64)
		if err != nil {
			return 0, "a number that is not so large"
		}
		return v, ""
	},
	format: func(v float64) (string, bool, error) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", false, fmt.Errorf("%v; want a finite number", v)
		}
		if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
			return strconv.FormatFloat(v, 'e', -1, 64), false, nil
		}
		return strconv.FormatFloat(v, 'f', -1, 64), false, nil
	},
}

// unquote helps with what is right but for its quotes.
func unquote(n *document.Node) string {
	if n.Kind == document.Text && document.IsNumber(n.Text) {
		return ", without quotes"
	}
	return ""
}

// whole reads whole numbers, also as 1e6.
func whole(n *document.Node, most int64) (int64, string) {
	if n.Kind != document.Number || !document.IsNumber(n.Text) {
		return 0, "a whole number" + unquote(n)
	}
	if v, err := strconv.ParseInt(n.Text, 10, 64); err == nil && v >= -most && v <= most {
		return v, ""
	}
	v, err := strconv.ParseFloat(n.Text, 64)
	switch {
	case err != nil || math.Abs(v) > float64(most):
		return 0, fmt.Sprintf("a whole number of at most %d", most)
	case v != math.Trunc(v) || math.Abs(v) >= 1<<53: // beyond, a float64 is not exact
		return 0, "a whole number"
	default:
		return int64(v), ""
	}
}

var intKind = kind[int]{
	parse: func(n *document.Node) (int, string) {
		v, want := whole(n, math.MaxInt32)
		return int(v), want
	},
	format: func(v int) (string, bool, error) { return strconv.Itoa(v), false, nil },
}

var int64Kind = kind[int64]{
	parse:  func(n *document.Node) (int64, string) { return whole(n, math.MaxInt64) },
	format: func(v int64) (string, bool, error) { return strconv.FormatInt(v, 10), false, nil },
}

const wantDuration = `a duration such as "250ms", "1s" or "1h30m"`

var durationKind = kind[time.Duration]{
	parse: func(n *document.Node) (time.Duration, string) {
		switch n.Kind {
		case document.Text:
			d, err := time.ParseDuration(n.Text)
			if err == nil {
				return d, ""
			}
			if days, ok := strings.CutSuffix(n.Text, "d"); ok && document.IsNumber(days) {
				return 0, wantDuration + "; the largest unit is h"
			}
			if document.IsNumber(n.Text) {
				return 0, fmt.Sprintf("%s; there is no unit, perhaps \"%ss\" is meant", wantDuration, short(n.Text))
			}
			return 0, wantDuration
		case document.Number:
			return 0, wantDuration + "; a number has no unit"
		default:
			return 0, wantDuration
		}
	},
	format: func(v time.Duration) (string, bool, error) { return shortDuration(v), true, nil },
}

// shortDuration is a duration without the zeros behind: 24h, not 24h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// units of memory are those of GOMEMLIMIT: what people call MB is now one thing, now
// another.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

const wantBytes = `a number of bytes, or text such as "512MiB" or "2GiB"`

var bytesKind = kind[int64]{
	parse: func(n *document.Node) (int64, string) {
		switch n.Kind {
		case document.Number:
			if v, want := whole(n, math.MaxInt64); want == "" {
				return v, ""
			}
			return 0, wantBytes
		case document.Text:
			for _, unit := range units {
				digits, ok := strings.CutSuffix(n.Text, unit.name)
				if !ok || !document.IsNumber(digits) {
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
	},
	format: func(v int64) (string, bool, error) {
		for _, unit := range units {
			if v != 0 && unit.bytes > 1 && v%unit.bytes == 0 {
				return strconv.FormatInt(v/unit.bytes, 10) + unit.name, true, nil
			}
		}
		return strconv.FormatInt(v, 10), false, nil
	},
}

// enumKind reads and writes what has a text of its own.
func enumKind[T interface {
	~uint8
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}]() kind[T] {
	names := func() string {
		var all []string
		for v := T(0); ; v++ {
			name, err := v.MarshalText()
			if err != nil {
				break
			}
			all = append(all, string(name))
		}
		last := len(all) - 1
		return strings.Join(all[:last], ", ") + " or " + all[last]
	}
	return kind[T]{
		parse: func(n *document.Node) (T, string) {
			var v T
			if n.Kind != document.Text || P(&v).UnmarshalText([]byte(n.Text)) != nil {
				if lower := T(0); n.Kind == document.Text && P(&lower).UnmarshalText([]byte(strings.ToLower(n.Text))) == nil {
					return v, names() + ", in small letters"
				}
				return v, names()
			}
			return v, ""
		},
		format: func(v T) (string, bool, error) {
			name, err := v.MarshalText()
			return string(name), true, err
		},
	}
}
