//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// protectChi puts what cfg says in front of all routes of r. It comes before the routes, as
// all of Use.
func protectChi(r chi.Router, cfg leaphttp.Config) {
	cfg.Route = routeIn(r)
	r.Use(leaphttp.Must(cfg))
}

// routeIn returns the pattern of the route that a request will take, before it is routed.
func routeIn(routes chi.Routes) func(*http.Request) string {
	return func(r *http.Request) string {
		method, path := r.Method, r.URL.RawPath
		if path == "" {
			path = r.URL.Path
		}
		if c := chi.RouteContext(r.Context()); c != nil { // of a middleware, such as StripSlashes or GetHead
			if c.RoutePath != "" {
				path = c.RoutePath
			}
			if c.RouteMethod != "" {
				method = c.RouteMethod
			}
		}
		found := chi.NewRouteContext()
		pattern := routes.Find(found, method, path)
		for i, name := range found.URLParams.Keys {
			r.SetPathValue(name, found.URLParams.Values[i]) // for Config.Args: chi does so later
		}
		if pattern == "/" {
			return pattern
		}
		return strings.TrimSuffix(pattern, "/") // as RoutePattern does
	}
}

var onChi = framework{"GET /orders/{id}", "POST /api/items", func(cfg *leaphttp.Config, entered func(string)) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	if cfg != nil {
		protectChi(r, *cfg)
	}
	handle := func(answer func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			entered(r.URL.Path)
			answer(w, r)
		}
	}
	r.Get("/orders/{id}", handle(hello))
	r.Route("/api", func(r chi.Router) {
		r.Post("/items", handle(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	})
	r.Get("/missing", handle(http.NotFound))
	r.Get("/broken", handle(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) }))
	r.Get("/panics", handle(func(http.ResponseWriter, *http.Request) { panic("on purpose") }))
	r.Get("/free", handle(func(w http.ResponseWriter, r *http.Request) {
		_, _ = leaphttp.Refund(w)
		hello(w, r)
	}))
	r.Get("/hangs", handle(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusInternalServerError)
	}))
	return r
}}

func TestChi_Page(t *testing.T) {
	t.Parallel()
	onChi.test(t)
}

// TestChi_RoutesAreAsChiHasThem: what is found before the handler is what RoutePattern says
// in it.
func TestChi_RoutesAreAsChiHasThem(t *testing.T) {
	t.Parallel()
	for _, before := range [][]func(http.Handler) http.Handler{nil, {middleware.StripSlashes, middleware.GetHead}} {
		gate := leapgate.Must(leapgate.Config{})
		r := chi.NewRouter()
		r.Use(before...)
		protectChi(r, leaphttp.Config{Gate: gate})
		seen := ""
		note := func(_ http.ResponseWriter, r *http.Request) {
			seen = r.Method + " " + chi.RouteContext(r.Context()).RoutePattern()
		}
		r.Get("/", note)
		r.Get("/orders/{id:[0-9]+}", note)
		r.Get("/files/*", note)
		r.HandleFunc("/any", note)
		r.Route("/api", func(r chi.Router) {
			r.Get("/", note)
			r.Get("/{tenant}/items", note)
			r.Route("/v2", func(r chi.Router) { r.Get("/{id}/lines", note) })
		})
		server := start(t, r)
		want := map[string]int64{}
		for _, target := range []string{
			"GET /", "GET /orders/7", "GET /orders/7/", "GET /orders/x", "GET /files/a/b.txt", "GET /files/a%2Fb", "DELETE /any",
			"GET /api", "GET /api/", "GET /api/acme/items", "GET /api/a%2Fb/items", "GET /api/v2/7/lines", "GET /api/v2/nothing",
			"HEAD /orders/7", "POST /orders/7", "POST /nothing",
		} {
			method, path, _ := strings.Cut(target, " ")
			seen = method + " (unmatched)"
			req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
			require.NoError(t, err)
			answer, err := server.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			want[seen]++
		}
		got := map[string]int64{}
		for _, s := range gate.Snapshot() {
			got[s.Resource] = s.Pass
		}
		require.Equal(t, want, got)
	}
}
