package isolation

import (
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
)

const kindName = "isolation"

// Kind describes isolation rules to the rest of Leapgate. Programs have no use for it.
var Kind ruleset.Kind[Rule] = kind

var kind = ruleset.Kind[Rule]{
	Name:   kindName,
	Status: 503, // Service Unavailable; net/http would reach the root
	Head: func(r *Rule) field.Head {
		return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
	},
	Fields: []field.Field[Rule]{
		field.Define(field.Int64, func(r *Rule) *int64 { return &r.MaxInFlight }, field.About{
			Name: "maxInFlight", GoName: "MaxInFlight", Label: "In flight",
			Hint: "Calls that may be in flight.", Required: "how many calls may be in flight",
			Synonyms: []string{"concurrency", "maxConcurrency", "maxConcurrent"},
		}),
		field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxWait }, field.About{
			Name: "maxWait", GoName: "MaxWait", Label: "Longest wait",
			Hint:     "For a free place, such as 500ms. Empty: none.",
			Synonyms: []string{"maxQueueingTimeMs", "timeout", "wait"},
		}),
		field.Define(field.Int, func(r *Rule) *int { return &r.MaxQueue }, field.About{
			Name: "maxQueue", GoName: "MaxQueue", Label: "Longest queue",
			Hint: "Calls that may wait at once. Empty: 1000.", With: []string{"MaxWait"}, Seldom: true,
		}),
	},
	Complete: complete,
	Describe: describe,
	Compile:  compile,
	Bounds:   func(*Rule) ruleset.Figure { return ruleset.InFlight },
}

// complete reports the faults of a rule.
func complete(r *Rule, report *ruleset.Report) {
	if r.MaxInFlight < 1 || r.MaxInFlight > MaxInFlight {
		report.Fault("MaxInFlight", r.MaxInFlight, fmt.Sprintf("1 to %d", MaxInFlight))
	}
	if r.MaxWait < 0 || r.MaxWait > maxMaxWait {
		report.Fault("MaxWait", r.MaxWait, fmt.Sprintf("0 to %v", maxMaxWait))
	}
	switch {
	case r.MaxQueue < 0 || r.MaxQueue > maxMaxQueue:
		report.Fault("MaxQueue", r.MaxQueue, fmt.Sprintf("1 to %d, or 0 for %d", maxMaxQueue, defaultMaxQueue))
	case r.MaxWait == 0:
		ruleset.Unused(report, "MaxQueue", r.MaxQueue, "rules with {MaxWait}")
	}
}

func describe(r *Rule) string {
	ends := "blocks"
	if r.MaxWait > 0 {
		ends = fmt.Sprintf("waits up to %s, then blocks", field.ShortDuration(r.MaxWait))
	}
	if r.MaxQueue > 0 {
		ends = fmt.Sprintf("waits up to %s, %d calls at once, then blocks", field.ShortDuration(r.MaxWait), r.MaxQueue)
	}
	return fmt.Sprintf("at most %d in flight; %s", r.MaxInFlight, ends)
}
