// Package escape makes text that came from outside fit for terminals and logs.
package escape

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Text returns s as it is, or, if something in it cannot be printed, in quotes with that
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

// Short is [Text] for what may be of any length: the first 64 characters.
func Short(s string) string {
	first, cut := head(s)
	if cut {
		return Text(first) + "…"
	}
	return Text(s)
}

// Quoted is [Short] in quotes, whatever is in it.
func Quoted(s string) string {
	first, cut := head(s)
	if cut {
		return strconv.Quote(first) + "…"
	}
	return strconv.Quote(s)
}

// head returns the first characters of a text, and reports whether there are more. It does not
// look at the rest, which may be megabytes.
func head(s string) (first string, cut bool) {
	const maxShown = 64
	n := 0
	for i := range s {
		if n == maxShown {
			return s[:i], true
		}
		n++
	}
	return s, false
}
