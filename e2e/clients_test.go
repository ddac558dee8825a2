//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/dunglas/httpsfv"
	"github.com/go-chi/chi/v5"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/stat"
)

func newLog(t *testing.T, name string, most int64, window time.Duration) *limit.RateLimiter {
	t.Helper()
	l, err := limit.NewLog(limit.Config{Name: name, Limit: most, Window: window})
	require.NoError(t, err)
	return l
}

// start serves h on the loopback.
func start(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// get returns the status, the header and the body.
func get(t *testing.T, client *http.Client, url string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(text)
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// TestRetryableHTTP: a client that knows nothing of Leapgate waits what Retry-After says,
// and then succeeds, with the first try after it.
func TestRetryableHTTP(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	guarded := leaphttp.Handler(hello, leaphttp.Config{
		Limits: []leaphttp.Limit{{Limiter: newLog(t, "client", 1, 2500*time.Millisecond)}},
	})
	server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		guarded.ServeHTTP(w, r)
	}))
	client := retryablehttp.NewClient()
	client.Logger = nil
	client.RetryWaitMin, client.RetryWaitMax = time.Millisecond, 2*time.Millisecond // Retry-After has the say

	call := func() int {
		response, err := client.Get(server.URL)
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode
	}
	require.Equal(t, 200, call())
	began := time.Now()
	require.Equal(t, 200, call())
	took := time.Since(began)
	require.EqualValues(t, 3, asked.Load(), "one pass, one refusal, one pass")
	require.GreaterOrEqual(t, took, 3*time.Second, "2.5 s, rounded up")
}

func TestHTTPSFV(t *testing.T) {
	t.Parallel()
	server := start(t, leaphttp.Handler(hello, leaphttp.Config{Limits: []leaphttp.Limit{
		{Limiter: newLog(t, "burst", 2, time.Minute)},
		{Limiter: newLog(t, `per "day"\`, 1000, 24*time.Hour)},
		{Limiter: newLog(t, "odd", 7, 1500*time.Millisecond)},
	}}))
	for i, status := range []int{200, 200, 429} {
		got, header, _ := get(t, server.Client(), server.URL)
		require.Equal(t, status, got)

		policies, err := httpsfv.UnmarshalList(header["Ratelimit-Policy"])
		require.NoError(t, err)
		standing, err := httpsfv.UnmarshalList(header["Ratelimit"])
		require.NoError(t, err)
		require.Len(t, policies, 3)
		require.Len(t, standing, 3)
		for j, want := range []struct {
			name string
			q, w any
		}{{"burst", int64(2), int64(60)}, {`per "day"\`, int64(1000), int64(86400)}, {"odd", int64(7), nil}} {
			policy, now := policies[j].(httpsfv.Item), standing[j].(httpsfv.Item)
			require.Equal(t, want.name, policy.Value)
			require.Equal(t, want.name, now.Value)
			q, _ := policy.Params.Get("q")
			w, _ := policy.Params.Get("w")
			require.Equal(t, want.q, q)
			require.Equal(t, want.w, w)
			r, _ := now.Params.Get("r")
			until, _ := now.Params.Get("t")
			require.IsType(t, int64(0), r)
			if i == 2 && j == 1 {
				require.Nil(t, until, "it could be used for longer than the refusal lasts")
			} else {
				require.IsType(t, int64(0), until)
			}
			if j == 0 {
				require.EqualValues(t, max(0, 1-i), r)
				require.Contains(t, []int64{59, 60}, until)
			}
		}
	}
}

// TestTransport_RealServer: the library's client against the library's server.
func TestTransport_RealServer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	guarded := leaphttp.Handler(hello, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, "client", 1, time.Second)}}})
	server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		guarded.ServeHTTP(w, r)
	}))
	gate := leapgate.Must(leapgate.Config{})
	client := &http.Client{Transport: leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate})}
	t.Cleanup(client.CloseIdleConnections)
	_, _, text := get(t, client, server.URL)
	require.Equal(t, "hello\n", text)
	status, _, _ := get(t, client, server.URL)
	require.Equal(t, 429, status)
	for range 100 {
		_, err := client.Get(server.URL) //nolint:bodyclose,noctx // it is refused
		require.ErrorIs(t, err, leapgate.ErrBlocked)
	}
	require.EqualValues(t, 2, asked.Load())
	time.Sleep(time.Second) // as the server has asked
	status, _, _ = get(t, client, server.URL)
	require.Equal(t, 200, status)
	require.EqualValues(t, 3, gate.Snapshot()[0].Pass)
}

func of(gate *leapgate.Gate, name string) (s stat.Snapshot) {
	for _, s = range gate.Snapshot() {
		if s.Resource == name {
			return s
		}
	}
	return stat.Snapshot{}
}

func TestWebsocket(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /echo", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	})
	server := start(t, leaphttp.Handler(mux, leaphttp.Config{
		Gate: gate, Mux: mux, Limits: []leaphttp.Limit{{Limiter: newLog(t, "client", 1, time.Hour)}},
	}))
	conn, response, err := websocket.Dial(t.Context(), server.URL+"/echo", nil) //nolint:bodyclose // it has none
	require.NoError(t, err)
	defer conn.CloseNow()
	require.Equal(t, `"client";r=0;t=3600`, response.Header.Get("RateLimit"))
	for i := range 100 {
		message := fmt.Sprint("message ", i)
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
		_, echo, err := conn.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, message, string(echo))
	}
	require.EqualValues(t, 1, of(gate, "GET /echo").Concurrency)

	_, response, err = websocket.Dial(t.Context(), server.URL+"/echo", nil) //nolint:bodyclose // Dial has read it
	require.Error(t, err)
	require.Equal(t, 429, response.StatusCode)

	require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
	require.Eventually(t, func() bool {
		s := of(gate, "GET /echo")
		return s.Success == 1 && s.Concurrency == 0 && s.Exception == 0
	}, 5*time.Second, 10*time.Millisecond)
}

// TestStreams has server-sent events over HTTP/1 and HTTP/2, each of which arrives before
// the next is sent.
func TestStreams(t *testing.T) {
	t.Parallel()
	for _, major := range []int{1, 2} {
		gate := leapgate.Must(leapgate.Config{})
		next := make(chan struct{})
		server := httptest.NewUnstartedServer(leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, canHijack := w.(http.Hijacker)
			if r.ProtoMajor != major || canHijack != (major == 1) {
				http.Error(w, fmt.Sprint(r.Proto, canHijack), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n", i)
				w.(http.Flusher).Flush()
				<-next
			}
		}), leaphttp.Config{Gate: gate}))
		server.EnableHTTP2 = major == 2
		server.StartTLS()
		t.Cleanup(server.Close)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		lines := bufio.NewReader(response.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("data: %d\n", i), line)
			require.EqualValues(t, 1, of(gate, "GET (unmatched)").Concurrency)
			next <- struct{}{}
		}
		_ = response.Body.Close()
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "large.txt")
	content := strings.Repeat("0123456789abcdef", 1<<16)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	server := start(t, leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, path)
	}), leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})}))
	_, _, text := get(t, server.Client(), server.URL)
	require.Equal(t, content, text)
}

// TestChi has the middleware around a chi router and inside its routes.
func TestChi(t *testing.T) {
	t.Parallel()
	outside, inside := leapgate.Must(leapgate.Config{}), leapgate.Must(leapgate.Config{})
	route := func(r *http.Request) string {
		if c := chi.RouteContext(r.Context()); c != nil {
			return c.RoutePattern()
		}
		return ""
	}
	r := chi.NewRouter()
	r.Use(leaphttp.Must(leaphttp.Config{Gate: outside, Limits: []leaphttp.Limit{{Limiter: newLog(t, "all", 2, time.Hour)}}}))
	r.With(leaphttp.Must(leaphttp.Config{Gate: inside, Route: route})).Get("/orders/{id}", hello)
	server := start(t, r)
	for i, want := range []int{200, 404, 429} {
		path := []string{"/orders/7", "/nothing", "/orders/8"}[i]
		status, _, _ := get(t, server.Client(), server.URL+path)
		require.Equal(t, want, status)
	}
	require.EqualValues(t, 1, of(inside, "GET /orders/{id}").Pass)
	require.EqualValues(t, 2, of(outside, "GET (unmatched)").Pass, "around the router there is no route yet")
}

// TestClientGoesAway: the call of a client that hangs up ends, and is no exception of its
// own.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	entered := make(chan struct{})
	server := start(t, leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		leaphttp.SetError(w, r.Context().Err())
	}), leaphttp.Config{Gate: gate}))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	go func() { <-entered; cancel() }()
	_, err = server.Client().Do(r) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool {
		s := of(gate, "GET (unmatched)")
		return s.Success == 1 && s.Exception == 0 && s.Concurrency == 0
	}, 5*time.Second, 10*time.Millisecond)
}

// TestClientGoesAway_FromAReverseProxy: what a proxy answers when its client has hung up says
// nothing about the backend, whether the answer has begun or not.
func TestClientGoesAway_FromAReverseProxy(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		gate := leapgate.Must(leapgate.Config{})
		entered := make(chan struct{})
		backend := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if begun {
				_, _ = io.WriteString(w, "begun")
				_ = http.NewResponseController(w).Flush()
			}
			close(entered)
			<-r.Context().Done()
		}))
		target, err := url.Parse(backend.URL)
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.ErrorLog, proxy.FlushInterval = log.New(io.Discard, "", 0), -1
		server := start(t, leaphttp.Handler(proxy, leaphttp.Config{Gate: gate}))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		go func() { <-entered; cancel() }()
		response, err := server.Client().Do(r)
		if err == nil {
			_, err = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Eventually(t, func() bool {
			s := of(gate, "GET (unmatched)")
			return s.Success == 1 && s.Ignored == 1 && s.Exception == 0 && s.Concurrency == 0
		}, 5*time.Second, 10*time.Millisecond)
	}
}
