package leaphttp_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
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
