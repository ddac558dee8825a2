package sentinel

import (
	"strings"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// The hotspot rules of sentinel-golang, as it and its data sources write them.
func TestParse_GoHotspots(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"id": "hot", "resource": "a", "metricType": 1, "controlBehavior": 0, "paramIndex": 1, "paramKey": "", "threshold": 100, "maxQueueingTimeMs": 0,
	 "burstCount": 0, "durationInSec": 2, "paramsMaxCapacity": 500, "specificItems": {"vip": 10, "ban": -3, "a,b*": 7}},
	{"resource": "b", "metricType": 1, "paramKey": "tenant", "threshold": 5.9, "burstCount": 3, "durationInSec": 1},
	{"resource": "c", "metricType": 1, "controlBehavior": 1, "paramKey": "ip", "threshold": 10, "durationInSec": 1, "maxQueueingTimeMs": 500, "burstCount": 9,
	 "specificItems": [{"valKind": 1, "valStr": "10.0.0.0/8", "threshold": 2}, {"valKind": 0, "valStr": "7", "threshold": 3}, {"valKind": 0, "valStr": "7", "threshold": 4}]},
	{"resource": "d.*", "metricType": 0, "paramKey": "user", "threshold": 4, "specificItems": {}, "paramsMaxCapacity": 0, "regex": true},
	{"resource": "e", "paramKey": "user", "threshold": 0, "specificItems": {"me": 3}, "paramsMaxCapacity": 1},
	{"resource": "f", "metricType": 1, "paramKey": "user", "threshold": 0, "durationInSec": 1, "new": 1}
]`, leapgate.Rules{Param: []param.Rule{
		{ID: "hot", Resource: "a", Arg: "1", Threshold: 100, Interval: 2 * time.Second, MaxKeys: 500, Items: `"vip"=10, "ban"=0, "a,b*"=7`},
		{Resource: "b", Arg: "tenant", Threshold: 5, Interval: time.Second, Behavior: param.Bucket, Burst: 8},
		{Resource: "c", Arg: "ip", Threshold: 10, Interval: time.Second, Behavior: param.Pace, MaxWait: 500 * time.Millisecond, Items: `"10.0.0.0/8"=2, "7"=4`},
		{Resource: "d.*", Match: rule.Regexp, Arg: "user", MaxInFlight: 4},
		{Resource: "e", Arg: "user", MaxInFlight: 1, Items: `"me"=3, *=0`, MaxKeys: 2},
		{Resource: "f", Arg: "user", Interval: time.Second},
	}},
		`s.json:2:86: changed: hotspot rule on "a": calls name the argument "1", as in WithArg("1", value)`,
		`s.json:9:93: ignored: hotspot rule on "f": unknown field "new"`,
	)
}

// The hotspot rules of the Java edition, as its dashboard writes them.
func TestParse_JavaHotspots(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"id": 3, "app": "shop", "resource": "a", "limitApp": "default", "grade": 1, "paramIdx": 0, "count": 5.0, "controlBehavior": 0, "maxQueueingTimeMs": 0,
	 "burstCount": 2, "durationInSec": 1, "clusterMode": false, "clusterConfig": {}, "gmtCreate": null,
	 "paramFlowItemList": [{"object": "42", "classType": "int", "count": 10}, {"object": "0.50", "classType": "double", "count": 1}]},
	{"resource": "b", "paramIdx": 2, "count": 5, "controlBehavior": 2, "maxQueueingTimeMs": 20},
	{"resource": "c", "paramIdx": 0, "count": 5, "grade": 0}
]`, leapgate.Rules{Param: []param.Rule{
		{ID: "3", Resource: "a", Arg: "0", Threshold: 5, Interval: time.Second, Behavior: param.Bucket, Burst: 7, Items: `"42"=10, "0.50"=1`},
		{Resource: "b", Arg: "2", Threshold: 5, Interval: time.Second, Behavior: param.Pace, MaxWait: 20 * time.Millisecond},
		{Resource: "c", Arg: "0", MaxInFlight: 5},
	}},
		`s.json:2:91: changed: hotspot rule on "a": calls name the argument "0", as in WithArg("0", value)`,
		`s.json:3:17: changed: hotspot rule on "a": values with limits of their own may come 7 at once as well; Sentinel adds burstCount to each limit`,
		`s.json:4:87: changed: hotspot rule on "a": values are compared as text: "0.50" is that alone`,
		`s.json:5:32: changed: hotspot rule on "b": calls name the argument "2", as in WithArg("2", value)`,
		`s.json:6:32: changed: hotspot rule on "c": calls name the argument "0", as in WithArg("0", value)`,
	)
}

// Everything that is wrong with a hotspot rule is told at once, in the words of its file.
func TestParse_BadHotspots(t *testing.T) {
	t.Parallel()
	requireSentinel(t, strings.ReplaceAll(`[
|{"resource": "a", "metricType": 1, "paramIndex": -1, "threshold": -5, "durationInSec": 0},
|{"metricType": 2, "paramKey": "a,b", "threshold": 1e300, "durationInSec": 1},
|{"resource": "c", "metricType": 1, "paramKey": " a", "durationInSec": 100000, "burstCount": -1, "specificItems": 5},
|{"resource": "d", "metricType": 1, "paramKey": "a", "threshold": 1, "specificItems": [{"valStr": "x"}, 7, {"valStr": "y", "threshold": 1e9}]},
|{"resource": "e", "metricType": 1, "paramKey": "a", "threshold": 16777214, "durationInSec": 1, "burstCount": 5, "paramsMaxCapacity": 20000000},
|{"resource": "f", "metricType": 1, "paramKey": "a", "threshold": 1, "durationInSec": 1, "controlBehavior": 2},
|{"resource": "g", "count": 5, "paramFlowItemList": []},
|{"resource": "h", "count": 5, "paramIdx": 1, "clusterMode": true, "controlBehavior": 1, "grade": 2}
]`, "|", ""), leapgate.Rules{},
		`s.json:2:50: skipped: hotspot rule on "a": paramIndex is -1, which counts from the last argument; Leapgate knows arguments by their names`,
		`s.json:2:88: skipped: hotspot rule on "a": durationInSec is 0; want a whole number from 1 to 86400`,
		`s.json:3:16: skipped: hotspot rule: metricType is 2; want a whole number from 0 to 1`,
		`s.json:3:31: skipped: hotspot rule: paramKey is "a,b"; the name of an argument has no commas, and no blanks around it`,
		`s.json:4:1: skipped: hotspot rule on "c": threshold is missing`,
		`s.json:4:48: skipped: hotspot rule on "c": paramKey is " a"; the name of an argument has no commas, and no blanks around it`,
		`s.json:4:71: skipped: hotspot rule on "c": durationInSec is 100000; want a whole number from 1 to 86400`,
		`s.json:4:93: skipped: hotspot rule on "c": burstCount is -1; want a whole number from 0 to 16777214`,
		`s.json:4:114: skipped: hotspot rule on "c": specificItems is 5; want a list`,
		`s.json:5:1: skipped: hotspot rule on "d": durationInSec is missing`,
		`s.json:5:87: skipped: hotspot rule on "d": it has no valStr, or no threshold`,
		`s.json:5:104: skipped: hotspot rule on "d": it has no valStr, or no threshold`,
		`s.json:5:136: skipped: hotspot rule on "d": a limit in specificItems is 1e9; want a whole number up to 16777214`,
		`s.json:6:110: skipped: hotspot rule on "e": threshold and burstCount come to 16777219; want at most 16777214`,
		`s.json:7:108: skipped: hotspot rule on "f": controlBehavior is 2; want 0 or 1`,
		`s.json:8:1: skipped: hotspot rule on "g": paramIdx is missing`,
		`s.json:9:61: skipped: hotspot rule on "h": clusterMode is true; Leapgate counts in one process`,
		`s.json:9:98: skipped: hotspot rule on "h": grade is 2; want a whole number from 0 to 1`,
	)
}
