package leaphttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// roundTripper is a server as its client sees it.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// server answers with a status and a header, given as pairs, and counts.
type server struct {
	status int
	header []string
	calls  int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls++
	h := make(http.Header)
	for i := 0; i < len(s.header); i += 2 {
		h.Add(s.header[i], s.header[i+1])
	}
	return &http.Response{StatusCode: s.status, Header: h, Body: http.NoBody, Request: r}, nil
}

func outgoing(t testing.TB, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	return r
}

func send(t testing.TB, rt http.RoundTripper, url string) (int, error) {
	t.Helper()
	response, err := rt.RoundTrip(outgoing(t, url))
	if err != nil {
		require.Nil(t, response)
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

func TestTransport_HeedsRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		header []string
		wait   time.Duration
	}{
		{"429, seconds", 429, []string{"Retry-After", "7"}, 7 * time.Second},
		{"503, seconds", 503, []string{"Retry-After", "7"}, 7 * time.Second},
		{"200, seconds", 200, []string{"Retry-After", "7"}, 0},
		{"500, seconds", 500, []string{"Retry-After", "7"}, 0},
		{"429, nothing", 429, nil, 0},
		{"429, zero", 429, []string{"Retry-After", "0"}, 0},
		{"429, negative", 429, []string{"Retry-After", "-7"}, 0},
		{"429, a fraction", 429, []string{"Retry-After", "7.5"}, 0},
		{"429, for ever", 429, []string{"Retry-After", strings.Repeat("9", 100)}, time.Hour},
		{"429, a date", 429, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT"}, 9 * time.Second},
		{"429, a date of a clock that is ahead", 429, []string{
			"Retry-After", "Sun, 02 Jan 2000 00:00:09 GMT", "Date", "Sun, 02 Jan 2000 00:00:01 GMT",
		}, 8 * time.Second},
		{"429, a date in UTC", 429, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:09 UTC"}, 9 * time.Second},
		{"429, a date that is over", 429, []string{"Retry-After", "Fri, 31 Dec 1999 00:00:09 GMT"}, 0},
		{"429, RateLimit", 429, []string{"RateLimit", `"a";r=3;t=50, "b";r=0;t=9, "c";r=0;t=4`}, 9 * time.Second},
		{"429, RateLimit in two lines", 429, []string{"RateLimit", `"a";r=0;t=4`, "RateLimit", `"b";r=0;t=9`}, 9 * time.Second},
		{"429, RateLimit that is not written well", 429, []string{"RateLimit", `"b";r=0;t=9,`}, 0},
		{"429, Retry-After comes before RateLimit", 429, []string{"RateLimit", `"b";r=0;t=9`, "Retry-After", "2"}, 2 * time.Second},
		{"429, Retry-After makes no sense", 429, []string{"RateLimit", `"b";r=0;t=9`, "Retry-After", "soon"}, 9 * time.Second},
		{"200, RateLimit", 200, []string{"RateLimit", `"b";r=0;t=9`}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // which begins on the 1st of January 2000
				s := &server{status: c.status, header: c.header}
				rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: s})
				code, err := send(t, rt, "http://api.example.com/a")
				require.NoError(t, err)
				require.Equal(t, c.status, code)
				if c.wait == 0 {
					_, err := send(t, rt, "http://api.example.com/a")
					require.NoError(t, err)
					return
				}
				time.Sleep(c.wait - 1)
				_, err = send(t, rt, "http://API.example.com:80/b")
				require.ErrorIs(t, err, leapgate.ErrBlocked)
				var refused *leaphttp.RefusedError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, leaphttp.RefusedError{Target: "api.example.com", Status: c.status, RetryAfter: 1}, *refused)
				require.Equal(t, 1, s.calls)
				_, err = send(t, rt, "http://api.example.com:8080/")
				require.NoError(t, err, "another port is another host")
				time.Sleep(time.Nanosecond)
				_, err = send(t, rt, "http://api.example.com/a")
				require.NoError(t, err)
				require.Equal(t, 3, s.calls)
			})
		})
	}
}

func TestTransport_PauseSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 429, header: []string{"Retry-After", "100"}}
		rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, MaxPause: 2 * time.Second})
		_, _ = send(t, rt, "http://a/")
		_, err := send(t, rt, "http://a/")
		require.EqualError(t, err, `leaphttp: not sent: "a" answered 429 and asked to wait, for 2s from now`)
		time.Sleep(2 * time.Second)
		_, err = send(t, rt, "http://a/")
		require.NoError(t, err)

		rt = leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, MaxPause: -1})
		for range 2 {
			_, err = send(t, rt, "http://a/")
			require.NoError(t, err)
		}

		rt = leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, Target: func(r *http.Request) string { return r.URL.Path[1:] }})
		for _, path := range []string{"x", "y", ""} {
			_, err = send(t, rt, "http://a/"+path)
			require.NoError(t, err)
		}
		_, err = send(t, rt, "http://b/x")
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		_, err = send(t, rt, "http://a/")
		require.NoError(t, err, "without a target nobody waits")

		// A shorter pause that a call asked for which was under way does not end the wait.
		s.header = []string{"Retry-After", "1"}
		late := leaphttp.MustTransport(leaphttp.TransportConfig{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/slow" {
				time.Sleep(time.Second)
				return s.RoundTrip(r)
			}
			return (&server{status: 503, header: []string{"Retry-After", "60"}}).RoundTrip(r)
		})})
		slow := outgoing(t, "http://a/slow")
		go func() { _, _ = late.RoundTrip(slow) }() //nolint:bodyclose // there is none
		synctest.Wait()
		_, _ = send(t, late, "http://a/")
		time.Sleep(3 * time.Second)
		var refused *leaphttp.RefusedError
		_, err = send(t, late, "http://a/")
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 57*time.Second, refused.RetryAfter)
	})
}

// TestTransport_ManyTargets: servers with many names cannot fill the memory, and those
// that wait longest keep waiting.
func TestTransport_ManyTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 429, header: []string{"Retry-After", "60"}}
		rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, MaxTargets: 4})
		waiting := func() (n int) {
			s.header = nil
			for i := range 100 {
				if _, err := send(t, rt, fmt.Sprintf("http://h%d/", i)); err != nil {
					n++
				}
			}
			return n
		}
		_, _ = send(t, rt, "http://h0/")
		s.header[1] = "30"
		for i := range 99 {
			_, _ = send(t, rt, fmt.Sprintf("http://h%d/", i+1))
		}
		require.Equal(t, 4, waiting())
		_, err := send(t, rt, "http://h0/")
		require.ErrorIs(t, err, leapgate.ErrBlocked, "the longest")
		time.Sleep(30 * time.Second)
		s.header = []string{"Retry-After", "1"}
		_, _ = send(t, rt, "http://h200/")
		_, err = send(t, rt, "http://h200/")
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		require.Equal(t, 1, waiting(), "only h0 of these: what is over gave way")
		time.Sleep(30 * time.Second)
		require.Zero(t, waiting())
	})
}

func TestTransport_Gate(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	gate := gates.New(t, clock, flow.Rule{ID: "r", Resource: "GET limited", Threshold: 1})
	l := newLog(t, clock, "per-host", 3, time.Minute)
	s := &server{status: 200}
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, Gate: gate, Limits: []leaphttp.Limit{{Limiter: l}}})
	_, err := send(t, rt, "http://limited/a")
	require.NoError(t, err)
	for range 5 {
		_, err = send(t, rt, "http://limited/b")
		leapgatetest.RequireBlocked(t, err, "r")
	}
	require.Equal(t, 1, s.calls)
	require.EqualValues(t, 2, l.Peek("limited").Remaining, "what the gate refused was refunded")

	for range 3 {
		_, err = send(t, rt, "http://free/")
		require.NoError(t, err)
	}
	_, err = send(t, rt, "http://free/")
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	require.EqualError(t, err, `leaphttp: not sent: limit "per-host" is used up; retry in 1m0s`)
	require.EqualValues(t, 3, snapshot(gate, "GET free").Pass)
	require.Zero(t, snapshot(gate, "GET free").Block)
}

// body counts how often it was closed.
type body struct {
	io.Reader
	closed int
}

func (b *body) Close() error {
	b.closed++
	return nil
}

func TestTransport_RefusalClosesTheBody(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	none := newLog(t, clock, "none", 0, time.Second)
	s := &server{status: 429, header: []string{"Retry-After", "60"}}
	paused := leaphttp.MustTransport(leaphttp.TransportConfig{Base: s})
	_, _ = send(t, paused, "http://a/")
	for _, rt := range []http.RoundTripper{
		paused,
		leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, Limits: []leaphttp.Limit{{Limiter: none}}}),
		leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, Gate: gates.New(t, clock, flow.Rule{Resource: "POST a"})}),
		leaphttp.MustTransport(leaphttp.TransportConfig{
			Base: s, Gate: gates.New(t, clock), Resource: func(*http.Request) string { return "" },
		}),
	} {
		b := &body{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a/", b)
		require.NoError(t, err)
		_, err = rt.RoundTrip(r) //nolint:bodyclose // there is none
		require.Error(t, err)
		require.Equal(t, 1, b.closed)
	}
	require.Equal(t, 1, s.calls)
}

// Whatever function of the program panics before the request is sent, its body is closed.
func TestTransport_PanicClosesTheBody(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	faulty := func(*http.Request) string { panic("fault") }
	l := newLog(t, clock, "host", 9, time.Second)
	for name, cfg := range map[string]leaphttp.TransportConfig{
		"Target":   {Target: faulty},
		"Key":      {Limits: []leaphttp.Limit{{Limiter: l, Key: faulty}}},
		"Skip":     {Limits: []leaphttp.Limit{{Limiter: l, Skip: func(*http.Request) bool { panic("fault") }}}},
		"Resource": {Gate: gates.New(t, clock), Resource: faulty},
		"Limiter":  {Limits: []leaphttp.Limit{{Limiter: panicking{}}}},
	} {
		s := &server{status: 200}
		cfg.Base = s
		b := &body{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a/", b)
		require.NoError(t, err)
		rt := leaphttp.MustTransport(cfg)
		require.PanicsWithValue(t, "fault", func() { _, _ = rt.RoundTrip(r) }, name) //nolint:bodyclose // there is none
		require.Equal(t, 1, b.closed, name)
		require.Zero(t, s.calls, name)
	}
}

type panicking struct{ limit.Limiter }

func (panicking) AllowN(context.Context, string, int64) (limit.Decision, error) { panic("fault") }

// What was sent is closed by its sender, also if that panics.
func TestTransport_BodyOfWhatIsSentIsNotTouched(t *testing.T) {
	t.Parallel()
	b := &body{Reader: strings.NewReader("x")}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a/", b)
	require.NoError(t, err)
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{
		Gate: gates.New(t, gatetest.NewClock()), Base: roundTripper(func(*http.Request) (*http.Response, error) { panic("oh") }),
	})
	require.PanicsWithValue(t, "oh", func() { _, _ = rt.RoundTrip(r) }) //nolint:bodyclose // there is none
	require.Zero(t, b.closed)
}

// Some servers refuse with another status, or say on the last success that nothing is left.
func TestTransport_HeedsMoreIfToldTo(t *testing.T) {
	t.Parallel()
	github := leaphttp.TransportConfig{PauseStatuses: []int{403}}
	usedUp := leaphttp.TransportConfig{PauseWhenUsedUp: true}
	for _, c := range []struct {
		name   string
		cfg    leaphttp.TransportConfig
		status int
		header []string
		wait   time.Duration
	}{
		{"403 as it is", leaphttp.TransportConfig{}, 403, []string{"Retry-After", "7"}, 0},
		{"403", github, 403, []string{"Retry-After", "7"}, 7 * time.Second},
		{"403 of another kind", github, 403, nil, 0},
		{"403 with RateLimit", github, 403, []string{"RateLimit", `"a";r=0;t=9`}, 9 * time.Second},
		{"429 goes on being heeded", github, 429, []string{"Retry-After", "7"}, 7 * time.Second},
		{"400", github, 400, []string{"Retry-After", "7"}, 0},
		{"200 as it is", leaphttp.TransportConfig{}, 200, []string{"RateLimit", `"a";r=0;t=9`}, 0},
		{"200 that says that nothing is left", usedUp, 200, []string{"RateLimit", `"a";r=0;t=9`}, 9 * time.Second},
		{"200 that says that one is left", usedUp, 200, []string{"RateLimit", `"a";r=1;t=9`}, 0},
		{"202 that asks to poll later", usedUp, 202, []string{"Retry-After", "7"}, 0},
		{"404 that says that nothing is left", usedUp, 404, []string{"RateLimit", `"a";r=0;t=9`}, 9 * time.Second},
		{"503 goes on being heeded", usedUp, 503, []string{"Retry-After", "7"}, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := c.cfg
				cfg.Base = &server{status: c.status, header: c.header}
				rt := leaphttp.MustTransport(cfg)
				_, err := send(t, rt, "http://a/")
				require.NoError(t, err)
				_, err = send(t, rt, "http://a/")
				if c.wait == 0 {
					require.NoError(t, err)
					return
				}
				var refused *leaphttp.RefusedError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, leaphttp.RefusedError{Target: "a", Status: c.status, RetryAfter: c.wait}, *refused)
			})
		})
	}
}

func TestTransport_Exceptions(t *testing.T) {
	t.Parallel()
	failure, cause := errors.New("connection refused"), errors.New("the user went home")
	for _, c := range []struct {
		name      string
		answer    roundTripper
		err       error
		exception int64
	}{
		{"200", func(r *http.Request) (*http.Response, error) { return (&server{status: 200}).RoundTrip(r) }, nil, 0},
		{"429", func(r *http.Request) (*http.Response, error) { return (&server{status: 429}).RoundTrip(r) }, nil, 0},
		{"500", func(r *http.Request) (*http.Response, error) { return (&server{status: 500}).RoundTrip(r) }, nil, 1},
		{"error", func(*http.Request) (*http.Response, error) { return nil, failure }, failure, 1},
		{"deadline", func(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded }, context.DeadlineExceeded, 1},
		{"canceled by somebody else", func(*http.Request) (*http.Response, error) { return nil, context.Canceled }, context.Canceled, 1},
		{"canceled", func(r *http.Request) (*http.Response, error) {
			r.Context().Value(cancelKey{}).(context.CancelCauseFunc)(cause)
			return nil, context.Cause(r.Context())
		}, cause, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := gates.New(t, gatetest.NewClock())
			rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: c.answer, Gate: gate})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			r := outgoing(t, "http://a/").WithContext(context.WithValue(ctx, cancelKey{}, cancel))
			response, err := rt.RoundTrip(r) //nolint:bodyclose // there is none
			require.ErrorIs(t, err, c.err, "the error is that of the transport")
			require.Equal(t, err == nil, response != nil)
			s := snapshot(gate, "GET a")
			require.Equal(t, []int64{1, 1, c.exception, 0}, []int64{s.Pass, s.Success, s.Exception, s.Concurrency})
		})
	}
}

// A reverse proxy sends on what its clients send: one that cannot be read is no failure of the server.
func TestTransport_IgnoresFailureToReadTheRequest(t *testing.T) {
	t.Parallel()
	malformed := errors.New("malformed chunked encoding")
	for _, c := range []struct {
		name      string
		body      io.Reader
		answer    roundTripper
		exception int64
	}{
		{"error", iotest.ErrReader(malformed), func(r *http.Request) (*http.Response, error) {
			_, err := io.ReadAll(r.Body)
			return nil, err
		}, 0},
		{"500", iotest.ErrReader(malformed), func(r *http.Request) (*http.Response, error) {
			_, _ = io.ReadAll(r.Body)
			return (&server{status: 500}).RoundTrip(r)
		}, 0},
		{"failure of the server, after which reading fails", iotest.ErrReader(malformed), func(r *http.Request) (*http.Response, error) {
			_ = r.Body.Close()
			_, _ = io.ReadAll(r.Body)
			return nil, io.ErrUnexpectedEOF
		}, 1},
		{"a body that can be read", strings.NewReader("body"), func(r *http.Request) (*http.Response, error) {
			_, _ = io.ReadAll(r.Body)
			return nil, io.ErrUnexpectedEOF
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := gates.New(t, gatetest.NewClock())
			rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: c.answer, Gate: gate})
			r := outgoing(t, "http://a/")
			body := io.NopCloser(c.body)
			r.Body = body
			response, err := rt.RoundTrip(r)
			if err == nil {
				require.NoError(t, response.Body.Close())
			}
			require.Equal(t, body, r.Body, "requests are not changed")
			s := snapshot(gate, "GET a")
			require.Equal(t, []int64{1, c.exception, 0}, []int64{s.Pass, s.Exception, s.Concurrency})
		})
	}
}

type cancelKey struct{}

func TestTransport_Panics(t *testing.T) {
	t.Parallel()
	gate := gates.New(t, gatetest.NewClock())
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{
		Gate: gate, Base: roundTripper(func(*http.Request) (*http.Response, error) { panic("oh") }),
	})
	require.PanicsWithValue(t, "oh", func() { _, _ = send(t, rt, "http://a/") })
	s := snapshot(gate, "GET a")
	require.Equal(t, []int64{1, 1, 0}, []int64{s.Success, s.Exception, s.Concurrency})
}

func TestTransport_LimiterFails(t *testing.T) {
	t.Parallel()
	closed := newLog(t, gatetest.NewClock(), "c", 1, time.Second)
	_ = closed.Close()
	s := &server{status: 200}
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{
		Base: s, Limits: []leaphttp.Limit{{Limiter: closed, FailClosed: true}}, Logger: slog.New(slog.DiscardHandler),
	})
	_, err := send(t, rt, "http://a/")
	require.ErrorIs(t, err, limit.ErrClosed)
	require.NotErrorIs(t, err, leapgate.ErrBlocked, "a fault is no refusal")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = rt.RoundTrip(outgoing(t, "http://a/").WithContext(ctx)) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, leapgate.ErrBlocked)
	require.Zero(t, s.calls)
}

func TestTransport_Oddities(t *testing.T) {
	t.Parallel()
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{})
	_, err := rt.RoundTrip(&http.Request{}) //nolint:bodyclose // there is none
	require.ErrorContains(t, err, "nil Request.URL")
	gate := gates.New(t, gatetest.NewClock())
	s := &server{status: 200}
	rt = leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, Gate: gate})
	r := outgoing(t, "https://Example.COM:443/x")
	r.Method = ""
	response, err := rt.RoundTrip(r)
	require.NoError(t, err)
	_ = response.Body.Close()
	require.EqualValues(t, 1, snapshot(gate, "GET example.com").Pass)

	// It is what an http.Client takes.
	client := &http.Client{Transport: rt}
	client.CloseIdleConnections()
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "GET example.com"}}))
	_, err = client.Get("https://example.com/") //nolint:bodyclose,noctx // it is refused
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}
