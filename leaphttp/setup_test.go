package leaphttp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/stat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLog makes a limiter whose waits are easy to tell.
func newLog(t testing.TB, c *gatetest.Clock, name string, most int64, window time.Duration) *limit.RateLimiter {
	t.Helper()
	l, err := limit.NewLog(limit.Config{Name: name, Limit: most, Window: window, Now: c.Now})
	require.NoError(t, err)
	return l
}

var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// forbidden is a handler that must not run.
func forbidden(t *testing.T) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
}

// from is a GET by a peer.
func from(peer string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/orders/7", http.NoBody)
	r.RemoteAddr = peer
	return r
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// get is a GET by the same client every time.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	return do(h, httptest.NewRequest(http.MethodGet, path, http.NoBody))
}

// by is a key that is the same for all requests.
func by(key string) leaphttp.Key { return func(*http.Request) string { return key } }

type details struct {
	Type, Title, Detail string
	Status              int
	Policies            []string `json:"violated-policies"`
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p details) {
	t.Helper()
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(t, w.Code, p.Status)
	return p
}

func snapshot(gate *leapgate.Gate, name string) stat.Snapshot {
	for _, s := range gate.Snapshot() {
		if s.Resource == name {
			return s
		}
	}
	return stat.Snapshot{}
}
