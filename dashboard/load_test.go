package dashboard_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

func TestLoad_WhatIsKnownIsTold(t *testing.T) {
	t.Parallel()
	var given load.Given
	gate := leapgate.Must(leapgate.Config{Load: &given})
	defer gate.Close()
	d := dashboard.Handler(gate, dashboard.Config{})
	require.Equal(t, map[string]any{}, get(t, d, "load"))
	given.Set(load.Signals{
		CPU: load.Signal{Value: 0.75, Raw: 1.25, Known: true}, Throttled: load.Known(0),
		SchedLatency: load.Known(0.0125), Processors: 0.5,
	})
	require.Equal(t, map[string]any{
		"cpu":       map[string]any{"value": 0.75, "raw": 1.25},
		"throttled": map[string]any{"value": 0.0, "raw": 0.0}, "schedLatency": map[string]any{"value": 12.5, "raw": 12.5},
		"processors": 0.5,
	}, get(t, d, "load"))
	faults, _ := refused(t, d, http.StatusBadRequest, http.MethodGet, "load?x=1", "")
	require.Len(t, faults, 1)
}

func TestEvents_FramesTellTheLoadWhenItHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given load.Given
		gate := leapgate.Must(leapgate.Config{Load: &given})
		defer gate.Close()
		client, _ := serve(t, dashboard.Handler(gate, dashboard.Config{}))
		w := watch(t, client)
		require.Nil(t, w.next().Load, "nothing is known")
		require.Nil(t, w.next().Load)
		given.Set(load.Signals{CPU: load.Known(0.5)})
		require.JSONEq(t, `{"cpu":{"value":0.5,"raw":0.5}}`, string(w.next().Load))
		require.Nil(t, w.next().Load, "as before")
		later := watch(t, client)
		require.JSONEq(t, `{"cpu":{"value":0.5,"raw":0.5}}`, string(later.next().Load), "to one who has seen none")
		given.Set(load.Signals{})
		require.JSONEq(t, `{}`, string(w.next().Load), "nothing is known any more")
	})
}

// The list of rules shows what holds now, and whether that is not what the rule says, as of the limit that an
// adaptive rule begins with.
func TestEvents_FramesTellTheLimitsThatHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		defer gate.Close()
		require.NoError(t, gate.LoadRules(leapgate.Rules{
			Isolation: []isolation.Rule{
				{ID: "found", Resource: "a", Strategy: isolation.Adaptive, MaxInFlight: 200},
				{ID: "fixed", Resource: "a", MaxInFlight: 50},
				{ID: "each", Resource: "*", Match: rule.Glob, Strategy: isolation.Adaptive, InitialInFlight: 30, MaxInFlight: 100},
			},
		}))
		client, _ := serve(t, dashboard.Handler(gate, dashboard.Config{}))
		w := watch(t, client)
		w.next()
		for id, want := range map[string][2]float64{"found": {20, 1}, "fixed": {50, 0}, "each": {30, 1}} {
			got := w.sums["isolation "+id]
			require.Equal(t, want, [2]float64{got["effective"], got["moved"]}, id)
		}
	})
}

// A state that all resources of a rule share is that of the resources that people know. Of other alone it is told as well.
func TestEvents_FramesTellASharedStateOfKnownResources(t *testing.T) {
	t.Parallel()
	for resources, want := range []int{1, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			gate := leapgate.Must(leapgate.Config{})
			defer gate.Close()
			require.NoError(t, gate.LoadRules(leapgate.Rules{System: []system.Rule{{Match: rule.All, MaxInFlight: 1}}}))
			for range 2 {
				for i := range resources {
					_, _ = gate.Entry(fmt.Sprint("r", i))
				}
				_, _ = gate.Entry("other")
			}
			client, _ := serve(t, dashboard.Handler(gate, dashboard.Config{}))
			w := watch(t, client)
			states := w.next().States
			require.Len(t, states, want)
			require.Equal(t, "full", states[0][2])
		})
	}
}
