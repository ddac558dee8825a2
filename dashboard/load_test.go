package dashboard_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/load"
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
