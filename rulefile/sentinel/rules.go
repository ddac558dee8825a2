package sentinel

import (
	"math"
	"time"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

// What the editions of Sentinel do where a field is missing.
const (
	javaWarmUpSeconds = 10
	javaQueueingMs    = 500
)

// bookkeeping are fields of the Java dashboard that say nothing about what a rule does.
var bookkeeping = []string{"app", "ip", "port", "gmtCreate", "gmtModified", "clusterConfig", "ruleName"}

// goFlow translates a flow rule of sentinel-golang.
func (t *translation) goFlow() {
	r := flow.Rule{ID: t.id(), Resource: t.text("resource"), Match: t.partly(), Threshold: t.number("threshold")}
	r.Interval = time.Duration(t.whole("statIntervalInMs", 0, math.MaxUint32)) * time.Millisecond
	maxWait := time.Duration(t.whole("maxQueueingTimeMs", 0, math.MaxUint32)) * time.Millisecond
	warmUp := time.Duration(t.whole("warmUpPeriodSec", 0, math.MaxUint32)) * time.Second
	coldFactor := t.whole("warmUpColdFactor", 0, math.MaxUint32)
	lowThreshold := t.number("lowMemUsageThreshold")
	highThreshold := t.number("highMemUsageThreshold")
	lowMark := t.whole("memLowWaterMarkBytes", 0, math.MaxInt64)
	highMark := t.whole("memHighWaterMarkBytes", 0, math.MaxInt64)
	refResource := t.text("refResource")

	switch strategy := t.whole("tokenCalculateStrategy", 0, math.MaxInt32); strategy {
	case 0:
	case 1:
		r.Strategy, r.WarmUpPeriod = flow.WarmUp, warmUp
		r.ColdFactor = float64(coldFactor) // 0 is 3 in Sentinel, too
		if r.Interval != 0 && r.Interval != time.Second {
			t.lose(t.at("statIntervalInMs"), Changed, "warm-up goes by the threshold per %s; Sentinel's goes by calls per second whatever statIntervalInMs is", field.ShortDuration(r.Interval))
		}
	case 2:
		r.Strategy, r.Threshold = flow.MemoryAdaptive, lowThreshold
		r.HighMemoryThreshold, r.LowMemory, r.HighMemory = highThreshold, lowMark, highMark
		t.lose(t.at("tokenCalculateStrategy"), Changed, "memory in use is what the gate's Config.Memory says; without that, the threshold stays %v", lowThreshold)
	default:
		t.skip(t.at("tokenCalculateStrategy"), "tokenCalculateStrategy is %d; want 0, 1 or 2", strategy)
	}

	switch behavior := t.whole("controlBehavior", 0, math.MaxInt32); behavior {
	case 0:
	case 1:
		r.Behavior, r.MaxWait = flow.Pace, maxWait
	default:
		t.skip(t.at("controlBehavior"), "controlBehavior is %d; want 0 or 1", behavior)
	}

	switch relation := t.whole("relationStrategy", 0, math.MaxInt32); relation {
	case 0:
	case 1:
		t.associate(&r, refResource)
	default:
		t.skip(t.at("relationStrategy"), "relationStrategy is %d; want 0 or 1", relation)
	}
	if r.Behavior != flow.Pace {
		r.Buckets = t.fit("statIntervalInMs", r.Interval)
	}
	t.addFlow(r, "ruleName")
}

// javaFlow translates a flow rule of the Java edition, or of sentinel-golang before 1.0.
func (t *translation) javaFlow() {
	r := flow.Rule{ID: t.id(), Resource: t.text("resource"), Threshold: t.number("count")}
	switch app := t.text("limitApp"); app {
	case "", "default":
	default:
		r.Origin = app // "other" is the same word
	}
	refResource := t.text("refResource")
	warmUp := time.Duration(t.whole("warmUpPeriodSec", javaWarmUpSeconds, math.MaxInt32)) * time.Second
	maxWait := time.Duration(t.whole("maxQueueingTimeMs", javaQueueingMs, math.MaxInt32)) * time.Millisecond
	coldFactor := float64(t.whole("warmUpColdFactor", 0, math.MaxInt32))
	if t.flag("regex") {
		r.Match = rule.Regexp
	}
	if t.flag("clusterMode") {
		t.skip(t.at("clusterMode"), "clusterMode is true; Leapgate counts in one process")
	}
	strategyField := "strategy"
	if t.has("relationStrategy") {
		strategyField = "relationStrategy"
	}
	strategy := t.whole(strategyField, 0, math.MaxInt32)
	behavior := t.whole("controlBehavior", 0, math.MaxInt32)
	gradeField := "grade"
	if t.has("metricType") {
		gradeField = "metricType"
	}

	switch grade := t.whole(gradeField, 1, math.MaxInt32); grade {
	case 0:
		t.threads(r, strategy, behavior)
		return
	case 1:
	default:
		t.skip(t.at(gradeField), "%s is %d; want 0 for threads or 1 for calls per second", gradeField, grade)
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
		t.skip(t.at("controlBehavior"), "controlBehavior is %d; want 0 to 3", behavior)
	}
	switch strategy {
	case 0:
	case 1:
		t.associate(&r, refResource)
	case 2:
		t.skip(t.at(strategyField), "%s is 2: it counts calls that came through %s only, and Leapgate knows no chains of calls", strategyField, escape.Quoted(refResource))
	default:
		t.skip(t.at(strategyField), "%s is %d; want 0, 1 or 2", strategyField, strategy)
	}
	t.slow(&r)
	t.addFlow(r, bookkeeping...)
}

// slow makes a rule that paces fewer calls than one a second one that paces one call in a
// longer time: in Leapgate a call that is more than the threshold never gets a turn.
func (t *translation) slow(r *flow.Rule) {
	if r.Behavior != flow.Pace || r.Threshold <= 0 || r.Threshold >= 1 {
		return
	}
	interval := float64(time.Second) / r.Threshold
	if interval > float64(flow.MaxInterval) {
		t.skip(t.at("count"), "count is %s; want 0, or one call in %s", t.at("count"), field.ShortDuration(flow.MaxInterval))
		return
	}
	r.Interval, r.Threshold = time.Duration(math.Ceil(interval)), 1
}

// threads translates a rule on calls in flight.
func (t *translation) threads(r flow.Rule, strategy, behavior int64) {
	switch {
	case r.Origin != "":
		t.skip(t.at("limitApp"), "a limit on threads for the caller %s; isolation rules are for all callers", escape.Quoted(r.Origin))
	case strategy != 0:
		t.skip(t.at("strategy"), "a limit on threads of another resource or chain; isolation rules count the calls of their own")
	case r.Threshold >= 0 && r.Threshold < 1:
		t.lose(t.at("count"), Changed, "a limit of %v threads becomes a flow rule that blocks all", r.Threshold)
		r.Threshold = 0
		t.addFlow(r, bookkeeping...)
		return
	}
	if behavior != 0 {
		t.lose(t.at("controlBehavior"), Ignored, "controlBehavior is %d; it does nothing with a limit on threads", behavior)
	}
	t.addIsolation(isolation.Rule{ID: r.ID, Resource: r.Resource, Match: r.Match, MaxInFlight: t.places("count", r.Threshold)}, bookkeeping...)
}

// goIsolation translates an isolation rule of sentinel-golang.
func (t *translation) goIsolation() {
	r := isolation.Rule{ID: t.id(), Resource: t.text("resource"), Match: t.partly()}
	if metric := t.whole("metricType", 0, math.MaxInt32); metric != 0 {
		t.skip(t.at("metricType"), "metricType is %d; want 0, for calls in flight", metric)
	}
	r.MaxInFlight = t.places("threshold", t.number("threshold"))
	t.addIsolation(r, "ruleName")
}

// places makes a number of places of a limit on calls in flight.
func (t *translation) places(field string, limit float64) int64 {
	if limit > isolation.MaxInFlight {
		t.lose(t.at(field), Changed, "%s is %v; the most is %d", field, limit, isolation.MaxInFlight)
		return isolation.MaxInFlight
	}
	return int64(limit)
}

// associate makes a rule look at another resource.
func (t *translation) associate(r *flow.Rule, other string) {
	switch {
	case other == "":
		t.skip(t.item, "refResource is missing")
	case r.Interval != 0 && r.Interval != time.Second:
		t.skip(t.at("statIntervalInMs"), "a rule on another resource counts per second; statIntervalInMs is %d", r.Interval.Milliseconds())
	case r.Strategy != flow.Direct || r.Behavior != flow.Reject:
		t.skip(t.at("refResource"), "a rule on another resource can only reject; this one also warms up, paces or goes by memory")
	}
	r.Associated = other
}

// fit returns the buckets of an interval that ten do not fit into, and 0 for others.
func (t *translation) fit(name string, interval time.Duration) (buckets int) {
	if interval <= 0 || interval >= flow.DefaultBuckets*time.Millisecond {
		return 0
	}
	buckets = int(interval / time.Millisecond)
	t.lose(t.at(name), Changed, "the window of %s has %d buckets; the shortest is 1ms", field.ShortDuration(interval), buckets)
	return buckets
}
