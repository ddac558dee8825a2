package charging

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzKey: no key of a client is too long for a limiter or a gate, or one of the package's
// own.
func FuzzKey(f *testing.F) {
	for _, s := range []string{
		"", "a", "\x00", "\x00?", "\x00#x", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("é", 600), "\xff", "a\nb", "a…#b",
		strings.Repeat("x", 15) + "é" + strings.Repeat("y", 99), Key(strings.Repeat("x", 65)),
	} {
		f.Add(s, "")
		f.Add(s, "\x00"+s)
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, c := range []struct {
			of   func(string) string
			most int
		}{{Bounded, 1024}, {Key, 64}} {
			x, y := c.of(a), c.of(b)
			if len(x) > c.most || (x == "" || x == UnknownKey) != (a == "") {
				t.Fatalf("%q becomes %q", a, x)
			}
			if (x == y) != (a == b) {
				t.Fatalf("%q and %q become %q and %q", a, b, x, y)
			}
			if utf8.ValidString(a) && !utf8.ValidString(x) {
				t.Fatalf("%q becomes %q", a, x)
			}
		}
	})
}
