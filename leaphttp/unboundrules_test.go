package leaphttp_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/rule"
)

// warnings keeps what is logged.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *warnings) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// Where a middleware is not told the routes, rules that name them never bind: it says so,
// once.
func TestRoute_RulesThatNeverBind_AreLoggedOnce(t *testing.T) {
	t.Parallel()
	orders := flow.Rule{ID: "orders", Resource: "GET /orders/{id}", Threshold: 1}
	routes := func() *http.ServeMux {
		mux := http.NewServeMux()
		mux.Handle("GET /orders/{id}", ok)
		mux.Handle("GET /home", ok)
		return mux
	}
	for _, c := range []struct {
		name    string
		rule    flow.Rule
		handler func(cfg leaphttp.Config) http.Handler
		counted string
	}{
		{"around a router without Route", orders, func(cfg leaphttp.Config) http.Handler {
			return leaphttp.Handler(ok, cfg)
		}, "GET (unmatched)"},
		{"around a mux without Mux", orders, func(cfg leaphttp.Config) http.Handler {
			return leaphttp.Handler(routes(), cfg)
		}, "GET (unmatched)"},
		{"around a mux in which there is a mux", orders, func(cfg leaphttp.Config) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/", routes())
			mux.Handle("GET /login", ok)
			cfg.Mux = mux
			return leaphttp.Handler(mux, cfg)
		}, "GET /"},
		{"inside the route of a mux in a mux", orders, func(cfg leaphttp.Config) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/orders/", leaphttp.Handler(routes(), cfg))
			return mux
		}, "GET /orders/"},
		{"a route without a method", flow.Rule{ID: "orders", Resource: "/orders/{id}"}, func(cfg leaphttp.Config) http.Handler {
			return leaphttp.Handler(ok, cfg)
		}, "GET (unmatched)"},
		{"a route as another router writes it", flow.Rule{ID: "orders", Resource: "GET /orders/:id"}, func(cfg leaphttp.Config) http.Handler {
			return leaphttp.Handler(ok, cfg)
		}, "GET (unmatched)"},
		{"a pattern", flow.Rule{ID: "orders", Resource: "GET /orders/*", Match: rule.Glob}, func(cfg leaphttp.Config) http.Handler {
			return leaphttp.Handler(ok, cfg)
		}, "GET (unmatched)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log warnings
			h := c.handler(leaphttp.Config{Gate: gates.New(t, gatetest.NewClock(), c.rule), Logger: log.logger()})
			for i := range 2000 {
				require.Equal(t, 200, get(h, fmt.Sprintf("/orders/%d", i)).Code)
			}
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			require.Contains(t, log.String(), "WARN")
			require.Contains(t, log.String(), "rule="+"orders")
			require.Contains(t, log.String(), c.rule.Resource)
			require.Contains(t, log.String(), c.counted)
		})
	}
}

func TestRoute_RulesOnCallsInFlightThatNeverBind_AreLogged(t *testing.T) {
	t.Parallel()
	var log warnings
	gate := gates.New(t, gatetest.NewClock())
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{Resource: "GET /orders/{id}", MaxInFlight: 1}}
		return nil
	}))
	h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Logger: log.logger()})
	for range 100 {
		get(h, "/orders/7")
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
}

// Rules that were loaded while the service runs are looked at as well.
func TestRoute_RulesThatAreLoadedLater_AreLogged(t *testing.T) {
	t.Parallel()
	var log warnings
	gate := gates.New(t, gatetest.NewClock())
	h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Logger: log.logger()})
	for range 3000 {
		get(h, "/orders/7")
	}
	require.Empty(t, log.String())
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders/{id}", Threshold: 1e9}}))
	for range 3000 {
		get(h, "/orders/7")
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
}

func TestRoute_NoFalseAlarm(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("GET /orders/{id}", ok)
	mux.Handle("GET /orders/latest", ok)
	mux.Handle("/static/", ok)
	mux.Handle("/", ok)
	orders := flow.Rule{Resource: "GET /orders/{id}", Threshold: 1e9}
	for _, c := range []struct {
		name  string
		rules []flow.Rule
		mux   *http.ServeMux
		paths []string
	}{
		{"rules for other things", []flow.Rule{
			{Resource: "db.query", Threshold: 1},
			{Resource: "jobs/mail", Threshold: 1},
			{Resource: "/etc", Threshold: 1},
			{Resource: "*", Match: rule.Glob, Threshold: 1e9},
			{Resource: "*", Match: rule.Default, Threshold: 1e9},
			{Resource: "GET (unmatched)", Threshold: 1e9},
			{Resource: "db.*", Match: rule.Glob, Threshold: 1},
			{Resource: `(?i)get .*`, Match: rule.Regexp, Threshold: 1e9},
		}, nil, []string{"/orders/7", "/", "/.env"}},
		{"no rules", nil, nil, []string{"/orders/7"}},
		{"rules for other routes", []flow.Rule{orders, {Resource: "POST /home", Threshold: 1}}, nil, []string{"/home", "/wp-login.php", "/orders/7/items"}},
		{"rules that bind", []flow.Rule{orders}, mux, []string{"/orders/7", "/orders/latest", "/static/x", "/nothing"}},
		{"a route that is in the way", []flow.Rule{orders}, mux, []string{"/orders/latest"}},
		{"a rule on all below a path", []flow.Rule{{Resource: "GET /static/", Threshold: 1e9}, {Resource: "GET /", Threshold: 1e9}}, mux, []string{"/static/x", "/x"}},
		{"rules that are off", []flow.Rule{{Resource: "GET /orders/{id}", Threshold: 1, Mode: rule.Off}}, nil, []string{"/orders/7"}},
		{"what is written in an unusual way", []flow.Rule{orders}, mux, []string{"/orders%2f7", "/orders//7", "/static/..;/7"}},
		{"one stray request", []flow.Rule{orders}, nil, []string{"/orders/7", "/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i"}[:1]},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log warnings
			h := leaphttp.Handler(ok, leaphttp.Config{Gate: gates.New(t, gatetest.NewClock(), c.rules...), Mux: c.mux, Logger: log.logger()})
			times := 1000
			if c.name == "one stray request" {
				times = 1
			}
			for range times {
				for _, path := range c.paths {
					get(h, path)
				}
			}
			require.Empty(t, log.String())
		})
	}
}

// The calls of a rule's resource come from another middleware of the same gate.
func TestRoute_RuleThatBindsElsewhere_IsNoAlarm(t *testing.T) {
	t.Parallel()
	var log warnings
	gate := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "GET /admin/{page}", Threshold: 1e9})
	admin, public := http.NewServeMux(), http.NewServeMux()
	admin.Handle("GET /admin/{page}", ok)
	public.Handle("/", ok)
	adminHandler := leaphttp.Handler(admin, leaphttp.Config{Gate: gate, Mux: admin, Logger: log.logger()})
	publicHandler := leaphttp.Handler(public, leaphttp.Config{Gate: gate, Mux: public, Logger: log.logger()})
	get(adminHandler, "/admin/users")
	for range 1000 { // by a scanner
		get(publicHandler, "/admin/users")
	}
	require.Empty(t, log.String())
}

func TestRoute_WarningHasNothingOfTheClient(t *testing.T) {
	t.Parallel()
	var log warnings
	gate := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "GET /orders/{id}", Threshold: 1e9})
	h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Logger: log.logger()})
	for range 100 {
		r := httptest.NewRequest(http.MethodGet, "/orders/secret?token=secret", http.NoBody)
		r.Host = "secret.example.com"
		do(h, r)
	}
	require.NotEmpty(t, log.String())
	require.NotContains(t, log.String(), "secret")
}

func TestKey_ThatCanNeverBeTold_IsLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		key   leaphttp.Key
		alarm bool
	}{
		{"outside of the route", leaphttp.PathValue("tenant"), true},
		{"a header that nobody sends", leaphttp.Header("X-Tenant"), true},
		{"a header that few send", func(r *http.Request) string {
			if r.URL.Path == "/7" {
				return "a"
			}
			return ""
		}, false},
		{"always told", by("k"), false},
		{"the peer", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log warnings
			l := newLog(t, gatetest.NewClock(), "per-tenant", 1<<30, 3600e9)
			h := leaphttp.Handler(ok, leaphttp.Config{
				Limits: []leaphttp.Limit{{Limiter: l, Key: c.key}}, Logger: log.logger(),
			})
			for i := range 1000 {
				get(h, fmt.Sprintf("/%d", i))
			}
			if !c.alarm {
				require.Empty(t, log.String())
				return
			}
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			require.Contains(t, log.String(), "limit=per-tenant")
		})
	}
}
