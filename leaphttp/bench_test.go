package leaphttp_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// response is a writer that costs nothing but its header, which a server also makes for
// each request.
type response struct {
	header http.Header
	status int
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) Write(b []byte) (int, error) { return len(b), nil }
func (w *response) WriteHeader(status int)      { w.status = status }
func (w *response) Flush()                      {}

// answer is a handler as they are: it sets a field and writes.
var answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = plain
	_, _ = io.WriteString(w, "hello")
})

var plain = []string{"text/plain"}

// cases are ways to guard one handler. The first one is the floor.
type benchCase struct {
	name    string
	allocs  float64 // at most, beyond the bare handler
	address string
	make    func(tb testing.TB) http.Handler
}

func counter(tb testing.TB, name string) limit.Limiter {
	tb.Helper()
	l, err := limit.NewCounter(limit.Config{Name: name, Limit: 16_000_000, Window: time.Minute})
	require.NoError(tb, err)
	return l
}

var benchCases = []benchCase{
	{"bare", 0, "203.0.113.7:4711", func(testing.TB) http.Handler { return answer }},
	{"gate", 1, "203.0.113.7:4711", func(tb testing.TB) http.Handler {
		return leaphttp.Handler(answer, leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})})
	}},
	{"limit, draft headers", 2, "203.0.113.7:4711", func(tb testing.TB) http.Handler {
		return leaphttp.Handler(answer, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: counter(tb, "client")}}})
	}},
	{"gate and limit, draft headers", 2, "203.0.113.7:4711", func(tb testing.TB) http.Handler {
		return leaphttp.Handler(answer, leaphttp.Config{
			Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{{Limiter: counter(tb, "client")}},
		})
	}},
	{"gate and limit, draft headers, IPv6", 3, "[2001:db8::1]:4711", func(tb testing.TB) http.Handler {
		return leaphttp.Handler(answer, leaphttp.Config{
			Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{{Limiter: counter(tb, "client")}},
		})
	}},
	{"gate and two limits, draft headers", 3, "203.0.113.7:4711", func(tb testing.TB) http.Handler {
		address := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()})
		return leaphttp.Handler(answer, leaphttp.Config{Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{
			{Limiter: counter(tb, "client"), Key: address.Key},
			{Limiter: counter(tb, "key"), Key: leaphttp.APIKey("X-Api-Key")},
		}})
	}},
	{"gate and limit, no headers", 1, "203.0.113.7:4711", func(tb testing.TB) http.Handler {
		return leaphttp.Handler(answer, leaphttp.Config{
			Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{{Limiter: counter(tb, "client")}}, Headers: leaphttp.NoHeaders,
		})
	}},
	{"refused", 8, "203.0.113.7:4711", func(tb testing.TB) http.Handler {
		l, err := limit.NewCounter(limit.Config{Name: "client"})
		require.NoError(tb, err)
		return leaphttp.Handler(answer, leaphttp.Config{Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{{Limiter: l}}})
	}},
}

func (c *benchCase) request() *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "/orders/7", http.NoBody) //nolint:noctx // as a server has it
	r.Pattern, r.RemoteAddr = "GET /orders/{id}", c.address
	r.Header.Set("X-Api-Key", "b1946ac92492d2347c6235b4d2611184")
	return r
}

// serve is one request, whose header is new.
func serve(h http.Handler, r *http.Request) {
	h.ServeHTTP(&response{header: make(http.Header, 4)}, r)
}

func BenchmarkHandler(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			h := c.make(b)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				r := c.request()
				for p.Next() {
					serve(h, r)
				}
			})
		})
	}
}

// mux is a ServeMux, bare and guarded: the middleware around it asks for the route, and
// then it routes once more.
func mux() *http.ServeMux {
	m := http.NewServeMux()
	m.Handle("GET /orders/{id}", answer)
	m.Handle("GET /healthz", answer)
	return m
}

func guardedMux(tb testing.TB) http.Handler {
	tb.Helper()
	m := mux()
	return leaphttp.Handler(m, leaphttp.Config{
		Gate: leapgate.Must(leapgate.Config{}), Mux: m, Limits: []leaphttp.Limit{{Limiter: counter(tb, "client")}}, Exclude: []string{"/healthz"},
	})
}

func BenchmarkMux(b *testing.B) {
	for name, h := range map[string]http.Handler{"bare": mux(), "guarded": guardedMux(b)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				r := benchCases[0].request()
				for p.Next() {
					serve(h, r)
				}
			})
		})
	}
}
