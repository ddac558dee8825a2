package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
)

// pageFiles are the files of the page, as they lie in the folder.
func pageFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS("page"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path.Join("page", name))
		files[name] = string(data)
		return err
	}))
	require.Contains(t, files, "index.html")
	return files
}

func fetch(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPage_IsServedWithAllItsFiles(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(newGate(t, newClock()), dashboard.Config{})
	types := map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	}
	for name, text := range pageFiles(t) {
		require.Contains(t, types, path.Ext(name), "a file of another type is not served: %s", name)
		require.NotContains(t, name, "/", "the page is flat")
		w := fetch(d, http.MethodGet, "/leapgate/"+name)
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Equal(t, sha256.Sum256([]byte(text)), sha256.Sum256(w.Body.Bytes()), name)
		require.Equal(t, types[path.Ext(name)], w.Header().Get("Content-Type"))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "+
			"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
			w.Header().Get("Content-Security-Policy"))

		again := fetch(d, http.MethodGet, "/leapgate/"+name, "If-None-Match", w.Header().Get("ETag"))
		require.Equal(t, http.StatusNotModified, again.Code)
		require.Empty(t, again.Body.String())
		head := fetch(d, http.MethodHead, "/leapgate/"+name)
		require.Equal(t, http.StatusOK, head.Code)
		require.Empty(t, head.Body.String())
	}
	require.Equal(t, http.StatusNotFound, fetch(d, http.MethodGet, "/leapgate/nothing.js").Code)
	require.Equal(t, http.StatusNotFound, fetch(d, http.MethodGet, "/leapgate/page.go").Code)
	post := fetch(d, http.MethodPost, "/leapgate/")
	require.Equal(t, http.StatusMethodNotAllowed, post.Code)
	require.Equal(t, "GET, HEAD", post.Header().Get("Allow"))
}

func TestPage_WorksBelowAnyPath(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(newGate(t, newClock(), flow.Rule{Resource: "orders"}), dashboard.Config{})
	below := func(pattern string, h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(pattern, h)
		return mux
	}
	for base, h := range map[string]http.Handler{
		"/":                 d,
		"/leapgate/":        below("/leapgate/", d),
		"/ops/a%2Fb/":       d,
		"/ops/leapgate/":    below("/ops/leapgate/", http.StripPrefix("/ops/leapgate", d)),
		"/stripped/":        below("/stripped/", http.StripPrefix("/stripped/", d)),
		"/api/v1/leapgate/": below("/api/v1/leapgate/", http.StripPrefix("/api/v1/leapgate", d)),
	} {
		w := fetch(h, http.MethodGet, base)
		require.Equal(t, http.StatusOK, w.Code, base)
		require.Contains(t, w.Body.String(), "<!doctype html>", base)
		require.Equal(t, http.StatusOK, fetch(h, http.MethodGet, base+"index.html").Code, base)
		w = fetch(h, http.MethodGet, base+"api/v1/resource?name=orders")
		require.Equal(t, http.StatusOK, w.Code, base)
		require.Contains(t, w.Body.String(), `"name":"orders"`)
		require.Equal(t, http.StatusNotFound, fetch(h, http.MethodGet, base+"api/v1/").Code)
	}
}

// TestPage_IsSmallAndItsOwn: what is promised of the page can be seen in its files.
func TestPage_IsSmallAndItsOwn(t *testing.T) {
	t.Parallel()
	total := 0
	// A namespace is a name and no address: nothing is loaded from it.
	namespace := regexp.MustCompile(`http://www\.w3\.org/(1999/xhtml|2000/svg)`)
	for name, text := range pageFiles(t) {
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.DefaultCompression)
		require.NoError(t, err)
		_, err = z.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		total += packed.Len()

		own := namespace.ReplaceAllString(text, "")
		for _, foreign := range []string{
			"://", "@import", "//cdn", "Copyright", "copyright", "@license", "@preserve", "SPDX", "sourceMappingURL", "webpack", "!function(", "eval(",
			"innerHTML", "insertAdjacentHTML", "document.write", "localhost", "serviceWorker",
		} {
			require.NotContains(t, own, foreign, name)
		}
		for i, line := range strings.Split(text, "\n") {
			require.LessOrEqual(t, len(line), 300, "%s:%d looks minified", name, i+1)
		}
		switch path.Ext(name) {
		case ".html":
			require.NotRegexp(t, `(?i)<script(>|\s[^>]*>\s*[^<\s])`, text, "no script in the page")
			require.NotRegexp(t, `(?i)<style|\sstyle=|\son[a-z]+=`, text, "no style, no handler in the page")
			for _, ref := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
				require.Regexp(t, `^(#[\w/-]*|(\./)?[\w.-]+(/[\w.-]+)*)$`, ref[1], "what the page refers to is below it")
			}
		case ".js":
			for _, ref := range regexp.MustCompile(`(?m)(?:from|import)\s*\(?\s*["']([^"']*)["']`).FindAllStringSubmatch(text, -1) {
				require.Regexp(t, `^\./[\w.-]+\.js$`, ref[1])
				require.Contains(t, pageFiles(t), strings.TrimPrefix(ref[1], "./"))
			}
		case ".css":
			require.NotRegexp(t, `url\(`, text)
		}
	}
	require.Less(t, total, 40_000, "bytes of the page in all, each file packed by gzip")
	t.Logf("%d bytes packed", total)
}

func TestConfig_EveryFaultIsTold(t *testing.T) {
	t.Parallel()
	_, err := dashboard.New(nil, dashboard.Config{
		Title: strings.Repeat("x", 257), MaxViewers: 10_001, Limiters: []dashboard.Limiter{nil}, Writer: dashboard.RuleFiles(),
	})
	require.ErrorIs(t, err, dashboard.ErrConfig)
	require.EqualError(t, err, `dashboard: bad configuration: the gate is nil; want one
dashboard: bad configuration: Title is "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…, of 257 bytes; want at most 256
dashboard: bad configuration: Limiters[0] is nil; want a limiter
dashboard: bad configuration: MaxViewers is 10001; want 1 to 10000, or 0 for 32
dashboard: bad configuration: Writer is set and Authorize is not; want both, for nobody may change rules otherwise`)
	require.Panics(t, func() { dashboard.Handler(nil, dashboard.Config{}) })
	_, err = dashboard.New(newGate(t, newClock()), dashboard.Config{})
	require.NoError(t, err)
}
