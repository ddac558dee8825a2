package structured_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/structured"
)

// A value of each type, at the bounds that RFC 9651 sets.
func TestParseList_Types(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]structured.Type{
		`0`: structured.Integer, `-0`: structured.Integer, `007`: structured.Integer,
		`999999999999999`: structured.Integer, `-999999999999999`: structured.Integer,
		`1000000000000000`: structured.None, `0000000000000001`: structured.None, `-`: structured.None, `+1`: structured.None,
		`1.5`: structured.Decimal, `-999999999999.999`: structured.Decimal,
		`1.`: structured.None, `.5`: structured.None, `1.2345`: structured.None, `1234567890123.5`: structured.None,
		`""`: structured.String, `"a\"b\\ ~"`: structured.String,
		`"`: structured.None, `"\`: structured.None, `"\x"`: structured.None, `"ä"`: structured.None, "\"\t\"": structured.None, "\"\x7f\"": structured.None,
		`a`: structured.Token, `*a/b:c!`: structured.Token, `Foo123`: structured.Token, `_a`: structured.None, `ä`: structured.None, `(a)`: structured.None,
		`::`: structured.Bytes, `:aGk=:`: structured.Bytes, `:aGk:`: structured.Bytes,
		`:`: structured.None, `:a:`: structured.None, `:aG k:`: structured.None, `:aGk=`: structured.None, `:a=Gk:`: structured.None, `:aG-_:`: structured.None,
		`?0`: structured.Boolean, `?1`: structured.Boolean, `?2`: structured.None, `?`: structured.None,
		`@0`: structured.Date, `@-62135596800`: structured.Date, `@1.5`: structured.None, `@`: structured.None,
		`%""`: structured.None,
	} {
		list := value + `;x=` + value + `, ` + value
		items, ok := structured.ParseList(list)
		require.Equal(t, want != structured.None, ok, list)
		if !ok {
			require.Nil(t, items, list)
			_, ok = structured.ParseList(`a;x=` + value)
			require.False(t, ok, value)
			continue
		}
		require.Equal(t, []structured.Type{want, want, want}, []structured.Type{items[0].Type, items[0].Param("x").Type, items[1].Type}, list)
	}
}

func TestParseList_Members(t *testing.T) {
	t.Parallel()
	items, ok := structured.ParseList("  \"a\";r=1; t=-2;r=3;on \t, \tb;r=0,5  ")
	require.True(t, ok)
	require.Len(t, items, 3)
	require.Equal(t, []structured.Type{structured.String, structured.Token, structured.Integer},
		[]structured.Type{items[0].Type, items[1].Type, items[2].Type})
	require.Equal(t, structured.Value{Type: structured.Integer, Int: 3}, items[0].Param("r"), "the last of a key counts")
	require.Equal(t, structured.Value{Type: structured.Integer, Int: -2}, items[0].Param("t"))
	require.Equal(t, structured.Value{Type: structured.Boolean}, items[0].Param("on"))
	require.Equal(t, structured.Value{Type: structured.Integer}, items[1].Param("r"))
	require.Zero(t, items[1].Param("t"))
	require.EqualValues(t, 5, items[2].Int)

	for _, empty := range []string{"", " "} {
		items, ok := structured.ParseList(empty)
		require.True(t, ok)
		require.Empty(t, items)
	}
	for _, bad := range []string{
		",", "a,", "a, ", ",a", "a,,b", "a b", "a;", "a;;b", "a;R=1", "a;1=1", "a;r=", "a; =1", "a ;r=1 b", "\ta", "a;\tr=1", "(a b)", "a;x=(b)", "a\x00",
	} {
		_, ok := structured.ParseList(bad)
		require.False(t, ok, bad)
	}
}

// What is written is read as the same.
func TestAppend_IsReadAsTheSame(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]int64{
		0: 0, -7: -7, structured.MaxInteger: structured.MaxInteger, structured.MaxInteger + 1: structured.MaxInteger,
		math.MaxInt64: structured.MaxInteger, math.MinInt64: -structured.MaxInteger,
	} {
		b := structured.AppendParam(structured.AppendString(nil, `per "day"\`), "q", n)
		items, ok := structured.ParseList(string(b))
		require.True(t, ok, string(b))
		require.Equal(t, structured.String, items[0].Type)
		require.Equal(t, want, items[0].Param("q").Int)
	}
	require.Equal(t, `"per \"day\"\\";q=7`, string(structured.AppendParam(structured.AppendString(nil, `per "day"\`), "q", 7)))
	require.True(t, structured.IsString(" ~"))
	for _, s := range []string{"\x00", "a\nb", "\x7f", "ä"} {
		require.False(t, structured.IsString(s), s)
	}
}

// A list goes on being one with another item, and a string that is one can be written.
func FuzzParseList(f *testing.F) {
	for _, s := range []string{
		`"a";r=0;t=5`, `"a";r=0;t=5, b;r=1;t=2;pk=:aGk=:`, `"a\"";x=?0;y=1.5`, `@1;a=?1`, `"`, `;`, `a;`, `a;r=`, `a;*x="y"`, `:`, `?`, `-`, `1.`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		items, ok := structured.ParseList(s)
		if ok && len(items) > 0 {
			more, good := structured.ParseList(strings.Trim(s, " ") + `, "x";r=0`)
			if !good || len(more) != len(items)+1 {
				t.Fatalf("%q: %v, and with another item %v", s, items, more)
			}
		}
		for _, i := range items {
			if i.Type == structured.None || i.Int < -structured.MaxInteger || i.Int > structured.MaxInteger {
				t.Fatalf("%q: %v", s, i)
			}
		}
		if structured.IsString(s) {
			if items, ok := structured.ParseList(string(structured.AppendString(nil, s))); !ok || items[0].Type != structured.String {
				t.Fatalf("%q", s)
			}
		}
	})
}
