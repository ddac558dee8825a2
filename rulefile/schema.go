package rulefile

import (
	"time"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// field is one field of a rule of type R, in the file and in Go.
type field[R any] struct {
	name     string // in the file: "maxWait"
	goName   string // in Go, and so in faults: "MaxWait"
	required string // what it must hold, if it must be there
	read     func(n *document.Node, rule *R) (want string)
	write    func(rule *R) (s string, text, zero bool, err error)
	// with names the other fields that a fault of this one may be due to, by goName.
	with []string
}

func define[R any, T comparable](name, goName string, k kind[T], at func(*R) *T) field[R] {
	return field[R]{
		name: name, goName: goName,
		read: func(n *document.Node, rule *R) string {
			v, want := k.parse(n)
			if want == "" {
				*at(rule) = v
			}
			return want
		},
		write: func(rule *R) (string, bool, bool, error) {
			v := *at(rule)
			s, text, err := k.format(v)
			return s, text, v == *new(T), err
		},
	}
}

func (f field[R]) must(hold string) field[R] {
	f.required = hold
	return f
}

func (f field[R]) along(goNames ...string) field[R] {
	f.with = goNames
	return f
}

// schema is the fields of a rule.
type schema[R any] struct {
	fields []field[R]
	names  []string // in the file
	known  map[string]*field[R]
	// completed returns good rules with IDs and defaults filled in.
	completed func([]R) []R
}

func newSchema[R any](completed func([]R) []R, fields []field[R]) *schema[R] {
	s := &schema[R]{fields: fields, known: map[string]*field[R]{}, completed: completed}
	for i := range fields {
		s.names = append(s.names, fields[i].name)
		s.known[fields[i].name] = &fields[i]
	}
	return s
}

// required is the name of the field that a rule must have besides its resource.
func (s *schema[R]) required() string {
	for _, f := range s.fields {
		if f.required != "" {
			return f.name
		}
	}
	return ""
}

var (
	matchKind    = enumKind[resource.Match]()
	modeKind     = enumKind[stat.Mode]()
	strategyKind = enumKind[flow.Strategy]()
	behaviorKind = enumKind[flow.Behavior]()
)

// flowFields is the schema of flow rules, in the order in which they are written.
//
// A threshold is required: in Go, who leaves it out sees the zero; in a file, a forgotten
// line would block all.
var flowFields = newSchema(completeFlow, []field[flow.Rule]{
	define("id", "ID", textKind, func(r *flow.Rule) *string { return &r.ID }),
	define("resource", "Resource", textKind, func(r *flow.Rule) *string { return &r.Resource }).along("Match"),
	define("match", "Match", matchKind, func(r *flow.Rule) *resource.Match { return &r.Match }),
	define("origin", "Origin", textKind, func(r *flow.Rule) *string { return &r.Origin }),
	define("threshold", "Threshold", numberKind, func(r *flow.Rule) *float64 { return &r.Threshold }).must("how many calls are admitted per interval; 0 blocks all"),
	define("candidate", "Candidate", numberKind, func(r *flow.Rule) *float64 { return &r.Candidate }),
	define("interval", "Interval", durationKind, func(r *flow.Rule) *time.Duration { return &r.Interval }).along("Associated"),
	define("buckets", "Buckets", intKind, func(r *flow.Rule) *int { return &r.Buckets }).along("Interval"),
	define("strict", "Strict", flagKind, func(r *flow.Rule) *bool { return &r.Strict }).along("Behavior", "Associated"),
	define("mode", "Mode", modeKind, func(r *flow.Rule) *stat.Mode { return &r.Mode }),
	define("strategy", "Strategy", strategyKind, func(r *flow.Rule) *flow.Strategy { return &r.Strategy }).along("Associated"),
	define("behavior", "Behavior", behaviorKind, func(r *flow.Rule) *flow.Behavior { return &r.Behavior }).along("Associated"),
	define("maxWait", "MaxWait", durationKind, func(r *flow.Rule) *time.Duration { return &r.MaxWait }).along("Interval", "Behavior", "Associated"),
	define("warmUpPeriod", "WarmUpPeriod", durationKind, func(r *flow.Rule) *time.Duration { return &r.WarmUpPeriod }).along("Strategy"),
	define("coldFactor", "ColdFactor", numberKind, func(r *flow.Rule) *float64 { return &r.ColdFactor }).along("Strategy"),
	define("highMemoryThreshold", "HighMemoryThreshold", numberKind, func(r *flow.Rule) *float64 { return &r.HighMemoryThreshold }).along("Strategy", "Threshold", "Candidate"),
	define("lowMemory", "LowMemory", bytesKind, func(r *flow.Rule) *int64 { return &r.LowMemory }).along("Strategy"),
	define("highMemory", "HighMemory", bytesKind, func(r *flow.Rule) *int64 { return &r.HighMemory }).along("Strategy", "LowMemory"),
	define("associated", "Associated", textKind, func(r *flow.Rule) *string { return &r.Associated }).along("Resource", "Match"),
})

// isolationFields is the schema of isolation rules.
var isolationFields = newSchema(completeIsolation, []field[isolation.Rule]{
	define("id", "ID", textKind, func(r *isolation.Rule) *string { return &r.ID }),
	define("resource", "Resource", textKind, func(r *isolation.Rule) *string { return &r.Resource }).along("Match"),
	define("match", "Match", matchKind, func(r *isolation.Rule) *resource.Match { return &r.Match }),
	define("maxInFlight", "MaxInFlight", int64Kind, func(r *isolation.Rule) *int64 { return &r.MaxInFlight }).must("how many calls may be in flight"),
	define("maxWait", "MaxWait", durationKind, func(r *isolation.Rule) *time.Duration { return &r.MaxWait }),
	define("mode", "Mode", modeKind, func(r *isolation.Rule) *stat.Mode { return &r.Mode }),
})
