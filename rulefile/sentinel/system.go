package sentinel

import (
	"math"
	"time"

	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

// systemFields are those that only system rules have.
var systemFields = []string{"triggerCount", "highestSystemLoad", "highestCpuUsage", "avgRt", "maxThread"}

// What a system rule of sentinel-golang is about.
const (
	goLoad = iota
	goAvgRT
	goConcurrency
	goInboundQPS
	goCPUUsage
)

// bbr is the strategy of sentinel-golang that looks at calls in flight; without it, all is refused.
const bbr = 1

// goSystem translates a system rule of sentinel-golang.
func (t *translation) goSystem() {
	r := system.Rule{ID: t.id(), Match: rule.All}
	most := "triggerCount"
	strategy := t.between("strategy", 0, -1, bbr)
	metric := t.whole("metricType", 0, goCPUUsage)
	switch {
	case t.isBad("metricType"):
	case metric == goLoad:
		t.noLoad(most)
	case metric == goAvgRT:
		r.MaxRT, r.Strategy = t.response(most), system.Refuse
	case metric == goConcurrency:
		r.MaxInFlight = t.calls(most)
	case metric == goInboundQPS:
		r.MaxQPS = t.calls(most)
	default:
		r.MaxCPU = t.above(most, 0, 1)
		if strategy != bbr {
			r.Strategy = system.Refuse
		}
	}
	t.addSystem(r)
}

// javaSystem translates a system rule of the Java edition, in which what is below 0 is not
// set.
func (t *translation) javaSystem() {
	r := system.Rule{ID: t.id(), Match: rule.All}
	set := func(name string) bool { return t.has(name) && t.number(name) >= 0 && !t.isBad(name) }
	if set("highestCpuUsage") {
		r.MaxCPU, r.Strategy = t.above("highestCpuUsage", 0, 1), system.Refuse
	}
	if set("avgRt") {
		r.MaxRT, r.Strategy = t.response("avgRt"), system.Refuse
	}
	if set("qps") {
		r.MaxQPS = t.calls("qps")
	}
	if set("maxThread") {
		r.MaxInFlight = t.calls("maxThread")
	}
	if set("highestSystemLoad") {
		if r.MaxCPU == 0 && r.MaxRT == 0 && r.MaxQPS == 0 && r.MaxInFlight == 0 {
			t.noLoad("highestSystemLoad")
		}
		t.lose(t.at("highestSystemLoad"), Ignored, "highestSystemLoad is the load of the whole machine, which says nothing about a container; %s", insteadOfLoad)
	}
	for _, name := range []string{"highestSystemLoad", "highestCpuUsage", "avgRt", "qps", "maxThread"} {
		t.asked[name] = true
	}
	if t.reasons == nil && r == (system.Rule{ID: r.ID, Match: r.Match}) {
		t.skip(t.item, "nothing is set")
	}
	t.addSystem(r, bookkeeping...)
}

const insteadOfLoad = "maxPressure or maxCPU with strategy limit is nearest to it"

func (t *translation) noLoad(name string) {
	t.asked[name] = true
	t.skip(t.at(name), "it is on the load of the whole machine, which says nothing about a container; %s", insteadOfLoad)
}

// response returns a mean response time in milliseconds.
func (t *translation) response(name string) time.Duration {
	return millis(int64(math.Round(t.above(name, 1, maxMillis))))
}

// calls returns a whole number of calls; what is over is cut off.
func (t *translation) calls(name string) int64 { return int64(t.above(name, 1, maxCalls)) }

// addSystem adds a translated rule.
func (t *translation) addSystem(r system.Rule, harmless ...string) {
	if t.reasons == nil {
		t.lose(t.item, Changed, "it binds all resources; Sentinel's is for inbound ones, so give it a pattern that they have")
		if r.Strategy == system.Limit && r.MaxCPU > 0 {
			t.lose(t.item, Changed, "while the CPU is above it, Leapgate finds a limit on the calls in flight, and does not open and close")
		}
	}
	add(t, &t.im.rules.System, r, r.ID, system.Kind.Validate([]system.Rule{r}), harmless...)
}
