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

// nearest returns the name that was perhaps meant by key: the same but for its case, hyphens
// and underscores, a synonym, or one that few changes lead to. "" if there is none.
func nearest(key string, names []string, synonyms map[string]string) string {
	if len(key) > 64 {
		return ""
	}
	key = plain(key)
	other := synonyms[key]
	best, least := "", 1+max(1, len(key)/3)
	for _, name := range names {
		if plain(name) == key || name == other {
			return name
		}
		if n := distance(key, plain(name)); n < least {
			best, least = name, n
		}
	}
	return best
}

// plain is a name without what spellings differ in.
func plain(s string) string { return strings.ToLower(separators.Replace(s)) }

var separators = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")

// distance is how many letters must be put in, taken out, changed, or swapped with the next
// to make b of a.
func distance(a, b string) int {
	var rows [3][]int // the last but one, the last, this
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[2] {
		rows[2][j] = j
	}
	for i := range len(a) {
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
		rows[2][0] = i + 1
		for j := range len(b) {
			change := rows[1][j]
			if a[i] != b[j] {
				change++
			}
			rows[2][j+1] = min(change, rows[1][j+1]+1, rows[2][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				rows[2][j+1] = min(rows[2][j+1], rows[0][j-1]+1)
			}
		}
	}
	return rows[2][len(b)]
}
