package resource

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/leapgate-go/leapgate/internal/enum"
)

// Match is how a rule says which resources it binds. Each resource that matches is
// counted by itself.
type Match uint8

// The ways to match.
const (
	// Exact binds the resource of that name.
	Exact Match = iota
	// Glob binds the names that match a pattern as a whole: * is any number of
	// characters, / included; ? is one; [a-z] is one of a class, [^a-z] one that is
	// not in it; \ takes the meaning from the character after it.
	Glob
	// Regexp binds the names that match a regular expression as a whole, in the
	// syntax of package regexp.
	Regexp
	// Default binds every resource that no rule of the same guard in mode enforce
	// names exactly.
	Default
)

var matches = enum.Enum{What: "match", Names: []string{"exact", "glob", "regexp", "default"}}

// String is the name of the way to match: "exact", "glob", "regexp", "default".
func (m Match) String() string { return matches.String(uint8(m)) }

// MarshalText gives that name.
func (m Match) MarshalText() ([]byte, error) { return matches.Marshal(uint8(m)) }

// UnmarshalText reads it.
func (m *Match) UnmarshalText(text []byte) error {
	v, err := matches.Unmarshal(text)
	if err == nil {
		*m = Match(v)
	}
	return err
}

// Pattern is the compiled form of what a rule says about the resources it binds.
type Pattern struct {
	match  Match
	regexp *regexp.Regexp
}

// errClass is the error of a glob in which a class of characters does not end.
var errClass = errors.New("a [ without its ]")

// Compile makes a pattern of the text in the Resource of a rule. It is not for
// Exact, which needs none.
func (m Match) Compile(text string) (*Pattern, error) {
	switch m {
	case Glob:
		source, err := globSource(text)
		if err != nil {
			return nil, err
		}
		compiled, err := regexp.Compile(source)
		if err != nil {
			return nil, errors.New("a class of characters that cannot be")
		}
		return &Pattern{m, compiled}, nil
	case Regexp:
		// Alone first, so that the error shows what was given, and no bracket in it
		// can reach the ends.
		if _, err := regexp.Compile(text); err != nil {
			return nil, err
		}
		compiled, err := regexp.Compile(`\A(?:` + text + `)\z`)
		if err != nil { // it ends in a quotation, which would go on to the end
			compiled, err = regexp.Compile(`\A(?:` + text + `\E)\z`)
		}
		return &Pattern{m, compiled}, err
	case Default:
		return &Pattern{match: m}, nil
	default:
		return nil, fmt.Errorf("resource: no pattern matches by %v", m)
	}
}

// Matches tells whether a rule with the pattern binds a resource. [Other] serves names
// of all kinds when there is no place for them, so every pattern binds it. enforced
// tells whether a rule in mode enforce names the resource.
func (p *Pattern) Matches(name string, enforced bool) bool {
	switch {
	case p.match == Default:
		return !enforced
	case name == Other:
		return true
	default:
		return p.regexp.MatchString(name)
	}
}

// globSource gives the regular expression of a glob.
func globSource(glob string) (string, error) {
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	runes := []rune(glob)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '*':
			out.WriteString(`.*`)
		case '?':
			out.WriteString(`.`)
		case '[':
			end := classEnd(runes, i)
			if end < 0 {
				return "", errClass
			}
			class := strings.ReplaceAll(string(runes[i+1:end]), `\`, `\\`)
			out.WriteString(`[` + strings.ReplaceAll(class, `[`, `\[`) + `]`)
			i = end
		case '\\':
			if i++; i == len(runes) {
				return "", errors.New(`a \ with nothing after it`)
			}
			out.WriteString(regexp.QuoteMeta(string(runes[i])))
		default:
			out.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	out.WriteString(`\z`)
	return out.String(), nil
}

// classEnd gives the place of the ] that ends the class which begins at start. A ]
// that comes first belongs to the class.
func classEnd(runes []rune, start int) int {
	i := start + 1
	if i < len(runes) && runes[i] == '^' {
		i++
	}
	for i++; i < len(runes); i++ {
		if runes[i] == ']' {
			return i
		}
	}
	return -1
}
