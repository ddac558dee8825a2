package leaphttp_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
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
	gate := gates.New(t, gatetest.NewClock())
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
	gate := gates.New(t, gatetest.NewClock())
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
	gate := gates.New(t, gatetest.NewClock())
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
	clock := gatetest.NewClock()
	guarded := func(cfg leaphttp.Config, path string) bool {
		cfg.Limits = []leaphttp.Limit{{Limiter: newLog(t, clock, "x", 0, time.Second)}}
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
		"/...":                    true,
		"/.hidden":                false,
		"/a.b/c":                  false,
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
	cfg := leaphttp.Config{Include: []string{"/api/"}, Limits: []leaphttp.Limit{{Limiter: newLog(t, clock, "x", 0, time.Second)}}}
	require.Equal(t, 429, do(leaphttp.Handler(ok, cfg), r).Code)
}

// What is excluded is what is written so plainly that every router behind reads it alike.
func TestPaths_NoSpellingSlipsThroughExclude(t *testing.T) {
	t.Parallel()
	h := leaphttp.Handler(ok, leaphttp.Config{
		Exclude: []string{"/static/", "/healthz"},
		Limits:  []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "x", 0, time.Second)}},
	})
	status := func(target string) int {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")))
		if err != nil {
			return http.StatusBadRequest // a server does not take it either
		}
		return do(h, r).Code
	}
	for _, plain := range []string{
		"/static/app.js", "/static/", "/static", "/healthz", "/static/a-b_c~d.e$f&g+h,i=j:k@l", "/static/%E6%97%A5%E6%9C%AC",
		"/static/.well-known/x", "/static/v1.2/a..b",
	} {
		require.Equal(t, 200, status(plain), plain)
	}
	for _, unusual := range []string{
		"/static/..;/admin", "/static/..;x=1/admin", "/static/..%00/admin", "/static/..%20/admin", "/static/..%09/admin",
		"/static/../admin", "/static/%2e%2e/admin", "/static/.%2e/admin", "/static/..%2fadmin", "/static/..%5Cadmin",
		"/static/..\\admin", "/static\\..\\admin", "/static/%252e%252e/admin", "/static/..%252fadmin", "/static/.../admin",
		"/static/..a/admin", "/static/..%01/admin", "/static/..%7F/admin", "/static/..%C0%AE/admin", "/static/%C0%AE%C0%AE/admin",
		"/static/%EF%BC%8E%EF%BC%8E/admin", "/static/..%EF%BC%8Fadmin", "/static/..%C2%A0/admin", "/static/..%E2%80%8B/admin",
		"/static/.;/../admin", "/static;/../admin", "/static/x;y/../admin", "/static/%20../admin", "/static/%00/../admin",
		"/static/a;b", "/static/%3b", "/static/x%0d%0ay", "/static/x%3f/../admin", "/static/x%23y", "/static/./x", "/static/x.", "/static//x",
		"/healthz;", "/healthz;x", "/healthz%20", "/healthz%00", "/healthz.", "/healthz%2e", "/healthz%3f", "//healthz", "/./healthz",
	} {
		require.NotEqual(t, 200, status(unusual), unusual)
	}
}

// For CONNECT a ServeMux returns the path to which it would redirect, which a client can choose, where it
// returns the pattern otherwise. Rules on the pattern must bind in all cases.
func TestRoute_ConnectHasThePatternOfTheMux(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	for _, pattern := range []string{"/any/{id}/", "/api/", "/api/exact", "CONNECT /tunnel/{id}/", "/rest/{path...}"} {
		mux.Handle(pattern, ok)
	}
	for path, want := range map[string]string{
		"/any/zz0": "/any/{id}/", "/any/zz1/": "/any/{id}/", "/any//zz2": "/any/{id}/", "/any/./zz3": "/any/{id}/",
		"/any/zz%2F": "/any/{id}/", "/any/a%2Fb/c": "/any/{id}/",
		"/api": "/api/", "/api/": "/api/", "/api/x": "/api/", "/api/x/": "/api/", "/api/x/..": "/api/", "/api/x/../": "/api/",
		"/api/exact": "/api/exact", "/tunnel/x": "/tunnel/{id}/", "/rest/": "/rest/{path...}", "/rest/x": "/rest/{path...}", "/": "(unmatched)",
	} {
		gate := gates.New(t, gatetest.NewClock())
		do(leaphttp.Handler(mux, leaphttp.Config{Gate: gate, Mux: mux}), httptest.NewRequest(http.MethodConnect, path, http.NoBody))
		require.Contains(t, resources(gate), "CONNECT "+want, path)
	}
}

func TestPaths_WildcardsOfAServeMuxAreFaults(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"/api/{rest...}", "/api/{$}", "/api/a{b}", "/api/{}", "/{a}{b}"} {
		_, err := leaphttp.New(leaphttp.Config{Gate: gates.New(t, gatetest.NewClock()), Include: []string{pattern}})
		require.ErrorIs(t, err, leaphttp.ErrConfig, pattern)
		require.ErrorContains(t, err, "Include[0]")
	}
	_, err := leaphttp.New(leaphttp.Config{Gate: gates.New(t, gatetest.NewClock()), Include: []string{"/api/{id}/"}, Exclude: []string{"/api/health"}})
	require.NoError(t, err)
}
