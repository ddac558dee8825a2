package ruleset

import (
	"math"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// Kind describes one kind of rules, which are of type R: plain values that compare by what
// they say.
type Kind[R comparable] struct {
	// Name is the key in rule files, the kind in the API, and the label in metrics: "flow".
	Name string
	// Purpose says what the rules do, for the documentation: "limits how many calls pass per time".
	Purpose string
	// Status is what a refusal is over HTTP, unless Compile sets another in the check's Cause.
	Status int
	// Head points to what every rule has.
	Head func(r *R) field.Head
	// Fields are those besides the ones of Head, in the order in which they are written.
	Fields []field.Field[R]
	// Complete fills in the defaults of what Fields describes, and reports all that is wrong
	// with it.
	Complete func(r *R, report *Report)
	// Describe says in one line what a complete rule does, for tables.
	Describe func(r *R) string
	// Warnings says what is allowed in a good rule, as it is written, but probably not meant.
	// Nil: nothing.
	Warnings func(r *R) []string

	// Together reports whether the calls of all resources that a rule binds count together.
	Together bool
	// Share makes what all resources that a complete rule binds have in common, for Compile to
	// find in env.Shared. old is that of the rule that had this ID before; nil if there was none.
	// Nil: each resource stands alone.
	Share func(env *Env, r *R, old any) any
	// Compile makes the check of a complete rule for a resource. The check may keep r, which
	// does not change. old is that of the rule that
	// had this ID before, on this resource if the rule has a pattern; nil if there was none.
	// What it remembers goes on as far as it still fits. It must not call the set.
	Compile func(env *Env, r *R, name string, old resource.Check) resource.Check
	// Reads returns the other resource whose statistics the rule reads, which is kept as if
	// a rule named it; empty if there is none. Nil: no rule reads any.
	Reads func(r *R) string
	// Relate changes the checks of one resource where they depend on each other. Nil: they
	// do not.
	Relate func(checks []resource.Check)
	// Bounds says which figure of its resource the threshold of a complete rule bounds, for
	// charts. Nil: none.
	Bounds func(r *R) Figure
	// Admits returns how many calls of its resource a complete rule lets begin at most; the
	// zero Calls if it does not bound them. Nil: no rule does.
	Admits func(r *R) Calls
	// Needs returns how many calls of its resource must end before a complete rule does
	// anything, and the name in files of the field that says so; the zero Calls if that is not
	// known. Nil: of no rule.
	Needs func(r *R) (calls Calls, field string)
}

// Calls is a number of calls in an interval, wherever it begins.
type Calls struct {
	N  float64
	In time.Duration
}

// Within returns a number of calls in another interval that is certainly not exceeded.
func (c Calls) Within(interval time.Duration) float64 {
	return c.N * (math.Ceil(float64(interval)/float64(c.In)) + 1)
}

// Figure is a figure of a resource, by its name in the API.
type Figure string

// The figures that a rule may bound.
const (
	Passes   Figure = "pass" // in the interval of the rule
	InFlight Figure = "concurrency"
)

// Env is what the checks of a gate read besides their rules.
type Env struct {
	// Now is the clock of the gate. Nil: it stands at 0.
	Now func() int64
	// Passes returns how many calls of a resource passed in the last second.
	Passes func(name string, now int64) int64
	// Memory reports how much memory is in use, in bytes, if that is known. Nil: it is not.
	Memory interface {
		Used() (bytes int64, known bool)
	}
	// Load returns what is known of the load of the machine. It never returns nil, and what it
	// returns does not change. Nil: nothing is known, ever.
	Load func() *stat.Signals
	// Shared is what the kind's Share has made for the rule at hand.
	Shared any
}

// Time returns the time of the gate's clock, in nanoseconds.
func (e *Env) Time() int64 {
	if e.Now == nil {
		return 0
	}
	return e.Now()
}

// AllFields are the fields of the rules of the kind, those of Head included.
func (k *Kind[R]) AllFields() []field.Field[R] {
	first, mode := field.HeadFields(k.Head)
	return append(append(first, k.Fields...), mode)
}
