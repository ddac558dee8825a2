package rule

import "github.com/leapgate-go/leapgate/internal/enum"

// Match is how a rule says which resources it binds. Each resource that matches is
// counted by itself, but by rules of package system: those count all together.
type Match uint8

// The ways to match.
const (
	// Exact binds the resource of that name.
	Exact Match = iota
	// Glob binds the names that match a pattern as a whole: * is any number of
	// characters, / included; ? is one; [a-z] is one of a class, [^a-z] one that is
	// not in it; \ takes the meaning from the character after it. In a class, ] stands
	// for itself if it is first, and \ always does.
	Glob
	// Regexp binds the names that match a regular expression as a whole, in the
	// syntax of package regexp. With its repetitions written out it has at most 2,000
	// steps, and the patterns of all rules of one kind have 500,000 together.
	Regexp
	// Default binds every resource that no rule of the same kind in mode enforce names
	// exactly.
	Default
	// All binds every resource.
	All
)

var matches = enum.Enum[Match]{What: "match", Names: []string{"exact", "glob", "regexp", "default", "all"}}

// String is the name of the way to match: "exact", "glob", "regexp", "default", "all".
func (m Match) String() string { return matches.String(m) }

// MarshalText returns that name.
func (m Match) MarshalText() ([]byte, error) { return matches.Marshal(m) }

// UnmarshalText reads it.
func (m *Match) UnmarshalText(text []byte) error { return matches.Unmarshal(text, m) }
