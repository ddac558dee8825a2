package docs_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
)

// logged protects a mux, and writes what was decided about each request to a file.
func logged(gate *leapgate.Gate, mux *http.ServeMux, file *os.File) (http.Handler, error) {
	protect, err := leaphttp.New(leaphttp.Config{Gate: gate, Mux: mux, DecisionLog: file})
	if err != nil {
		return nil, err
	}
	return protect(mux), nil
}

func TestReplay_OfTheLogOfTheMiddleware(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "decisions.log")
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		defer gate.Close()
		mux := http.NewServeMux()
		mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
		file, err := os.Create(name)
		require.NoError(t, err)
		h, err := logged(gate, mux, file)
		require.NoError(t, err)
		for _, path := range []string{"/items/1", "/items/2"} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		}
		synctest.Wait()
		require.NoError(t, file.Close())
	})
	log, err := accesslog.Open([]string{name}, accesslog.Options{})
	require.NoError(t, err)
	requests := 0
	for r, err := range log.Requests {
		require.NoError(t, err)
		require.Equal(t, "GET /items/{id} 192.0.2.1", r.Resource+" "+r.Key)
		requests++
	}
	require.Equal(t, 2, requests)
}

// watched loads the rules and limits of a file, and does so again whenever the file changes. The page shows both. Close
// the watcher and the page when the program ends.
func watched(path string, gate *leapgate.Gate, perClient *limit.RateLimiter) (*rulefile.Watcher, *dashboard.Dashboard, error) {
	watcher, err := rulefile.Watch(rulefile.Config{
		Path: path, Gate: gate,
		Limits: map[string]rulefile.Limiter{"per-client": perClient},
	})
	if err != nil {
		return nil, nil, err
	}
	page, err := dashboard.New(gate, dashboard.Config{
		Limiters:    []dashboard.Limiter{perClient},
		RuleSources: []dashboard.RuleSource{watcher},
	})
	if err != nil {
		return nil, nil, errors.Join(err, watcher.Close())
	}
	return watcher, page, nil
}

// What the page has for shadow is loaded, limits too, and the dashboard has them.
func TestReplay_LimitsInShadow(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "rules.yaml")
	page, err := os.ReadFile("replay.md")
	require.NoError(t, err)
	shadow, _, _ := bytes.Cut(bytes.Split(page, []byte("```yaml\n"))[2], []byte("```"))
	require.NoError(t, os.WriteFile(name, shadow, 0o600))
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	perClient, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 1, MaxLimit: 100, Window: time.Minute})
	require.NoError(t, err)
	watcher, dash, err := watched(name, gate, perClient)
	require.NoError(t, err)
	defer watcher.Close()
	defer dash.Close()
	for range 51 {
		d, err := perClient.AllowN(t.Context(), "192.0.2.1", 1)
		require.NoError(t, err)
		require.True(t, d.Allowed)
	}
	w := httptest.NewRecorder()
	dash.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/leapgate/api/v1/limiters", http.NoBody))
	require.Contains(t, w.Body.String(), `"per-client"`)
	require.Contains(t, w.Body.String(), `"shadow"`)
	require.Len(t, gate.FlowRules(), 1)
}

// The rules of the page are good.
func TestReplay_Rules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("replay.md")
	require.NoError(t, err)
	rules := 0
	for _, part := range bytes.Split(page, []byte("```yaml\n"))[1:] {
		text, _, _ := bytes.Cut(part, []byte("```"))
		_, err := rulefile.ParseFile("replay.md", text)
		require.NoError(t, err)
		rules++
	}
	require.Equal(t, 2, rules)
}
