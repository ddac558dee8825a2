package leaphttp

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRateLimit(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]time.Duration{
		`"a";r=0;t=5`:         5 * time.Second,
		`"a"; r=0; t=5`:       5 * time.Second,
		`  "a";t=5;r=0  `:     5 * time.Second,
		`a;r=0;t=5`:           5 * time.Second,
		`"a;r=0;t=9";r=0;t=5`: 5 * time.Second,
		`"a\"b\\";r=0;t=5;pk=:aGk=:;x;y=?1;z=1.5`: 5 * time.Second,
		`"a";r=0;t=5,"b";r=0;t=7`:                 7 * time.Second,
		`"a";r=1;t=5;r=0`:                         5 * time.Second, // the last of a key counts
		`"a";r=00;t=5`:                            5 * time.Second,
		`"a";r=0;t=999999999999999`:               maxWait,
		`"a";r=0;t=0`:                             0,
		`"a";r=0;t=-5`:                            0,
		`"a";r=0`:                                 0,
		`"a";r=0;t=5;at=@1800000000`:              5 * time.Second,
		`"a";r=1;t=5`:                             0,
		`"a";t=5`:                                 0,
	} {
		got, ok := parseRateLimit(field)
		require.True(t, ok, field)
		require.Equal(t, want, got, field)
	}
	for _, field := range []string{
		"", " ", ",", `"a`, `"a";r=0;t=5,`, `"a";r=0;t=5 "b"`, `"a";r=0.0;t=5`, `"a";r="0";t=5`, `"a";r;t=5`, `"a";R=0`, `"a";r=0;t=`,
		`"a\x";r=0;t=5`, `"ä";r=0;t=5`, `5;r=0;t=5`, `("a");r=0;t=5`, `"a";r=0;t=1234567890123456`, `"a";;r=0`, `limit=100, remaining=0, reset=5`,
		`"a";pk=:x;r=0;t=5`, `"a";r=-;t=5`, `"a";x=?2`, `"a";x=1.`, `"a";r=0;t=5` + strings.Repeat(" ", maxField),
	} {
		got, ok := parseRateLimit(field)
		require.False(t, ok, field)
		require.Zero(t, got, field)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "5", "-1", "1.5", "99999999999999999999", "Sat, 01 Jan 2000 00:00:09 GMT", "Sat, 01 Jan 2000 00:00:09 UTC", "9e9", "\x00", "Fri, 31 Dec 1999 23:59:59 GMT"} {
		f.Add(s, "Sat, 01 Jan 2000 00:00:00 GMT")
		f.Add(s, "")
	}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		wait, ok := parseRetryAfter(value, date, now)
		if wait < 0 || !ok && wait != 0 {
			t.Fatalf("%q, %q: %v, %v", value, date, wait, ok)
		}
	})
}

func FuzzRateLimit(f *testing.F) {
	for _, s := range []string{
		`"a";r=0;t=5`, `"a";r=0;t=5, b;r=1;t=2;pk=:aGk=:`, `"a\"";x=?0;y=1.5`, `"`, `;`, `a;`, `a;r=`, `a;*x="y"`, `:`, `?`, `-`, `1.`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		wait, ok := parseRateLimit(field)
		if wait < 0 || !ok && wait != 0 {
			t.Fatalf("%q: %v, %v", field, wait, ok)
		}
		if ok { // a list goes on being one
			more, good := parseRateLimit(strings.Trim(field, " ") + `, "x";r=0;t=1000000000000`)
			if len(field) < maxField-40 && (!good || more < wait) {
				t.Fatalf("%q: %v, and with another item %v", field, wait, more)
			}
		}
	})
}
