// Package docs_test runs the code of the pages in this folder.
package docs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// TestPages_HaveTheCodeThatIsTested: the code of a page stands in the tests of its name, here
// and, if it needs what the module does not have, in e2e; a whole program stands in the folder of
// its name. A page of text alone needs neither.
func TestPages_HaveTheCodeThatIsTested(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		name := strings.TrimSuffix(page, ".md")
		var sources []string
		for _, source := range []string{name + "_test.go", "../e2e/" + name + "_test.go", "../e2e/redis/" + name + "_test.go", name + "/main.go"} {
			if _, err := os.Stat(source); err == nil {
				sources = append(sources, source)
			}
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		if strings.Contains(string(text), "```go") {
			gatetest.Page(t, page, sources...)
		}
	}
}

// Links to files and pages of the repository lead to what is there.
func TestPages_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(found[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			_, err := os.Stat(target)
			require.NoError(t, err, page)
		}
	}
}

// start serves h on the loopback.
func start(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// answer is what came back.
type answer struct {
	StatusCode int
	Header     http.Header
}

// send sends a request and returns the answer. It may be called by any goroutine.
func send(t *testing.T, server *httptest.Server, method string, header http.Header, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader(body))
	if !assert.NoError(t, err) {
		return answer{}
	}
	r.Header = header
	got, err := server.Client().Do(r)
	if !assert.NoError(t, err) {
		return answer{}
	}
	assert.NoError(t, got.Body.Close())
	return answer{got.StatusCode, got.Header}
}

// as sends a request of a tenant.
func as(t *testing.T, server *httptest.Server, tenant string) answer {
	t.Helper()
	return send(t, server, http.MethodGet, http.Header{"Tenant": {tenant}}, "")
}
