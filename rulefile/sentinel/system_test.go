package sentinel

import (
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

const bindsAll = "changed: system rule: it binds all resources; Sentinel's is for inbound ones, so give it a pattern that they have"

func TestParse_GoSystem(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"id": "rt", "metricType": 1, "triggerCount": 500, "strategy": -1},
	{"metricType": 2, "triggerCount": 20.5, "strategy": -1},
	{"metricType": 3, "triggerCount": 100, "strategy": -1},
	{"metricType": 4, "triggerCount": 0.9, "strategy": 1},
	{"metricType": 4, "triggerCount": 0.8, "strategy": -1},
	{"metricType": 0, "triggerCount": 8, "strategy": 1},
	{"metricType": 4, "triggerCount": 90, "strategy": 1},
	{"metricType": 7, "triggerCount": 90}
]`, leapgate.Rules{System: []system.Rule{
		{ID: "rt", Match: rule.All, MaxRT: 500 * time.Millisecond, Strategy: system.Refuse},
		{Match: rule.All, MaxInFlight: 20},
		{Match: rule.All, MaxQPS: 100},
		{Match: rule.All, MaxCPU: 0.9},
		{Match: rule.All, MaxCPU: 0.8, Strategy: system.Refuse},
	}},
		"s.json:2:2: "+bindsAll, "s.json:3:2: "+bindsAll, "s.json:4:2: "+bindsAll, "s.json:5:2: "+bindsAll,
		"s.json:5:2: changed: system rule: while the CPU is above it, Leapgate finds a limit on the calls in flight, and does not open and close",
		"s.json:6:2: "+bindsAll,
		"s.json:7:36: skipped: system rule: it is on the load of the whole machine, which says nothing about a container; maxPressure or maxCPU with strategy limit is nearest to it",
		"s.json:8:36: skipped: system rule: triggerCount is 90; want more than 0 and at most 1",
		"s.json:9:17: skipped: system rule: metricType is 7; want a whole number from 0 to 4",
	)
}

func TestParse_JavaSystem(t *testing.T) {
	t.Parallel()
	requireSentinel(t, `[
	{"id": 5, "app": "shop", "highestSystemLoad": 3.0, "highestCpuUsage": 0.8, "avgRt": 200, "maxThread": 50, "qps": 1000.0, "gmtCreate": null},
	{"highestSystemLoad": -1, "highestCpuUsage": -1, "avgRt": -1, "maxThread": -1, "qps": 5},
	{"highestSystemLoad": 3.0, "highestCpuUsage": -1},
	{"highestCpuUsage": -1},
	{"maxThread": 0}
]`, leapgate.Rules{System: []system.Rule{
		{ID: "5", Match: rule.All, MaxCPU: 0.8, MaxRT: 200 * time.Millisecond, MaxQPS: 1000, MaxInFlight: 50, Strategy: system.Refuse},
		{Match: rule.All, MaxQPS: 5},
	}},
		"s.json:2:2: "+bindsAll,
		"s.json:2:48: ignored: system rule: highestSystemLoad is the load of the whole machine, which says nothing about a container; maxPressure or maxCPU with strategy limit is nearest to it",
		"s.json:3:2: "+bindsAll,
		"s.json:4:24: skipped: system rule: it is on the load of the whole machine, which says nothing about a container; maxPressure or maxCPU with strategy limit is nearest to it",
		"s.json:5:2: skipped: system rule: nothing is set",
		"s.json:6:16: skipped: system rule: maxThread is 0; want 1 to 1000000000",
	)
}
