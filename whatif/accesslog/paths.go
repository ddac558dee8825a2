package accesslog

import "strings"

// Paths without a route are grouped by patterns. A segment that is a number or the like, or that has more than
// maxValues values, becomes {}. The patterns do not depend on the order of the lines.

const (
	maxValues  = 50 // of a segment
	maxDepth   = 12 // segments; the rest of a path is one value
	maxSegment = 64 // bytes; a longer segment is a value
	anyValue   = "{}"
)

// interned numbers strings from 0.
type interned struct {
	all  []string
	ids  map[string]uint32
	size int  // in bytes, about
	full bool // there were more than the limit
}

// number returns the number of a string. Strings beyond a size of limit bytes get the number 0.
func (t *interned) number(s string, limit int) uint32 {
	n, ok := t.ids[s]
	if ok {
		return n
	}
	if t.size >= limit {
		t.full = true
		return 0
	}
	if t.ids == nil {
		t.ids = make(map[string]uint32)
	}
	n = uint32(len(t.all))
	t.size += len(s) + 64
	t.ids[s] = n
	t.all = append(t.all, s)
	return n
}

// normalized returns a path with {} for its values.
func normalized(path []byte) string {
	var b strings.Builder
	var s []byte
	for depth := 1; path != nil; depth++ {
		if s, path = cutSegment(path); isValue(s) || depth == maxDepth && path != nil {
			s = []byte(anyValue)
		}
		b.WriteByte('/')
		b.Write(s)
		if depth == maxDepth {
			break
		}
	}
	return b.String()
}

// generalize replaces the segments at an index, and after it, by {} where they have too many values.
func generalize(paths [][]string, index int) {
	groups := make(map[string][][]string)
	for _, path := range paths {
		if index < len(path) {
			groups[path[index]] = append(groups[path[index]], path)
		}
	}
	values := len(groups)
	for _, other := range []string{"", anyValue} {
		if groups[other] != nil {
			values--
		}
	}
	for value, group := range groups {
		if value == "" || value == anyValue || values <= maxValues {
			continue
		}
		for _, path := range group {
			path[index] = anyValue
		}
		groups[anyValue] = append(groups[anyValue], group...)
		delete(groups, value)
	}
	for _, group := range groups {
		generalize(group, index+1)
	}
}

// patternOf returns the known pattern that a path matches, or unmatched.
func patternOf(path string, known map[string]bool) string {
	pattern := ""
	for s := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		next := pattern + "/" + s
		if _, ok := known[next]; !ok && s != "" {
			next = pattern + "/" + anyValue
		}
		if _, ok := known[next]; !ok {
			return unmatched
		}
		pattern = next
	}
	if !known[pattern] {
		return unmatched
	}
	return pattern
}

// isValue reports whether a segment looks like one of many values: a number, a date, an address, a UUID, a hash, or a
// very long text.
func isValue(s []byte) bool {
	digits, hex := 0, 0
	for _, b := range s {
		switch {
		case isDigit(b):
			digits++
		case 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F':
			hex++
		case strings.IndexByte("-_.:,", b) < 0:
			return len(s) > maxSegment
		}
	}
	return len(s) > maxSegment || digits > 0 && (hex == 0 || digits+hex >= 16)
}
