package dashboard_test

import (
	"compress/gzip"
	"crypto/sha256"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
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
	r := httptest.NewRequest(method, "http://localhost"+target, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPage_IsServedWithAllItsFiles(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{})
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

// gunzip unpacks, and returns how large it was.
func gunzip(t *testing.T, w *httptest.ResponseRecorder) (text string, size int) {
	t.Helper()
	size = w.Body.Len()
	z, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(data), size
}

func TestPage_IsPackedForThoseWhoTakeIt(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{})
	total := 0
	for name, text := range pageFiles(t) {
		plain := fetch(d, http.MethodGet, "/leapgate/"+name)
		require.Empty(t, plain.Header().Get("Content-Encoding"))
		require.Equal(t, "Accept-Encoding", plain.Header().Get("Vary"))

		packed := fetch(d, http.MethodGet, "/leapgate/"+name, "Accept-Encoding", "br, gzip, zstd")
		h := packed.Header()
		require.Equal(t, http.StatusOK, packed.Code)
		require.Equal(t, []string{"gzip", "Accept-Encoding"}, []string{h.Get("Content-Encoding"), h.Get("Vary")})
		require.Equal(t, strconv.Itoa(packed.Body.Len()), h.Get("Content-Length"))
		require.Equal(t, plain.Header().Get("Content-Type"), h.Get("Content-Type"))
		unpacked, size := gunzip(t, packed)
		require.Equal(t, text, unpacked)
		total += size

		// They are two things to a cache, and each is known again.
		require.NotEqual(t, plain.Header().Get("ETag"), h.Get("ETag"))
		for _, etag := range []string{h.Get("ETag"), "W/" + h.Get("ETag")} {
			again := fetch(d, http.MethodGet, "/leapgate/"+name, "Accept-Encoding", "gzip", "If-None-Match", etag)
			require.Equal(t, http.StatusNotModified, again.Code)
			require.Equal(t, []string{h.Get("ETag"), "Accept-Encoding"}, []string{again.Header().Get("ETag"), again.Header().Get("Vary")})
		}
		other := fetch(d, http.MethodGet, "/leapgate/"+name, "If-None-Match", h.Get("ETag"))
		require.Equal(t, http.StatusOK, other.Code)
		head := fetch(d, http.MethodHead, "/leapgate/"+name, "Accept-Encoding", "gzip")
		require.Equal(t, h, head.Header())
		require.Zero(t, head.Body.Len())
	}
	require.Less(t, total, 75_000, "bytes of the page in all, as they are sent")
	t.Logf("%d bytes are sent", total)

	for given, want := range map[string]string{
		"gzip": "gzip", "GZIP ;q=0.5": "gzip", "deflate, gzip;q=1.0, *;q=0.5": "gzip", "gzip; Q=0.001": "gzip",
		"": "", "identity": "", "br": "", "gzip;q=0": "", "gzip;q=0.000, br": "", "x-gzip2": "", "gzip;q=much": "", "*": "",
	} {
		w := fetch(d, http.MethodGet, "/leapgate/", "Accept-Encoding", given)
		require.Equal(t, want, w.Header().Get("Content-Encoding"), given)
	}
	require.Empty(t, fetch(d, http.MethodGet, "/leapgate/no.js", "Accept-Encoding", "gzip").Header().Get("Content-Encoding"))
}

func TestPage_WorksBelowAnyPath(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start), flow.Rule{Resource: "orders"}), dashboard.Config{})
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

// TestPage_IsItsOwn: what is promised of the page can be seen in its files.
func TestPage_IsItsOwn(t *testing.T) {
	t.Parallel()
	// A namespace is a name and no address: nothing is loaded from it.
	namespace := regexp.MustCompile(`http://www\.w3\.org/(1999/xhtml|2000/svg)`)
	for name, text := range pageFiles(t) {
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
}

// A form without a field would lose it, since saving replaces the whole rule. The form has the
// fields that its kind is told to have.
func TestPage_TheFormHasAllFields(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Authorize: ann, Logger: quiet()})
	for _, kind := range list(get(t, d, "kinds"), "kinds") {
		faults, _ := refused(t, d, http.StatusUnprocessableEntity, "POST", "rules?kind="+kind["name"].(string), `{"nothing": 1}`)
		_, names, found := strings.Cut(strings.Join(faults, "\n"), "want one of ")
		require.True(t, found, "%q", faults)
		names, _, _ = strings.Cut(names, "\n")
		var told []string
		for _, field := range list(kind, "fields") {
			told = append(told, field["name"].(string))
		}
		require.Greater(t, len(told), 5)
		require.Equal(t, strings.Split(names, ", "), told)
	}
}

func TestConfig_EveryFaultIsTold(t *testing.T) {
	t.Parallel()
	_, err := dashboard.New(nil, dashboard.Config{
		Title: strings.Repeat("x", 257), MaxViewers: 10_001, MaxViewersPerAddress: -1, ShowKeys: 9, Hosts: []string{"gate.example.com", "http://gate.example.com", "gate:8080", "", "*.example.com", "gäte.example"}, Limiters: []dashboard.Limiter{nil}, RuleKeepers: []dashboard.RuleKeeper{},
	})
	require.ErrorIs(t, err, dashboard.ErrConfig)
	require.EqualError(t, err, `dashboard: bad configuration: the gate is nil; want one
dashboard: bad configuration: Title is "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…, of 257 bytes; want at most 256
dashboard: bad configuration: Hosts[1] is "http://gate.example.com"; want a name without port such as "gate.example.com", ".example.com" for all names below that, or "*" for any
dashboard: bad configuration: Hosts[2] is "gate:8080"; want a name without port such as "gate.example.com", ".example.com" for all names below that, or "*" for any
dashboard: bad configuration: Hosts[3] is ""; want a name without port such as "gate.example.com", ".example.com" for all names below that, or "*" for any
dashboard: bad configuration: Hosts[4] is "*.example.com"; want a name without port such as "gate.example.com", ".example.com" for all names below that, or "*" for any
dashboard: bad configuration: Hosts[5] is "gäte.example"; want a name without port such as "gate.example.com", ".example.com" for all names below that, or "*" for any
dashboard: bad configuration: Limiters[0] is nil; want a limiter
dashboard: bad configuration: MaxViewers is 10001; want 1 to 10000, or 0 for 32
dashboard: bad configuration: MaxViewersPerAddress is -1; want 1 to MaxViewers, which is 32, or 0 for half of it
dashboard: bad configuration: ShowKeys is Audience(9); want Editors, Everybody or Nobody
dashboard: bad configuration: RuleKeepers are set and Authorize is not; want both, for nobody may change rules otherwise`)
	require.Panics(t, func() { dashboard.Handler(nil, dashboard.Config{}) })
	_, err = dashboard.New(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{})
	require.NoError(t, err)
}
