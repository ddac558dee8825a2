package docs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// protected lets each client address send 100 requests a minute, and asks the gate's rules for each route.
func protected(gate *leapgate.Gate, mux *http.ServeMux) (http.Handler, error) {
	perAddress, err := limit.NewCounter(limit.Config{Name: "per-address", Limit: 100, Window: time.Minute})
	if err != nil {
		return nil, err
	}
	protect, err := leaphttp.New(leaphttp.Config{
		Gate:   gate, // its resources are the routes, such as "GET /orders/{id}"
		Mux:    mux,  // knows the route of a request
		Limits: []leaphttp.Limit{{Limiter: perAddress}},
	})
	if err != nil {
		return nil, err
	}
	return protect(mux), nil
}

// newClient returns a client whose calls pass a gate. It heeds the Retry-After of servers.
func newClient(gate *leapgate.Gate) (*http.Client, error) {
	transport, err := leaphttp.NewTransport(leaphttp.TransportConfig{Gate: gate})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport}, nil
}

func TestHTTP_RulesAndLimitsBothHold(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /rest", func(http.ResponseWriter, *http.Request) {})
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders/{id}", Threshold: 1, Interval: time.Hour}}))
	h, err := protected(gate, mux)
	require.NoError(t, err)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w
	}
	require.Equal(t, http.StatusOK, get("/orders/1").Code)
	refused := get("/orders/2")
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	require.Equal(t, "application/problem+json", refused.Header().Get("Content-Type"))
	require.NotEmpty(t, refused.Header().Get("RateLimit"))
	for range 99 {
		require.Equal(t, http.StatusOK, get("/rest").Code)
	}
	require.Equal(t, http.StatusTooManyRequests, get("/rest").Code)
}

func TestHTTP_OutgoingCallsAreGuarded(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	server := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	client, err := newClient(gate)
	require.NoError(t, err)
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "GET 127.0.0.1:*", Match: rule.Glob, Threshold: 0}}))
	_, err = client.Get(server.URL) //nolint:bodyclose,noctx // it is refused
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}
