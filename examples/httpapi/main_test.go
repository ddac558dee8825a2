package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAPI_AsTheReadmeShows makes the requests of README.md.
func TestAPI_AsTheReadmeShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(6 * time.Second) // into the window, as the README is
		gate, err := newGate()
		if err != nil {
			t.Fatal(err)
		}
		limiters, err := newLimiters(limits{perAddress: 5, window: 10 * time.Second, perKey: 3})
		if err != nil {
			t.Fatal(err)
		}
		api, err := newAPI(gate, limiters)
		if err != nil {
			t.Fatal(err)
		}
		get := func(path, key string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.RemoteAddr = "127.0.0.1:4711"
			if key != "" {
				r.Header.Set("X-Forwarded-For", "203.0.113.7")
				r.Header.Set("X-Api-Key", key)
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			return w
		}
		for i := range 5 {
			w := get("/time", "")
			want := fmt.Sprintf(`"per-address";r=%d;t=6`, 4-i)
			if w.Code != 200 || w.Header().Get("RateLimit") != want || w.Body.String() != "00:00:06\n" {
				t.Errorf("request %d: %d %v %q; want 200 and %s", i+1, w.Code, w.Header(), w.Body, want)
			}
		}
		refused := get("/time", "")
		readme, err := os.ReadFile("README.md")
		if err != nil {
			t.Fatal(err)
		}
		if refused.Code != 429 || refused.Header().Get("Retry-After") != "6" || !strings.Contains(string(readme), refused.Body.String()) {
			t.Errorf("the sixth: %d %v %s; want 429, Retry-After 6, and what README.md has", refused.Code, refused.Header(), refused.Body)
		}
		if w := get("/healthz", ""); w.Code != 200 {
			t.Errorf("the health check: %d; want 200", w.Code)
		}
		for i, want := range []int{200, 200, 200, 429} {
			if w := get("/reports/7", "key-of-ann"); w.Code != want {
				t.Errorf("report %d: %d; want %d", i+1, w.Code, want)
			}
		}
		if w := get("/reports/7", "key-of-bob"); w.Code != 200 || w.Body.String() != "report \"7\" for bob\n" {
			t.Errorf("the report of bob: %d %q", w.Code, w.Body)
		} else if fields := strings.Join(w.Header().Values("RateLimit"), "\nRatelimit: "); !strings.Contains(string(readme), "\nRatelimit: "+fields+"\n") {
			t.Errorf("the report of bob has %s; README.md has another", fields)
		}
		if w := get("/reports/7", "no such key"); w.Code != 429 {
			t.Errorf("the sixth of an address, whatever its key: %d; want 429", w.Code)
		}
		var out strings.Builder
		summary(&out, gate)
		if !strings.Contains(string(readme), out.String()) {
			t.Errorf("the summary is\n%s; README.md has another", &out)
		}
	})
}

func TestRun_BadFlags(t *testing.T) {
	for _, args := range [][]string{{"-window", "soon"}, {"now"}, {"-x"}} {
		var out, errs strings.Builder
		if code := run(t.Context(), args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, errors %q; want 2 and some", args, code, errs.String())
		}
	}
	for _, args := range [][]string{
		{"-window", "1ns"},
		{"-per-key", "-1"},
		{"-listen", "nowhere"},
		{"-metrics", "nowhere", "-listen", "127.0.0.1:0"},
		{"-redis", "127.0.0.1:1", "-per-key", "-1"},
		{"-redis", "127.0.0.1:1", "-processes", "6"},
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), args, &out, &errs); code != 1 || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, errors %q; want 1 and some", args, code, errs.String())
		}
	}
}
