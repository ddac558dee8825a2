package leaphttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// answering is a server that answers with a status and a body.
func answering(status int, b io.ReadCloser) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: make(http.Header), Body: b, Request: r}, nil
	}
}

// stalling is a body of which nothing comes until it is closed, or ctx ends.
type stalling struct {
	ctx    context.Context //nolint:containedctx // as the body of a real transport has it
	closed chan struct{}
	once   sync.Once
}

func stallingFor(r *http.Request) *stalling {
	return &stalling{ctx: r.Context(), closed: make(chan struct{})}
}

func (s *stalling) Read([]byte) (int, error) {
	select {
	case <-s.closed:
		return 0, http.ErrBodyReadAfterClose
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// ends are the calls that succeeded, failed, were ignored, and are still there.
func ends(gate *leapgate.Gate, name string) [4]int64 {
	s := snapshot(gate, name)
	return [4]int64{s.Success - s.Exception - s.Ignored, s.Exception, s.Ignored, s.Concurrency}
}

var (
	success   = [4]int64{1, 0, 0, 0}
	failure   = [4]int64{0, 1, 0, 0}
	ignored   = [4]int64{0, 0, 1, 0}
	unended   = [4]int64{0, 0, 0, 1}
	errBroken = errors.New("connection reset")
)

func TestTransport_CallLastsAsLongAsTheBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(t *testing.T, body io.ReadCloser)
		want [4]int64
	}{
		{"read to its end", func(t *testing.T, body io.ReadCloser) {
			t.Helper()
			text, err := io.ReadAll(body)
			require.NoError(t, err)
			require.Equal(t, "hello", string(text))
		}, success},
		{"read to its end, read again and closed twice", func(t *testing.T, body io.ReadCloser) {
			t.Helper()
			_, _ = io.Copy(io.Discard, body)
			n, err := body.Read(make([]byte, 1))
			require.Equal(t, []any{0, io.EOF}, []any{n, err})
			require.NoError(t, body.Close())
			require.NoError(t, body.Close())
		}, success},
		{"closed unread", func(t *testing.T, body io.ReadCloser) {
			t.Helper()
			require.NoError(t, body.Close())
		}, success},
		{"read in part", func(t *testing.T, body io.ReadCloser) {
			t.Helper()
			_, err := io.ReadFull(body, make([]byte, 5))
			require.NoError(t, err)
		}, unended},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := gatetest.NewClock()
			gate := gates.New(t, clock)
			require.NoError(t, gates.LoadIsolation(gate, []isolation.Rule{{ID: "one", Resource: "GET a", MaxInFlight: 1}}))
			b := &body{Reader: strings.NewReader("hello")}
			rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: answering(200, b)})
			clock.Advance(time.Second)
			response, err := rt.RoundTrip(outgoing(t, "http://a/"))
			require.NoError(t, err)
			require.Equal(t, unended, ends(gate, "GET a"))
			_, err = rt.RoundTrip(outgoing(t, "http://a/")) //nolint:bodyclose // there is none
			require.ErrorIs(t, err, leapgate.ErrBlocked, "the place is taken")

			clock.Advance(250 * time.Millisecond)
			c.end(t, response.Body)
			require.Equal(t, c.want, ends(gate, "GET a"))
			clock.Advance(250 * time.Millisecond)
			closed := b.closed
			require.NoError(t, response.Body.Close())
			require.Equal(t, closed+1, b.closed, "each Close is passed on")
			require.Equal(t, success, ends(gate, "GET a"))
			took := 250 * time.Millisecond
			if c.want == unended {
				took *= 2
			}
			require.Equal(t, took, snapshot(gate, "GET a").AvgRT)
		})
	}
}

func TestTransport_ResponseWithoutBodyEndsTheCall(t *testing.T) {
	t.Parallel()
	for _, none := range []io.ReadCloser{http.NoBody, nil} {
		gate := gates.New(t, gatetest.NewClock())
		rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: answering(204, none)})
		response, err := rt.RoundTrip(outgoing(t, "http://a/")) //nolint:bodyclose // there is none
		require.NoError(t, err)
		require.Equal(t, none, response.Body)
		require.Equal(t, success, ends(gate, "GET a"))
	}
	gate := gates.New(t, gatetest.NewClock())
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{
		Gate: gate, Base: roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }), //nolint:nilnil // as it must not
		Outcome: func(*http.Response, error) leapgate.Outcome { panic("it was asked") },
	})
	_, _ = rt.RoundTrip(outgoing(t, "http://a/")) //nolint:bodyclose // there is none
	require.Equal(t, failure, ends(gate, "GET a"))
}

func TestTransport_OutcomeByTheStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][4]int64{
		200: success, 204: success, 301: success, 400: success, 404: success, 408: success, 499: success,
		429: ignored, 500: failure, 501: success, 502: failure, 503: failure, 504: failure, 599: failure,
	} {
		gate := gates.New(t, gatetest.NewClock())
		rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: answering(status, &body{Reader: strings.NewReader("x")})})
		_, err := send(t, rt, "http://a/")
		require.NoError(t, err)
		require.Equal(t, want, ends(gate, "GET a"), status)
	}
}

func TestTransport_OutcomeByTheBody(t *testing.T) {
	t.Parallel()
	read := func(r *http.Response) { _, _ = io.Copy(io.Discard, r.Body) }
	closed := func(r *http.Response) { _ = r.Body.Close() }
	nothing := func(*http.Response) {}
	cancels := func(cancel context.CancelFunc) { cancel() }
	past := func(context.CancelFunc) { time.Sleep(time.Hour) }
	for _, c := range []struct {
		name   string
		status int
		read   error // of the body; nil: it stalls
		end    func(*http.Response)
		after  func(cancel context.CancelFunc) // is done before end
		want   [4]int64
	}{
		{"breaks off", 200, io.ErrUnexpectedEOF, read, nil, failure},
		{"fails", 200, errBroken, read, nil, failure},
		{"fails after a 404", 404, errBroken, read, nil, failure},
		{"fails after a 429", 429, errBroken, read, nil, failure},
		{"is canceled by somebody else", 200, context.Canceled, read, nil, failure},
		{"stalls, and its caller closes it", 200, nil, closed, nil, success},
		{"stalls, and its caller cancels", 200, nil, read, cancels, ignored},
		{"stalls, and its caller cancels and closes it", 200, nil, closed, cancels, ignored},
		{"stalls, and its caller cancels and forgets it", 200, nil, nothing, cancels, ignored},
		{"stalls after a 500, and its caller cancels", 500, nil, read, cancels, failure},
		{"stalls until its deadline", 200, nil, read, nil, failure},
		{"stalls, and is closed after its deadline", 200, nil, closed, past, failure},
		{"stalls, and is forgotten", 200, nil, nothing, past, failure},
		{"stalls after a 429, and is forgotten", 429, nil, nothing, past, failure},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := leapgate.Must(leapgate.Config{})
				rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
					if c.read != nil {
						return answering(c.status, io.NopCloser(iotest.ErrReader(c.read)))(r)
					}
					return answering(c.status, stallingFor(r))(r)
				})})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				response, err := rt.RoundTrip(outgoing(t, "http://a/").WithContext(ctx)) //nolint:bodyclose // some are
				require.NoError(t, err)
				if c.after != nil {
					c.after(cancel)
				}
				c.end(response)
				synctest.Wait()
				require.Equal(t, c.want, ends(gate, "GET a"))
			})
		})
	}
}

// conn is the connection after a 101.
type conn struct {
	*stalling
	written bytes.Buffer
}

func (c *conn) Write(p []byte) (int, error) { return c.written.Write(p) }

type halfClosable struct {
	*conn
	closedWriting int
}

func (c *halfClosable) CloseWrite() error {
	c.closedWriting++
	return nil
}

// After a 101 a body is a connection: it can be written to, and outlives the request.
func TestTransport_SwitchedProtocols(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, closable := range []bool{false, true} {
			gate := leapgate.Must(leapgate.Config{})
			c := &conn{stalling: stallingFor(outgoing(t, "http://a/"))}
			half := &halfClosable{conn: c}
			var b io.ReadCloser = c
			if closable {
				b = half
			}
			rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: answering(101, b)})
			ctx, cancel := context.WithCancel(t.Context())
			response, err := rt.RoundTrip(outgoing(t, "http://a/").WithContext(ctx)) //nolint:bodyclose // it is closed at the end
			require.NoError(t, err)
			cancel()
			synctest.Wait()
			require.Equal(t, unended, ends(gate, "GET a"))
			_, err = response.Body.(io.Writer).Write([]byte("ping"))
			require.NoError(t, err)
			require.Equal(t, "ping", c.written.String())
			writing, ok := response.Body.(interface{ CloseWrite() error })
			require.Equal(t, closable, ok)
			if ok {
				require.NoError(t, writing.CloseWrite())
				require.Equal(t, 1, half.closedWriting)
			}
			require.Equal(t, unended, ends(gate, "GET a"))
			go func() { _, _ = io.Copy(io.Discard, response.Body) }() // which Close ends with an error
			synctest.Wait()
			require.NoError(t, response.Body.Close())
			synctest.Wait()
			require.Equal(t, success, ends(gate, "GET a"))
		}
	})
	gate := gates.New(t, gatetest.NewClock())
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: answering(200, &body{Reader: strings.NewReader("")})})
	response, err := rt.RoundTrip(outgoing(t, "http://a/"))
	require.NoError(t, err)
	_, ok := response.Body.(io.Writer)
	require.False(t, ok)
	require.NoError(t, response.Body.Close())
}

// Whatever ends a call, and however many do so at once, it ends once.
func TestTransport_ManyCallsThatEndInManyWaysAtOnce(t *testing.T) {
	t.Parallel()
	const callers, calls, places = 32, 200, 8
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gates.LoadIsolation(gate, []isolation.Rule{{Resource: "GET a", MaxInFlight: places, MaxWait: time.Hour, MaxQueue: callers}}))
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, MaxPause: -1, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
		switch r.URL.Path {
		case "/refused":
			return nil, errBroken
		case "/canceled":
			return answering(200, stallingFor(r))(r)
		default:
			status := map[string]int{"/ok": 200, "/failed": 502, "/limited": 429}[r.URL.Path]
			return answering(status, io.NopCloser(strings.NewReader(strings.Repeat("x", 100))))(r)
		}
	})})
	one := func(path string) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		response, err := rt.RoundTrip(outgoing(t, "http://a"+path).WithContext(ctx))
		if err != nil {
			return
		}
		var all sync.WaitGroup
		defer all.Wait()
		if path == "/canceled" {
			cancel()
			all.Go(func() { _, _ = io.Copy(io.Discard, response.Body) })
		}
		all.Go(func() { _, _ = io.ReadFull(response.Body, make([]byte, 50)) })
		all.Go(func() { _ = response.Body.Close() })
		all.Go(func() { _ = response.Body.Close() })
	}
	paths := []string{"/ok", "/failed", "/limited", "/refused", "/canceled"}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range calls {
				one(paths[i%len(paths)])
			}
		})
	}
	all.Wait()
	const each = callers * calls / 5
	require.Equal(t, [4]int64{each, 2 * each, 2 * each, 0}, ends(gate, "GET a"))
	require.EqualValues(t, 5*each, snapshot(gate, "GET a").Pass)
	require.LessOrEqual(t, snapshot(gate, "GET a").MaxConcurrency, int64(places))
}
