package rulefile

import (
	"fmt"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// unknown is the error of a field that rules of the kind do not have, and the field that was
// perhaps meant.
func (k *kind) unknown(key string) (message, near string) {
	if strings.EqualFold(key, "source") {
		return "unknown field source; a rule's source is the file itself", ""
	}
	near = nearest(key, k.names, k.synonyms)
	if near != "" {
		return fmt.Sprintf("unknown field %s; did you mean %s?", escape.Quoted(key), near), near
	}
	return fmt.Sprintf("unknown field %s; want one of %s", escape.Quoted(key), strings.Join(k.names, ", ")), ""
}

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
