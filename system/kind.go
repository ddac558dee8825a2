package system

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
)

const (
	kindName = "system"
	status   = 503 // Service Unavailable; net/http would reach the root
)

// Kind describes system rules to the rest of Leapgate. Programs have no use for it.
var Kind ruleset.Kind[Rule] = kind

var kind = ruleset.Kind[Rule]{
	Name:    kindName,
	Purpose: "bounds what all resources take in together, by calls and by the load of the machine",
	Status:  status,
	Head: func(r *Rule) field.Head {
		return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
	},
	Fields:   fields,
	Complete: complete,
	Describe: describe,
	Warnings: warnings,
	Together: true,
	Share:    share,
	Compile:  compile,
}

var fields = []field.Field[Rule]{
	field.Define(field.Number, func(r *Rule) *float64 { return &r.MaxCPU }, field.About{
		Name: "maxCPU", GoName: "MaxCPU", Signal: "cpu", Label: "CPU", Hint: "Share of the processors that the container may use, such as 0.9.",
		Range: "over 0 to 1", Default: "none",
		Instead:  []string{"MaxThrottled", "MaxPressure", "MaxSchedLatency", "MaxRT", "MaxQPS", "MaxInFlight"},
		Synonyms: []string{"cpuUsage", "highestCpuUsage", "cpu", "maxCpu"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.MaxThrottled }, field.About{
		Name: "maxThrottled", GoName: "MaxThrottled", Signal: "throttled", Label: "Throttled", Hint: "Share of periods in which the quota runs out, such as 0.2.",
		Range: "over 0 to 1", Default: "none",
		Synonyms: []string{"throttled"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.MaxPressure }, field.About{
		Name: "maxPressure", GoName: "MaxPressure", Signal: "pressure", Label: "Pressure", Hint: "Share of time in which something waits for a processor, such as 0.5.",
		Range: "over 0 to 1", Default: "none",
		Synonyms: []string{"pressure", "highestSystemLoad", "load"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxSchedLatency }, field.About{
		Name: "maxSchedLatency", GoName: "MaxSchedLatency", Signal: "schedLatency", Label: "Scheduling latency", Hint: "How long 99 % of goroutines wait at most until they run, such as 10ms.",
		Range: "1us to 1m", Default: "none",
		Seldom:   true,
		Synonyms: []string{"schedLatency"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxRT }, field.About{
		Name: "maxRT", GoName: "MaxRT", Label: "Response time", Hint: "Mean response time of the calls that succeed, such as 500ms.",
		Range: "1ms to 24h", Default: "none",
		Synonyms: []string{"avgRt", "rt"},
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.MaxQPS }, field.About{
		Name: "maxQPS", GoName: "MaxQPS", Label: "Calls per second", Hint: "Calls per second, over all resources together.",
		Range: "1 to 1,000,000,000", Default: "none",
		Synonyms: []string{"inboundQPS", "qps", "maxQps"},
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.MaxInFlight }, field.About{
		Name: "maxInFlight", GoName: "MaxInFlight", Label: "In flight", Hint: "Calls in flight, over all resources together.",
		Range: "1 to 1,000,000,000", Default: "none",
		Synonyms: []string{"concurrency", "maxThread", "maxConcurrency"},
	}),
	field.Define(field.Enum[Strategy](), func(r *Rule) *Strategy { return &r.Strategy }, field.About{
		Name: "strategy", GoName: "Strategy", Label: "Strategy", Hint: "While a share or a time is above its bound: find how many calls may be in flight, or refuse all.",
		With: []string{"MaxCPU", "MaxThrottled", "MaxPressure", "MaxSchedLatency", "MaxRT"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.CoolOff }, field.About{
		Name: "coolOff", GoName: "CoolOff", Label: "Cool-off", Hint: "How long all must be well until the rule is calm again.",
		Range: "1ms to 1h", Default: "10s, or 1s with refuse",
		Seldom: true,
	}),
}

// complete reports the faults of a rule. It fills in nothing: an edit of Strategy alone gets
// its CoolOff.
func complete(r *Rule, report *ruleset.Report) {
	ratio(report, "MaxCPU", r.MaxCPU)
	ratio(report, "MaxThrottled", r.MaxThrottled)
	ratio(report, "MaxPressure", r.MaxPressure)
	span(report, "MaxSchedLatency", r.MaxSchedLatency, minSchedLatency, maxSchedLatency, "none")
	span(report, "MaxRT", r.MaxRT, minSpan, maxRT, "none")
	count(report, "MaxQPS", r.MaxQPS)
	count(report, "MaxInFlight", r.MaxInFlight)
	if *r == (Rule{ID: r.ID, Resource: r.Resource, Match: r.Match, Mode: r.Mode, Source: r.Source, Strategy: r.Strategy, CoolOff: r.CoolOff}) {
		report.Missing("MaxCPU", r.MaxCPU, "more than 0 and at most 1, unless one of {MaxThrottled}, {MaxPressure}, {MaxSchedLatency}, {MaxRT}, {MaxQPS} and {MaxInFlight} is set")
	}
	switch {
	case r.Strategy > Refuse:
		report.Fault("Strategy", uint8(r.Strategy), "Limit (0) or Refuse (1)")
	case !r.hasSignal():
		ruleset.Unused(report, "Strategy", r.Strategy, "rules with {MaxCPU}, {MaxThrottled}, {MaxPressure}, {MaxSchedLatency} or {MaxRT}")
	}
	span(report, "CoolOff", r.CoolOff, minSpan, maxCoolOff, fmt.Sprintf("%v with {Strategy Limit}, %v with {Strategy Refuse}", coolOffLimit, coolOffRefuse))
}

func ratio(report *ruleset.Report, field string, v float64) {
	if !(v >= 0 && v <= 1) { // NaN compares false
		report.Fault(field, v, "more than 0 and at most 1, or 0 for none")
	}
}

func span(report *ruleset.Report, field string, v, least, most time.Duration, zero string) {
	if v != 0 && (v < least || v > most) {
		report.Fault(field, v, fmt.Sprintf("%v to %v, or 0 for %s", least, most, zero))
	}
}

func count(report *ruleset.Report, field string, v int64) {
	if v < 0 || v > maxCalls {
		report.Fault(field, v, fmt.Sprintf("1 to %d, or 0 for none", maxCalls))
	}
}

// describe says what a rule does.
func describe(r *Rule) string {
	var all, signals []string
	if r.MaxInFlight > 0 {
		all = append(all, fmt.Sprintf("at most %d in flight together", r.MaxInFlight))
	}
	if r.MaxQPS > 0 {
		all = append(all, fmt.Sprintf("at most %d in any aligned 1s together", r.MaxQPS))
	}
	for _, s := range boundsOf(r) {
		signals = append(signals, s.name+" "+s.text)
	}
	if len(signals) > 0 {
		does := "limits calls in flight"
		if r.Strategy == Refuse {
			does = "blocks all"
		}
		all = append(all, does+" above "+strings.Join(signals, " or "))
	}
	if all == nil {
		return "bounds nothing"
	}
	return strings.Join(all, "; ")
}

// warnings says what is allowed in a rule, but probably not meant.
func warnings(r *Rule) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if r.Strategy == Limit && r.hasSignal() && r.MaxInFlight == 0 {
		warn("signals come seconds after a step in demand, and until then nothing bounds the calls; is maxInFlight meant as well?")
	}
	if r.Strategy == Limit && r.MaxCPU >= raised {
		warn("maxCPU is %s, and the limit falls only above %s; is 0.9 meant?", strconv.FormatFloat(r.MaxCPU, 'f', -1, 64), strconv.FormatFloat(raised, 'f', -1, 64))
	}
	return all
}
