package leaphttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// newBroken makes a gate with a breaker that opens at the third failure of three calls, for 3.2 s.
func newBroken(t *testing.T, c *gatetest.Clock, resource string) *leapgate.Gate {
	t.Helper()
	gate := gates.New(t, c)
	require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "b", Resource: resource, MinCalls: 3, ErrorRatio: 1, OpenFor: 3200 * time.Millisecond, Probes: 1},
	}}))
	return gate
}

func stateOf(gate *leapgate.Gate, resource string) string {
	return snapshot(gate, resource).Rules[0].State
}

// A client is told when to come again: in as many whole seconds as are left, and of half-open
// nothing, for nobody knows.
func TestHandler_BreakerThatIsOpen(t *testing.T) {
	t.Parallel()
	const resource = "GET (unmatched)"
	c := gatetest.NewClock()
	gate := newBroken(t, c, resource)
	status, during := http.StatusInternalServerError, func() {}
	calls := 0
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		during()
		w.WriteHeader(status)
	}), leaphttp.Config{Gate: gate})
	requireRefused := func(retryAfter string) {
		t.Helper()
		before := calls
		w := get(h, "/")
		require.Equal(t, before, calls)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, []string{retryAfter, "no-store"}, []string{w.Header().Get("Retry-After"), w.Header().Get("Cache-Control")})
		require.Equal(t, retryAfter != "", w.Header().Values("Retry-After") != nil)
		p := problemOf(t, w)
		require.True(t, strings.HasSuffix(p.Type, "#temporary-reduced-capacity"), p.Type)
		require.NotContains(t, w.Body.String(), "failed", "clients are not told what goes on inside")
	}
	for range 3 {
		require.Equal(t, 500, get(h, "/").Code)
	}
	require.Equal(t, "open", stateOf(gate, resource))
	requireRefused("4")
	for _, step := range []struct {
		ahead time.Duration
		want  string
	}{
		{200*time.Millisecond - 1, "4"}, // 3 s and 1 ns are left
		{1, "3"},
		{2 * time.Second, "1"},
		{time.Second - 1, "1"}, // 1 ns
	} {
		c.Advance(step.ahead)
		requireRefused(step.want)
	}
	c.Advance(1)
	status, during = http.StatusOK, func() { // the probe
		require.Equal(t, "half-open", stateOf(gate, resource))
		requireRefused("")
	}
	require.Equal(t, 200, get(h, "/").Code)
	require.Equal(t, "closed", stateOf(gate, resource))
	during = func() {}
	require.Equal(t, 200, get(h, "/").Code)
}

// Which ends of outgoing calls open a breaker: those that tell that the server is in trouble.
func TestTransport_WhatOpensABreaker(t *testing.T) {
	t.Parallel()
	failing := func(err error) roundTripper {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	status := func(code int) roundTripper { return (&server{status: code}).RoundTrip }
	for name, c := range map[string]struct {
		base  roundTripper
		opens bool
	}{
		"500":                    {status(500), true},
		"502":                    {status(502), true},
		"503":                    {status(503), true},
		"504":                    {status(504), true},
		"599":                    {status(599), true},
		"501":                    {status(501), false},
		"429":                    {status(429), false},
		"404":                    {status(404), false},
		"200":                    {status(200), false},
		"no connection":          {failing(errBroken), true},
		"a time-out":             {failing(context.DeadlineExceeded), true},
		"somebody else's cancel": {failing(context.Canceled), true},
		"a body that breaks off": {broken(200), true},
		"the caller cancels": {func(r *http.Request) (*http.Response, error) {
			r.Context().Value(cancelKey{}).(context.CancelFunc)()
			return nil, errBroken
		}, false},
		"the caller cancels in the middle of the body": {func(r *http.Request) (*http.Response, error) {
			defer r.Context().Value(cancelKey{}).(context.CancelFunc)()
			return broken(200)(r)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := newBroken(t, gatetest.NewClock(), "GET a")
			calls := 0
			rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				calls++
				return c.base(r)
			})})
			for range 10 {
				ctx, cancel := context.WithCancel(t.Context())
				response, err := rt.RoundTrip(outgoing(t, "http://a/").WithContext(context.WithValue(ctx, cancelKey{}, cancel)))
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				cancel()
			}
			if !c.opens {
				require.Equal(t, []any{"closed", 10}, []any{stateOf(gate, "GET a"), calls})
				return
			}
			require.Equal(t, []any{"open", 3}, []any{stateOf(gate, "GET a"), calls}, "the server is spared")
			_, err := send(t, rt, "http://a/")
			blocked := leapgatetest.RequireBlocked(t, err, "b")
			require.Equal(t, []any{503, 3200 * time.Millisecond}, []any{blocked.Status, blocked.RetryAfter})
		})
	}
}

// A probe lasts until the body of its response is closed.
func TestTransport_ProbeLastsAsLongAsItsBody(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	gate := newBroken(t, c, "GET a")
	status, calls := 503, 0
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
		calls++
		return answering(status, io.NopCloser(strings.NewReader("x")))(r)
	})})
	for range 3 {
		_, err := send(t, rt, "http://a/")
		require.NoError(t, err)
	}
	require.Equal(t, "open", stateOf(gate, "GET a"))
	c.Advance(3200 * time.Millisecond)
	status = 200
	probe, err := rt.RoundTrip(outgoing(t, "http://a/"))
	require.NoError(t, err)
	require.Equal(t, "half-open", stateOf(gate, "GET a"))
	_, err = send(t, rt, "http://a/")
	var blocked *leapgate.BlockError
	require.ErrorAs(t, err, &blocked)
	require.Zero(t, blocked.RetryAfter)
	require.NoError(t, probe.Body.Close())
	require.Equal(t, "closed", stateOf(gate, "GET a"))
	_, err = send(t, rt, "http://a/")
	require.NoError(t, err)
	require.Equal(t, 5, calls)
}
