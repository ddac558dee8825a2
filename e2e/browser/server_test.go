//go:build e2e

package browser

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// A server serves a dashboard, and can be taken away and brought back at the same address.
type server struct {
	t       *testing.T
	address string
	url     string // of the page

	http *http.Server
	page *dashboard.Dashboard
}

func serve(t *testing.T, gate *leapgate.Gate, cfg dashboard.Config) *server {
	t.Helper()
	s := &server{t: t, address: "127.0.0.1:0"}
	s.start(gate, cfg)
	t.Cleanup(s.stop)
	return s
}

func (s *server) start(gate *leapgate.Gate, cfg dashboard.Config) {
	s.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	page, err := dashboard.New(gate, cfg)
	require.NoError(s.t, err)
	listener, err := net.Listen("tcp", s.address)
	require.NoError(s.t, err)
	s.address = listener.Addr().String()
	s.url = "http://" + s.address + "/leapgate/"
	mux := http.NewServeMux()
	mux.Handle("/leapgate/", page)
	s.page, s.http = page, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.http.Serve(listener) }()
}

// stop takes the server away, as a crash does.
func (s *server) stop() {
	_ = s.page.Close()
	_ = s.http.Close()
}

// token authorises those who know it.
func token(want string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || given != want {
			return "", dashboard.Challenge("Bearer")
		}
		return "ann", nil
	}
}

// traffic makes calls to a resource, so many every 20 ms, until the test ends.
func traffic(t *testing.T, gate *leapgate.Gate, calls map[string]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for name, n := range calls {
		running.Go(func() {
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				for range n {
					running.Go(func() {
						_ = gate.Do(ctx, name, func(context.Context) error {
							time.Sleep(3 * time.Millisecond) // it pretends to work
							return nil
						})
					})
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// quiet is a logger for those who do not look.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// everybody may change rules.
func everybody(*http.Request) (string, error) { return "somebody", nil }
