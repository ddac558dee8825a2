package flow

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

const kindName = "flow"

// Kind describes flow rules to the rest of Leapgate. Programs have no use for it.
var Kind ruleset.Kind[Rule] = kind

var kind = ruleset.Kind[Rule]{
	Name:    kindName,
	Purpose: "limits how many calls pass per time",
	Status:  429, // Too Many Requests; net/http would reach the root
	Head: func(r *Rule) field.Head {
		return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
	},
	Fields:   fields,
	Complete: complete,
	Describe: describe,
	Warnings: warnings,
	Compile:  compile,
	Reads:    func(r *Rule) string { return r.Associated },
	Relate:   relate,
	Bounds:   bounds,
	Admits:   admits,
}

var (
	behaviorCodec = field.Enum[Behavior]()
	strategyCodec = field.Enum[Strategy]()
)

// fields are those of a flow rule, in the order in which they are written.
var fields = []field.Field[Rule]{
	field.Define(field.String, func(r *Rule) *string { return &r.Origin }, field.About{
		Name: "origin", GoName: "Origin", Label: "Origin", Hint: "One caller; or other, for callers that no rule on the resource names.",
		Range: "up to 1,024 bytes", Default: "everyone",
		Seldom: true, Private: true,
		Synonyms: []string{"limitApp", "caller"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.Threshold }, field.About{
		Name: "threshold", GoName: "Threshold", Label: "Threshold", Hint: "Calls admitted per interval; 0 blocks all.",
		Range:    "0 or more",
		Required: "how many calls are admitted per interval; 0 blocks all",
		Synonyms: []string{"count", "limit", "qps", "rate"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.Candidate }, field.About{
		Name: "candidate", GoName: "Candidate", Label: "Candidate", Hint: "A threshold that is tried and blocks nothing.",
		Range: "0 or more", Default: "none",
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.Interval }, field.About{
		Name: "interval", GoName: "Interval", Label: "Interval", Hint: "The length of the window, such as 250ms or 1h.",
		Range: "1ms to 24h", Default: "1s",
		With:     []string{"Associated"},
		Synonyms: []string{"window", "period", "per", "statIntervalInMs"},
	}),
	field.Define(field.Int, func(r *Rule) *int { return &r.Buckets }, field.About{
		Name: "buckets", GoName: "Buckets", Label: "Buckets", Hint: "How many buckets the window has.",
		Range: "1 to 1,000, at least 1ms each; they must divide the interval", Default: "10",
		With: []string{"Interval"}, Seldom: true,
		Synonyms: []string{"sampleCount", "slots"},
	}),
	field.Define(field.Flag, func(r *Rule) *bool { return &r.Strict }, field.About{
		Name: "strict", GoName: "Strict", Label: "Strict", Hint: "Bounds every interval, wherever it begins. With reject only.",
		With: []string{"Behavior", "Associated"}, Seldom: true,
	}),
	field.Define(behaviorCodec, func(r *Rule) *Behavior { return &r.Behavior }, field.About{
		Name: "behavior", GoName: "Behavior", Label: "Behavior", Hint: "Beyond the threshold: reject, or let pass one by one.",
		With:     []string{"Associated"},
		Synonyms: []string{"controlBehavior", "behaviour"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxWait }, field.About{
		Name: "maxWait", GoName: "MaxWait", Label: "Longest wait", Hint: "With pace: how long a call waits for its turn. Else: how long one with priority does.",
		Range: "0s to 24h; without pace at most interval", Default: "0s with pace; else 500ms, or interval if that is shorter",
		With:     []string{"Interval", "Behavior", "Associated"},
		Synonyms: []string{"maxQueueingTimeMs", "timeout", "wait"},
	}),
	field.Define(strategyCodec, func(r *Rule) *Strategy { return &r.Strategy }, field.About{
		Name: "strategy", GoName: "Strategy", Label: "Strategy", Hint: "How the threshold is found: it stands, it rises with use, or it falls as memory fills.",
		With: []string{"Associated"}, Seldom: true,
		Synonyms: []string{"tokenCalculateStrategy"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.WarmUpPeriod }, field.About{
		Name: "warmUpPeriod", GoName: "WarmUpPeriod", Label: "Warm-up period", Hint: "From cold to warm under full use, such as 10s. It must be set.",
		Range: "1s to 24h",
		With:  []string{"Strategy"}, Only: field.Choice{Field: "strategy", Value: "warm-up"}, Seldom: true,
		Synonyms: []string{"warmUpPeriodSec"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.ColdFactor }, field.About{
		Name: "coldFactor", GoName: "ColdFactor", Label: "Cold factor", Hint: "The threshold when warm, divided by that when cold.",
		Range: "over 1 to 1,000", Default: "3",
		With: []string{"Strategy"}, Only: field.Choice{Field: "strategy", Value: "warm-up"}, Seldom: true,
		Synonyms: []string{"warmUpColdFactor"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.HighMemoryThreshold }, field.About{
		Name: "highMemoryThreshold", GoName: "HighMemoryThreshold", Label: "Threshold when high", Hint: "The threshold from high memory on.",
		Range: "0 to below threshold", Default: "0",
		With: []string{"Strategy", "Threshold", "Candidate"}, Only: field.Choice{Field: "strategy", Value: "memory-adaptive"}, Seldom: true,
		Synonyms: []string{"highMemUsageThreshold"},
	}),
	field.Define(field.Bytes, func(r *Rule) *int64 { return &r.LowMemory }, field.About{
		Name: "lowMemory", GoName: "LowMemory", Label: "Low memory", Hint: "Up to here the threshold holds, such as 512MiB. It must be set.",
		Range: "1B or more",
		With:  []string{"Strategy"}, Only: field.Choice{Field: "strategy", Value: "memory-adaptive"}, Seldom: true,
		Synonyms: []string{"memLowWaterMarkBytes"},
	}),
	field.Define(field.Bytes, func(r *Rule) *int64 { return &r.HighMemory }, field.About{
		Name: "highMemory", GoName: "HighMemory", Label: "High memory", Hint: "From here on the threshold when high holds, such as 1GiB. In between it falls in proportion. It must be set.",
		Range: "over lowMemory",
		With:  []string{"Strategy", "LowMemory"}, Only: field.Choice{Field: "strategy", Value: "memory-adaptive"}, Seldom: true,
		Synonyms: []string{"memHighWaterMarkBytes"},
	}),
	field.Define(field.String, func(r *Rule) *string { return &r.Associated }, field.About{
		Name: "associated", GoName: "Associated", Label: "Associated", Hint: "Another resource. The rule blocks while that passes more than the threshold per second.",
		Range: "up to 1,024 bytes", Default: "none",
		With: []string{"Resource", "Match"}, Seldom: true,
		Synonyms: []string{"refResource"},
	}),
}

// bounds is what a rule bounds of its own resource.
func bounds(r *Rule) ruleset.Figure {
	if r.Associated != "" {
		return ""
	}
	return ruleset.Passes
}

// admits is how many calls of its own resource a rule admits. A rule that blocks all is left out:
// that is meant for a while.
func admits(r *Rule) ruleset.Calls {
	most := max(r.Threshold, r.HighMemoryThreshold)
	if r.Mode != rule.Enforce || r.Origin != "" || r.Associated != "" || most == 0 {
		return ruleset.Calls{}
	}
	return ruleset.Calls{N: most, In: r.Interval}
}

// relate sets in the rules for other callers which callers the rules of the resource name.
func relate(checks []resource.Check) {
	var origins []string
	for _, c := range checks {
		if origin := c.(*controller).rule.Origin; origin != "" && origin != OtherOrigins {
			origins = append(origins, origin)
		}
	}
	for i, c := range checks {
		if c := c.(*controller); c.rule.Origin == OtherOrigins {
			checks[i] = c.beside(origins)
		}
	}
}
