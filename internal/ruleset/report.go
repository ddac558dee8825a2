package ruleset

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/pattern"
	"github.com/leapgate-go/leapgate/rule"
)

// Report collects what is wrong with the rules of a list.
type Report struct {
	kind, id, resource string
	index              int
	names              map[string]string // of the fields in files, by those in Go
	pattern            *pattern.Pattern  // of the rule, if it has one that is good
	size               int               // of the patterns so far
	faults             rule.Faults
}

// maxPatternsSize is how large the patterns of a list may be together, in steps: enough for
// ten thousand of 50, and no more than 110 MB. A rule file of 4 MB could take gigabytes.
const maxPatternsSize = 500_000

// at says which rule the next faults are in.
func (r *Report) at(index int, id, resource string) {
	r.index, r.id, r.resource, r.pattern = index, id, resource, nil
}

// Fault notes that a field of the rule at hand, by its name in Go, holds value, and what
// would be right. There other fields stand in braces, with or without a value of theirs:
// "more than {LowMemory}", "0 to 24h with {Behavior Pace}".
func (r *Report) Fault(field string, value any, want string) {
	r.note(rule.Invalid, field, value, inGo(want), r.inFile(want))
}

// Missing is Fault of a field that must hold something unless one of its [field.About.Instead] does.
func (r *Report) Missing(field string, value any, want string) {
	r.note(rule.Missing, field, value, inGo(want), r.inFile(want))
}

func (r *Report) note(code rule.Code, field string, value any, want, fileWant string) {
	r.faults = append(r.faults, &rule.Fault{
		Kind: r.kind, Index: r.index, ID: r.id, Resource: r.resource,
		Field: field, Value: value, Code: code, Want: want,
		FileField: r.names[field], FileWant: fileWant,
	})
}

// reference is a field in braces, a field and a value, or a blank and a value.
var reference = regexp.MustCompile(`\{\w*(| \w+)\}`)

func inGo(want string) string {
	return reference.ReplaceAllStringFunc(want, func(s string) string { return strings.Trim(s, "{ }") })
}

// zeros are those at the end of a duration.
var zeros = regexp.MustCompile(`\b(\d+h)0m0s\b|\b((?:\d+h)?\d+m)0s\b`)

func (r *Report) inFile(want string) string {
	want = zeros.ReplaceAllString(want, "$1$2")
	return reference.ReplaceAllStringFunc(want, func(s string) string {
		name, value, hasValue := strings.Cut(strings.Trim(s, "{}"), " ")
		name = cmp.Or(r.names[name], name)
		if !hasValue {
			return name
		}
		return strings.TrimSpace(name + " " + kebab(value))
	})
}

// kebab turns the name of a constant into that of its value in text: WarmUp into warm-up.
func kebab(name string) string {
	var text strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			text.WriteByte('-')
		}
		text.WriteRune(unicode.ToLower(c))
	}
	return text.String()
}

// Unused notes that a field is set although it does nothing: it is for what users says, as
// in Fault: "{Strategy WarmUp}".
func Unused[T comparable](r *Report, field string, value T, users string) {
	if zero := *new(T); value != zero {
		r.note(rule.Unused, field, value, fmt.Sprintf("%v, since it is for %s", zero, inGo(users)), "nothing, it is for "+r.inFile(users))
	}
}

// Buckets reports a fault of a window that does not divide into its buckets, or whose buckets
// would be shorter than least. Both fields are within their ranges.
func (r *Report) Buckets(interval time.Duration, buckets int, least time.Duration) {
	divides := func(n int) bool {
		b := time.Duration(n)
		return interval%b == 0 && interval/b >= least
	}
	fitting := buckets
	for fitting > 1 && !divides(fitting) {
		fitting--
	}
	if fitting != buckets {
		r.Fault("Buckets", buckets, fmt.Sprintf("a number that divides %v into buckets of at least %v, such as %d", interval, least, fitting))
	}
}

// head completes and checks what the rules of all kinds have in common: the ID, and which
// resources the rule binds.
func (r *Report) head(h field.Head) {
	if len(*h.ID) > rule.MaxIDLength {
		r.Fault("ID", *h.ID, fmt.Sprintf("at most %d bytes", rule.MaxIDLength))
	}
	switch {
	case *h.Match > rule.All:
		r.Fault("Match", uint8(*h.Match), "Exact (0), Glob (1), Regexp (2), Default (3) or All (4)")
	case *h.Match == rule.Default, *h.Match == rule.All:
		if *h.Resource == "" {
			*h.Resource = field.Everything
		}
		if *h.Resource != field.Everything {
			r.Fault("Resource", *h.Resource, `"*" or nothing with {Match Default} or { All}`)
		}
		r.compile(*h.Resource, *h.Match)
	case names.Check(*h.Resource) != nil:
		r.Fault("Resource", *h.Resource, fmt.Sprintf("a name of 1 to %d bytes", rule.MaxNameLength))
	case *h.Match != rule.Exact:
		r.compile(*h.Resource, *h.Match)
	}
}

func (r *Report) mode(mode rule.Mode) {
	if mode > rule.Off {
		r.Fault("Mode", uint8(mode), "Enforce (0), Shadow (1) or Off (2)")
	}
}

// compile compiles the pattern of a rule, unless those before have been too large together.
func (r *Report) compile(text string, match rule.Match) {
	if r.size > maxPatternsSize {
		return
	}
	compiled, err := pattern.Compile(match, text)
	if err != nil {
		r.bad(text, fmt.Sprintf("a good %v: %s", match, escape.Text(err.Error())))
		return
	}
	if r.size += compiled.Size(); r.size > maxPatternsSize {
		r.bad(text, fmt.Sprintf("fewer or smaller patterns: up to this one they have %d steps, and may have %d",
			r.size, maxPatternsSize))
		return
	}
	r.pattern = compiled
}

// bad notes a bad pattern. What is wrong with it may have any characters in it.
func (r *Report) bad(pattern, want string) {
	r.note(rule.BadPattern, "Resource", pattern, want, want)
}

// duplicate notes that the ID is that of another rule.
func (r *Report) duplicate(id string, other int) {
	want := fmt.Sprintf("one that is not the ID of rule %d", other)
	r.note(rule.Duplicate, "ID", id, want, want)
	r.faults[len(r.faults)-1].Other = other
}
