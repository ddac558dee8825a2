//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// hangUp sends a request and closes the connection after a time, whatever came.
func hangUp(t *testing.T, address, user string, after time.Duration) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "GET /orders/7 HTTP/1.1\r\nHost: a\r\nX-User: %s\r\n\r\n", user)
	require.NoError(t, err)
	time.Sleep(after)
	require.NoError(t, conn.Close())
}

// TestHangingUp: a client that hangs up while it waits for its turn has used its own limit,
// and so cannot take the turns of others for long.
func TestHangingUp(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{
		{Resource: "GET (unmatched)", Threshold: 10, Behavior: flow.Pace, MaxWait: time.Second},
	}))
	perUser := newLog(t, "per-user", 5, time.Hour)
	server := start(t, leaphttp.Handler(hello, leaphttp.Config{
		Gate: gate, Limits: []leaphttp.Limit{{Limiter: perUser, Key: leaphttp.Header("X-User")}},
	}))
	address := server.Listener.Addr().String()
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() { hangUp(t, address, "eve", 30*time.Millisecond) })
		time.Sleep(5 * time.Millisecond)
	}
	all.Wait()
	require.Eventually(t, func() bool { return of(gate, "GET (unmatched)").Concurrency == 0 }, 5*time.Second, 10*time.Millisecond)
	s := of(gate, "GET (unmatched)")
	require.LessOrEqual(t, s.Pass+s.Block, int64(5), "the gate has seen no more than the limit lets through")
	require.Zero(t, perUser.Peek("eve").Remaining)

	time.Sleep(time.Second) // whatever turns were taken are over
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("X-User", "ann")
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, 200, response.StatusCode)
	}
}

// TestChi_RulesThatNeverBind: in the Use of chi a middleware knows no route, and says so.
func TestChi_RulesThatNeverBind(t *testing.T) {
	t.Parallel()
	route := func(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() }
	for _, c := range []struct {
		name  string
		mount func(r chi.Router, cfg leaphttp.Config)
		lines int
	}{
		{"Use", func(r chi.Router, cfg leaphttp.Config) {
			r.Use(leaphttp.Must(cfg))
			r.Get("/orders/{id}", hello)
		}, 1},
		{"Use with Route", func(r chi.Router, cfg leaphttp.Config) {
			cfg.Route = route
			r.Use(leaphttp.Must(cfg))
			r.Get("/orders/{id}", hello)
		}, 1},
		{"Use around a router inside", func(r chi.Router, cfg leaphttp.Config) {
			cfg.Route = route
			r.Route("/orders", func(inner chi.Router) {
				inner.Use(leaphttp.Must(cfg))
				inner.Get("/{id}", hello)
			})
		}, 1},
		{"With", func(r chi.Router, cfg leaphttp.Config) {
			cfg.Route = route
			r.With(leaphttp.Must(cfg)).Get("/orders/{id}", hello)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := leapgate.Must(leapgate.Config{})
			require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders/{id}", Threshold: 1e6}}))
			var log safeBuffer
			r := chi.NewRouter()
			c.mount(r, leaphttp.Config{Gate: gate, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			server := start(t, r)
			for i := range 100 {
				status, _, _ := get(t, server.Client(), fmt.Sprintf("%s/orders/%d", server.URL, i))
				require.Equal(t, 200, status)
			}
			require.Equal(t, c.lines, strings.Count(log.String(), "does not bind"), log.String())
		})
	}
}

// safeBuffer is a buffer that several goroutines may write to.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
