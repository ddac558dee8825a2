package leapprom_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/load"
)

func TestLoad_WhatIsKnownHasSeries(t *testing.T) {
	t.Parallel()
	var given load.Given
	gate := leapgate.Must(leapgate.Config{Load: &given})
	defer gate.Close()
	registry := registryOf(t, gate, leapprom.Config{})
	shown := func() reading {
		return scrape(t, registry).only("load_cpu_ratio", "load_throttled_ratio", "load_pressure_ratio",
			"load_scheduling_latency_seconds", "load_processors")
	}
	require.Empty(t, shown(), "nothing is known yet")

	given.Set(load.Signals{CPU: load.Signal{Value: 0.75, Raw: 1.25, Known: true}, Throttled: load.Known(0), Processors: 0.5})
	require.Equal(t, reading{"load_cpu_ratio{}": 0.75, "load_throttled_ratio{}": 0, "load_processors{}": 0.5}, shown())

	given.Set(load.Signals{Pressure: load.Known(0.25), SchedLatency: load.Known(0.004)})
	require.Equal(t, reading{
		"load_pressure_ratio{}": 0.25, "load_scheduling_latency_seconds{}": 0.004,
	}, shown(), "what is not known any more has none")
}
