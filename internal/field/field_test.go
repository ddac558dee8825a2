package field_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/rule"
)

// size is an enumeration of a kind of rules that there is not.
type size uint8

const (
	small size = iota
	veryLarge
)

func (s size) MarshalText() ([]byte, error) {
	if s > veryLarge {
		return nil, errors.New("no such size")
	}
	return []byte([]string{"small", "very-large"}[s]), nil
}

func (s *size) UnmarshalText(text []byte) error {
	for v := range veryLarge + 1 {
		if name, _ := v.MarshalText(); string(name) == string(text) {
			*s = v
			return nil
		}
	}
	return errors.New("no such size")
}

func parsed[T comparable](codec field.Codec[T], s field.Scalar) string {
	v, want := codec.Parse(s)
	if want != "" {
		return "want " + want
	}
	return fmt.Sprint(v)
}

func TestCodecs_ReadWhatIsRightAndSayWhatWouldBe(t *testing.T) {
	t.Parallel()
	text := func(s string) field.Scalar { return field.Scalar{Type: field.Text, Text: s} }
	numeral := func(s string) field.Scalar { return field.Scalar{Type: field.Numeral, Text: s} }
	boolean := func(s string) field.Scalar { return field.Scalar{Type: field.Boolean, Text: s} }
	list := field.Scalar{Type: field.NoScalar}
	const wantDuration = `want a duration such as "250ms", "1s" or "1h30m"`
	const wantBytes = `want a number of bytes, or text such as "512MiB" or "2GiB"`
	for _, c := range []struct{ got, want string }{
		{parsed(field.String, text("a: b")), "a: b"},
		{parsed(field.String, numeral("5")), `want text: "5", in quotes`},
		{parsed(field.String, boolean("true")), `want text: "true", in quotes`},
		{parsed(field.String, list), "want text"},
		{parsed(field.Flag, boolean("True")), "true"},
		{parsed(field.Flag, boolean("false")), "false"},
		{parsed(field.Flag, text("true")), "want true or false, without quotes"},
		{parsed(field.Number, numeral("0.5")), "0.5"},
		{parsed(field.Number, numeral("1e3")), "1000"},
		{parsed(field.Number, text("5")), "want a decimal number, such as 100 or 0.5, without quotes"},
		{parsed(field.Number, numeral("0x10")), "want a decimal number, such as 100 or 0.5"},
		{parsed(field.Number, numeral("1e999")), "want a number that is not so large"},
		{parsed(field.Int, numeral("1e6")), "1000000"},
		{parsed(field.Int, numeral("2147483648")), "want a whole number of at most 2147483647"},
		{parsed(field.Int64, numeral("9223372036854775807")), "9223372036854775807"},
		{parsed(field.Int64, numeral("9e15")), "9000000000000000"},
		{parsed(field.Int64, numeral("1e16")), "want a whole number"},
		{parsed(field.Int64, numeral("1.5")), "want a whole number"},
		{parsed(field.Int64, text("15")), "want a whole number, without quotes"},
		{parsed(field.Duration, text("1h30m")), "1h30m0s"},
		{parsed(field.Duration, text("7d")), wantDuration + "; the largest unit is h"},
		{parsed(field.Duration, text("10")), wantDuration + `; there is no unit, perhaps "10s" is meant`},
		{parsed(field.Duration, numeral("10")), wantDuration + "; a number has no unit"},
		{parsed(field.Duration, list), wantDuration},
		{parsed(field.Bytes, text("512MiB")), "536870912"},
		{parsed(field.Bytes, numeral("7")), "7"},
		{parsed(field.Bytes, text("1.5GiB")), wantBytes + "; whole numbers only"},
		{parsed(field.Bytes, text("8388608TiB")), wantBytes + "; whole numbers only"},
		{parsed(field.Bytes, text("5GB")), wantBytes + "; the units are B, KiB, MiB, GiB and TiB"},
		{parsed(field.Enum[size](), text("very-large")), "1"},
		{parsed(field.Enum[size](), text("Very-Large")), "want small or very-large, in small letters"},
		{parsed(field.Enum[size](), numeral("1")), "want small or very-large"},
	} {
		require.Equal(t, c.want, c.got)
	}
	require.Equal(t, []string{"small", "very-large"}, field.Enum[size]().Options)
}

func TestCodecs_WriteWhatTheyRead(t *testing.T) {
	t.Parallel()
	for _, v := range []float64{0, 0.1, 1e-7, 1e15, 123456789.25, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		back(t, field.Number, v)
	}
	for _, v := range []time.Duration{0, 1, time.Second, 24 * time.Hour, 90 * time.Minute, math.MaxInt64} {
		back(t, field.Duration, v)
	}
	for _, v := range []int64{0, 1, 1 << 10, 1<<10 + 1, 3 << 30, math.MaxInt64} {
		back(t, field.Bytes, v)
		back(t, field.Int64, v)
	}
	back(t, field.Int, 7)
	back(t, field.String, "")
	back(t, field.Flag, true)
	back(t, field.Enum[size](), veryLarge)
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		_, err := field.Number.Format(v)
		require.ErrorContains(t, err, "want a finite number")
	}
	_, err := field.Enum[size]().Format(2)
	require.Error(t, err)
	for d, want := range map[time.Duration]string{24 * time.Hour: "24h", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 0: "0s"} {
		require.Equal(t, want, field.ShortDuration(d))
	}
}

func back[T comparable](t *testing.T, codec field.Codec[T], v T) {
	t.Helper()
	s, err := codec.Format(v)
	require.NoError(t, err)
	got, want := codec.Parse(s)
	require.Empty(t, want, "%v as %q", v, s.Text)
	require.Equal(t, v, got)
}

// quotaRule is a rule of a kind that there is not.
type quotaRule struct {
	id, resource, source string
	match                rule.Match
	mode                 rule.Mode
	most                 int64
}

func TestHead_TargetIsWhatARuleIsCalledAfter(t *testing.T) {
	t.Parallel()
	name, match := "GET /orders", rule.Glob
	head := field.Head{Resource: &name, Match: &match}
	require.Equal(t, "GET /orders", head.Target())
	match = rule.Default
	require.Equal(t, "*", head.Target())
}

func headOf(r *quotaRule) field.Head {
	return field.Head{ID: &r.id, Resource: &r.resource, Match: &r.match, Mode: &r.mode, Source: &r.source}
}

func TestField_ReadsAndWritesItsPlaceInARule(t *testing.T) {
	t.Parallel()
	first, mode := field.HeadFields(headOf)
	fields := append(first, field.Define(field.Int64, func(r *quotaRule) *int64 { return &r.most }, field.About{Name: "most", GoName: "Most"}), mode)
	var r quotaRule
	for i, s := range []field.Scalar{
		{Type: field.Text, Text: "few"},
		{Type: field.Text, Text: "GET *"},
		{Type: field.Text, Text: "glob"},
		{Type: field.Numeral, Text: "5"},
		{Type: field.Text, Text: "shadow"},
	} {
		_, zero, err := fields[i].Write(&r)
		require.NoError(t, err)
		require.True(t, zero, fields[i].Name)
		require.Empty(t, fields[i].Read(&r, s), fields[i].Name)
		written, zero, err := fields[i].Write(&r)
		require.NoError(t, err)
		require.False(t, zero)
		require.Equal(t, s, written)
	}
	require.Equal(t, quotaRule{id: "few", resource: "GET *", match: rule.Glob, mode: rule.Shadow, most: 5}, r)
	require.Equal(t, "a whole number", fields[3].Read(&r, field.Scalar{Type: field.NoScalar}))
	require.EqualValues(t, 5, r.most, "what cannot be read changes nothing")
}
