// Package pattern matches names of resources with what rules say about them.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/rule"
)

// Pattern is the compiled form of what a rule says about the resources it binds.
type Pattern struct {
	match  rule.Match
	glob   *glob          // with Regexp, one that matches what the expression does, and more
	regexp *regexp.Regexp // with Regexp
	size   int
}

// MaxSize is how large a pattern may be, in steps: characters, classes of them and
// operators, with repetitions written out. A class of many ranges, such as \pL, counts more.
// Globs never are that large. The patterns of all rules of one kind may have 500,000 steps
// together.
const MaxSize = 2000

// Size is how large the pattern is, in steps, which are some 50 to 250 bytes each.
func (p *Pattern) Size() int { return p.size }

// Compile makes a pattern of the text in the Resource of a rule. It is not for
// Exact, which needs none.
func Compile(m rule.Match, text string) (*Pattern, error) {
	switch m {
	case rule.Glob:
		glob, err := newGlob(text)
		if err != nil {
			return nil, err
		}
		return &Pattern{match: m, glob: glob, size: glob.chars + len(glob.runs)}, nil
	case rule.Regexp:
		// Alone first, so that the error shows what was given, and no bracket in it
		// can reach the ends.
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		size := sizeOf(parsed)
		if size > MaxSize {
			return nil, fmt.Errorf("it has %d steps when all repetitions are written out; want at most %d", size, MaxSize)
		}
		compiled, err := regexp.Compile(`\A(?:` + text + `)\z`)
		if err != nil { // it ends in a quotation, which would go on to the end
			compiled, err = regexp.Compile(`\A(?:` + text + `\E)\z`)
		}
		return &Pattern{m, shapeOf(parsed), compiled, size}, err
	case rule.Default, rule.All:
		return &Pattern{match: m}, nil
	default:
		return nil, fmt.Errorf("leapgate: no pattern matches by %v", m)
	}
}

// Matches reports whether a rule with the pattern binds a resource. [names.Other] serves
// names of all kinds when there is no place for them, so every pattern binds it. enforced
// says that a rule in mode enforce names the resource.
func (p *Pattern) Matches(name string, enforced bool) bool {
	switch {
	case p.match == rule.Default:
		return !enforced
	case p.match == rule.All, name == names.Other:
		return true
	default:
		return p.glob.matches(name) && (p.regexp == nil || p.regexp.MatchString(name))
	}
}

// sizeOf is how many steps a regular expression has. The ranges of a class are shared by
// its repetitions; eight take as much memory as a step.
func sizeOf(re *syntax.Regexp) int {
	ranges := 0
	var steps func(re *syntax.Regexp) int
	steps = func(re *syntax.Regexp) int {
		n := 1
		for _, sub := range re.Sub {
			n += steps(sub)
		}
		switch re.Op {
		case syntax.OpLiteral:
			n = len(re.Rune)
		case syntax.OpCharClass:
			ranges += len(re.Rune) / 2
		case syntax.OpRepeat:
			n = (n - 1) * max(1, re.Min, re.Max)
		default:
		}
		return n
	}
	return 1 + steps(re) + ranges/8
}
