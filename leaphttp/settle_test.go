package leaphttp_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

func withBoth(t *testing.T, test func(t *testing.T, gate *leapgate.Gate)) {
	t.Helper()
	t.Run("without a gate", func(t *testing.T) { t.Parallel(); test(t, nil) })
	t.Run("with a gate", func(t *testing.T) { t.Parallel(); test(t, leapgate.Must(leapgate.Config{})) })
}

func sizeOf(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
	return n
}

func TestCost_ARequestTakesWhatItSays(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, gate *leapgate.Gate) {
		t.Helper()
		bytes := newLog(t, gatetest.NewClock(), "bytes", 100, time.Minute)
		h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{Limiter: bytes, Cost: sizeOf, Key: by("a")}}})
		require.Equal(t, `"bytes";r=30;t=60`, get(h, "/?size=70").Header().Get("RateLimit"))
		require.Equal(t, 429, get(h, "/?size=31").Code)
		require.Equal(t, 200, get(h, "/?size=30").Code)
		require.Equal(t, 429, get(h, "/?size=0").Code, "one would not pass")
		require.Equal(t, 429, get(h, "/?size=-5").Code)
		w := get(h, "/?size=101")
		require.Equal(t, 429, w.Code)
		require.Empty(t, w.Header().Get("Retry-After"), "never")
	})
}

func TestSettle_MakesTheEstimateIntoTheTruth(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, gate *leapgate.Gate) {
		t.Helper()
		clock := gatetest.NewClock()
		tokens, calls := newLog(t, clock, "tokens", 1000, time.Minute), newLog(t, clock, "calls", 10, time.Minute)
		var actual int64
		h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			settled, err := leaphttp.Settle(w, actual)
			assert.NoError(t, err)
			assert.True(t, settled)
			settled, err = leaphttp.Settle(w, 1)
			assert.NoError(t, err)
			assert.False(t, settled, "again, it does nothing")
		}), leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{
			{Limiter: tokens, Cost: func(*http.Request) int64 { return 400 }, Key: by("a")}, {Limiter: calls, Key: by("a")},
		}})
		for _, step := range []struct{ actual, left int64 }{{150, 850}, {400, 450}, {900, 0}} {
			actual = step.actual
			require.Equal(t, 200, get(h, "/").Code)
			require.Equal(t, step.left, tokens.Peek("a").Remaining)
		}
		require.EqualValues(t, 7, calls.Peek("a").Remaining, "what has no Cost is not settled")
		require.Equal(t, 429, get(h, "/").Code)
	})
}

func TestRefund_OnlyFailedLoginsCount(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, gate *leapgate.Gate) {
		t.Helper()
		logins := newLog(t, gatetest.NewClock(), "logins", 3, time.Minute)
		h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("password") == "right" {
				refunded, err := leaphttp.Refund(w)
				assert.NoError(t, err)
				assert.True(t, refunded)
				refunded, _ = leaphttp.Refund(w)
				assert.False(t, refunded)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		}), leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{Limiter: logins}}})
		for range 10 {
			require.Equal(t, 200, get(h, "/?password=right").Code)
		}
		for range 3 {
			require.Equal(t, 401, get(h, "/").Code)
		}
		require.Equal(t, 429, get(h, "/?password=right").Code)
	})
}

// What is charged, settled, given back and checked by many requests at once adds up.
// What cannot be is an error that changes nothing: the charge can still be settled, or given back.
func TestSettle_ABadCountSettlesNothing(t *testing.T) {
	t.Parallel()
	tokens := newLog(t, gatetest.NewClock(), "tokens", 100, time.Minute)
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, bad := range []int64{-1, limit.MaxLimit + 1} {
			settled, err := leaphttp.Settle(w, bad)
			assert.ErrorIs(t, err, limit.ErrCount)
			assert.False(t, settled)
		}
		settled, err := leaphttp.Refund(w)
		assert.NoError(t, err)
		assert.True(t, settled)
	}), leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: tokens, Cost: func(*http.Request) int64 { return 40 }, Key: by("a")}}})
	get(h, "/")
	require.EqualValues(t, 100, tokens.Peek("a").Remaining)
}

func TestSettle_HammerAddsUp(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	tokens, users := newLog(t, clock, "tokens", 1_000_000, time.Minute), newLog(t, clock, "users", 1_000_000, time.Minute)
	check := newChecker(t, users)
	var spent, kept atomic.Int64
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := sizeOf(r)
		if !check.Check(w, r, "user", 5) {
			t.Error("refused")
		}
		switch n % 3 {
		case 0:
			_, err := leaphttp.Refund(w) // of both
			assert.NoError(t, err)
		case 1:
			_, err := leaphttp.Settle(w, 3*n) // of both
			assert.NoError(t, err)
			spent.Add(3 * n)
			kept.Add(3 * n)
		default:
			spent.Add(n)
			kept.Add(5)
		}
	}), leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: tokens, Cost: sizeOf, Key: by("a")}}})
	gatetest.AtOnce(16, func(id int) {
		for i := range 60 {
			get(h, fmt.Sprintf("/?size=%d", id+i))
		}
	})
	require.Equal(t, 1_000_000-spent.Load(), tokens.Peek("a").Remaining)
	require.Equal(t, 1_000_000-kept.Load(), users.Peek("user").Remaining)
}

func TestSettle_WithoutAMiddlewareThereIsNothing(t *testing.T) {
	t.Parallel()
	settled, err := leaphttp.Settle(httptest.NewRecorder(), 5)
	require.NoError(t, err)
	require.False(t, settled)
	refunded, err := leaphttp.Refund(httptest.NewRecorder())
	require.NoError(t, err)
	require.False(t, refunded)
	require.False(t, leaphttp.SetError(httptest.NewRecorder(), leaphttp.ErrPanic))
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.False(t, leaphttp.SetError(w, leaphttp.ErrPanic), "it has no gate")
		_, err := leaphttp.Settle(w, -1)
		assert.ErrorIs(t, err, limit.ErrCount)
	}), leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "a", 5, time.Second), Cost: sizeOf}}})
	require.Equal(t, 200, get(h, "/?size=2").Code)
}

// A limiter of the program that cannot be settled gets a refund, or one more question.
type unsettled struct{ limit.Limiter }

func TestSettle_OfALimiterOfTheProgram(t *testing.T) {
	t.Parallel()
	log := newLog(t, gatetest.NewClock(), "a", 100, time.Minute)
	actual := int64(0)
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := leaphttp.Settle(w, actual)
		assert.NoError(t, err)
	}), leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: unsettled{log}, Cost: func(*http.Request) int64 { return 20 }, Key: by("a")}}})
	get(h, "/")
	require.EqualValues(t, 100, log.Peek("a").Remaining)
	actual = 50
	get(h, "/")
	require.EqualValues(t, 50, log.Peek("a").Remaining)
}

func newChecker(t *testing.T, l limit.Limiter) *leaphttp.Checker {
	t.Helper()
	c, err := leaphttp.NewChecker(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: l}}})
	require.NoError(t, err)
	return c
}

func TestChecker_AsksInsideTheHandler(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	logins, perAddress := newLog(t, clock, "logins", 2, time.Minute), newLog(t, clock, "per-address", 100, time.Minute)
	check := newChecker(t, logins)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.FormValue("user")
		if !check.Check(w, r, user, 1) {
			return
		}
		if r.FormValue("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		refunded, err := leaphttp.Refund(w)
		assert.NoError(t, err)
		assert.True(t, refunded)
	})
	for name, h := range map[string]http.Handler{
		"alone": check.Wrap(handler),
		"in a middleware": leaphttp.Handler(handler, leaphttp.Config{
			Gate: leapgate.Must(leapgate.Config{}), Limits: []leaphttp.Limit{{Limiter: perAddress, Key: by("address")}},
		}),
	} {
		for range 5 {
			require.Equal(t, 200, get(h, "/?password=right&user=bob"+name[:2]).Code)
		}
		require.Equal(t, 401, get(h, "/?user=bob"+name[:2]).Code)
		require.Contains(t, get(h, "/?user=bob"+name[:2]).Header().Values("RateLimit"), `"logins";r=0;t=60`)
		w := get(h, "/?password=right&user=bob"+name[:2])
		require.Equal(t, 429, w.Code)
		require.Equal(t, "60", w.Header().Get("Retry-After"))
		require.Equal(t, []string{"logins"}, problemOf(t, w).Policies)
		require.Equal(t, 200, get(h, "/?password=right&user=alice").Code)
	}
	require.EqualValues(t, 100-3, perAddress.Peek("address").Remaining, "logins that were right cost nothing there either")
	require.False(t, check.Check(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody), "bobal", 1))
}

func TestChecker_Config(t *testing.T) {
	t.Parallel()
	_, err := leaphttp.NewChecker(leaphttp.Config{})
	require.ErrorIs(t, err, leaphttp.ErrConfig)
	require.ErrorContains(t, err, "Limits is empty")
	_, err = leaphttp.NewChecker(leaphttp.Config{
		Gate: leapgate.Must(leapgate.Config{}), Include: []string{"/"},
		Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "a", 1, time.Second), Cost: sizeOf}},
	})
	for _, fault := range []string{"Gate is set", "Include is set", "Limits[0] has a Key, a Cost or InFlight"} {
		require.ErrorContains(t, err, fault)
	}
	require.Panics(t, func() { leaphttp.MustChecker(leaphttp.Config{}) })
	_, err = leaphttp.NewChecker(leaphttp.Config{Limits: []leaphttp.Limit{{}}})
	require.ErrorContains(t, err, "Limits[0].Limiter is nil")
}

func newInFlight(t *testing.T, cfg limit.Config) *limit.InFlight {
	t.Helper()
	l, err := limit.NewInFlight(cfg)
	require.NoError(t, err)
	return l
}

func TestInFlight_RefusesWith503AndIsAnnounced(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, gate *leapgate.Gate) {
		t.Helper()
		exports := newInFlight(t, limit.Config{Name: "exports", Limit: 2})
		var h http.Handler
		depth := 0
		h = leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if depth++; depth < 3 {
				inner := get(h, "/")
				if depth == 3 {
					assert.Equal(t, 503, inner.Code)
					depth++
				}
			}
		}), leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{InFlight: exports, Key: by("tenant")}}})
		w := get(h, "/")
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"exports";q=2;qu="concurrent-requests"`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, `"exports";r=1`, w.Header().Get("RateLimit"))
		require.Zero(t, exports.Stats().InFlight)

		hold, _, err := exports.Acquire(t.Context(), "tenant")
		require.NoError(t, err)
		second, _, err := exports.Acquire(t.Context(), "tenant")
		require.NoError(t, err)
		w = get(h, "/")
		require.Equal(t, 503, w.Code)
		require.Empty(t, w.Header().Get("Retry-After"), "nobody knows when a call ends")
		require.Equal(t, `"exports";r=0`, w.Header().Get("RateLimit"))
		require.Equal(t, []string{"exports"}, problemOf(t, w).Policies)
		hold.Release()
		second.Release()
	})
}

func TestInFlight_PlacesComeBackWhateverHappens(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "GET /blocked", Threshold: 0}}))
	inFlight := newInFlight(t, limit.Config{Limit: 1})
	none := newLog(t, gatetest.NewClock(), "none", 0, time.Second)
	h := func(handler http.HandlerFunc, more ...leaphttp.Limit) http.Handler {
		return leaphttp.Handler(handler, leaphttp.Config{
			Gate: gate, Route: func(r *http.Request) string { return r.URL.Path },
			Limits: append([]leaphttp.Limit{{InFlight: inFlight, Name: "flight"}}, more...),
		})
	}
	require.Panics(t, func() { get(h(func(http.ResponseWriter, *http.Request) { panic("x") }), "/") })
	require.Zero(t, inFlight.Stats().InFlight)
	require.NotEqual(t, 200, get(h(ok), "/blocked").Code)
	require.Zero(t, inFlight.Stats().InFlight)
	require.Equal(t, 429, get(h(ok, leaphttp.Limit{Limiter: none}), "/").Code)
	require.Zero(t, inFlight.Stats().InFlight)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	do(h(ok), from("192.0.2.1:1").WithContext(ended))
	require.Zero(t, inFlight.Stats().InFlight)
	require.Equal(t, 200, get(h(ok), "/").Code)
}

func TestInFlight_HammerRequests(t *testing.T) {
	t.Parallel()
	const limited = 3
	withBoth(t, func(t *testing.T, gate *leapgate.Gate) {
		t.Helper()
		inFlight := newInFlight(t, limit.Config{Limit: limited})
		var inside, most, passed atomic.Int64
		var mu sync.Mutex
		h := leaphttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			n := inside.Add(1)
			defer inside.Add(-1)
			passed.Add(1)
			mu.Lock()
			defer mu.Unlock()
			most.Store(max(most.Load(), n))
		}), leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{InFlight: inFlight, Key: by("a")}}})
		gatetest.AtOnce(16, func(int) {
			for range 200 {
				get(h, "/")
			}
		})
		require.LessOrEqual(t, most.Load(), int64(limited))
		s := inFlight.Stats()
		require.Equal(t, passed.Load(), s.Allowed)
		require.Zero(t, s.InFlight)
	})
}

func TestInFlight_ConfigOfItsLimit(t *testing.T) {
	t.Parallel()
	inFlight := newInFlight(t, limit.Config{Limit: 1})
	log := newLog(t, gatetest.NewClock(), "a", 1, time.Second)
	_, err := leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{InFlight: inFlight, Limiter: log, Cost: sizeOf}}})
	require.ErrorContains(t, err, "Limits[0] has a Limiter and InFlight; want one of them")
	require.ErrorContains(t, err, "Limits[0].Cost is set with InFlight")
	_, err = leaphttp.NewTransport(leaphttp.TransportConfig{Limits: []leaphttp.Limit{{InFlight: inFlight}}})
	require.ErrorContains(t, err, "Limits[0].InFlight is set, which is for handlers")
}

func TestHeaders_OfPlansAndLimitsThatChange(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	perTenant, err := limit.NewLog(limit.Config{
		Name: "tenant", Limit: 10, MaxLimit: 1000, Window: time.Minute, Now: clock.Now,
		LimitFor: func(key string) int64 {
			return map[string]int64{"big": 500, "free": limit.Exempt, "any": limit.Default}[key]
		},
	})
	require.NoError(t, err)
	tenant := func(r *http.Request) string { return r.URL.Path[1:] }
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: perTenant, Key: tenant}}})
	fields := func(path string) [2]string {
		w := get(h, path)
		return [2]string{w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit")}
	}
	require.Equal(t, [2]string{`"tenant";q=10;w=60`, `"tenant";r=9;t=60`}, fields("/any"))
	require.Equal(t, [2]string{`"tenant";q=500;w=60`, `"tenant";r=499;t=60`}, fields("/big"))
	require.Equal(t, [2]string{}, fields("/free"), "it has no limit to know of")
	require.NoError(t, perTenant.SetLimit(20))
	require.Equal(t, [2]string{`"tenant";q=20;w=60`, `"tenant";r=18;t=60`}, fields("/any"))
	require.NoError(t, perTenant.SetMode(rule.Shadow))
	require.Equal(t, [2]string{}, fields("/any"), "nothing is refused")

	other := newLog(t, clock, "other", 50, time.Minute)
	h = leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: limit.All(perTenant, other), Key: tenant}}})
	require.Equal(t, [2]string{`"other";q=50;w=60`, `"other";r=49;t=60`}, fields("/any"))
	require.NoError(t, perTenant.SetMode(rule.Enforce))
	require.Equal(t, [2]string{`"tenant";q=20;w=60, "other";q=50;w=60`, `"tenant";r=15;t=60`}, fields("/any"))
	h = leaphttp.Handler(ok, leaphttp.Config{Headers: leaphttp.Legacy, Limits: []leaphttp.Limit{{Limiter: perTenant, Key: tenant}, {Limiter: other}}})
	require.Equal(t, "50", get(h, "/free").Header().Get("X-RateLimit-Limit"))
}

func TestHeaders_ShadowOfALimitRefusesNobody(t *testing.T) {
	t.Parallel()
	l, err := limit.NewLog(limit.Config{Name: "l", Limit: 1, Window: time.Minute, Mode: rule.Shadow})
	require.NoError(t, err)
	var log bytes.Buffer
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: l, FailClosed: true}}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 5 {
		require.Equal(t, 200, get(h, "/").Code)
	}
	require.EqualValues(t, 4, l.Stats().WouldRefuse)
	require.Empty(t, log.String())
}
