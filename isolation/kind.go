package isolation

import (
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
)

const (
	kindName = "isolation"
	status   = 503 // Service Unavailable; net/http would reach the root
)

// Kind describes isolation rules to the rest of Leapgate. Programs have no use for it.
var Kind ruleset.Kind[Rule] = kind

var kind = ruleset.Kind[Rule]{
	Name:    kindName,
	Purpose: "limits how many calls are in flight",
	Status:  status,
	Head: func(r *Rule) field.Head {
		return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
	},
	Fields: []field.Field[Rule]{
		field.Define(field.Int64, func(r *Rule) *int64 { return &r.MaxInFlight }, field.About{
			Name: "maxInFlight", GoName: "MaxInFlight", Label: "In flight",
			Hint:     "Calls that may be in flight. With strategy adaptive, the largest limit.",
			Range:    "1 to 1,000,000,000",
			Required: "how many calls may be in flight",
			Synonyms: []string{"concurrency", "maxConcurrency", "maxConcurrent"},
		}),
		field.Define(field.Enum[Strategy](), func(r *Rule) *Strategy { return &r.Strategy }, field.About{
			Name: "strategy", GoName: "Strategy", Label: "Strategy", Hint: "The limit stands, or is found by how long calls take.",
		}),
		field.Define(field.Int64, func(r *Rule) *int64 { return &r.MinInFlight }, field.About{
			Name: "minInFlight", GoName: "MinInFlight", Label: "Smallest limit", Hint: "The smallest limit: so many calls get in, whatever happens.",
			Range: "1 to maxInFlight", Default: "4",
			With: []string{"Strategy", "MaxInFlight"}, Only: adapts,
			Synonyms: []string{"minLimit", "minConcurrency"},
		}),
		field.Define(field.Int64, func(r *Rule) *int64 { return &r.InitialInFlight }, field.About{
			Name: "initialInFlight", GoName: "InitialInFlight", Label: "First limit", Hint: "The limit until calls have shown what is right.",
			Range: "minInFlight to maxInFlight", Default: "20",
			With: []string{"Strategy", "MinInFlight", "MaxInFlight"}, Only: adapts, Seldom: true,
			Synonyms: []string{"initialLimit"},
		}),
		field.Define(field.Number, func(r *Rule) *float64 { return &r.Tolerance }, field.About{
			Name: "tolerance", GoName: "Tolerance", Label: "Tolerance", Hint: "How much longer calls may take than without a queue, as a share.",
			Range: "over 0 to 10", Default: "0.25",
			With: []string{"Strategy"}, Only: adapts, Seldom: true,
		}),
		field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxRT }, field.About{
			Name: "maxRT", GoName: "MaxRT", Label: "Longest mean time", Hint: "The limit falls while calls take longer on average, for whatever reason.",
			Range: "over 0s to 24h", Default: "none",
			With: []string{"Strategy"}, Only: adapts,
		}),
		field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxWait }, field.About{
			Name: "maxWait", GoName: "MaxWait", Label: "Longest wait",
			Hint:  "How long a call waits for another to end, such as 500ms.",
			Range: "0s to 24h", Default: "0s",
			Synonyms: []string{"maxQueueingTimeMs", "timeout", "wait"},
		}),
		field.Define(field.Int, func(r *Rule) *int { return &r.MaxQueue }, field.About{
			Name: "maxQueue", GoName: "MaxQueue", Label: "Longest queue",
			Hint:  "Calls that may wait at once. With maxWait only.",
			Range: "1 to 1,000,000", Default: "1,000",
			With: []string{"MaxWait"}, Seldom: true,
		}),
	},
	Complete: complete,
	Describe: describe,
	Compile:  compile,
	Bounds:   func(*Rule) ruleset.Figure { return ruleset.InFlight },
}

var adapts = field.Choice{Field: "strategy", Value: "adaptive"}

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
	switch r.Strategy {
	case Adaptive:
		completeAdaptive(r, report)
	case Fixed:
		const users = "{Strategy Adaptive}"
		ruleset.Unused(report, "MinInFlight", r.MinInFlight, users)
		ruleset.Unused(report, "InitialInFlight", r.InitialInFlight, users)
		ruleset.Unused(report, "Tolerance", r.Tolerance, users)
		ruleset.Unused(report, "MaxRT", r.MaxRT, users)
	default:
		report.Fault("Strategy", uint8(r.Strategy), "Fixed (0) or Adaptive (1)")
	}
}

func completeAdaptive(r *Rule, report *ruleset.Report) {
	least, from := r.minInFlight(), fmt.Sprintf("{MinInFlight}, which is %d,", r.minInFlight())
	if r.MinInFlight < 0 || r.MinInFlight > max(1, r.MaxInFlight) {
		report.Fault("MinInFlight", r.MinInFlight, fmt.Sprintf("1 to {MaxInFlight}, which is %d, or 0 for %d", r.MaxInFlight, defaultMinInFlight))
		least, from = 1, "1"
	}
	if r.InitialInFlight != 0 && (r.InitialInFlight < least || r.InitialInFlight > r.MaxInFlight) {
		report.Fault("InitialInFlight", r.InitialInFlight,
			fmt.Sprintf("%s to {MaxInFlight}, which is %d, or 0 for %d", from, r.MaxInFlight, defaultInitialInFlight))
	}
	if !(r.Tolerance >= 0 && r.Tolerance <= maxTolerance) { // NaN compares false
		report.Fault("Tolerance", r.Tolerance, fmt.Sprintf("more than 0 and at most %d, or 0 for %v", maxTolerance, defaultTolerance))
	}
	if r.MaxRT < 0 || r.MaxRT > maxMaxRT {
		report.Fault("MaxRT", r.MaxRT, fmt.Sprintf("more than 0 and at most %v, or 0 for none", maxMaxRT))
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
	if r.Strategy == Adaptive {
		return fmt.Sprintf("at most %d to %d in flight, by how long calls take; %s", r.minInFlight(), r.MaxInFlight, ends)
	}
	return fmt.Sprintf("at most %d in flight; %s", r.MaxInFlight, ends)
}
