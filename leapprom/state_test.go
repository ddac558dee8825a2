package leapprom_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/resource"
)

// switches is a guard with a rule on every resource, whose state the test changes.
type switches map[string]*resource.State

func (switches) Kind() string { return "switch" }

func (s switches) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if s[name] == nil {
		return nil, false
	}
	return []resource.Check{twin{cause: &resource.Cause{Resource: name, Kind: "switch", RuleID: "s", State: s[name]}, blocked: new(int64)}}, false
}

func TestStates_HaveOneSeriesEachAndTheirChangesATotal(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	a, b := resource.NewState("off", "on", "half-on"), resource.NewState("off", "on")
	guard := switches{"a": a, "b": b}
	g := leapgate.Must(leapgate.Config{Now: c.Now, Guards: []resource.Guard{guard}})
	require.True(t, call(g, "a"))
	require.True(t, call(g, "b"))
	require.True(t, call(g, "none"))
	registry := registryOf(t, g, leapprom.Config{MaxResources: 1}) // b has no series of its own
	want := reading{
		`rule_state{guard="switch",resource="a",rule="s",state="off"}`:     1,
		`rule_state{guard="switch",resource="a",rule="s",state="on"}`:      0,
		`rule_state{guard="switch",resource="a",rule="s",state="half-on"}`: 0,
		`rule_changes_total{guard="switch",resource="a",rule="s"}`:         0,
	}
	require.Equal(t, want, scrape(t, registry).only("rule_state", "rule_changes"))

	a.Set(1, "on", "")
	a.Set(1, "half-on", "")
	a.Set(1, "on", "")
	b.Set(1, "on", "")
	want[`rule_state{guard="switch",resource="a",rule="s",state="off"}`] = 0
	want[`rule_state{guard="switch",resource="a",rule="s",state="on"}`] = 1
	want[`rule_changes_total{guard="switch",resource="a",rule="s"}`] = 3
	require.Equal(t, want, scrape(t, registry).only("rule_state", "rule_changes"))

	delete(guard, "a")
	require.NoError(t, g.Rebind("a"))
	c.Advance(time.Second)
	require.Empty(t, scrape(t, registry).only("rule_state", "rule_changes"))
}
