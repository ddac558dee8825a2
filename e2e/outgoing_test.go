//go:build e2e

package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/stat"
)

// client returns one whose calls a gate admits.
func client(t *testing.T, gate *leapgate.Gate, timeout time.Duration, base *http.Transport) *http.Client {
	t.Helper()
	transport := leaphttp.MustTransport(leaphttp.TransportConfig{
		Gate: gate, Base: base, Resource: func(*http.Request) string { return "backend" },
	})
	c := &http.Client{Timeout: timeout, Transport: transport}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// eventually waits until the figures of the backend are so.
func eventually(t *testing.T, gate *leapgate.Gate, holds func(s stat.Snapshot) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return holds(of(gate, "backend")) }, 10*time.Second, 5*time.Millisecond)
}

// TestTransport_ServerThatHangs: it accepts, and says nothing. The calls are in flight until
// their time is over, and have failed then.
func TestTransport_ServerThatHangs(t *testing.T) {
	t.Parallel()
	const calls = 20
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	gate := leapgate.Must(leapgate.Config{})
	c := client(t, gate, 2*time.Second, new(http.Transport))
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			_, err := c.Get("http://" + listener.Addr().String()) //nolint:bodyclose,noctx // there is none
			if timeout, ok := errors.AsType[*url.Error](err); !ok || !timeout.Timeout() {
				t.Errorf("got %v; want a time-out", err)
			}
		})
	}
	eventually(t, gate, func(s stat.Snapshot) bool { return s.Concurrency == calls && s.Success == 0 })
	all.Wait()
	s := of(gate, "backend")
	require.Equal(t, []int64{calls, calls, calls, 0, 0}, []int64{s.Pass, s.Success, s.Exception, s.Ignored, s.Concurrency})
	require.GreaterOrEqual(t, s.MinRT, 1500*time.Millisecond)
}

// TestTransport_BodyThatHangs: a header comes and then nothing, over HTTP/1 and HTTP/2. What
// the caller does about it decides what the call was.
func TestTransport_BodyThatHangs(t *testing.T) {
	t.Parallel()
	for _, major := range []int{1, 2} {
		hang := make(chan struct{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hel")
			_ = http.NewResponseController(w).Flush()
			<-hang
		}))
		server.EnableHTTP2 = major == 2
		server.StartTLS()
		t.Cleanup(server.Close)
		t.Cleanup(func() { close(hang) })
		base := server.Client().Transport.(*http.Transport)
		for _, c := range []struct {
			name string
			use  func(t *testing.T, cancel context.CancelFunc, body io.ReadCloser)
			want [2]int64 // failures, ignored
		}{
			{"read until its time is over", func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
				t.Helper()
				_, err := io.ReadAll(body)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}, [2]int64{1, 0}},
			{"closed early", func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
				t.Helper()
				require.NoError(t, body.Close())
			}, [2]int64{0, 0}},
			{"canceled", func(_ *testing.T, cancel context.CancelFunc, _ io.ReadCloser) { cancel() }, [2]int64{0, 1}},
			{"forgotten", func(*testing.T, context.CancelFunc, io.ReadCloser) {}, [2]int64{1, 0}},
		} {
			t.Run(c.name, func(t *testing.T) {
				gate := leapgate.Must(leapgate.Config{})
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
				require.NoError(t, err)
				response, err := client(t, gate, 0, base).Do(r)
				require.NoError(t, err)
				defer response.Body.Close()
				require.Equal(t, major, response.ProtoMajor)
				require.EqualValues(t, 1, of(gate, "backend").Concurrency)
				c.use(t, cancel, response.Body)
				eventually(t, gate, func(s stat.Snapshot) bool { return s.Concurrency == 0 })
				s := of(gate, "backend")
				require.Equal(t, c.want, [2]int64{s.Exception, s.Ignored})
			})
		}
	}
}

// TestTransport_ManyRealCalls: each call of many clients ends once, with the outcome that it
// has.
func TestTransport_ManyRealCalls(t *testing.T) {
	t.Parallel()
	const callers, calls = 8, 300
	statuses := []int{200, 404, 429, 500, 501, 503}
	server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"/0": 200, "/1": 404, "/2": 429, "/3": 500, "/4": 501, "/5": 503}[r.URL.Path])
		_, _ = w.Write(make([]byte, 10_000))
	}))
	gate := leapgate.Must(leapgate.Config{})
	c := client(t, gate, time.Minute, &http.Transport{MaxIdleConnsPerHost: callers})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range calls {
				response, err := c.Get(server.URL + "/" + string(rune('0'+i%len(statuses)))) //nolint:noctx // it has a time-out
				if err != nil {
					t.Error(err)
					return
				}
				if i%4 != 0 { // else it is closed unread
					_, _ = io.Copy(io.Discard, response.Body)
				}
				_ = response.Body.Close()
			}
		})
	}
	all.Wait()
	s := of(gate, "backend")
	const each = callers * calls / 6
	require.Equal(t, []int64{6 * each, 6 * each, 2 * each, each, 0}, []int64{s.Pass, s.Success, s.Exception, s.Ignored, s.Concurrency})
}

// TestTransport_Websocket: through a reverse proxy whose transport a gate guards. The call
// lasts as long as the connection.
func TestTransport_Websocket(t *testing.T) {
	t.Parallel()
	backend := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
	address, err := url.Parse(backend.URL)
	require.NoError(t, err)
	gate := leapgate.Must(leapgate.Config{})
	proxy := httputil.NewSingleHostReverseProxy(address)
	proxy.Transport = client(t, gate, 0, new(http.Transport)).Transport
	front := start(t, proxy)
	conn, _, err := websocket.Dial(t.Context(), front.URL, nil) //nolint:bodyclose // it has none
	require.NoError(t, err)
	defer conn.CloseNow()
	for range 100 {
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte("ping")))
		_, echo, err := conn.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, "ping", string(echo))
	}
	require.EqualValues(t, 1, of(gate, "backend").Concurrency)
	require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
	eventually(t, gate, func(s stat.Snapshot) bool { return s.Concurrency == 0 && s.Success == 1 })
	require.Zero(t, of(gate, "backend").Exception)
}
