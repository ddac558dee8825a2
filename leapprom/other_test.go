package leapprom_test

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// Beyond the cap, and unless a rule names them, resources are in other.
func TestOther_ResourcesBeyondTheCap(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 10, flow.Rule{ID: "r", Resource: "named", Threshold: 1, Interval: time.Minute})
	registry := registryOf(t, g, leapprom.Config{MaxResources: 2})
	for _, name := range []string{"a", "b"} {
		call(g, name)
	}
	scrape(t, registry)
	for _, name := range []string{"c", "a", "d", "d", "named", "named"} {
		call(g, name)
	}
	want := reading{
		`entries_total{resource="a",result="pass"}`:     2,
		`entries_total{resource="b",result="pass"}`:     1,
		`entries_total{resource="named",result="pass"}`: 1,
		`entries_total{resource="other",result="pass"}`: 3,
	}
	passes := func() reading {
		some := scrape(t, registry).only("entries_total")
		for name := range some {
			if !strings.Contains(name, "pass") {
				delete(some, name)
			}
		}
		return some
	}
	require.Equal(t, want, passes())

	// A rule that names one makes it visible, from then on.
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "d", Threshold: 1, Interval: time.Minute}}))
	want[`entries_total{resource="d",result="pass"}`] = 0
	require.Equal(t, want, passes())
	call(g, "d")
	call(g, "c")
	want[`entries_total{resource="d",result="pass"}`]++
	want[`entries_total{resource="other",result="pass"}`]++
	require.Equal(t, want, passes())
	r := scrape(t, registry)
	require.EqualValues(t, 1, r[`leapgate_response_time_seconds_count{resource="d"}`])
	require.EqualValues(t, 4, r[`leapgate_response_time_seconds_count{resource="other"}`])
}

// A resource that is evicted keeps its series; they go on when it comes again.
func TestOther_EvictedResources(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1, flow.Rule{ID: "all", Resource: "*", Match: rule.Glob, Threshold: 2, Interval: time.Minute})
	registry := registryOf(t, g, leapprom.Config{})
	two := func(name string) {
		for range 3 {
			call(g, name)
		}
	}
	two("a")
	scrape(t, registry)
	require.False(t, call(g, "a")) // a block that nobody reads before a is gone
	c.Advance(gatetest.Idle)
	two("b")
	c.Advance(gatetest.Idle)
	two("a")
	require.Equal(t, reading{
		`entries_total{resource="a",result="pass"}`:                4,
		`entries_total{resource="a",result="block"}`:               2,
		`entries_total{resource="other",result="pass"}`:            2,
		`entries_total{resource="other",result="block"}`:           2,
		`blocks_total{guard="flow",resource="a",rule="all"}`:       2,
		`blocks_total{guard="flow",resource="other",rule="all"}`:   0,
		`blocks_total{guard="flow",resource="other",rule="other"}`: 2,
		`response_time_seconds_count{resource="a"}`:                4,
		`response_time_seconds_native{resource="a",i=zero}`:        4,
		`response_time_seconds_native{resource="other",i=zero}`:    2,
		`response_time_seconds_count{resource="other"}`:            2,
		`entries_in_flight{resource="a"}`:                          0,
		`entries_in_flight{resource="other"}`:                      0,
	}, without(scrape(t, registry).only("entries", "blocks", "response_time_seconds_count", "response_time_seconds_native")))
}

// without returns those that are shown whatever happens.
func without(r reading) reading {
	for name := range r {
		if strings.HasPrefix(name, "would") || strings.HasPrefix(name, "candidate") {
			delete(r, name)
		}
	}
	return r
}

// What its rules blocked before it got series stays in other.
func TestOther_RulesOfAResourceThatGetsSeries(t *testing.T) {
	t.Parallel()
	rules := []flow.Rule{{ID: "all", Resource: "*", Match: rule.Glob, Threshold: 0}}
	g := gates.Small(t, gatetest.NewClock(), 10, rules...)
	registry := registryOf(t, g, leapprom.Config{MaxResources: 1})
	call(g, "a")
	call(g, "b")
	want := reading{
		`blocks_total{guard="flow",resource="a",rule="all"}`:       1,
		`blocks_total{guard="flow",resource="other",rule="all"}`:   0,
		`blocks_total{guard="flow",resource="other",rule="other"}`: 1,
	}
	require.Equal(t, want, scrape(t, registry).only("blocks"))
	require.NoError(t, g.LoadFlowRules(append(rules, flow.Rule{ID: "b", Resource: "b", Threshold: 9})))
	want[`blocks_total{guard="flow",resource="b",rule="all"}`] = 0
	want[`blocks_total{guard="flow",resource="b",rule="b"}`] = 0
	require.Equal(t, want, scrape(t, registry).only("blocks"))
	call(g, "b")
	want[`blocks_total{guard="flow",resource="b",rule="all"}`]++
	require.Equal(t, want, scrape(t, registry).only("blocks"))
}

// twins is a guard whose checks all have one ID, which it should not.
type twins struct{ blocked *[2]int64 }

func (twins) Kind() string { return "twins" }

func (w twins) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	cause := &resource.Cause{Resource: name, Kind: "twins", RuleID: "t"}
	return []resource.Check{twin{cause: cause, blocked: &w.blocked[0]}, twin{cause: cause, blocked: &w.blocked[1]}}, false
}

type twin struct {
	resource.Check
	cause   *resource.Cause
	blocked *int64
}

func (t twin) Cause() *resource.Cause           { return t.cause }
func (twin) Mode() rule.Mode                    { return rule.Off }
func (twin) Stage() resource.Stage              { return resource.Counting }
func (twin) Interval() time.Duration            { return 0 }
func (t twin) Snapshot(int64) stat.RuleSnapshot { return stat.RuleSnapshot{Blocked: *t.blocked} }

func TestOther_RulesOfOneID(t *testing.T) {
	t.Parallel()
	blocked := &[2]int64{5, 3}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{twins{blocked}}})
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	for range 3 {
		require.Equal(t, reading{
			`blocks_total{guard="twins",resource="a",rule="t"}`:         float64(blocked[0]),
			`blocks_total{guard="twins",resource="other",rule="other"}`: float64(blocked[1]),
		}, scrape(t, registry).only("blocks"))
		blocked[0]++
		blocked[1] += 4
	}
}

// moody is a check whose Snapshot panics now and then.
type moody struct {
	twin
	ill *bool
}

func (m moody) Snapshot(now int64) stat.RuleSnapshot {
	if *m.ill {
		panic("not today")
	}
	return m.twin.Snapshot(now)
}

type moods struct{ check moody }

func (moods) Kind() string { return "moods" }
func (m moods) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	return []resource.Check{m.check}, false
}

// A guard that panics when it is asked for its figures has counted what it had before.
func TestOther_GuardThatPanics(t *testing.T) {
	t.Parallel()
	blocked, ill := int64(5), false
	cause := &resource.Cause{Resource: "a", Kind: "moods", RuleID: "m"}
	g := leapgate.Must(leapgate.Config{
		Guards: []resource.Guard{moods{moody{twin{cause: cause, blocked: &blocked}, &ill}}},
		Logger: slog.New(slog.DiscardHandler),
	})
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	want := reading{`blocks_total{guard="moods",resource="a",rule="m"}`: 5}
	for range 3 {
		require.Equal(t, want, scrape(t, registry).only("blocks"))
		ill = true
		require.NoError(t, g.Rebind("a"))
		require.Equal(t, want, scrape(t, registry).only("blocks"))
		ill = false
	}
	blocked++
	want[`blocks_total{guard="moods",resource="a",rule="m"}`]++
	require.Equal(t, want, scrape(t, registry).only("blocks"))
}

// What names that come and go have cost is seen.
func TestOther_Evictions(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 1)
	rule := flow.Rule{Resource: "*", Match: rule.Glob, Threshold: 1, Interval: time.Hour}
	require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
	registry := registryOf(t, g, leapprom.Config{})
	for i := range 1500 {
		call(g, strconv.Itoa(i))
	}
	require.Equal(t, reading{
		`evicted_resources_total{}`:   1499,
		`remembered_resources{}`:      1000,
		`forgotten_resources_total{}`: 499,
		`forgotten_calls_total{}`:     499,
	}, scrape(t, registry).only("evicted", "remembered", "forgotten"))
}
