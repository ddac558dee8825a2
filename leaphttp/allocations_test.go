package leaphttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// TestAllocations holds the middleware to what it adds to a bare handler. It does not
// run in parallel: it counts the allocations of the whole program.
func TestAllocations(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	measure := func(c *benchCase) float64 {
		h, r := c.make(t), c.request()
		serve(h, r)
		return testing.AllocsPerRun(1000, func() { serve(h, r) })
	}
	bare := measure(&benchCases[0])
	for i := range benchCases[1:] {
		c := &benchCases[i+1]
		added := measure(c) - bare
		require.LessOrEqual(t, added, c.allocs, c.name)
		t.Logf("%s: %v allocations", c.name, added)
	}
}

// TestAllocations_HandlerWithoutHeader: the first field makes the map that a bare handler
// would not have needed.
func TestAllocations_HandlerWithoutHeader(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	guarded := leaphttp.Handler(silent, leaphttp.Config{
		Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{{Limiter: counter(t, "client")}},
	})
	r := benchCases[0].request()
	count := func(h http.Handler) float64 { return testing.AllocsPerRun(1000, func() { serve(h, r) }) }
	require.LessOrEqual(t, count(guarded)-count(silent), 4.0)
}

// TestAllocations_Mux: the route is looked up once more.
func TestAllocations_Mux(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	bare, guarded := mux(), guardedMux(t)
	r := benchCases[0].request()
	count := func(h http.Handler) float64 { return testing.AllocsPerRun(1000, func() { serve(h, r) }) }
	added := count(guarded) - count(bare)
	t.Logf("%v allocations", added)
	require.LessOrEqual(t, added, 4.0)
}

// TestAllocations_Transport: what stands before the body, and waits for the end of the context.
func TestAllocations_Transport(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := outgoing(t, "http://api.example.com/orders").WithContext(ctx)
	count := func(rt http.RoundTripper) float64 {
		return testing.AllocsPerRun(1000, func() {
			response, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		})
	}
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		return answering(200, &body{Reader: strings.NewReader("hello")})(r)
	})
	guarded := leaphttp.MustTransport(leaphttp.TransportConfig{Base: base, Gate: leapgate.Must(leapgate.Config{})})
	added := count(guarded) - count(base)
	t.Logf("%v allocations", added)
	require.LessOrEqual(t, added, 6.0)
}
