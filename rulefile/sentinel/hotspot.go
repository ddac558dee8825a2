package sentinel

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// hotspotForm is what an edition of Sentinel calls the fields of a hotspot rule.
type hotspotForm struct {
	index, limit, metric, items string
	noMetric, noDuration        int64 // where they are missing; a duration of 0 must not be
	paces                       int64 // the behavior that does

	value, itemLimit, valueType string   // of an item
	fractions                   []string // types of values that are numbers with a fraction

	harmless []string
}

var (
	goHotspot = hotspotForm{
		index: "paramIndex", limit: "threshold", metric: "metricType", items: "specificItems",
		noMetric: 0, noDuration: 0, paces: 1,
		value: "valStr", itemLimit: "threshold", valueType: "valKind",
		fractions: []string{"3", "KindFloat64"}, harmless: []string{"ruleName"},
	}
	javaHotspot = hotspotForm{
		index: "paramIdx", limit: "count", metric: "grade", items: "paramFlowItemList",
		noMetric: 1, noDuration: 1, paces: 2,
		value: "object", itemLimit: "count", valueType: "classType",
		fractions: []string{"float", "double", "java.lang.Float", "java.lang.Double"}, harmless: append([]string{"limitApp"}, bookkeeping...),
	}
)

// hotspot translates a hotspot rule.
func (t *translation) hotspot(form *hotspotForm) {
	r := param.Rule{ID: t.id(), Resource: t.text("resource"), Arg: t.argument(form)}
	if t.flag("regex") {
		r.Match = rule.Regexp
	}
	if t.flag("clusterMode") {
		t.skip(t.at("clusterMode"), "clusterMode is true; Leapgate counts in one process")
	}
	limit := math.Trunc(t.number(form.limit)) // as Sentinel does
	if !t.has(form.limit) {
		t.skip(t.item, "%s is missing", form.limit)
	}
	items := t.specialValues(form)
	burst := t.whole("burstCount", 0, param.MaxLimit)
	wait := time.Duration(t.whole("maxQueueingTimeMs", 0, maxMillis)) * time.Millisecond
	behavior := t.whole("controlBehavior", 0, 2)
	t.asked["durationInSec"] = true
	if capacity := t.whole("paramsMaxCapacity", 0, math.MaxInt32); capacity > 0 {
		r.MaxKeys = max(int(capacity), len(items)+1) // those named have room of their own
	}
	switch metric := t.whole(form.metric, form.noMetric, 1); {
	case t.isBad(form.metric):
	case metric == 0:
		if limit == 0 { // MaxInFlight of 0 is none: all values begin so
			limit, items = 1, append(items, "*=0")
		}
		r.MaxInFlight = t.places(form.limit, limit)
	default:
		r.Threshold = limit
		r.Interval = time.Duration(t.positive("durationInSec", form.noDuration, maxSeconds)) * time.Second
		switch {
		case behavior == form.paces:
			r.Behavior, r.MaxWait = param.Pace, wait
		case behavior != 0:
			t.skip(t.at("controlBehavior"), "controlBehavior is %d; want 0 or %d", behavior, form.paces)
		case burst > 0:
			r.Behavior, r.Burst = param.Bucket, int64(limit)+burst
			if r.Burst > param.MaxLimit {
				t.skip(t.at("burstCount"), "%s and burstCount come to %d; want at most %d", form.limit, r.Burst, int64(param.MaxLimit))
				r.Burst = 0
			}
			if len(items) > 0 {
				t.lose(t.at("burstCount"), Changed, "values with limits of their own may come %d at once as well; Sentinel adds burstCount to each limit", r.Burst)
			}
		}
	}
	r.Items = strings.Join(items, ", ")
	add(t, &t.im.rules.Param, r, r.ID, param.Kind.Validate([]param.Rule{r}), form.harmless...)
}

// argument returns the name of the argument that a rule is about. Sentinel knows those of its position, too.
func (t *translation) argument(form *hotspotForm) string {
	key := t.text("paramKey")
	index := t.between(form.index, 0, math.MinInt32, math.MaxInt32)
	switch {
	case key != "" && (strings.Contains(key, ",") || strings.TrimSpace(key) != key):
		t.skip(t.at("paramKey"), "paramKey is %s; the name of an argument has no commas, and no blanks around it", escape.Quoted(key))
	case key != "":
		return key
	case index < 0:
		t.skip(t.at(form.index), "%s is %d, which counts from the last argument; Leapgate knows arguments by their names", form.index, index)
	case !t.has(form.index) && form.index == javaHotspot.index:
		t.skip(t.item, "%s is missing", form.index)
	}
	name := strconv.FormatInt(index, 10)
	t.lose(t.at(form.index), Changed, "calls name the argument %q, as in WithArg(%q, value)", name, name)
	return name
}

// specialValues returns the limits of single values, as param.Rule.Items has them. Of those of one value the last
// counts, as with Sentinel.
func (t *translation) specialValues(form *hotspotForm) (items []string) {
	t.asked[form.items] = true
	list := t.field(form.items)
	if list == nil {
		return nil
	}
	where := map[string]int{}
	add := func(value string, limit *document.Node) {
		item := strconv.Quote(value) + "=" + strconv.FormatInt(t.specialLimit(limit, form), 10)
		if i, there := where[value]; there {
			items[i] = item
			return
		}
		where[value] = len(items)
		items = append(items, item)
	}
	switch list.Type {
	case document.Mapping:
		for _, f := range list.Fields {
			add(f.Key, f.Value)
		}
	case document.List:
		for _, item := range list.Items {
			of := translation{item: item}
			value, limit := of.field(form.value), of.field(form.itemLimit)
			if value == nil || limit == nil {
				t.skip(item, "it has no %s, or no %s", form.value, form.itemLimit)
				continue
			}
			if kind := of.field(form.valueType); kind != nil && slices.Contains(form.fractions, kind.Text) {
				t.lose(value, Changed, "values are compared as text: %s is that alone", escape.Quoted(value.Text))
			}
			add(value.Text, limit)
		}
	default:
		t.skip(list, "%s is %s; want a list", form.items, list)
	}
	return items
}

// specialLimit returns the limit of a value. One below 0 blocks, as with Sentinel.
func (t *translation) specialLimit(limit *document.Node, form *hotspotForm) int64 {
	n, want := field.Int64.Parse(limit.Scalar())
	if want != "" || n > param.MaxLimit {
		t.skip(limit, "a limit in %s is %s; want a whole number up to %d", form.items, limit, int64(param.MaxLimit))
		return 0
	}
	return max(0, n)
}
