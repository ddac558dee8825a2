package gatetest

import (
	"testing"
	"unicode"
)

// RequirePrintable requires that a text has nothing in it that cannot be printed, but for
// the ends of its lines.
func RequirePrintable(t testing.TB, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%q is in %q", r, text)
		}
	}
}
