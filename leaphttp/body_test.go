package leaphttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// slowReader yields one byte of its text every second.
type slowReader struct{ io.Reader }

func (r slowReader) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return r.Reader.Read(p[:1])
}

// slowContent is a slowReader that can seek, as an object in a remote store.
type slowContent struct{ *strings.Reader }

func (c slowContent) Read(p []byte) (int, error)         { return slowReader{c.Reader}.Read(p) }
func (c slowContent) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, slowReader{c.Reader}) }

// Clients that send or read slowly do not make a handler slow. A handler that is slow by itself is.
func TestHandler_SlowClientsOpenNoBreaker(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("x", 20_000)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		body    string // sent at one byte per second
		reads   bool   // the client reads at once, and not after ten seconds
		want    string
	}{
		"slow senders":                     {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }, "0123456789", true, "closed"},
		"slow senders of what is not read": {func(_ http.ResponseWriter, r *http.Request) { _ = r.Body.Close() }, "0123456789", true, "closed"},
		"slow readers":                     {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }, "", false, "closed"},
		"slow readers of a file": {func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "f", time.Time{}, strings.NewReader(answer))
		}, "", false, "closed"},
		"slow readers of a copy": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(answer)))
		}, "", false, "closed"},
		"slow readers of a stream": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
		}, "", false, "closed"},
		"slow handler": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			time.Sleep(2 * time.Second)
		}, "0", true, "open"},
		"slow source": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, slowReader{strings.NewReader("123")})
		}, "", true, "open"},
		"slow source of content": {func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "f.txt", time.Time{}, slowContent{strings.NewReader("123")})
		}, "", true, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := leapgate.Must(leapgate.Config{})
				require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
					{Resource: "POST /", MinCalls: 5, SlowRatio: 0.5, SlowAfter: time.Second, OpenFor: time.Hour},
				}}))
				pipes := newPipes()
				server := &http.Server{Handler: leaphttp.Handler(c.handler, leaphttp.Config{
					Gate: gate, Route: func(*http.Request) string { return "/" },
				})}
				go func() { _ = server.Serve(pipes) }()
				defer server.Close()
				var clients sync.WaitGroup
				for range 12 {
					clients.Go(func() {
						conn, err := pipes.dial(t.Context(), "", "")
						if !assert.NoError(t, err) {
							return
						}
						defer conn.Close()
						fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(c.body))
						for i := range c.body {
							time.Sleep(time.Second)
							_, _ = io.WriteString(conn, c.body[i:i+1])
						}
						if !c.reads {
							time.Sleep(10 * time.Second)
						}
						response, err := http.ReadResponse(bufio.NewReader(conn), nil)
						if !assert.NoError(t, err) {
							return
						}
						_, _ = io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
						assert.Equal(t, http.StatusOK, response.StatusCode)
					})
				}
				clients.Wait()
				require.Equal(t, c.want, gate.Lookup("POST /").Snapshot().Rules[0].State)
			})
		})
	}
}

// A server answers a client that waits for 100 Continue without waiting for a body that the handler does not read.
func TestHandler_ClientsThatExpect100ContinueAreAnswered(t *testing.T) {
	t.Parallel()
	for length, status := range map[int]int{10: http.StatusUnauthorized, 10_000: http.StatusForbidden, 20_000: http.StatusOK} {
		synctest.Test(t, func(t *testing.T) {
			pipes := newPipes()
			server := &http.Server{Handler: leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if status != http.StatusOK {
					w.WriteHeader(status)
				}
				_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", length)))
			}), leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})})}
			go func() { _ = server.Serve(pipes) }()
			defer server.Close()
			conn, err := pipes.dial(t.Context(), "", "")
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Second)))
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err, length)
			defer response.Body.Close()
			answer, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Len(t, answer, length)
			require.Equal(t, status, response.StatusCode)
			require.True(t, response.Close)
		})
	}
}

// What a handler leaves of a large body must not be read as the next request: a client could smuggle one in that way.
func TestHandler_TheRestOfABodyIsNoRequest(t *testing.T) {
	t.Parallel()
	for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
		for _, length := range []int{10, 10_000} {
			synctest.Test(t, func(t *testing.T) {
				var served []string
				pipes := newPipes()
				server := &http.Server{Handler: leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					served = append(served, r.Method)
					_, _ = r.Body.Read(make([]byte, 1))
					_ = r.Body.Close() // which reads up to 256 KiB
					_, _ = io.WriteString(w, strings.Repeat("x", length))
				}), leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})})}
				go func() { _ = server.Serve(pipes) }()
				defer server.Close()
				conn, err := pipes.dial(t.Context(), "", "")
				require.NoError(t, err)
				defer conn.Close()
				require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
				go func() {
					fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n%s\r\n%s", expect, strings.Repeat("x", 1+256<<10))
					_, _ = io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 100))
				}()
				_, err = io.Copy(io.Discard, conn)
				require.Equal(t, []string{"POST"}, served)
				require.NoError(t, err)
			})
		}
	}
}
