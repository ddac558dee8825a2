// Package field describes the fields of rules: how each is called, read and written, and
// what people should know of it. Rule files, the API, its forms and the documentation are
// made from these descriptions.
package field

import (
	"slices"

	"github.com/leapgate-go/leapgate/rule"
)

// Field is one field of the rules of a kind, which are of type R. Make one with [Define].
type Field[R any] struct {
	About
	Type    string   // as in [Codec]
	Options []string // as in [Codec]

	// Read sets the field to a value that is not Null, or says what would be right.
	Read func(r *R, s Scalar) (want string)
	// Write returns the field's value, and reports whether it is the zero, which need not
	// be written. The error is a value that no file can hold.
	Write func(r *R) (s Scalar, zero bool, err error)
}

// About is what is said of a field.
type About struct {
	Name   string // in files and in the API: "maxWait"
	GoName string // in Go, and so in a [rule.Fault]: "MaxWait"
	Label  string // in a form: "Longest wait"
	Hint   string // one or two sentences for whoever fills in the form

	// Range is what the field may hold, as rule files write it: "1ms to 24h". Empty: whatever its
	// type can hold.
	Range string
	// Default is what holds if the field is left out: "10s". Empty: the first choice of an
	// enumeration, false, or nothing.
	Default string

	// Synonyms are what others call the field: who writes one is told the Name. The names
	// that Sentinel uses are among them.
	Synonyms []string
	// Required says what the field must hold, if a file must not leave it out. (In Go, a
	// zero can be seen; in a file, a line can be forgotten.)
	Required string
	// With names the other fields, by their names in Go, which a fault of this one may be
	// due to: while one of them cannot be read, such a fault is not told.
	With []string
	// Instead names the fields of which one may be set in place of this one: while one of them
	// cannot be read, it is not told that this one is missing.
	Instead []string
	// Only is the one choice of another field with which this one means something:
	// {"strategy", "warm-up"}.
	Only Choice
	// Seldom marks what few need, and a form need not show at once.
	Seldom bool
	// Private marks a text that may tell who clients are. The live page shows it only to those who may change rules.
	Private bool
	// Signal is the signal of the machine's load that the field bounds, by its name in the API:
	// "cpu". A page draws the bound beside it.
	Signal string
	// Switch marks an enumeration that is an operator's switch: a page has buttons for it, and
	// whoever changes it there must say why. The first choice lets the rule decide.
	Switch bool
}

// FormHint is the hint of the field in a form, with its default.
func (a *About) FormHint() string {
	if a.Default == "" {
		return a.Hint
	}
	return a.Hint + " Empty: " + a.Default + "."
}

// IsDue reports whether a fault of the field may be due to fields that cannot be read, by their names in Go.
func (a *About) IsDue(code rule.Code, isUnread func(goName string) bool) bool {
	return isUnread(a.GoName) || slices.ContainsFunc(a.With, isUnread) ||
		code == rule.Missing && slices.ContainsFunc(a.Instead, isUnread)
}

// Choice is one value of a field that is an enumeration, both by their names in files. The
// zero Choice is none.
type Choice struct{ Field, Value string }

// Define makes a field that is kept where at says.
func Define[R any, T comparable](codec Codec[T], at func(*R) *T, about About) Field[R] {
	return Field[R]{
		About: about, Type: codec.Type, Options: codec.Options,
		Read: func(r *R, s Scalar) string {
			v, want := codec.Parse(s)
			if want == "" {
				*at(r) = v
			}
			return want
		},
		Write: func(r *R) (Scalar, bool, error) {
			v := *at(r)
			s, err := codec.Format(v)
			return s, v == *new(T), err
		},
	}
}

var (
	matchCodec = Enum[rule.Match]()
	modeCodec  = Enum[rule.Mode]()
)

// HeadFields are the fields that rules of every kind have. Their Mode comes last: it is
// what people change last.
func HeadFields[R any](head func(*R) Head) (first []Field[R], mode Field[R]) {
	first = []Field[R]{
		Define(String, func(r *R) *string { return head(r).ID }, About{
			Name: "id", GoName: "ID", Label: "ID", Hint: "Names the rule in errors, metrics and on the page.",
			Range: "up to 1,040 bytes; unique in its kind", Default: "the resource and a number",
			Synonyms: []string{"name", "ruleId"},
		}),
		Define(String, func(r *R) *string { return head(r).Resource }, About{
			Name: "resource", GoName: "Resource", Label: "Resource", Hint: "A name, or a pattern. It must be set unless match is default or all.",
			Range: "1 to 1,024 bytes",
			With:  []string{"Match"},
		}),
		Define(matchCodec, func(r *R) *rule.Match { return head(r).Match }, About{
			Name: "match", GoName: "Match", Label: "Match", Hint: "What the resource is: a name, a pattern, or everything.", Synonyms: []string{"regex", "pattern"},
		}),
	}
	return first, Define(modeCodec, func(r *R) *rule.Mode { return head(r).Mode }, About{
		Name: "mode", GoName: "Mode", Label: "Mode", Hint: "Shadow decides and counts, and refuses nothing.",
	})
}
