package pattern

import (
	"errors"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// glob is a compiled glob. New names are tried with every pattern there is, so this is
// faster than a regular expression: a pattern that does not match is mostly done with its
// first or its second literal.
//
// The stars cut it into runs. The first of them begins where a name does, and the last ends
// there; each of those between is taken as early as it comes, which leaves the most to those
// after it, since a run always has the same number of characters.
type glob struct {
	runs  []run // one more than there are stars
	chars int   // of all runs
}

// run is what lies between two stars.
type run struct {
	elements []element
	chars    int
}

// element is some text, or if that is empty one character.
type element struct {
	text  string
	class *syntax.Inst // nil: any character
}

// errClass is the error of a glob in which a class of characters does not end.
var errClass = errors.New("a [ without its ]")

func newGlob(text string) (*glob, error) {
	g := &glob{runs: make([]run, 1)}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '*':
			g.star()
		case '?':
			g.char(nil)
		case '[':
			end := classEnd(runes, i)
			if end < 0 {
				return nil, errClass
			}
			class, err := newClass(string(runes[i+1 : end]))
			if err != nil {
				return nil, err
			}
			g.char(class)
			i = end
		case '\\':
			if i++; i == len(runes) {
				return nil, errors.New(`a \ with nothing after it`)
			}
			g.literal(runes[i])
		default:
			g.literal(r)
		}
	}
	return g, nil
}

// classEnd returns the place of the ] that ends the class which begins at start. A ]
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

// newClass compiles what stands between the brackets of a class.
func newClass(text string) (*syntax.Inst, error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `[`, `\[`)
	parsed, err := syntax.Parse(`[`+text+`]`, syntax.Perl)
	if err != nil {
		return nil, errors.New("a class of characters that cannot be")
	}
	program, err := syntax.Compile(parsed)
	if err != nil {
		return nil, err
	}
	return &program.Inst[program.Start], nil
}

// shapeOf returns a glob that matches whatever a regular expression does, and more.
func shapeOf(re *syntax.Regexp) *glob {
	g := &glob{runs: make([]run, 1)}
	g.shape(re)
	return g
}

func (g *glob) shape(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if re.Flags&syntax.FoldCase != 0 {
				g.char(nil)
			} else {
				g.literal(r)
			}
		}
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.char(nil)
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			g.shape(sub)
		}
	case syntax.OpPlus:
		g.shape(re.Sub[0])
		g.star()
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	default: // alternatives, and what may be left out
		g.star()
	}
}

func (g *glob) star() { g.runs = append(g.runs, run{}) }

func (g *glob) last() *run {
	g.chars++
	r := &g.runs[len(g.runs)-1]
	r.chars++
	return r
}

// char adds a character of a class.
func (g *glob) char(class *syntax.Inst) {
	r := g.last()
	r.elements = append(r.elements, element{class: class})
}

// literal adds a character that stands for itself.
func (g *glob) literal(c rune) {
	if c == utf8.RuneError { // bytes that are no text are taken for it
		g.char(&syntax.Inst{Op: syntax.InstRune1, Rune: []rune{c}})
		return
	}
	r := g.last()
	if n := len(r.elements); n > 0 && r.elements[n-1].text != "" {
		r.elements[n-1].text += string(c)
	} else {
		r.elements = append(r.elements, element{text: string(c)})
	}
}

func (g *glob) matches(name string) bool {
	if len(name) < g.chars {
		return false
	}
	rest, ok := g.runs[0].begins(name)
	if !ok {
		return false
	}
	last := len(g.runs) - 1
	if last == 0 {
		return rest == ""
	}
	for i := range g.runs[1:last] {
		if rest, ok = g.runs[1+i].in(rest); !ok {
			return false
		}
	}
	return g.runs[last].ends(rest)
}

// begins reports whether a name begins with the run, and returns the rest of it.
func (r *run) begins(name string) (rest string, ok bool) {
	for i := range r.elements {
		e := &r.elements[i]
		if e.text != "" {
			if name, ok = strings.CutPrefix(name, e.text); !ok {
				return "", false
			}
			continue
		}
		c, size := utf8.DecodeRuneInString(name)
		if size == 0 || e.class != nil && !matchesClass(e.class, c) {
			return "", false
		}
		name = name[size:]
	}
	return name, true
}

// matchesClass reports whether a class has a character. The class without any is not
// compiled to one.
func matchesClass(class *syntax.Inst, c rune) bool {
	switch class.Op {
	case syntax.InstRune, syntax.InstRune1:
		return class.MatchRune(c)
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return class.Op == syntax.InstRuneAny || c != '\n'
	default:
		return false
	}
}

// in finds the first place of the run in a name, and returns what comes after it.
func (r *run) in(name string) (rest string, ok bool) {
	if len(r.elements) == 0 {
		return name, true
	}
	for first := r.elements[0].text; len(name) >= r.chars; {
		if first != "" {
			i := strings.Index(name, first)
			if i < 0 {
				break
			}
			name = name[i:]
		}
		if rest, ok = r.begins(name); ok {
			return rest, true
		}
		_, size := utf8.DecodeRuneInString(name)
		name = name[size:]
	}
	return "", false
}

// ends reports whether a name ends with the run.
func (r *run) ends(name string) bool {
	start := len(name)
	for range r.chars {
		_, size := utf8.DecodeLastRuneInString(name[:start])
		start -= size
	}
	rest, ok := r.begins(name[start:])
	return ok && rest == ""
}
