package docs_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
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
	t.Cleanup(func() { _ = log.Close() })
	requests := 0
	for r, err := range log.Requests {
		require.NoError(t, err)
		require.Equal(t, "GET /items/{id} 192.0.2.1", r.Resource+" "+r.Key)
		requests++
	}
	require.Equal(t, 2, requests)
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
