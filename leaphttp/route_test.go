package leaphttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
)

func resources(gate *leapgate.Gate) []string {
	var names []string
	for _, s := range gate.Snapshot() {
		names = append(names, s.Resource)
	}
	return names
}

func TestRoute_AroundAMux(t *testing.T) {
	t.Parallel()
	gate := newFake().newGate(t)
	mux := http.NewServeMux()
	mux.Handle("GET /orders/{id}", ok)
	mux.Handle("POST api.example.com/orders", ok)
	mux.Handle("/any/", ok)
	h := leaphttp.Handler(mux, leaphttp.Config{Gate: gate, Mux: mux})
	for _, c := range []struct{ method, url, want string }{
		{"GET", "/orders/1", "GET /orders/{id}"},
		{"GET", "/orders/2?x=1", "GET /orders/{id}"},
		{"HEAD", "/orders/3", "GET /orders/{id}"},
		{"POST", "http://api.example.com/orders", "POST api.example.com/orders"},
		{"PUT", "/any/thing", "PUT /any/"},
		{"PROPFIND", "/any/thing", "OTHER /any/"},
		{"DELETE", "/orders/1", "DELETE (unmatched)"},
		{"GET", "/.env", "GET (unmatched)"},
		{"GET", "/wp-admin", "GET (unmatched)"},
		{"MADEUP1", "/x", "OTHER (unmatched)"},
		{"MADEUP2", "/x", "OTHER (unmatched)"},
	} {
		before := snapshot(gate, c.want).Pass
		do(h, httptest.NewRequest(c.method, c.url, http.NoBody))
		require.Equal(t, before+1, snapshot(gate, c.want).Pass, "%s %s: %v", c.method, c.url, resources(gate))
	}
	require.Len(t, gate.Snapshot(), 7, "%v", resources(gate))
}

func TestRoute_InsideARoute(t *testing.T) {
	t.Parallel()
	gate := newFake().newGate(t)
	protect := leaphttp.Must(leaphttp.Config{Gate: gate})
	mux := http.NewServeMux()
	mux.Handle("GET /a/{x}", protect(ok))
	mux.Handle("/b/", protect(ok))
	get(mux, "/a/1")
	get(mux, "/b/1")
	get(protect(ok), "/raw/path")
	require.Equal(t, []string{"GET (unmatched)", "GET /a/{x}", "GET /b/"}, resources(gate))
}

func TestRoute_Function(t *testing.T) {
	t.Parallel()
	gate := newFake().newGate(t)
	route := ""
	h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Route: func(*http.Request) string { return route }})
	for _, route = range []string{
		"/orders/{id}", "PURGE /cache", "example.com/x", "", strings.Repeat("/x", 1000), "GET " + strings.Repeat("/x", 1000),
	} {
		r := httptest.NewRequest(http.MethodPatch, "/raw", http.NoBody)
		r.Pattern = "GET /not-this"
		do(h, r)
	}
	r := from("192.0.2.1:1")
	r.Method, route = "", "/empty-method"
	do(h, r)
	require.Equal(t, []string{
		"GET /empty-method", "PATCH (unmatched)", "PATCH /orders/{id}", "PATCH example.com/x", "PURGE /cache",
	}, resources(gate))
	require.EqualValues(t, 3, snapshot(gate, "PATCH (unmatched)").Pass)
}

func TestPaths(t *testing.T) {
	t.Parallel()
	clock := newFake()
	guarded := func(cfg leaphttp.Config, path string) bool {
		cfg.Limits = []leaphttp.Limit{{Limiter: clock.newLog(t, "x", 0, time.Second)}}
		return get(leaphttp.Handler(ok, cfg), path).Code == 429
	}
	api := leaphttp.Config{Include: []string{"/api/", "/login"}, Exclude: []string{"/api/health", "/api/{version}/metrics/", "/healthz"}}
	for path, want := range map[string]bool{
		"/api/":                   true,
		"/api":                    true,
		"/api/orders/1":           true,
		"/api/health":             false,
		"/api/health/":            true,
		"/api/healthy":            true,
		"/api/v1/metrics/":        false,
		"/api/v1/metrics":         false,
		"/api/v1/metrics/x/y":     false,
		"/api/v1/metricsx":        true,
		"/api//metrics/":          true,
		"/login":                  true,
		"/login/":                 false,
		"/":                       false,
		"/apiary":                 false,
		"/static/app.js":          false,
		"/.well-known/x":          false,
		"/...":                    false,
		"//api/x":                 true,
		"/static//x":              true,
		"/static/../api/x":        true,
		"/api/../healthz":         true,
		"/./x":                    true,
		"/x/..":                   true,
		"/x/.":                    true,
		"/static/%2e%2e/api/x":    true,
		"/healthz%2F":             true,
		"/static%2Fx":             true,
		"/%61pi/x":                true,
		"/api/v1%2Fmetrics%2Fall": true,
	} {
		require.Equal(t, want, guarded(api, path), path)
	}
	health := leaphttp.Config{Exclude: []string{"/healthz"}}
	require.False(t, guarded(health, "/healthz"))
	require.True(t, guarded(health, "/other"))
	require.True(t, guarded(leaphttp.Config{Include: []string{"/"}}, "/any/thing"))

	r := httptest.NewRequest(http.MethodOptions, "/", http.NoBody)
	r.URL.Path = "*"
	cfg := leaphttp.Config{Include: []string{"/api/"}, Limits: []leaphttp.Limit{{Limiter: clock.newLog(t, "x", 0, time.Second)}}}
	require.Equal(t, 429, do(leaphttp.Handler(ok, cfg), r).Code)
}

// For CONNECT a ServeMux gives the path that it would redirect to, which a client can
// choose, where it gives the pattern otherwise.
func TestRoute_ConnectNamesNoResource(t *testing.T) {
	t.Parallel()
	gate := newFake().newGate(t)
	mux := http.NewServeMux()
	mux.Handle("/any/{id}/", ok)
	h := leaphttp.Handler(mux, leaphttp.Config{Gate: gate, Mux: mux})
	for _, path := range []string{"/any/zz0", "/any/zz1", "/any//zz2", "/any/./zz3"} {
		r := httptest.NewRequest(http.MethodConnect, "/", http.NoBody)
		r.URL.Path = path
		do(h, r)
	}
	require.Subset(t, []string{"CONNECT (unmatched)", "CONNECT /any/{id}/"}, resources(gate))
}

func TestPaths_WildcardsOfAServeMuxAreFaults(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"/api/{rest...}", "/api/{$}", "/api/a{b}", "/api/{}", "/{a}{b}"} {
		_, err := leaphttp.New(leaphttp.Config{Gate: newFake().newGate(t), Include: []string{pattern}})
		require.ErrorIs(t, err, leaphttp.ErrConfig, pattern)
		require.ErrorContains(t, err, "Include[0]")
	}
	_, err := leaphttp.New(leaphttp.Config{Gate: newFake().newGate(t), Include: []string{"/api/{id}/"}, Exclude: []string{"/api/health"}})
	require.NoError(t, err)
}
