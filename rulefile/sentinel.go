package rulefile

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leapgate-go/leapgate/internal/field"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/isolation"
)

// Sentinel translates rules of Alibaba Sentinel: the JSON arrays of flow and isolation rules
// of sentinel-golang, and the flow rules of the Java edition and its dashboard. What a rule
// is, is told by its fields. Data without rules gives none.
//
// The notes tell, in the order of the file, what could not be translated, or means something
// else now. What Leapgate has no rules for is skipped: circuit breakers, system rules,
// hotspot parameters, authorities and gateways; cluster mode; limits on a call chain; and
// rules that Sentinel itself would refuse.
//
// In two things all flow rules differ a little. Sentinel cuts a second into two buckets,
// Leapgate into ten, and admits again sooner. And Sentinel looks first and counts then, so
// that it lets more through than the threshold when many call at once; Leapgate does not.
//
// The error is [Errors], if the data is no array of rules at all.
func Sentinel(name string, data []byte) (Rules, []Note, error) {
	root, fault := document.Parse(data, strings.EqualFold(filepath.Ext(name), ".json"))
	switch {
	case fault != nil:
		return Rules{}, nil, Errors{&Error{File: name, Line: fault.Line, Column: fault.Column, Message: fault.Message}}
	case root == nil || root.Kind == document.Null:
		return Rules{}, nil, nil
	case root.Kind != document.List:
		return Rules{}, nil, Errors{&Error{
			File: name, Line: root.Line, Column: root.Column,
			Message: fmt.Sprintf("%v; want Sentinel's rules: a list", root.Kind),
		}}
	}
	im := &importer{file: name, ids: map[string]bool{}}
	for _, item := range root.Items {
		im.rule(item)
	}
	return im.rules, im.notes, nil
}

// IsSentinel tells whether data looks like what [Sentinel] reads: a list, in which a rule has
// a field that only Sentinel's rules have. A rule file of Leapgate never does.
func IsSentinel(name string, data []byte) bool {
	root, fault := document.Parse(data, strings.EqualFold(filepath.Ext(name), ".json"))
	return fault == nil && root != nil && looksLikeSentinel(root)
}

func looksLikeSentinel(root *document.Node) bool {
	if root.Kind != document.List {
		return false
	}
	return slices.ContainsFunc(root.Items, func(item *document.Node) bool {
		return slices.ContainsFunc(item.Fields, func(f document.Field) bool { return sentinelOnly[f.Key] })
	})
}

// sentinelOnly are names of fields of Sentinel's rules that nothing in a rule file has.
var sentinelOnly = setOf(
	"count", "grade", "limitApp", "controlBehavior", "tokenCalculateStrategy", "relationStrategy", "refResource",
	"statIntervalInMs", "maxQueueingTimeMs", "warmUpPeriodSec", "warmUpColdFactor", "clusterMode", "metricType",
	"retryTimeoutMs", "statIntervalMs", "maxAllowedRtMs", "timeWindow", "triggerCount", "paramIndex", "paramIdx",
	"highestSystemLoad", "highestCpuUsage", "lowMemUsageThreshold", "memLowWaterMarkBytes", "resourceMode",
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// importer collects what comes of a list.
type importer struct {
	file  string
	rules Rules
	notes []Note
	ids   map[string]bool // those of the rules so far
}

// origin is one rule of the list, as it is being translated. The first thing that makes it
// impossible is kept, and asking for more fields does no harm then.
type origin struct {
	im    *importer
	item  *document.Node
	label string
	asked map[string]bool
	notes []Note         // if it can be translated
	why   string         // it cannot be
	where *document.Node // what the reason is about
}

func (im *importer) rule(item *document.Node) {
	o := &origin{im: im, item: item, label: "rule", asked: map[string]bool{}}
	if item.Kind != document.Mapping {
		o.skip(item, "it is %v; want a rule", described(item))
		o.close("")
		return
	}
	switch foreign, what := o.foreign(); {
	case foreign != nil:
		o.label = what
		o.name()
		o.skip(foreign, "there are no such rules in Leapgate")
	case o.has("tokenCalculateStrategy", "statIntervalInMs", "lowMemUsageThreshold") || o.has("threshold") && !o.has("metricType"):
		o.label = "flow rule"
		o.name()
		o.goFlow()
		return
	case o.has("count"):
		o.label = "flow rule"
		o.name()
		o.javaFlow()
		return
	case o.has("metricType"):
		o.label = "isolation rule"
		o.name()
		o.goIsolation()
		return
	default:
		o.name()
		o.skip(item, "none of its fields tells what kind of rule it is")
	}
	o.close("")
}

// foreign tells whether the rule is of a kind that there is no translation for: by which of
// its fields, and which kind.
func (o *origin) foreign() (*document.Node, string) {
	for _, kind := range []struct {
		label  string
		fields []string
	}{
		{"circuit breaker rule", []string{"retryTimeoutMs", "maxAllowedRtMs", "statIntervalMs", "timeWindow", "slowRatioThreshold", "minRequestAmount"}},
		{"hotspot rule", []string{"paramIndex", "paramIdx", "paramKey", "paramsMaxCapacity", "durationInSec", "specificItems", "paramFlowItemList"}},
		{"gateway rule", []string{"resourceMode", "paramItem", "intervalSec"}},
		{"system rule", []string{"triggerCount", "highestSystemLoad", "highestCpuUsage", "avgRt", "maxThread"}},
	} {
		for _, name := range kind.fields {
			if v := o.field(name); v != nil {
				return v, kind.label
			}
		}
	}
	if v := o.field("limitApp"); v != nil && !o.has("count", "grade", "threshold") {
		return v, "authority rule"
	}
	return nil, ""
}

func (o *origin) field(name string) *document.Node {
	for i := len(o.item.Fields) - 1; i >= 0; i-- { // the last one counts, as with Sentinel's readers
		if f := o.item.Fields[i]; f.Key == name && f.Value.Kind != document.Null {
			return f.Value
		}
	}
	return nil
}

func (o *origin) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return o.field(name) != nil })
}

func (o *origin) name() {
	if v := o.field("resource"); v != nil && v.Kind == document.Text && v.Text != "" {
		o.label += " on " + quoted(v.Text)
	}
}

// place is where a note about a field goes: to it, or, if it is not there, to the rule.
func (o *origin) place(name string) *document.Node {
	if v := o.field(name); v != nil {
		return v
	}
	return o.item
}

func (o *origin) skip(at *document.Node, format string, args ...any) {
	if o.why == "" {
		o.why, o.where = fmt.Sprintf(format, args...), at
	}
}

func (o *origin) note(at *document.Node, loss Loss, format string, args ...any) {
	o.notes = append(o.notes, Note{o.im.file, at.Line, at.Column, loss, o.label + ": " + fmt.Sprintf(format, args...)})
}

// text, number and flag give a field, or its zero if it is not there.
func (o *origin) text(name string) string {
	o.asked[name] = true
	v := o.field(name)
	switch {
	case v == nil:
		return ""
	case v.Kind != document.Text:
		o.skip(v, "%s is %s; want text", name, described(v))
		return ""
	default:
		return v.Text
	}
}

func (o *origin) number(name string) float64 {
	o.asked[name] = true
	v := o.field(name)
	if v == nil {
		return 0
	}
	if v.Kind == document.Number && field.IsNumber(v.Text) {
		if n, err := strconv.ParseFloat(v.Text, 64); err == nil {
			return n
		}
	}
	o.skip(v, "%s is %s; want a number", name, described(v))
	return 0
}

// whole gives a field that is a whole number from 0 to most.
func (o *origin) whole(name string, otherwise, most int64) int64 {
	o.asked[name] = true
	v := o.field(name)
	if v == nil {
		return otherwise
	}
	n, want := field.Int64.Parse(scalarOf(v))
	if want == "" && n >= 0 && n <= most {
		return n
	}
	o.skip(v, "%s is %s; want a whole number from 0 to %d", name, described(v), most)
	return otherwise
}

func (o *origin) flag(name string) bool {
	o.asked[name] = true
	v := o.field(name)
	if v == nil {
		return false
	}
	if v.Kind != document.Bool {
		o.skip(v, "%s is %s; want true or false", name, described(v))
		return false
	}
	return v.Text == "true"
}

// likeGiven is what IDs look like that rules without one get. A rule of another resource might
// get the same.
var likeGiven = regexp.MustCompile(`/[0-9]+$`)

// id gives the ID of the rule. Sentinel does not mind whether it is unique.
func (o *origin) id() string {
	o.asked["id"] = true
	v := o.field("id")
	if v == nil || v.Kind != document.Text && v.Kind != document.Number || v.Text == "" || v.Text == "0" {
		return ""
	}
	switch {
	case o.im.ids[v.Text]:
		o.note(v, Changed, "id is %s, as that of a rule before; it gets another", quoted(v.Text))
		return ""
	case likeGiven.MatchString(v.Text):
		o.note(v, Changed, "id is %s, like those that Leapgate gives; it gets another", quoted(v.Text))
		return ""
	default:
		return v.Text
	}
}

// close ends the translation: with the reason why there is none, or with what was not asked
// for. It tells whether the rule is to be kept.
func (o *origin) close(id string, harmless ...string) bool {
	if o.why != "" {
		o.notes = nil
		o.note(o.where, Skipped, "%s", o.why)
		o.im.notes = append(o.im.notes, o.notes...)
		return false
	}
	for _, f := range o.item.Fields {
		if !o.asked[f.Key] && !slices.Contains(harmless, f.Key) && f.Value.Kind != document.Null {
			o.note(&document.Node{Line: f.Line, Column: f.Column}, Ignored, "unknown field %s", quoted(f.Key))
		}
	}
	slices.SortStableFunc(o.notes, func(a, b Note) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	o.im.notes = append(o.im.notes, o.notes...)
	if id != "" {
		o.im.ids[id] = true
	}
	return true
}

// addFlow adds a translated rule, unless Leapgate would refuse it.
func (o *origin) addFlow(r flow.Rule, harmless ...string) {
	if o.why == "" {
		o.refused(flow.Kind.Validate([]flow.Rule{r}))
	}
	if o.close(r.ID, harmless...) {
		o.im.rules.Flow = append(o.im.rules.Flow, r)
	}
}

func (o *origin) addIsolation(r isolation.Rule, harmless ...string) {
	if o.why == "" {
		o.refused(isolation.Kind.Validate([]isolation.Rule{r}))
	}
	if o.close(r.ID, harmless...) {
		o.im.rules.Isolation = append(o.im.rules.Isolation, r)
	}
}
