package leaphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// handle has a request handled, during which hangUp ends its context as a server does when
// the client is gone. It returns the calls that failed and those that are ignored.
func handle(t *testing.T, gate *leapgate.Gate, handler func(w http.ResponseWriter, r *http.Request, hangUp func())) [2]int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r, cancel) }),
		leaphttp.Config{Gate: gate})
	func() {
		defer func() { _ = recover() }()
		do(h, httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(ctx))
	}()
	s := snapshot(gate, "GET (unmatched)")
	require.Equal(t, []int64{1, 1, 0}, []int64{s.Pass, s.Success, s.Concurrency})
	return [2]int64{s.Exception, s.Ignored}
}

// proxy is a reverse proxy in front of a backend.
func proxy(backend roundTripper) http.Handler {
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "backend"})
	p.Transport, p.ErrorLog = backend, log.New(io.Discard, "", 0)
	return p
}

func TestHandler_ClientThatHangsUpIsIgnored(t *testing.T) {
	t.Parallel()
	failed, ignored, succeeded := [2]int64{1, 0}, [2]int64{0, 1}, [2]int64{0, 0}
	for _, c := range []struct {
		name    string
		handler func(w http.ResponseWriter, r *http.Request, hangUp func())
		want    [2]int64
	}{
		{"and the handler says so", func(w http.ResponseWriter, r *http.Request, hangUp func()) {
			hangUp()
			leaphttp.SetError(w, r.Context().Err())
		}, ignored},
		{"and the handler answers 500 for want of its data", func(w http.ResponseWriter, _ *http.Request, hangUp func()) {
			hangUp()
			w.WriteHeader(http.StatusInternalServerError)
		}, ignored},
		{"before a reverse proxy has an answer: it says 502", func(w http.ResponseWriter, r *http.Request, hangUp func()) {
			proxy(func(r *http.Request) (*http.Response, error) {
				hangUp()
				return nil, r.Context().Err()
			}).ServeHTTP(w, r)
			require.Equal(t, http.StatusBadGateway, w.(interface{ Unwrap() http.ResponseWriter }).Unwrap().(*httptest.ResponseRecorder).Code)
		}, ignored},
		{"in the middle of an answer, which the handler aborts", func(w http.ResponseWriter, _ *http.Request, hangUp func()) {
			w.WriteHeader(http.StatusOK)
			hangUp()
			panic(http.ErrAbortHandler)
		}, ignored},
		{"and the handler has failed before", func(w http.ResponseWriter, _ *http.Request, hangUp func()) {
			leaphttp.SetError(w, errors.New("the database is down"))
			hangUp()
		}, failed},
		{"and the handler does what it should all the same", func(w http.ResponseWriter, _ *http.Request, hangUp func()) {
			hangUp()
			w.WriteHeader(http.StatusOK)
		}, succeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, handle(t, gates.New(t, gatetest.NewClock()), c.handler))
		})
	}
}

// A client must not open a breaker by what it sends.
func TestHandler_BodyThatCannotBeReadIsIgnored(t *testing.T) {
	t.Parallel()
	read := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	const post = "POST / HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		request string
		handler http.HandlerFunc
		want    [4]int64
	}{
		"malformed chunk": {post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", read, ignored},
		"too short":       {post + "Content-Length: 9\r\n\r\nshort", read, ignored},
		"malformed chunk through a reverse proxy": {
			post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
			proxy(func(r *http.Request) (*http.Response, error) {
				_, err := io.Copy(io.Discard, r.Body)
				return nil, err
			}).ServeHTTP, ignored,
		},
		"malformed chunk, and the handler panics": {post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			panic(err)
		}, ignored},
		"well-formed, and the handler fails": {post + "Content-Length: 5\r\n\r\n12345", func(w http.ResponseWriter, r *http.Request) {
			read(w, r)
			w.WriteHeader(http.StatusBadGateway)
		}, failure},
		"read after the handler has closed it": {post + "Content-Length: 5\r\n\r\n12345", func(w http.ResponseWriter, r *http.Request) {
			_ = r.Body.Close()
			read(w, r)
		}, failure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := gates.New(t, gatetest.NewClock())
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(c.request)))
			require.NoError(t, err)
			func() {
				defer func() { _ = recover() }()
				do(leaphttp.Handler(c.handler, leaphttp.Config{Gate: gate}), r)
			}()
			require.Equal(t, c.want, ends(gate, "POST (unmatched)"))
		})
	}
}

// Request.ParseForm reads at most 10 MB, unless the body has the type of http.MaxBytesReader.
func TestHandler_BodyLimitedAroundTheMiddlewareKeepsItsType(t *testing.T) {
	t.Parallel()
	do(http.MaxBytesHandler(leaphttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.IsType(t, http.MaxBytesReader(nil, nil, 0), r.Body)
		_, err := io.Copy(io.Discard, r.Body)
		assert.ErrorAs(t, err, new(*http.MaxBytesError))
	}), leaphttp.Config{Gate: gates.New(t, gatetest.NewClock())}), 3), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("1234")))
}

// A client that waits for its answer is told of a failure, and so is the gate.
func TestHandler_FailureWhileTheClientWaitsIsOne(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a reverse proxy whose backend is gone": func(w http.ResponseWriter, r *http.Request) {
			proxy(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }).ServeHTTP(w, r)
		},
		"a reverse proxy whose backend goes in the middle of its answer": func(w http.ResponseWriter, r *http.Request) {
			proxy(func(r *http.Request) (*http.Response, error) {
				body, backend := io.Pipe()
				_ = backend.CloseWithError(io.ErrUnexpectedEOF)
				return &http.Response{StatusCode: 200, Body: body, Request: r}, nil
			}).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, new(http.Server))))
		},
		"a backend's 500": func(w http.ResponseWriter, r *http.Request) {
			proxy((&server{status: 500}).RoundTrip).ServeHTTP(w, r)
		},
		"a deadline of the server": func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 0)
			defer cancel()
			leaphttp.SetError(w, ctx.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := handle(t, gates.New(t, gatetest.NewClock()), func(w http.ResponseWriter, r *http.Request, _ func()) { handler(w, r) })
			require.Equal(t, [2]int64{1, 0}, got)
		})
	}
}

// A program that says how calls end is told of a hang-up as context.Canceled, and decides.
func TestHandler_OutcomeOfAHangUpIsTheProgramsToSay(t *testing.T) {
	t.Parallel()
	for _, want := range []leapgate.Outcome{leapgate.Success, leapgate.Failure, leapgate.Ignored} {
		var told []error
		gate := leapgate.Must(leapgate.Config{Outcome: func(err error) leapgate.Outcome {
			told = append(told, err)
			return want
		}})
		handle(t, gate, func(w http.ResponseWriter, _ *http.Request, hangUp func()) {
			hangUp()
			w.WriteHeader(http.StatusBadGateway)
		})
		s := snapshot(gate, "GET (unmatched)")
		require.Equal(t, []error{context.Canceled}, told)
		require.Equal(t, []bool{want == leapgate.Failure, want == leapgate.Ignored}, []bool{s.Exception == 1, s.Ignored == 1})
	}
}

// How an outgoing call ends.
func TestTransport_Outcomes(t *testing.T) {
	t.Parallel()
	deploying := func(err error) leapgate.Outcome {
		if errors.Is(err, leaphttp.StatusError(503)) {
			return leapgate.Ignored // the backend says that it is being deployed
		}
		return leapgate.Failure
	}
	for _, c := range []struct {
		name    string
		outcome func(error) leapgate.Outcome
		answer  func(r *http.Request, hangUp func()) (*http.Response, error)
		want    [2]int64 // failures, ignored
	}{
		{"the backend answers 503", nil, func(r *http.Request, _ func()) (*http.Response, error) {
			return (&server{status: 503}).RoundTrip(r)
		}, [2]int64{1, 0}},
		{"the backend answers 503, which the program ignores", deploying, func(r *http.Request, _ func()) (*http.Response, error) {
			return (&server{status: 503}).RoundTrip(r)
		}, [2]int64{0, 1}},
		{"the backend answers 500, which the program does not", deploying, func(r *http.Request, _ func()) (*http.Response, error) {
			return (&server{status: 500}).RoundTrip(r)
		}, [2]int64{1, 0}},
		{"the backend answers 404", nil, func(r *http.Request, _ func()) (*http.Response, error) {
			return (&server{status: 404}).RoundTrip(r)
		}, [2]int64{0, 0}},
		{"the caller hangs up", nil, func(r *http.Request, hangUp func()) (*http.Response, error) {
			hangUp()
			return nil, errors.New("use of closed connection")
		}, [2]int64{0, 1}},
		{"the caller hangs up when the backend has failed", nil, func(r *http.Request, hangUp func()) (*http.Response, error) {
			defer hangUp()
			return (&server{status: 500}).RoundTrip(r)
		}, [2]int64{1, 0}},
		{"somebody else cancels", nil, func(*http.Request, func()) (*http.Response, error) {
			return nil, context.Canceled
		}, [2]int64{1, 0}},
		{"the time is over", nil, func(*http.Request, func()) (*http.Response, error) {
			return nil, context.DeadlineExceeded
		}, [2]int64{1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := leapgate.Must(leapgate.Config{Outcome: c.outcome})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rt := leaphttp.MustTransport(leaphttp.TransportConfig{
				Gate: gate, Base: roundTripper(func(r *http.Request) (*http.Response, error) { return c.answer(r, cancel) }),
			})
			_, _ = rt.RoundTrip(outgoing(t, "http://a/").WithContext(ctx)) //nolint:bodyclose // there is none
			s := snapshot(gate, "GET a")
			require.Equal(t, c.want, [2]int64{s.Exception, s.Ignored})
			require.Equal(t, []int64{1, 1, 0}, []int64{s.Pass, s.Success, s.Concurrency})
		})
	}
}

// A program that says how calls end is asked once of what Base returned, and once of a body that
// has failed. It is not asked of what the caller has canceled, nor of what was not sent.
func TestTransport_OutcomeIsTheProgramsToSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer roundTripper
		says   []leapgate.Outcome // in turn
		want   [4]int64
		told   []any // statuses and errors
	}{
		{"a 404 that is a failure", answering(404, http.NoBody), []leapgate.Outcome{leapgate.Failure}, failure, []any{404}},
		{"a 503 that is ignored", answering(503, http.NoBody), []leapgate.Outcome{leapgate.Ignored}, ignored, []any{503}},
		{"a 500 that is a success", answering(500, http.NoBody), []leapgate.Outcome{leapgate.Success}, success, []any{500}},
		{"a 200 that is no outcome there is", answering(200, http.NoBody), []leapgate.Outcome{7}, success, []any{200}},
		{"an error that is ignored", func(*http.Request) (*http.Response, error) { return nil, errBroken }, []leapgate.Outcome{leapgate.Ignored}, ignored, []any{errBroken}},
		{"a cancellation by somebody else", func(*http.Request) (*http.Response, error) { return nil, context.Canceled }, []leapgate.Outcome{leapgate.Failure}, failure, []any{context.Canceled}},
		{"a 200 whose body breaks off", broken(200), []leapgate.Outcome{leapgate.Success, leapgate.Failure}, failure, []any{200, errBroken}},
		{"a 200 whose body breaks off, which is ignored", broken(200), []leapgate.Outcome{leapgate.Success, leapgate.Ignored}, ignored, []any{200, errBroken}},
		{"a failure whose body breaks off", broken(404), []leapgate.Outcome{leapgate.Failure, leapgate.Ignored}, failure, []any{404, errBroken}},
		{"what is ignored, and whose body breaks off", broken(404), []leapgate.Outcome{leapgate.Ignored, leapgate.Failure}, failure, []any{404, errBroken}},
		{"what is ignored, and whose body is as good as read", broken(404), []leapgate.Outcome{leapgate.Ignored, leapgate.Success}, ignored, []any{404, errBroken}},
		{"what the caller cancels", func(r *http.Request) (*http.Response, error) {
			r.Context().Value(cancelKey{}).(context.CancelFunc)()
			return nil, errBroken
		}, nil, ignored, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := gatetest.NewClock()
			gate := gates.New(t, clock, flow.Rule{Resource: "GET a", Threshold: 1})
			var told []any
			rt := leaphttp.MustTransport(leaphttp.TransportConfig{
				Gate: gate, Base: c.answer,
				Outcome: func(response *http.Response, err error) leapgate.Outcome {
					if err == nil {
						told = append(told, response.StatusCode)
					} else {
						require.Nil(t, response)
						told = append(told, err)
					}
					return c.says[len(told)-1]
				},
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := outgoing(t, "http://a/").WithContext(context.WithValue(ctx, cancelKey{}, cancel))
			if response, err := rt.RoundTrip(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			_, err := rt.RoundTrip(outgoing(t, "http://a/")) //nolint:bodyclose // there is none
			require.ErrorIs(t, err, leapgate.ErrBlocked)
			require.Equal(t, c.told, told)
			require.Equal(t, c.want, ends(gate, "GET a"))
		})
	}
}

// broken is a server whose body fails.
func broken(status int) roundTripper {
	return answering(status, io.NopCloser(iotest.ErrReader(errBroken)))
}

// An Outcome that panics leaves nothing behind: the call has failed, and the body is closed.
func TestTransport_OutcomePanics(t *testing.T) {
	t.Parallel()
	gate := gates.New(t, gatetest.NewClock())
	b := &body{Reader: strings.NewReader("x")}
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{
		Gate: gate, Base: answering(200, b), Outcome: func(*http.Response, error) leapgate.Outcome { panic("fault") },
	})
	require.PanicsWithValue(t, "fault", func() { _, _ = send(t, rt, "http://a/") })
	require.Equal(t, 1, b.closed)
	require.Equal(t, failure, ends(gate, "GET a"))

	synctest.Test(t, func(t *testing.T) { // and when nothing recovers
		var log bytes.Buffer
		gate := leapgate.Must(leapgate.Config{})
		rt := leaphttp.MustTransport(leaphttp.TransportConfig{
			Gate: gate, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Base: roundTripper(func(r *http.Request) (*http.Response, error) { return answering(200, stallingFor(r))(r) }),
			Outcome: func(_ *http.Response, err error) leapgate.Outcome {
				if err != nil {
					panic("fault")
				}
				return leapgate.Success
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rt.RoundTrip(outgoing(t, "http://a/").WithContext(ctx)) //nolint:bodyclose // it is forgotten
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, failure, ends(gate, "GET a"))
		require.Contains(t, log.String(), "leaphttp: an Outcome panicked")
	})
}
