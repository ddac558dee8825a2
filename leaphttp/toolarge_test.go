package leaphttp_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// pipeListener has one connection.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (*pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// dial serves h on one connection, and returns the client's end of it.
func dial(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	client, conn := net.Pipe()
	l := &pipeListener{make(chan net.Conn, 1), make(chan struct{})}
	l.conns <- conn
	server := &http.Server{Handler: h, ReadHeaderTimeout: 1e9}
	go func() { assert.ErrorIs(t, server.Serve(l), http.ErrServerClosed) }()
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
		time.Sleep(time.Second) // the bubble's: the server waits for the client to have read
	})
	return client
}

// A client that sends too much is answered when that is found, and not when it has sent it
// all.
func TestWriter_BodyThatIsTooLargeIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	upload := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 100))
		var tooLarge *http.MaxBytesError
		if !errors.As(err, &tooLarge) {
			t.Errorf("the error is %v", err)
		}
		http.Error(w, "at most 100 bytes", http.StatusRequestEntityTooLarge)
	})
	for name, h := range map[string]http.Handler{
		"bare":                      upload,
		"gate":                      leaphttp.Handler(upload, leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})}),
		"limits":                    leaphttp.Handler(upload, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "l", 9, 1e9)}}}),
		"MaxBytesHandler, any code": http.MaxBytesHandler(leaphttp.Handler(readAll(http.StatusBadRequest), leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})}), 100),
	} {
		for _, header := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
			synctest.Test(t, func(t *testing.T) {
				conn := dial(t, h)
				body := strings.Repeat("x", 200)
				if strings.HasPrefix(header, "T") {
					body = "c8\r\n" + body + "\r\n"
				}
				_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\n"+header+"\r\n\r\n"+body)
				require.NoError(t, err)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err, "%s, %s", name, header)
				_ = response.Body.Close()
				require.True(t, response.Close, "%s, %s: what is still to come is not read", name, header)
			})
		}
	}
}

func readAll(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "too large", status)
		}
	})
}

// What was read is no reason to close a connection, nor is a 413 over HTTP/2, where a
// request can be ended by itself.
func TestWriter_ConnectionIsKeptWhereNothingIsHeld(t *testing.T) {
	t.Parallel()
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}), leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})})
	r := from("192.0.2.1:1")
	require.Empty(t, do(h, r).Header().Get("Connection"), "there is no body")
	r.ContentLength, r.ProtoMajor = 7, 2
	require.Empty(t, do(h, r).Header().Get("Connection"))
	r.ProtoMajor = 1
	require.Equal(t, "close", do(h, r).Header().Get("Connection"))
}
