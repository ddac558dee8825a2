package leaphttp

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzQuery: a rule never counts another value than the one that a handler finds.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{
		"", "item=7", "item=7&item=8", "item=&item=8", "item", "other=1&item=7", "it%65m=7", "i+m=1&item=%37", "item=%zz&item=8",
		"item=7;item=8&item=9", "&&item==7=", "item=a+b%20c", "%zz=1&item=7", "ITEM=1&item=2", "item=\xff\x00", "item=%ff",
	} {
		f.Add(query, "item")
	}
	f.Add("a+b=1&a%2Bb=2", "a+b")
	f.Fuzz(func(t *testing.T, query, name string) {
		if name == "" {
			return
		}
		values, err := url.ParseQuery(query)
		if err != nil && len(values) == 0 && len(query) > 10_000 {
			return // more parameters than net/url reads: no handler sees any
		}
		if got := queryValue(query, name); got != values.Get(name) {
			t.Fatalf("%q of %q is %q; a handler has %q", name, query, got, values.Get(name))
		}
	})
}

// What is set before a ServeMux routes is what it sets itself.
func TestSetPathValues_AsTheMuxDoes(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "rest"}
	valuesOf := func(r *http.Request) map[string]string {
		values := map[string]string{}
		for _, name := range names {
			values[name] = r.PathValue(name)
		}
		return values
	}
	routed := 0
	for _, pattern := range []string{
		"GET /items/{a}", "/items/{a}/parts/{b}", "POST  /{a}/{b}", "/files/{a}/{rest...}", "/all/{rest...}", "/exact/{a}/{$}",
		"/below/{a}/", "/fixed", "example.com/host/{a}", "PUT example.com/{b}/host/{a}", "/spa%20ce/{a}", "/x/{a}/{b}/y", "/{$}", "/{rest...}",
	} {
		var after map[string]string
		mux := http.NewServeMux()
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { after = valuesOf(r) })
		for _, target := range []string{
			"/items/7", "/items/a%2Fb", "/items/%zz", "/items/7/parts/8", "/v/w", "/files/x/a/b%2Fc/", "/files/x/", "/all/", "/all/a/b",
			"/exact/7/", "/below/7/", "/below/7/8/9", "/fixed", "/host/7", "/v/host/7", "/spa%20ce/7", "/x/1/2/y", "/x//2/y", "/",
			"/items/%FF", "/items/a+b", "/x/1/%2e%2e/y", "/x/1/../y",
		} {
			method, _, _ := strings.Cut(pattern, " ")
			if method == pattern {
				method = "GET"
			}
			request := func() *http.Request {
				r := httptest.NewRequest(method, "http://example.com/", http.NoBody)
				if u, err := url.Parse(target); err == nil {
					r.URL = u
				} else {
					r.URL = &url.URL{Path: target}
				}
				return r
			}
			after = nil
			mux.ServeHTTP(httptest.NewRecorder(), request())
			if after == nil {
				continue // redirected, or not found
			}
			routed++
			before := request()
			setPathValues(before, pattern)
			require.Equal(t, after, valuesOf(before), "%s by %s", target, pattern)
		}
	}
	require.Greater(t, routed, 40)
	for _, pattern := range []string{"", "GET", "/{a}", "/a/{b}/c"} { // of another mux, or none
		for _, target := range []string{"", "*", "/", "a"} {
			require.NotPanics(t, func() {
				setPathValues(&http.Request{URL: &url.URL{Path: target}}, pattern)
			})
		}
	}
}
