package leapprom_test

import (
	"strings"
	"testing"

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
