package rulefile

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"

	"github.com/leapgate-go/leapgate/rule"

	"github.com/leapgate-go/leapgate/internal/escape"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/isolation"
)

// What the editions of Sentinel do where a field is missing.
const (
	javaWarmUpSeconds = 10
	javaQueueingMs    = 500
)

// bookkeeping are fields of the Java dashboard that say nothing about what a rule does.
var bookkeeping = []string{"app", "ip", "port", "gmtCreate", "gmtModified", "clusterConfig", "ruleName"}

// goFlow translates a flow rule of sentinel-golang.
func (o *origin) goFlow() {
	r := flow.Rule{ID: o.id(), Resource: o.text("resource"), Threshold: o.number("threshold")}
	r.Interval = time.Duration(o.whole("statIntervalInMs", 0, math.MaxUint32)) * time.Millisecond
	maxWait := time.Duration(o.whole("maxQueueingTimeMs", 0, math.MaxUint32)) * time.Millisecond
	warmUp := time.Duration(o.whole("warmUpPeriodSec", 0, math.MaxUint32)) * time.Second
	coldFactor := o.whole("warmUpColdFactor", 0, math.MaxUint32)
	lowThreshold := o.number("lowMemUsageThreshold")
	highThreshold := o.number("highMemUsageThreshold")
	lowMark := o.whole("memLowWaterMarkBytes", 0, math.MaxInt64)
	highMark := o.whole("memHighWaterMarkBytes", 0, math.MaxInt64)
	refResource := o.text("refResource")
	if o.flag("regex") {
		r.Match = rule.Regexp
		o.note(o.place("regex"), Changed, "the pattern must match the whole name, not a part of it; put .* around it if need be")
	}

	switch strategy := o.whole("tokenCalculateStrategy", 0, math.MaxInt32); strategy {
	case 0:
	case 1:
		r.Strategy, r.WarmUpPeriod = flow.WarmUp, warmUp
		r.ColdFactor = float64(coldFactor) // 0 is 3 in Sentinel, too
		if r.Interval != 0 && r.Interval != time.Second {
			o.note(o.place("statIntervalInMs"), Changed, "warm-up goes by the threshold per %s; Sentinel's goes by calls per second whatever statIntervalInMs is", field.ShortDuration(r.Interval))
		}
	case 2:
		r.Strategy, r.Threshold = flow.MemoryAdaptive, lowThreshold
		r.HighMemoryThreshold, r.LowMemory, r.HighMemory = highThreshold, lowMark, highMark
		o.note(o.place("tokenCalculateStrategy"), Changed, "memory in use is what the gate's Config.Memory says; without that, the threshold stays %v", lowThreshold)
	default:
		o.skip(o.place("tokenCalculateStrategy"), "tokenCalculateStrategy is %d; want 0, 1 or 2", strategy)
	}

	switch behavior := o.whole("controlBehavior", 0, math.MaxInt32); behavior {
	case 0:
	case 1:
		r.Behavior, r.MaxWait = flow.Pace, maxWait
	default:
		o.skip(o.place("controlBehavior"), "controlBehavior is %d; want 0 or 1", behavior)
	}

	switch relation := o.whole("relationStrategy", 0, math.MaxInt32); relation {
	case 0:
	case 1:
		o.associate(&r, refResource)
	default:
		o.skip(o.place("relationStrategy"), "relationStrategy is %d; want 0 or 1", relation)
	}
	o.fit(&r)
	o.addFlow(r, "ruleName")
}

// javaFlow translates a flow rule of the Java edition, or of sentinel-golang before 1.0.
func (o *origin) javaFlow() {
	r := flow.Rule{ID: o.id(), Resource: o.text("resource"), Threshold: o.number("count")}
	switch app := o.text("limitApp"); app {
	case "", "default":
	default:
		r.Origin = app // "other" is the same word
	}
	refResource := o.text("refResource")
	warmUp := time.Duration(o.whole("warmUpPeriodSec", javaWarmUpSeconds, math.MaxInt32)) * time.Second
	maxWait := time.Duration(o.whole("maxQueueingTimeMs", javaQueueingMs, math.MaxInt32)) * time.Millisecond
	coldFactor := float64(o.whole("warmUpColdFactor", 0, math.MaxInt32))
	if o.flag("regex") {
		r.Match = rule.Regexp
	}
	if o.flag("clusterMode") {
		o.skip(o.place("clusterMode"), "clusterMode is true; Leapgate counts in one process")
	}
	strategyField := "strategy"
	if o.has("relationStrategy") {
		strategyField = "relationStrategy"
	}
	strategy := o.whole(strategyField, 0, math.MaxInt32)
	behavior := o.whole("controlBehavior", 0, math.MaxInt32)
	gradeField := "grade"
	if o.has("metricType") {
		gradeField = "metricType"
	}

	switch grade := o.whole(gradeField, 1, math.MaxInt32); grade {
	case 0:
		o.threads(r, strategy, behavior)
		return
	case 1:
	default:
		o.skip(o.place(gradeField), "%s is %d; want 0 for threads or 1 for calls per second", gradeField, grade)
	}
	switch behavior {
	case 0:
	case 1, 3:
		r.Strategy, r.WarmUpPeriod, r.ColdFactor = flow.WarmUp, warmUp, coldFactor
		if behavior == 3 {
			r.Behavior, r.MaxWait = flow.Pace, maxWait
		}
	case 2:
		r.Behavior, r.MaxWait = flow.Pace, maxWait
	default:
		o.skip(o.place("controlBehavior"), "controlBehavior is %d; want 0 to 3", behavior)
	}
	switch strategy {
	case 0:
	case 1:
		o.associate(&r, refResource)
	case 2:
		o.skip(o.place(strategyField), "%s is 2: it counts calls that came through %s only, and Leapgate knows no chains of calls", strategyField, quoted(refResource))
	default:
		o.skip(o.place(strategyField), "%s is %d; want 0, 1 or 2", strategyField, strategy)
	}
	o.slow(&r)
	o.addFlow(r, bookkeeping...)
}

// slow makes a rule that paces fewer calls than one a second one that paces one call in a
// longer time: in Leapgate a call that is more than the threshold never gets a turn.
func (o *origin) slow(r *flow.Rule) {
	if r.Behavior != flow.Pace || r.Threshold <= 0 || r.Threshold >= 1 {
		return
	}
	interval := float64(time.Second) / r.Threshold
	if interval > float64(flow.MaxInterval) {
		o.skip(o.place("count"), "count is %s; want 0, or one call in %s", described(o.place("count")), field.ShortDuration(flow.MaxInterval))
		return
	}
	r.Interval, r.Threshold = time.Duration(math.Ceil(interval)), 1
}

// threads translates a rule on calls in flight.
func (o *origin) threads(r flow.Rule, strategy, behavior int64) {
	switch {
	case r.Origin != "":
		o.skip(o.place("limitApp"), "a limit on threads for the caller %s; isolation rules are for all callers", quoted(r.Origin))
	case strategy != 0:
		o.skip(o.place("strategy"), "a limit on threads of another resource or chain; isolation rules count the calls of their own")
	case r.Threshold >= 0 && r.Threshold < 1:
		o.note(o.place("count"), Changed, "a limit of %v threads becomes a flow rule that blocks all", r.Threshold)
		r.Threshold = 0
		o.addFlow(r, bookkeeping...)
		return
	}
	if behavior != 0 {
		o.note(o.place("controlBehavior"), Ignored, "controlBehavior is %d; it does nothing with a limit on threads", behavior)
	}
	o.addIsolation(isolation.Rule{ID: r.ID, Resource: r.Resource, Match: r.Match, MaxInFlight: o.places("count", r.Threshold)}, bookkeeping...)
}

// goIsolation translates an isolation rule of sentinel-golang.
func (o *origin) goIsolation() {
	r := isolation.Rule{ID: o.id(), Resource: o.text("resource")}
	if metric := o.whole("metricType", 0, math.MaxInt32); metric != 0 {
		o.skip(o.place("metricType"), "metricType is %d; want 0, for calls in flight", metric)
	}
	if o.flag("regex") {
		r.Match = rule.Regexp
		o.note(o.place("regex"), Changed, "the pattern must match the whole name, not a part of it; put .* around it if need be")
	}
	r.MaxInFlight = o.places("threshold", o.number("threshold"))
	o.addIsolation(r, "ruleName")
}

// places makes a number of places of a limit on calls in flight.
func (o *origin) places(field string, limit float64) int64 {
	if limit > isolation.MaxInFlight {
		o.note(o.place(field), Changed, "%s is %v; the most is %d", field, limit, isolation.MaxInFlight)
		return isolation.MaxInFlight
	}
	return int64(limit)
}

// associate makes a rule look at another resource.
func (o *origin) associate(r *flow.Rule, other string) {
	switch {
	case other == "":
		o.skip(o.item, "refResource is missing")
	case r.Interval != 0 && r.Interval != time.Second:
		o.skip(o.place("statIntervalInMs"), "a rule on another resource counts per second; statIntervalInMs is %d", r.Interval.Milliseconds())
	case r.Strategy != flow.Direct || r.Behavior != flow.Reject:
		o.skip(o.place("refResource"), "a rule on another resource can only reject; this one also warms up, paces or goes by memory")
	}
	r.Associated = other
}

// fit chooses the buckets of an interval that ten do not fit into.
func (o *origin) fit(r *flow.Rule) {
	if r.Interval <= 0 || r.Interval >= flow.DefaultBuckets*time.Millisecond || r.Behavior == flow.Pace {
		return
	}
	r.Buckets = int(r.Interval / time.Millisecond)
	o.note(o.place("statIntervalInMs"), Changed, "the window of %s has %d buckets; the shortest is 1ms", field.ShortDuration(r.Interval), r.Buckets)
}

// sources are the fields that those of a translated rule came from.
var sources = map[string][]string{
	"ID": {"id"}, "Resource": {"resource"}, "Threshold": {"threshold", "count", "lowMemUsageThreshold"}, "Origin": {"limitApp"},
	"Interval": {"statIntervalInMs"}, "Buckets": {"statIntervalInMs"}, "MaxWait": {"maxQueueingTimeMs"},
	"WarmUpPeriod": {"warmUpPeriodSec"}, "ColdFactor": {"warmUpColdFactor"}, "Associated": {"refResource"},
	"HighMemoryThreshold": {"highMemUsageThreshold"}, "LowMemory": {"memLowWaterMarkBytes"},
	"HighMemory": {"memHighWaterMarkBytes"}, "MaxInFlight": {"threshold", "count"},
}

// inSentinel puts names of fields into those of Sentinel.
var inSentinel = strings.NewReplacer(
	"less than threshold", "less than lowMemUsageThreshold",
	"lowMemory", "memLowWaterMarkBytes",
)

// refused notes why Leapgate would not take the rule.
func (o *origin) refused(faults rule.Faults) {
	if len(faults) == 0 {
		return
	}
	fault := faults[0]
	name, at := "", o.item
	for _, source := range sources[fault.Field] {
		if v := o.field(source); v != nil {
			name, at = source, v
			break
		}
	}
	value := fmt.Sprint(fault.Value)
	if at.Kind != document.Mapping {
		value = described(at)
	}
	if name == "" {
		if named := sources[fault.Field]; len(named) > 0 {
			o.skip(at, "%s is missing", named[0])
			return
		}
		name = fault.Field
	}
	want := fault.Want
	if fault.Field != "Resource" { // there it has the pattern in it
		want = inSentinel.Replace(fault.FileWant)
	}
	o.skip(at, "%s is %s; want %s", name, escape.Text(value), escape.Text(want))
}
