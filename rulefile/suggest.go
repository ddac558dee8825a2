package rulefile

import "strings"

// nearest returns the name that was probably meant by key: one with another case or other separators, one that has
// key as a synonym, or one with a single typing error. It returns "" if there is none.
func nearest(key string, names []string, synonyms map[string]string) string {
	key = plain(key)
	near := ""
	for _, name := range names {
		if plain(name) == key || name == synonyms[key] {
			return name
		}
		if len(name) > 3 && oneEdit(key, plain(name)) {
			near = name
		}
	}
	return near
}

// oneEdit reports whether inserting, removing or changing one letter, or swapping two, turns a into b.
func oneEdit(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// plain is a name without what spellings differ in.
func plain(s string) string { return strings.ToLower(separators.Replace(s)) }

var separators = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")
