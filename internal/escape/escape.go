// Package escape makes text that came from outside fit for terminals and logs.
package escape

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Text gives s as it is, or, if something in it cannot be printed, in quotes with that
// escaped. So no line ends early, no terminal is told to do things, and no letters run
// the other way.
func Text(s string) string {
	if !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
