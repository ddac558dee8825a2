package docs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapprom"
)

// metrics returns the handler of /metrics.
func metrics(gate *leapgate.Gate) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(leapprom.Must(gate, leapprom.Config{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

func TestMetrics_HaveTheResources(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	e, err := gate.Entry("GET /orders")
	require.NoError(t, err)
	e.Exit()
	w := httptest.NewRecorder()
	metrics(gate).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	require.Contains(t, w.Body.String(), `leapgate_entries_total{gate="default",resource="GET /orders",result="pass"} 1`)
}
