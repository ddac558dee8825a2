package leaphttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// writers with each set of optional methods.
type (
	flushes  struct{ called *[]string }
	hijacks  struct{ called *[]string }
	onlyBase struct{ http.ResponseWriter }
)

func (f flushes) Flush() { *f.called = append(*f.called, "Flush") }

func (h hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*h.called = append(*h.called, "Hijack")
	return nil, nil, nil
}

// TestWriter_FlushesAndHijacksIfTheServerDoes: handlers check for Flush and Hijack, and must see neither
// more nor fewer than without the middleware.
func TestWriter_FlushesAndHijacksIfTheServerDoes(t *testing.T) {
	t.Parallel()
	var called []string
	f, h := flushes{&called}, hijacks{&called}
	plain := func() http.ResponseWriter { return onlyBase{httptest.NewRecorder()} }
	for want, w := range map[string]http.ResponseWriter{
		"": plain(),
		"Flush Flush": struct {
			http.ResponseWriter
			flushes
		}{plain(), f},
		"Hijack Hijack": struct {
			http.ResponseWriter
			hijacks
		}{plain(), h},
		"Flush Hijack Flush Hijack": struct {
			http.ResponseWriter
			flushes
			hijacks
		}{plain(), f, h},
	} {
		called = nil
		leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			if h, ok := w.(http.Hijacker); ok {
				_, _, _ = h.Hijack()
			}
			control := http.NewResponseController(w)
			assert.Equal(t, strings.Contains(want, "Flush"), control.Flush() == nil)
			_, _, err := control.Hijack()
			assert.Equal(t, strings.Contains(want, "Hijack"), err == nil)
			assert.ErrorIs(t, control.SetReadDeadline(time.Time{}), http.ErrNotSupported)
		}), leaphttp.Config{Gate: gates.New(t, gatetest.NewClock())}).ServeHTTP(w, from("192.0.2.1:1"))
		require.Equal(t, want, strings.Join(called, " "))
	}
}

// closes is a writer that implements http.CloseNotifier.
type closes struct {
	http.ResponseWriter
	closed chan bool
}

func (c closes) CloseNotify() <-chan bool { return c.closed }

// TestWriter_CloseNotify: gin's Context.Stream panics if the writer does not implement it.
func TestWriter_CloseNotify(t *testing.T) {
	t.Parallel()
	for _, implemented := range []bool{false, true} {
		w, closed := http.ResponseWriter(httptest.NewRecorder()), make(chan bool, 1)
		ctx, hangUp := context.WithCancel(t.Context())
		if implemented {
			w, hangUp = closes{w, closed}, func() { closed <- true }
		}
		leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			notified := w.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // gin needs it
			assert.Empty(t, notified)
			hangUp()
			assert.True(t, <-notified)
		}), leaphttp.Config{Gate: gates.New(t, gatetest.NewClock())}).ServeHTTP(w, from("192.0.2.1:1").WithContext(ctx))
	}
}

// unwrapping is a writer of another middleware.
type unwrapping struct{ http.ResponseWriter }

func (u unwrapping) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// sends is a writer that can send files by itself.
type sends struct {
	http.ResponseWriter
	sent []io.Reader
}

func (s *sends) ReadFrom(r io.Reader) (int64, error) {
	s.sent = append(s.sent, r)
	return io.Copy(io.Discard, struct{ io.Reader }{r})
}

func TestWriter_ReadFromGoesThrough(t *testing.T) {
	t.Parallel()
	w := &sends{ResponseWriter: onlyBase{httptest.NewRecorder()}}
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte("file"), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	source := io.LimitReader(file, 4)
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, err := io.Copy(w, source)
		assert.NoError(t, err)
		assert.EqualValues(t, 4, n)
	}), leaphttp.Config{Gate: gates.New(t, gatetest.NewClock())})
	h.ServeHTTP(w, from("192.0.2.1:1"))
	require.Equal(t, []io.Reader{source}, w.sent)

	recorder := httptest.NewRecorder() // which cannot
	source = io.LimitReader(strings.NewReader("file"), 4)
	h.ServeHTTP(recorder, from("192.0.2.1:1"))
	require.Equal(t, "file", recorder.Body.String())
}

// TestWriter_StatusAfterHijack: the answer is the handler's own then.
func TestWriter_StatusAfterHijack(t *testing.T) {
	t.Parallel()
	var called []string
	gate := gates.New(t, gatetest.NewClock())
	leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _, _ = w.(http.Hijacker).Hijack()
		w.WriteHeader(http.StatusInternalServerError) // which a server ignores
	}), leaphttp.Config{Gate: gate}).ServeHTTP(struct {
		http.ResponseWriter
		hijacks
	}{httptest.NewRecorder(), hijacks{&called}}, from("192.0.2.1:1"))
	require.Zero(t, snapshot(gate, "GET (unmatched)").Exception)
}

var errFlush = errors.New("the client has gone")

type failing struct{ http.ResponseWriter }

func (failing) Flush()            {}
func (failing) FlushError() error { return errFlush }

func TestWriter_FlushErrorIsTold(t *testing.T) {
	t.Parallel()
	leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.ErrorIs(t, http.NewResponseController(w).Flush(), errFlush)
	}), leaphttp.Config{Gate: gates.New(t, gatetest.NewClock())}).ServeHTTP(failing{httptest.NewRecorder()}, from("192.0.2.1:1"))
}

func TestSetError_FindsEveryGate(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	outer, inner := gates.New(t, clock), gates.New(t, clock)
	failure := errors.New("no")
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			assert.True(t, leaphttp.SetError(unwrapping{w}, failure))
		}), leaphttp.Config{Gate: inner}).ServeHTTP(unwrapping{w}, r)
	}), leaphttp.Config{Gate: outer})
	get(h, "/")
	require.EqualValues(t, 1, snapshot(outer, "GET (unmatched)").Exception)
	require.EqualValues(t, 1, snapshot(inner, "GET (unmatched)").Exception)

	require.False(t, leaphttp.SetError(httptest.NewRecorder(), failure))
	require.False(t, leaphttp.SetError(nil, failure))
	get(leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.False(t, leaphttp.SetError(w, failure), "there is no gate")
	}), leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, clock, "c", 1, time.Second)}}}), "/")
}

// TestWriter_OnAServer has a real server behind pipes: early hints, streaming, deadlines
// and a connection taken over.
func TestWriter_OnAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := gatetest.NewClock()
		gate := gates.New(t, clock)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			assert.NoError(t, control.SetWriteDeadline(time.Now().Add(time.Minute)))
			assert.NoError(t, control.EnableFullDuplex())
			w.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				_, _ = io.WriteString(w, "data: x\n\n")
				assert.NoError(t, control.Flush())
				time.Sleep(time.Second)
			}
		})
		mux.HandleFunc("GET /socket", func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			_, _ = rw.WriteString(line)
			_ = rw.Flush()
			time.Sleep(time.Second)
		})
		l := newLog(t, clock, "c", 10, time.Second)
		pipes := newPipes()
		server := &http.Server{Handler: leaphttp.Handler(mux, leaphttp.Config{
			Gate: gate, Mux: mux, Limits: []leaphttp.Limit{{Limiter: l, Key: by("k")}},
		})}
		go func() { _ = server.Serve(pipes) }()
		defer server.Close()

		conn, err := pipes.dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		reader := bufio.NewReader(conn)

		start := time.Now()
		_, _ = io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, `"c";r=9;t=1`, response.Header.Get("RateLimit"))
		first := make([]byte, 9)
		_, err = io.ReadFull(response.Body, first)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "it was flushed")
		synctest.Wait()
		require.EqualValues(t, 1, snapshot(gate, "GET /events").Concurrency)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, 3*time.Second, time.Since(start))

		_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\n\r\n")
		response, err = http.ReadResponse(reader, nil) //nolint:bodyclose // a 101 has none
		require.NoError(t, err)
		require.Equal(t, 101, response.StatusCode)
		_, _ = io.WriteString(conn, "hello\n")
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
		synctest.Wait()
		require.EqualValues(t, 1, snapshot(gate, "GET /socket").Concurrency, "as long as the handler")
		time.Sleep(2 * time.Second)
		s := snapshot(gate, "GET /socket")
		require.Equal(t, []int64{1, 0, 0}, []int64{s.Success, s.Exception, s.Concurrency})
	})
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// A proxy copies from a server that fails before the first byte, and says so.
func TestWriter_CopyThatFailsBeforeItBeginsIsNoAnswer(t *testing.T) {
	t.Parallel()
	gate := gates.New(t, gatetest.NewClock())
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n, err := io.Copy(w, iotest.ErrReader(io.ErrUnexpectedEOF)); n == 0 && err != nil {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		}
	}), leaphttp.Config{Gate: gate, Route: func(*http.Request) string { return "/proxy" }})
	require.Equal(t, http.StatusBadGateway, do(h, from("192.0.2.1:1")).Code)
	require.EqualValues(t, 1, snapshot(gate, "GET /proxy").Exception)
}
