// Package docs_test runs the code of the pages in this folder.
package docs_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// TestPages_HaveTheCodeThatIsTested: the code of a page stands in the test of its name, here
// or, if it needs what the module does not have, in e2e.
func TestPages_HaveTheCodeThatIsTested(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		source := strings.TrimSuffix(page, ".md") + "_test.go"
		if _, err := os.Stat(source); err != nil {
			source = filepath.Join("..", "e2e", source)
		}
		gatetest.Page(t, page, source)
	}
}

// start serves h on the loopback.
func start(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// post sends a form and returns the answer. Its body is closed.
func post(t *testing.T, server *httptest.Server, path string, form url.Values) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer
}
