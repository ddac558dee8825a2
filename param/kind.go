package param

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/rule"
)

const (
	kindName = "param"

	// The HTTP statuses of refusals; net/http would reach the root.
	tooManyRequests    = 429
	serviceUnavailable = 503
)

// Kind describes param rules to the rest of Leapgate. Programs have no use for it.
var Kind ruleset.Kind[Rule] = kind

var kind = ruleset.Kind[Rule]{
	Name:    kindName,
	Purpose: "limits the calls with each value of an argument, such as a tenant or an address",
	Status:  tooManyRequests,
	Head: func(r *Rule) field.Head {
		return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
	},
	Fields:   fields,
	Complete: complete,
	Describe: describe,
	Warnings: warnings,
	Share:    share,
	Compile:  compile,
}

var fields = []field.Field[Rule]{
	field.Define(field.String, func(r *Rule) *string { return &r.Arg }, field.About{
		Name: "arg", GoName: "Arg", Label: "Argument", Hint: "The argument whose values are counted. Several, with commas, are counted together.",
		Range:    "up to 4 names of up to 1,024 bytes",
		Required: "the argument whose values are counted",
		Synonyms: []string{"paramKey", "paramIdx", "paramIndex", "argument", "param"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.Threshold }, field.About{
		Name: "threshold", GoName: "Threshold", Label: "Threshold", Hint: "Calls with one value per interval; 0 blocks all, unless top is set.",
		Range: "0 to 16,777,214", Default: "0",
		With:     []string{"MaxInFlight", "Behavior"},
		Synonyms: []string{"count", "limit", "qps", "rate"},
	}),
	field.Define(field.Number, func(r *Rule) *float64 { return &r.Candidate }, field.About{
		Name: "candidate", GoName: "Candidate", Label: "Candidate", Hint: "A threshold that is tried and blocks nothing.",
		Range: "0 to 16,777,214", Default: "none",
		With: []string{"MaxInFlight", "Behavior"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.Interval }, field.About{
		Name: "interval", GoName: "Interval", Label: "Interval", Hint: "What the threshold is for, such as 250ms or 1h.",
		Range: "1ms to 24h", Default: "1s",
		With:     []string{"MaxInFlight"},
		Synonyms: []string{"window", "period", "per", "durationInSec", "statIntervalInMs"},
	}),
	field.Define(field.Enum[Behavior](), func(r *Rule) *Behavior { return &r.Behavior }, field.About{
		Name: "behavior", GoName: "Behavior", Label: "Behavior", Hint: "Reject, a bucket that fills evenly, or one by one.",
		With:     []string{"MaxInFlight"},
		Synonyms: []string{"controlBehavior", "behaviour"},
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.Burst }, field.About{
		Name: "burst", GoName: "Burst", Label: "Burst", Hint: "Calls with one value that are admitted at once.",
		Range: "1 to 16,777,214", Default: "the limit of the value",
		With: []string{"Behavior", "MaxInFlight"}, Only: field.Choice{Field: "behavior", Value: "bucket"},
		Synonyms: []string{"burstCount"},
	}),
	field.Define(field.Duration, func(r *Rule) *time.Duration { return &r.MaxWait }, field.About{
		Name: "maxWait", GoName: "MaxWait", Label: "Longest wait", Hint: "How long a call waits for its turn.",
		Range: "0s to 24h", Default: "0s",
		With: []string{"Behavior", "MaxInFlight"}, Only: field.Choice{Field: "behavior", Value: "pace"},
		Synonyms: []string{"maxQueueingTimeMs", "timeout", "wait"},
	}),
	field.Define(field.Int64, func(r *Rule) *int64 { return &r.MaxInFlight }, field.About{
		Name: "maxInFlight", GoName: "MaxInFlight", Label: "In flight", Hint: "Instead of a threshold: calls in flight with one value.",
		Range: "1 to 16,777,214", Default: "none",
		With:     []string{"Threshold"},
		Synonyms: []string{"concurrency", "maxConcurrency", "maxConcurrent"},
	}),
	field.Define(field.Pairs, func(r *Rule) *string { return &r.Items }, field.About{
		Name: "items", GoName: "Items", Label: "Items", Hint: "Limits of single values, blocks of addresses and beginnings: vip=10, ban=0, free=-1, 10.0.0.0/8=100, bot-*=1.",
		Range: "up to 1,000; each -1 (any number) to 16,777,214", Default: "none",
		With: []string{"Arg"}, Private: true,
		Synonyms: []string{"specificItems", "paramFlowItemList"},
	}),
	field.Define(field.Enum[Missing](), func(r *Rule) *Missing { return &r.Missing }, field.About{
		Name: "missing", GoName: "Missing", Label: "Missing", Hint: "What happens to calls without the argument: they pass, are counted together, or are blocked.",
	}),
	field.Define(field.Int, func(r *Rule) *int { return &r.MaxKeys }, field.About{
		Name: "maxKeys", GoName: "MaxKeys", Label: "Most values", Hint: "How many values are counted at a time, on all resources of the rule.",
		Range: "1 to 10,000,000", Default: "100,000",
		With: []string{"Items"}, Seldom: true,
		Synonyms: []string{"paramsMaxCapacity", "maxCapacity"},
	}),
	field.Define(field.Enum[WhenFull](), func(r *Rule) *WhenFull { return &r.WhenFull }, field.About{
		Name: "whenFull", GoName: "WhenFull", Label: "When full", Hint: "What happens to a new value when there are so many.", Seldom: true,
	}),
	field.Define(field.Int, func(r *Rule) *int { return &r.Top }, field.About{
		Name: "top", GoName: "Top", Label: "Busiest", Hint: "How many of the busiest and the most refused values are shown. Without threshold and maxInFlight, nothing is blocked.",
		Range: "1 to 1,000", Default: "none",
		Seldom:   true,
		Synonyms: []string{"topN", "offenders"},
	}),
}

// argsOf are the names in Arg.
func argsOf(r *Rule) []string {
	names := strings.Split(r.Arg, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names
}

// complete fills in the defaults of a rule and reports its faults.
func complete(r *Rule, report *ruleset.Report) {
	if want := wantArgs(argsOf(r)); want != "" {
		report.Fault("Arg", r.Arg, want)
	}
	if r.MaxInFlight < 0 || r.MaxInFlight > MaxLimit {
		report.Fault("MaxInFlight", r.MaxInFlight, fmt.Sprintf("1 to %d, or 0 for none", int64(MaxLimit)))
	}
	if r.MaxInFlight != 0 {
		const users = "rules without {MaxInFlight}"
		ruleset.Unused(report, "Threshold", r.Threshold, users)
		ruleset.Unused(report, "Candidate", r.Candidate, users)
		ruleset.Unused(report, "Interval", r.Interval, users)
		ruleset.Unused(report, "Behavior", r.Behavior, users)
		ruleset.Unused(report, "Burst", r.Burst, users)
		ruleset.Unused(report, "MaxWait", r.MaxWait, users)
	} else {
		completeRate(r, report)
	}
	items, bad, want := parseItems(r.Items)
	if want != "" {
		report.Fault("Items", bad, want)
	} else if r.Items != "" && len(argsOf(r)) > 1 {
		report.Fault("Items", r.Items, "nothing with several arguments in {Arg}")
	}
	if r.Missing > Block {
		report.Fault("Missing", uint8(r.Missing), "Skip (0), Shared (1) or Block (2)")
	}
	if r.MaxKeys < 0 || r.MaxKeys > maxKeys {
		report.Fault("MaxKeys", r.MaxKeys, fmt.Sprintf("1 to %d, or 0 for %d", maxKeys, defaultMaxKeys))
	}
	if r.MaxKeys == 0 {
		r.MaxKeys = defaultMaxKeys
	}
	if items != nil && r.MaxKeys > 0 && r.MaxKeys <= len(items.values) {
		report.Fault("MaxKeys", r.MaxKeys, fmt.Sprintf("more than the %d values that stand in {Items}", len(items.values)))
	}
	if r.Top < 0 || r.Top > maxTop {
		report.Fault("Top", r.Top, fmt.Sprintf("1 to %d, or 0 for none", maxTop))
	}
	if r.WhenFull > Share {
		report.Fault("WhenFull", uint8(r.WhenFull), "Evict (0), Deny (1) or Share (2)")
	}
}

func wantArgs(names []string) (want string) {
	if len(names) > maxArgs {
		return fmt.Sprintf("at most %d names", maxArgs)
	}
	seen := make(map[string]bool)
	for _, name := range names {
		if name == "" || len(name) > rule.MaxNameLength || seen[name] {
			return fmt.Sprintf("the name of an argument, of 1 to %d bytes, or several with commas between them, each once", rule.MaxNameLength)
		}
		seen[name] = true
	}
	return ""
}

func completeRate(r *Rule, report *ruleset.Report) {
	if r.Interval == 0 {
		r.Interval = defaultInterval
	}
	if r.Interval < minInterval || r.Interval > maxInterval {
		report.Fault("Interval", r.Interval, fmt.Sprintf("%v to %v", minInterval, maxInterval))
	}
	if r.Behavior > Pace {
		report.Fault("Behavior", uint8(r.Behavior), "Reject (0), Bucket (1) or Pace (2)")
		return
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"Threshold", r.Threshold}, {"Candidate", r.Candidate}} {
		switch {
		case !(f.value >= 0 && f.value <= MaxLimit): // NaN compares false
			report.Fault(f.name, f.value, fmt.Sprintf("0 to %d", int64(MaxLimit)))
		case r.Behavior != Reject && f.value != math.Trunc(f.value):
			report.Fault(f.name, f.value, fmt.Sprintf("a whole number with {Behavior %s}; for less than that, a longer {Interval}", goNames[r.Behavior]))
		}
	}
	if r.Behavior != Bucket {
		ruleset.Unused(report, "Burst", r.Burst, "{Behavior Bucket}")
	} else if r.Burst < 0 || r.Burst > MaxLimit {
		report.Fault("Burst", r.Burst, fmt.Sprintf("1 to %d, or 0 for the limit", int64(MaxLimit)))
	}
	if r.Behavior != Pace {
		ruleset.Unused(report, "MaxWait", r.MaxWait, "{Behavior Pace}")
	} else if r.MaxWait < 0 || r.MaxWait > maxMaxWait {
		report.Fault("MaxWait", r.MaxWait, fmt.Sprintf("0 to %v", maxMaxWait))
	}
}

var goNames = []string{"Reject", "Bucket", "Pace"}

func warnings(r *Rule) []string {
	if r.MaxInFlight == 0 && r.Threshold == 0 && r.Items == "" && r.Top == 0 {
		return []string{"threshold is 0, so that every value is blocked; is threshold or maxInFlight meant?"}
	}
	return nil
}

func describe(r *Rule) string {
	var s strings.Builder
	most := strconv.FormatInt(int64(r.Threshold), 10)
	switch {
	case r.MaxInFlight > 0:
		fmt.Fprintf(&s, "at most %d in flight", r.MaxInFlight)
	case probes(r):
		s.WriteString("any number")
	case r.Threshold < 1:
		s.WriteString("none")
	case r.Behavior == Bucket:
		burst := r.Burst
		if burst == 0 {
			burst = int64(r.Threshold)
		}
		fmt.Fprintf(&s, "at most %d at once and %s in %s", burst, most, field.ShortDuration(r.Interval))
	case r.Behavior == Pace:
		gap := time.Duration(float64(r.Interval) / r.Threshold)
		if gap > time.Millisecond {
			gap = gap.Round(time.Microsecond)
		}
		fmt.Fprintf(&s, "one every %s", field.ShortDuration(gap))
	default:
		fmt.Fprintf(&s, "at most %s in %s", most, field.ShortDuration(r.Interval))
	}
	names := argsOf(r)
	for i, name := range names {
		names[i] = escape.Text(name)
	}
	fmt.Fprintf(&s, " for each %s; ", strings.Join(names, " and "))
	if r.MaxWait > 0 {
		fmt.Fprintf(&s, "waits up to %s, then ", field.ShortDuration(r.MaxWait))
	}
	if probes(r) {
		s.WriteString("blocks none")
	} else {
		s.WriteString("blocks")
	}
	if r.Items != "" {
		if all, _, want := parseItems(r.Items); want == "" {
			fmt.Fprintf(&s, "; %d with limits of their own", len(all.values)+len(all.blocks)+len(all.prefixes))
		}
	}
	switch r.Missing {
	case Shared:
		s.WriteString("; calls without it are counted together")
	case Block:
		s.WriteString("; blocks calls without it")
	default:
	}
	if r.Top > 0 {
		fmt.Fprintf(&s, "; shows the busiest %d", r.Top)
	}
	if r.Candidate > 0 {
		fmt.Fprintf(&s, "; tries %s beside it", strconv.FormatFloat(r.Candidate, 'f', -1, 64))
	}
	return s.String()
}
