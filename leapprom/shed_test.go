package leapprom_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

func TestShed_ByCriticality(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now})
	defer gate.Close()
	require.NoError(t, gate.LoadRules(leapgate.Rules{System: []system.Rule{{ID: "s", Match: rule.All, MaxInFlight: 1}}}))
	e, err := gate.Entry("a")
	require.NoError(t, err)
	defer e.Exit()
	for _, c := range []leapgate.Criticality{leapgate.Sheddable, leapgate.Sheddable, leapgate.Background} {
		_, err := gate.EntryContext(t.Context(), "a", leapgate.WithCriticality(c))
		require.ErrorIs(t, err, leapgate.ErrBlocked)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(leapprom.Must(gate, leapprom.Config{}))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP leapgate_rule_shed_total Calls that a rule has blocked which goes by criticality.
# TYPE leapgate_rule_shed_total counter
leapgate_rule_shed_total{criticality="background",gate="default",guard="system",resource="a",rule="s"} 1
leapgate_rule_shed_total{criticality="sheddable",gate="default",guard="system",resource="a",rule="s"} 2
`), "leapgate_rule_shed_total"))
}

// The state of a system rule is that of all resources that it binds. When some of them make room
// for others, its changes are not counted again in other.
func TestChanges_OfASharedStateAreNotAddedUpInOther(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	gate := leapgate.Must(leapgate.Config{Now: c.Now, MaxResources: 4})
	defer gate.Close()
	require.NoError(t, gate.LoadRules(leapgate.Rules{System: []system.Rule{{ID: "s", Resource: "r*", Match: rule.Glob, MaxInFlight: 1}}}))
	e, err := gate.Entry("r0")
	require.NoError(t, err)
	_, err = gate.Entry("r1")
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	e.Exit()
	registry := registryOf(t, gate, leapprom.Config{MaxResources: 2})
	changes := func() float64 {
		most := 0.0
		for _, n := range scrape(t, registry).only("rule_changes_total") {
			most = max(most, n)
		}
		return most
	}
	require.Equal(t, 1.0, changes())
	for i := range 20 {
		c.Advance(2 * time.Minute)
		require.NoError(t, gate.Do(t.Context(), fmt.Sprint("r", i), func(context.Context) error { return nil }))
		require.LessOrEqual(t, changes(), 2.0, "calm, limiting, calm")
	}
}
