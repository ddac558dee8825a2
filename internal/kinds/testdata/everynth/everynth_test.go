package everynth_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/everynth"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
)

// third is every third call of a resource.
var third = leapgate.Rules{EveryNth: []everynth.Rule{{ID: "third", Resource: "GET /orders", N: 3}}}

func newGate(t *testing.T) *leapgate.Gate {
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return 0 }})
	t.Cleanup(func() { _ = gate.Close() })
	return gate
}

// call calls a resource, and returns why it was refused.
func call(gate *leapgate.Gate, name string) *leapgate.BlockError {
	var blocked *leapgate.BlockError
	errors.As(gate.Do(context.Background(), name, func(context.Context) error { return nil }), &blocked)
	return blocked
}

func TestGate_RefusesAndTells(t *testing.T) {
	gate := newGate(t)
	require.NoError(t, gate.LoadRules(third))
	require.Equal(t, third.EveryNth, gate.Rules().EveryNth)
	require.Nil(t, call(gate, "GET /orders"))
	require.Nil(t, call(gate, "GET /orders"))
	blocked := call(gate, "GET /orders")
	require.NotNil(t, blocked)
	require.Equal(t, []any{"everynth", "third", 3.0}, []any{blocked.Kind, blocked.RuleID, blocked.Threshold})

	// A reload keeps what the rule has counted.
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.EveryNth[0].N = 2
		return nil
	}))
	require.NotNil(t, call(gate, "GET /orders"), "the fourth")

	snapshot := gate.Resource("GET /orders").Snapshot()
	require.Len(t, snapshot.Rules, 1)
	r := snapshot.Rules[0]
	require.Equal(t, []any{"third", "everynth", rule.Enforce, 2.0, int64(2), int64(2)}, []any{r.ID, r.Kind, r.Mode, r.Threshold, r.Admitted, r.Blocked})

	err := gate.LoadRules(leapgate.Rules{EveryNth: []everynth.Rule{{Resource: "a", N: 1}}})
	require.EqualError(t, err, `everynth rule 0 (on "a"): N is 1; want 2 to 1000000`)
	require.Len(t, gate.Rules().EveryNth, 1)
}

func TestHTTP_StatusOfTheKind(t *testing.T) {
	gate := newGate(t)
	require.NoError(t, gate.LoadRules(third))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", func(http.ResponseWriter, *http.Request) {})
	protect, err := leaphttp.New(leaphttp.Config{Gate: gate, Mux: mux})
	require.NoError(t, err)
	var statuses []int
	for range 3 {
		w := httptest.NewRecorder()
		protect(mux).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders", http.NoBody))
		statuses = append(statuses, w.Code)
	}
	require.Equal(t, []int{200, 200, http.StatusTeapot}, statuses)
}

func TestRuleFile_ReadWrittenAndRewritten(t *testing.T) {
	const text = "# Limits.\neveryNth:\n"
	_, err := rulefile.Parse("r.yaml", []byte(text))
	require.ErrorContains(t, err, `r.yaml:2:1: unknown field "everyNth"; want flow, `)
	require.ErrorContains(t, err, ` or everynth; did you mean everynth?`)
	_, err = rulefile.Parse("r.yaml", []byte("everynth:\n  - resource: a\n    each: 3\n  - {resource: b}\n  - {resource: c, n: 1}\n"))
	require.EqualError(t, err, `r.yaml:3:5: everynth rule on "a": unknown field "each"; did you mean n?
r.yaml:4:5: everynth rule on "b": n is missing; want which calls are refused
r.yaml:5:22: everynth rule on "c": n is 1; want 2 to 1000000`)

	yaml, err := rulefile.YAML(third)
	require.NoError(t, err)
	require.Equal(t, "everynth:\n  - id: third\n    resource: GET /orders\n    n: 3\n", string(yaml))
	for name, write := range map[string]func(leapgate.Rules) ([]byte, error){"r.yaml": rulefile.YAML, "r.json": rulefile.JSON} {
		data, err := write(third)
		require.NoError(t, err)
		rules, err := rulefile.Parse(name, data)
		require.NoError(t, err)
		require.Equal(t, third, rules)
	}

	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("# Limits.\neverynth:\n  - id: third # of orders\n    resource: GET /orders\n    n: 3\n"), 0o600))
	gate := newGate(t)
	watcher, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer watcher.Close()
	require.Equal(t, 1, watcher.Status().Rules["everynth"])
	require.Equal(t, path, gate.Rules().EveryNth[0].Source)
	require.NoError(t, watcher.Save(func() (leapgate.Rules, error) {
		rules := watcher.Rules()
		rules.EveryNth[0].N = 5
		return rules, nil
	}))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "# Limits.\neverynth:\n  - id: third # of orders\n    resource: GET /orders\n    n: 5\n", string(data))
	require.EqualValues(t, 5, gate.Rules().EveryNth[0].N)
}

func TestMetrics_OfTheKind(t *testing.T) {
	gate := newGate(t)
	require.NoError(t, gate.LoadRules(third))
	for range 6 {
		call(gate, "GET /orders")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(leapprom.Must(gate, leapprom.Config{}))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP leapgate_blocks_total Calls that a rule has blocked.
# TYPE leapgate_blocks_total counter
leapgate_blocks_total{gate="default",guard="everynth",resource="GET /orders",rule="third"} 2
# HELP leapgate_rule_threshold Threshold of a rule, as it was loaded.
# TYPE leapgate_rule_threshold gauge
leapgate_rule_threshold{gate="default",guard="everynth",resource="GET /orders",rule="third"} 3
`), "leapgate_blocks_total", "leapgate_rule_threshold"))
}

func TestDashboard_ShowsAndEdits(t *testing.T) {
	gate := newGate(t)
	require.NoError(t, gate.LoadRules(third))
	for range 3 {
		call(gate, "GET /orders")
	}
	d := dashboard.Handler(gate, dashboard.Config{
		Authorize: func(*http.Request) (string, error) { return "ann", nil }, Logger: slog.New(slog.DiscardHandler),
	})
	ask := func(method, path, body, ifMatch string) (status int, etag string, v map[string]any) {
		r := httptest.NewRequest(method, "http://localhost/leapgate/api/v1/"+path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if ifMatch != "" {
			r.Header.Set("If-Match", ifMatch)
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Body.Len() > 0 {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v), w.Body.String())
		}
		return w.Code, w.Header().Get("ETag"), v
	}

	status, _, v := ask(http.MethodGet, "rules", "", "")
	require.Equal(t, http.StatusOK, status)
	first := v["rules"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"everynth", "third"}, []any{first["kind"], first["id"]})
	require.Equal(t, map[string]any{"id": "third", "resource": "GET /orders", "n": 3.0}, first["rule"])

	status, _, v = ask(http.MethodGet, "resource?name=GET+%2Forders", "", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, jsonOf(t, v["rules"]), `"everynth"`)

	status, etag, v := ask(http.MethodPost, "rules?kind=everynth", `{"resource": "b", "n": 7}`, "")
	require.Equal(t, http.StatusCreated, status, v)
	require.Equal(t, []any{"everynth", "b/1"}, []any{v["kind"], v["id"]})
	status, etag, v = ask(http.MethodPut, "rule?kind=everynth&id=b/1", `{"resource": "b", "n": 8, "mode": "shadow"}`, etag)
	require.Equal(t, http.StatusOK, status, v)
	require.Equal(t, everynth.Rule{ID: "b/1", Resource: "b", N: 8, Mode: rule.Shadow}, gate.Rules().EveryNth[1])
	status, _, v = ask(http.MethodPut, "rule?kind=everynth&id=b/1", `{"resource": "b", "n": 1}`, etag)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, jsonOf(t, v), "n is 1; want 2 to 1000000")
	status, _, _ = ask(http.MethodDelete, "rule?kind=everynth&id=b/1", "", etag)
	require.Equal(t, http.StatusNoContent, status)
	require.Len(t, gate.Rules().EveryNth, 1)

	t.Run("what the form is made from", func(t *testing.T) {
		status, _, v := ask(http.MethodGet, "kinds", "", "")
		require.Equal(t, http.StatusOK, status)
		all := v["kinds"].([]any)
		last := all[len(all)-1].(map[string]any)
		require.Equal(t, "everynth", last["name"])
		var names []any
		for _, f := range last["fields"].([]any) {
			names = append(names, f.(map[string]any)["name"])
		}
		require.Equal(t, []any{"id", "resource", "match", "n", "mode"}, names)
		require.Contains(t, jsonOf(t, last), `"hint":"Which calls are refused.","label":"Every"`)
	})
}

func jsonOf(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
