package breaker

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/rule"
)

const (
	kindName = "breaker"
	status   = 503 // Service Unavailable; net/http would reach the root
)

// Kind describes breaker rules to the rest of Leapgate.
var Kind = ruleset.Kind[Rule]{
	Name:    kindName,
	Purpose: "refuses calls to what fails, is slow or hangs, and lets them come back",
	Status:  status,
	Head: func(r *Rule) field.Head {
		return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
	},
	Fields:   fields,
	Complete: complete,
	Describe: describe,
	Warnings: warnings,
	Compile:  compile,
	Needs:    needs,
}

var (
	breaks    = field.Choice{Field: "behavior", Value: "break"}
	throttles = field.Choice{Field: "behavior", Value: "throttle"}
)

// fields are those of a breaker rule, in the order in which they are written.
var fields = []field.Field[Rule]{
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.Interval }, field.About{
		Name: "interval", GoName: "Interval", Label: "Interval", Hint: "The window of the results, such as 10s.",
		Range: "1ms to 24h", Default: "10s",
		Synonyms: []string{"statIntervalMs", "window", "period"},
	}),
	field.Define(field.Int, func(r *Rule) *int { return &r.Buckets }, field.About{
		Name: "buckets", GoName: "Buckets", Label: "Buckets", Hint: "How many buckets the window has.",
		Range: "1 to 1,000, at least 1ms each; they must divide the interval", Default: "10",
		With: []string{"Interval"}, Seldom: true,
		Synonyms: []string{"statSlidingWindowBucketCount", "sampleCount"},
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.MinCalls }, field.About{
		Name: "minCalls", GoName: "MinCalls", Label: "Least calls", Hint: "With fewer results than this, nothing opens it.",
		Range: "1 to 1,000,000,000", Default: "10",
		Synonyms: []string{"minRequestAmount", "minimumNumberOfCalls", "requestVolumeThreshold"},
	}),
	field.Define(behaviorCodec, func(r *Rule) *Behavior { return &r.Behavior }, field.About{
		Name: "behavior", GoName: "Behavior", Label: "Behavior", Hint: "Open and close, or refuse a share.",
		Synonyms: []string{"behaviour"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.ErrorRatio }, field.About{
		Name: "errorRatio", GoName: "ErrorRatio", Label: "Error ratio", Hint: "Share of failures that opens it, such as 0.5.",
		Range: "over 0 to 1", Default: "none",
		Instead: []string{"SlowRatio", "ErrorCount", "Consecutive", "Behavior"}, Only: breaks,
		Synonyms: []string{"threshold", "failureRateThreshold", "errorThresholdPercentage"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.SlowRatio }, field.About{
		Name: "slowRatio", GoName: "SlowRatio", Label: "Slow ratio", Hint: "Share of slow calls that opens it. Calls that hang are slow before they end.",
		Range: "over 0 to 1", Default: "none",
		Only:     breaks,
		Synonyms: []string{"slowRatioThreshold", "slowCallRateThreshold"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.SlowAfter }, field.About{
		Name: "slowAfter", GoName: "SlowAfter", Label: "Slow after", Hint: "What takes longer is slow, such as 1s. With slowRatio, which needs it.",
		Range: "over 0s to 24h",
		With:  []string{"SlowRatio"}, Only: breaks,
		Synonyms: []string{"maxAllowedRtMs", "slowCallDurationThreshold"},
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.ErrorCount }, field.About{
		Name: "errorCount", GoName: "ErrorCount", Label: "Error count", Hint: "Failures in the window that open it.",
		Range: "1 to 1,000,000,000", Default: "none",
		Only: breaks,
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.Consecutive }, field.About{
		Name: "consecutive", GoName: "Consecutive", Label: "In a row", Hint: "Failures in a row that open it.",
		Range: "1 to 1,000,000,000", Default: "none",
		Only:     breaks,
		Synonyms: []string{"consecutiveFailures"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.OpenFor }, field.About{
		Name: "openFor", GoName: "OpenFor", Label: "Open for", Hint: "How long it is open before a few calls try again.",
		Range: "1ms to 24h", Default: "5s",
		Only:     breaks,
		Synonyms: []string{"retryTimeoutMs", "timeWindow", "timeout", "waitDurationInOpenState", "sleepWindow"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxOpenFor }, field.About{
		Name: "maxOpenFor", GoName: "MaxOpenFor", Label: "Open for at most", Hint: "Each opening in a row is twice as long, up to this.",
		Range: "openFor to 24h", Default: "all are alike",
		With: []string{"OpenFor"}, Only: breaks, Seldom: true,
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.Probes }, field.About{
		Name: "probes", GoName: "Probes", Label: "Probes", Hint: "Calls that decide whether it closes.",
		Range: "1 to 1,000", Default: "3",
		Only:     breaks,
		Synonyms: []string{"probeNum", "maxRequests", "permittedNumberOfCallsInHalfOpenState"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.ProbeTimeout }, field.About{
		Name: "probeTimeout", GoName: "ProbeTimeout", Label: "Probe time-out", Hint: "A probe that takes so long counts as bad.",
		Range: "1ms to 24h", Default: "as long as it is open for",
		With: []string{"OpenFor"}, Only: breaks, Seldom: true,
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.Ramp }, field.About{
		Name: "ramp", GoName: "Ramp", Label: "Ramp", Hint: "How long it takes from a tenth of the calls to all, once it has closed.",
		Range: "1ms to 24h", Default: "all at once",
		Only: breaks, Seldom: true,
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.K }, field.About{
		Name: "k", GoName: "K", Label: "K", Hint: "Requests for each that succeeds before any is refused.",
		Range: "1 to 1,000", Default: "2",
		Only: throttles,
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.MaxReject }, field.About{
		Name: "maxReject", GoName: "MaxReject", Label: "Most refused", Hint: "The largest share that is refused.",
		Range: "over 0 to 1", Default: "0.9",
		Only: throttles, Seldom: true,
	}),
	field.Define(forceCodec, func(r *Rule) *Force { return &r.Force }, field.About{
		Name: "force", GoName: "Force", Label: "Force", Hint: "Open blocks all calls, closed blocks none, whatever happens.",
		Switch: true,
	}),
}

var (
	behaviorCodec = field.Enum[Behavior]()
	forceCodec    = field.Enum[Force]()
)

// needs is how many results a rule needs. With SlowRatio that is not known: calls that hang count
// for as long as they do.
func needs(r *Rule) (calls ruleset.Calls, field string) {
	if r.Mode == rule.Off || r.Force != None || r.SlowRatio > 0 && r.Behavior == Break {
		return calls, ""
	}
	return ruleset.Calls{N: float64(r.MinCalls), In: r.Interval}, "minCalls"
}
