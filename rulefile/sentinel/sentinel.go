// Package sentinel reads the rules of Alibaba Sentinel: the JSON arrays of flow, isolation, hotspot,
// circuit breaker and system rules of sentinel-golang, and the flow, hotspot (param flow), circuit breaker (degrade)
// and system rules of the Java edition and its dashboard.
//
//	rules, losses, err := sentinel.Parse("flow.json", data)
//	…
//	text, err := rulefile.YAML(rules)
//
// It is for moving once: a [rulefile.Watcher] does not read such files. The command
// leapgate convert does the same.
package sentinel

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/rulefile"
)

// Parse translates rules of Sentinel. The fields of a rule say of which kind it is. Data without rules
// has none. name is what errors call the data; if it ends in .json, the data must be JSON.
//
// The losses say, in the order of the file, what could not be translated, or means something
// else now. What Leapgate has no rules for is skipped: the load of the machine in system rules,
// authorities and gateways; cluster mode; limits on a call chain; arguments that are counted from the last; and
// rules that Sentinel itself would refuse.
//
// In two things all flow rules differ a little. Sentinel cuts a second into two buckets,
// Leapgate into ten, and admits again sooner. And Sentinel looks first and counts then, so
// that it lets more through than the threshold when many call at once; Leapgate does not.
//
// So do all circuit breakers. Sentinel begins to count anew at the end of each statIntervalMs, unless
// statSlidingWindowBucketCount says otherwise; Leapgate's window has ten buckets, and slides. With a slow
// ratio, Leapgate counts calls that hang, before they end. And what began before a breaker last opened or
// closed does not count any more.
//
// And so do hotspot rules, which become rules on arguments. Sentinel knows arguments by their position, so
// calls must name them: "0" is the first. Their values are text. Sentinel gives a value its whole limit again when
// durationInSec is over; Leapgate as what was admitted leaves the window, or evenly with a burstCount.
//
// The error is [rulefile.Errors], if the data is no array of rules at all.
func Parse(name string, data []byte) (leapgate.Rules, []Loss, error) {
	root, fault := parse(name, data)
	switch {
	case fault != nil:
		return failed(name, fault.Line, fault.Column, fault.Message)
	case root == nil || root.Type == document.Null:
		return leapgate.Rules{}, nil, nil
	case root.Type != document.List:
		return failed(name, root.Line, root.Column, fmt.Sprintf("%v; want Sentinel's rules: a list", root.Type))
	}
	im := &importer{file: name, ids: map[string]bool{}}
	for _, item := range root.Items {
		im.rule(item)
	}
	return im.rules, im.losses, nil
}

func failed(name string, line, column int, message string) (leapgate.Rules, []Loss, error) {
	return leapgate.Rules{}, nil, rulefile.Errors{{File: name, Line: line, Column: column, Message: message}}
}

func parse(name string, data []byte) (*document.Node, *document.Fault) {
	return document.Parse(data, strings.EqualFold(filepath.Ext(name), ".json"))
}

// Detect reports whether data looks like what [Parse] reads: a list, in which a rule has a field
// that only Sentinel's rules have. A rule file of Leapgate never does.
func Detect(name string, data []byte) bool {
	root, fault := parse(name, data)
	return fault == nil && root != nil && slices.ContainsFunc(root.Items, func(item *document.Node) bool {
		return slices.ContainsFunc(item.Fields, func(f document.Field) bool { return slices.Contains(ownFields, f.Key) })
	})
}

// ownFields are names of fields of Sentinel's rules that nothing in a rule file has.
var ownFields = []string{
	"count", "grade", "limitApp", "controlBehavior", "tokenCalculateStrategy", "relationStrategy", "refResource",
	"statIntervalInMs", "maxQueueingTimeMs", "warmUpPeriodSec", "warmUpColdFactor", "clusterMode", "metricType",
	"retryTimeoutMs", "statIntervalMs", "maxAllowedRtMs", "timeWindow", "slowRatioThreshold", "minRequestAmount",
	"statSlidingWindowBucketCount", "probeNum", "triggerCount", "paramIndex", "paramIdx", "paramKey",
	"durationInSec", "burstCount", "paramsMaxCapacity", "specificItems", "paramFlowItemList",
	"highestSystemLoad", "highestCpuUsage", "avgRt", "maxThread", "lowMemUsageThreshold", "memLowWaterMarkBytes", "resourceMode",
}

// importer collects what comes of a list.
type importer struct {
	file   string
	rules  leapgate.Rules
	losses []Loss
	ids    map[string]bool // those of the rules so far
}

func (im *importer) rule(item *document.Node) {
	t := &translation{im: im, item: item, label: "rule", asked: map[string]bool{}}
	if item.Type != document.Mapping {
		t.skip(item, "it is %v; want a rule", item)
		t.close("")
		return
	}
	switch foreign, what := t.foreign(); {
	case t.has(breakerFields...):
		t.label = "breaker rule"
		t.name()
		if t.has("count", "grade", "timeWindow", "slowRatioThreshold") {
			t.javaBreaker()
		} else {
			t.goBreaker()
		}
		return
	case t.has("paramIdx", "paramFlowItemList"):
		t.label = "hotspot rule"
		t.name()
		t.hotspot(&javaHotspot)
		return
	case t.has("paramIndex", "paramKey", "paramsMaxCapacity", "durationInSec", "specificItems"):
		t.label = "hotspot rule"
		t.name()
		t.hotspot(&goHotspot)
		return
	case t.has(systemFields...):
		t.label = "system rule"
		if t.has("triggerCount") {
			t.goSystem()
		} else {
			t.javaSystem()
		}
		return
	case foreign != nil:
		t.label = what
		t.name()
		t.skip(foreign, "there are no such rules in Leapgate")
	case t.has("tokenCalculateStrategy", "statIntervalInMs", "lowMemUsageThreshold") || t.has("threshold") && !t.has("metricType"):
		t.label = "flow rule"
		t.name()
		t.goFlow()
		return
	case t.has("count"):
		t.label = "flow rule"
		t.name()
		t.javaFlow()
		return
	case t.has("metricType"):
		t.label = "isolation rule"
		t.name()
		t.goIsolation()
		return
	default:
		t.name()
		t.skip(item, "none of its fields tells what kind of rule it is")
	}
	t.close("")
}

// breakerFields are those that only circuit breakers have.
var breakerFields = []string{
	"retryTimeoutMs", "maxAllowedRtMs", "statIntervalMs", "timeWindow", "slowRatioThreshold", "minRequestAmount",
	"statSlidingWindowBucketCount", "probeNum",
}

// foreign returns a field that only rules without a translation have, and the name of such rules, or nil.
func (t *translation) foreign() (*document.Node, string) {
	for _, name := range []string{"resourceMode", "paramItem", "intervalSec"} {
		if v := t.field(name); v != nil {
			return v, "gateway rule"
		}
	}
	if v := t.field("limitApp"); v != nil && !t.has("count", "grade", "threshold") {
		return v, "authority rule"
	}
	return nil, ""
}
