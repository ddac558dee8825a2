//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
)

// A framework makes the same service of each: it answers
//
//	GET  /orders/{id}  200
//	POST /api/items    201, of a group
//	GET  /missing      404, by an error if handlers return them
//	GET  /broken       500, likewise
//	GET  /panics       500, by what the framework has for panics
//	GET  /free         200, and gives back what the limits have charged
//	GET  /hangs        500, when the client has hung up
//
// behind what cfg says, or nothing if that is nil. entered gets each call of a handler.
type framework struct {
	orders  string // the resource of the first
	items   string
	service func(cfg *leaphttp.Config, entered func(path string)) http.Handler
}

func (f framework) start(t *testing.T, cfg leaphttp.Config, entered func(path string)) (base string, client *http.Client) {
	t.Helper()
	server := start(t, f.service(&cfg, entered))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	return server.URL, server.Client()
}

func ignore(string) {}

// test holds what the pages in docs promise of all frameworks.
func (f framework) test(t *testing.T) {
	t.Helper()
	t.Run("a rule binds its route, and no handler runs that it refuses", f.testRule)
	t.Run("rules count by the parameters of a route", f.testArgs)
	t.Run("failures count, and what the client did does not", f.testFailures)
	t.Run("what has no route counts together", f.testUnmatched)
	t.Run("handlers correct what the limits have charged", f.testRefund)
	t.Run("a client that hangs up is no failure", f.testHangUp)
	t.Run("a middleware that knows no routes says so", f.testUnboundRule)
	t.Run("a limit without keys says so", f.testNoKeys)
}

func (f framework) testRule(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{
		{Resource: f.orders, Threshold: 2, Interval: time.Hour},
		{Resource: f.items, Threshold: 0},
	}))
	var entered []string
	base, client := f.start(t, leaphttp.Config{Gate: gate}, func(path string) { entered = append(entered, path) })
	for i, want := range []int{200, 200, 429, 429} {
		status, header, body := get(t, client, fmt.Sprintf("%s/orders/%d", base, i))
		require.Equal(t, want, status)
		if want == 429 {
			require.Equal(t, "application/problem+json", header.Get("Content-Type"))
			require.NotEmpty(t, header.Get("Retry-After"))
			require.Equal(t, 1, strings.Count(body, "{"), "%q is one answer", body)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/items", http.NoBody)
	require.NoError(t, err)
	answer, err := client.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 429, answer.StatusCode)
	require.Equal(t, []string{"/orders/0", "/orders/1"}, entered)
	require.EqualValues(t, 2, of(gate, f.orders).Pass)
	require.EqualValues(t, 2, of(gate, f.orders).Block)
	require.EqualValues(t, 1, of(gate, f.items).Block)
}

func (f framework) testArgs(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadRules(leapgate.Rules{Param: []param.Rule{
		{Resource: f.orders, Arg: "order", Threshold: 2, Interval: 24 * time.Hour, Missing: param.Block},
	}}))
	base, client := f.start(t, leaphttp.Config{Gate: gate, Args: map[string]leaphttp.Arg{"order": leaphttp.PathValue("id")}}, ignore)
	for i, want := range []int{200, 200, 429, 200, 200, 429} {
		status, _, _ := get(t, client, fmt.Sprintf("%s/orders/%d", base, i/3))
		require.Equal(t, want, status)
	}
	require.Zero(t, of(gate, f.orders).Rules[0].Missing)
}

func (f framework) testFailures(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	base, client := f.start(t, leaphttp.Config{Gate: gate}, ignore)
	for path, want := range map[string]struct {
		status     int
		exceptions int64
	}{"/missing": {404, 0}, "/broken": {500, 1}, "/panics": {500, 1}, "/free": {200, 0}} {
		status, _, body := get(t, client, base+path)
		require.Equal(t, want.status, status, path)
		require.LessOrEqual(t, strings.Count(body, "{"), 1, "%q is one answer", body)
		s := of(gate, "GET "+path)
		require.EqualValues(t, 1, s.Success, path)
		require.Equal(t, want.exceptions, s.Exception, path)
		require.Zero(t, s.Concurrency)
	}
}

func (f framework) testUnmatched(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	base, client := f.start(t, leaphttp.Config{Gate: gate}, ignore)
	for _, path := range []string{"/nothing", "/", "/orders", "/order/1/2", "/made/up/7"} {
		status, _, body := get(t, client, base+path)
		require.Equal(t, 404, status, path)
		require.NotEmpty(t, body)
	}
	require.EqualValues(t, 5, of(gate, "GET (unmatched)").Pass)
	require.Zero(t, of(gate, "GET (unmatched)").Exception)
	require.Len(t, gate.Snapshot(), 1, "clients choose no names of resources")
}

func (f framework) testRefund(t *testing.T) {
	t.Parallel()
	l := newLog(t, "all", 3, time.Hour)
	base, client := f.start(t, leaphttp.Config{Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{{Limiter: l}}}, ignore)
	for range 5 {
		status, _, _ := get(t, client, base+"/free")
		require.Equal(t, 200, status)
	}
	for i, want := range []int{200, 404, 404, 429} {
		status, header, _ := get(t, client, base+[]string{"/orders/1", "/missing", "/nothing", "/free"}[i])
		require.Equal(t, want, status)
		require.NotEmpty(t, header.Get("RateLimit"))
	}
}

func (f framework) testHangUp(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	ctx, hangUp := context.WithCancel(t.Context())
	base, client := f.start(t, leaphttp.Config{Gate: gate}, func(string) { hangUp() })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/hangs", http.NoBody)
	require.NoError(t, err)
	_, err = client.Do(r) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return of(gate, "GET /hangs").Success == 1 }, 10*time.Second, 10*time.Millisecond)
	require.Zero(t, of(gate, "GET /hangs").Exception)
}

func (f framework) testUnboundRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		put   func(cfg leaphttp.Config) http.Handler
		lines int
	}{
		{"around the router", func(cfg leaphttp.Config) http.Handler {
			return leaphttp.Must(cfg)(f.service(nil, ignore))
		}, 1},
		{"as the page has it", func(cfg leaphttp.Config) http.Handler { return f.service(&cfg, ignore) }, 0},
	} {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: f.orders, Threshold: 1e6}}))
		var log safeBuffer
		server := start(t, c.put(leaphttp.Config{Gate: gate, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		for i := range 100 {
			status, _, _ := get(t, server.Client(), fmt.Sprintf("%s/orders/%d", server.URL, i))
			require.Equal(t, 200, status)
		}
		require.Equal(t, c.lines, strings.Count(log.String(), "does not bind"), "%s: %s", c.name, log.String())
	}
}

func (f framework) testNoKeys(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	l, err := limit.NewCounter(limit.Config{Limit: 1000, Window: time.Hour})
	require.NoError(t, err)
	base, client := f.start(t, leaphttp.Config{
		Gate:   leapgate.Must(leapgate.Config{}),
		Limits: []leaphttp.Limit{{Limiter: l, Key: leaphttp.Header("Tenant")}},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}, ignore)
	for range 250 {
		get(t, client, base+"/orders/1")
	}
	require.Equal(t, 1, strings.Count(log.String(), "could not be told"), log.String())
}

// What handlers return, or tell, that answer with an error.
var (
	errMissing = errors.New("no such order")
	errBroken  = errors.New("broken")
)
