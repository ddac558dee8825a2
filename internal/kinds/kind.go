package kinds

import (
	"hash/maphash"
	"slices"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// Kind is one kind of rules, for those that treat all kinds alike. A rule is told by its
// index in the list of its kind.
type Kind interface {
	// Name is the key in rule files, the kind in the API, and the label in metrics: "flow".
	Name() string
	// Purpose says what the rules do, for the documentation: "limits how many calls pass per time".
	Purpose() string
	// Status is what a refusal is over HTTP.
	Status() int
	// Together reports whether all resources that a rule binds are counted together.
	Together() bool
	// Fields describe the fields of the rules, in the order in which they are written. They
	// must not be changed.
	Fields() []Field

	// Len is how many rules of the kind there are.
	Len(rules *Rules) int
	// Head points to what every rule has.
	Head(rules *Rules, i int) field.Head
	// Describe says in one line what a rule does, which may be without its defaults.
	Describe(rules *Rules, i int) string
	// Warnings says what is allowed in a good rule but probably not meant.
	Warnings(rules *Rules, i int) []string
	// Hash returns a number that is another, most likely, when the rule says something else.
	Hash(seed maphash.Seed, rules *Rules, i int) uint64

	// Complete fills in the defaults of what the kind adds to the rules of all kinds.
	Complete(rules *Rules, i int)
	// Bounds says which figure of its resource the threshold of a complete rule bounds, if
	// any.
	Bounds(rules *Rules, i int) ruleset.Figure
	// Admits returns how many calls of its resource a complete rule lets begin at most; the
	// zero Calls if it does not bound them.
	Admits(rules *Rules, i int) ruleset.Calls
	// Needs returns how many calls of its resource must end before a complete rule does
	// anything, and which field says so; the zero Calls if that is not known.
	Needs(rules *Rules, i int) (calls ruleset.Calls, field string)
	// Add appends an empty rule, and returns its index.
	Add(rules *Rules) int
	// Read sets a field of a rule to a value that is not [field.Null], or says what would
	// be right. fieldIndex is that in Fields.
	Read(rules *Rules, i, fieldIndex int, s field.Scalar) (want string)
	// Write returns the value of a field, and reports whether it is the zero.
	Write(rules *Rules, i, fieldIndex int) (s field.Scalar, zero bool, err error)
	// Set replaces a rule by one of another list.
	Set(rules *Rules, i int, from *Rules, j int)
	// Delete leaves out the rules that are unwanted.
	Delete(rules *Rules, unwanted func(field.Head) bool)
	// Append adds copies of the rules of another list.
	Append(rules, more *Rules)

	// Number sets the IDs that the rules lack, from the first rule on.
	Number(rules *Rules, first int)
	// Validate returns everything that is wrong with the rules, as loading them would.
	Validate(rules *Rules) rule.Faults
	// NewSet makes the guard that carries the rules out.
	NewSet(env ruleset.Env) Set
}

// Field is what is said of a field, whatever the type of its rules.
type Field struct {
	field.About
	Type    string
	Options []string
}

// Set is the rules of one kind in a gate.
type Set interface {
	resource.Guard
	// Prepare makes ready to replace the rules, or returns all that is wrong with them.
	Prepare(rules *Rules) (load func() names.Set, faults rule.Faults)
	// Rules puts copies of the rules into a list.
	Rules(into *Rules)
}

// kind is the Kind of rules of type R.
type kind[R comparable] struct {
	*ruleset.Kind[R]
	fields []field.Field[R]
	about  []Field
	list   func(*Rules) *[]R
}

func of[R comparable](k *ruleset.Kind[R], list func(*Rules) *[]R) Kind {
	kind := &kind[R]{Kind: k, fields: k.AllFields(), list: list}
	for _, f := range kind.fields {
		kind.about = append(kind.about, Field{f.About, f.Type, f.Options})
	}
	return kind
}

func (k *kind[R]) Name() string    { return k.Kind.Name }
func (k *kind[R]) Purpose() string { return k.Kind.Purpose }
func (k *kind[R]) Status() int     { return k.Kind.Status }
func (k *kind[R]) Together() bool  { return k.Kind.Together }
func (k *kind[R]) Fields() []Field { return k.about }

func (k *kind[R]) at(rules *Rules, i int) *R { return &(*k.list(rules))[i] }

func (k *kind[R]) Len(rules *Rules) int                { return len(*k.list(rules)) }
func (k *kind[R]) Head(rules *Rules, i int) field.Head { return k.Kind.Head(k.at(rules, i)) }

func (k *kind[R]) Describe(rules *Rules, i int) string {
	r := *k.at(rules, i)
	k.Kind.Complete(&r, new(ruleset.Report))
	return k.Kind.Describe(&r)
}

func (k *kind[R]) Warnings(rules *Rules, i int) []string {
	if k.Kind.Warnings == nil {
		return nil
	}
	return k.Kind.Warnings(k.at(rules, i))
}

func (k *kind[R]) Hash(seed maphash.Seed, rules *Rules, i int) uint64 {
	return maphash.Comparable(seed, *k.at(rules, i))
}

func (k *kind[R]) Complete(rules *Rules, i int) {
	k.Kind.Complete(k.at(rules, i), new(ruleset.Report))
}

func (k *kind[R]) Bounds(rules *Rules, i int) ruleset.Figure {
	if k.Kind.Bounds == nil {
		return ""
	}
	return k.Kind.Bounds(k.at(rules, i))
}

func (k *kind[R]) Admits(rules *Rules, i int) (calls ruleset.Calls) {
	if k.Kind.Admits == nil {
		return calls
	}
	return k.Kind.Admits(k.at(rules, i))
}

func (k *kind[R]) Needs(rules *Rules, i int) (calls ruleset.Calls, field string) {
	if k.Kind.Needs == nil {
		return calls, ""
	}
	return k.Kind.Needs(k.at(rules, i))
}

func (k *kind[R]) Add(rules *Rules) int {
	list := k.list(rules)
	*list = append(*list, *new(R))
	return len(*list) - 1
}

func (k *kind[R]) Read(rules *Rules, i, fieldIndex int, s field.Scalar) (want string) {
	return k.fields[fieldIndex].Read(k.at(rules, i), s)
}

func (k *kind[R]) Write(rules *Rules, i, fieldIndex int) (s field.Scalar, zero bool, err error) {
	return k.fields[fieldIndex].Write(k.at(rules, i))
}

func (k *kind[R]) Set(rules *Rules, i int, from *Rules, j int) { *k.at(rules, i) = *k.at(from, j) }

func (k *kind[R]) Delete(rules *Rules, unwanted func(field.Head) bool) {
	list := k.list(rules)
	*list = slices.DeleteFunc(*list, func(r R) bool { return unwanted(k.Kind.Head(&r)) })
}

func (k *kind[R]) Append(rules, more *Rules) {
	list := k.list(rules)
	*list = append(*list, *k.list(more)...)
}

func (k *kind[R]) Number(rules *Rules, first int) { k.Kind.Number(*k.list(rules), first) }

func (k *kind[R]) Validate(rules *Rules) rule.Faults { return k.Kind.Validate(*k.list(rules)) }

func (k *kind[R]) NewSet(env ruleset.Env) Set {
	return &set[R]{ruleset.New(k.Kind, env), k.list}
}

type set[R comparable] struct {
	*ruleset.Set[R]
	list func(*Rules) *[]R
}

func (s *set[R]) Prepare(rules *Rules) (func() names.Set, rule.Faults) {
	return s.Set.Prepare(*s.list(rules))
}

func (s *set[R]) Rules(into *Rules) { *s.list(into) = s.Set.Rules() }
