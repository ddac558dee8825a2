package leaphttp_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// away is a limiter that denies because nothing can be counted.
func away() leaphttp.Limit {
	l := canned{limit.Decision{Limit: 5, RetryAfter: 1500 * time.Millisecond, Degraded: true, Unavailable: true}}
	return leaphttp.Limit{Limiter: l, Name: "shared", Key: by("k")}
}

func TestHandler_LimiterThatCannotCount_DoesNotBlameTheClient(t *testing.T) {
	t.Parallel()
	for _, failClosed := range []bool{false, true} {
		shared := away()
		shared.FailClosed = failClosed
		before, after := newLog(t, gatetest.NewClock(), "before", 3, time.Hour), newLog(t, gatetest.NewClock(), "after", 3, time.Hour)
		var refusal *leaphttp.Refusal
		h := leaphttp.Handler(forbidden(t), leaphttp.Config{
			Limits: []leaphttp.Limit{
				{Limiter: before, Key: by("k")},
				shared,
				{Limiter: after, Key: by("k")},
			},
			Refuse: func(w http.ResponseWriter, _ *http.Request, r *leaphttp.Refusal) { refusal = r; r.WriteProblem(w) },
		})
		w := get(h, "/")
		require.Equal(t, 503, w.Code)
		p := problemOf(t, w)
		require.Equal(t, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", p.Type)
		require.Empty(t, p.Policies)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Equal(t, `"before";q=3;w=3600, "after";q=3;w=3600`, w.Header().Get("RateLimit-Policy"))
		require.EqualValues(t, 3, before.Peek("k").Remaining)
		require.EqualValues(t, 3, after.Peek("k").Remaining)
		require.ErrorIs(t, refusal.Err, leapgate.ErrBlocked)
		require.EqualError(t, refusal.Err, `leaphttp: limit "shared" cannot count now; retry in 1.5s`)
	}
}

// A client that has used up a quota is told so, also if another limit cannot count.
func TestHandler_QuotaIsUsedUpAndAnotherLimiterCannotCount(t *testing.T) {
	t.Parallel()
	none := newLog(t, gatetest.NewClock(), "none", 0, time.Hour)
	h := leaphttp.Handler(forbidden(t), leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: none}, away()}})
	w := get(h, "/")
	require.Equal(t, 429, w.Code)
	require.Equal(t, []string{"none"}, problemOf(t, w).Policies)
}

// A new client beyond MaxKeys has used up nothing.
func TestHandler_NoPlaceForANewKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		whenFull limit.Policy
		want     int
	}{{limit.Evict, 200}, {limit.Deny, 503}, {limit.Share, 429}} {
		clock := gatetest.NewClock()
		l, err := limit.NewCounter(limit.Config{Limit: 1, Window: time.Minute, MaxKeys: 1, WhenFull: c.whenFull, Now: clock.Now})
		require.NoError(t, err)
		for _, limiter := range []limit.Limiter{l, limit.All(l), limit.All(newLog(t, clock, "wide", 1000, time.Hour), l)} {
			h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: limiter}}})
			status := 0
			for i := range 10 {
				status = do(h, from(fmt.Sprintf("203.0.113.%d:1", i))).Code
			}
			require.Equal(t, c.want, status, c.whenFull)
		}
	}
}

func TestTransport_LimiterThatCannotCount(t *testing.T) {
	t.Parallel()
	s := &server{status: 200}
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, Limits: []leaphttp.Limit{away()}})
	_, err := send(t, rt, "http://a/")
	var refused *leaphttp.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, leaphttp.RefusedError{Policy: "shared", CannotCount: true, RetryAfter: 1500 * time.Millisecond}, *refused)
	require.Zero(t, s.calls)
}

func TestRefusedError_Texts(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]leaphttp.RefusedError{
		`leaphttp: not sent: limit "p" is used up; it never admits this`: {Policy: "p", RetryAfter: limit.Never},
		`leaphttp: not sent: limit "p" is used up`:                       {Policy: "p"},
		`leaphttp: limit "p" cannot count now`:                           {Policy: "p", CannotCount: true},
	} {
		require.EqualError(t, &e, want)
	}
}
