package leaphttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

func TestHandler_QuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	l := newLog(t, clock, "client", 2, 10*time.Second)
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: l}}})
	require.Equal(t, 200, get(h, "/").Code)
	clock.Advance(1500 * time.Millisecond)
	require.Equal(t, 200, get(h, "/").Code)
	w := get(h, "/?secret=echo")
	require.Equal(t, 429, w.Code)
	require.Equal(t, "9", w.Header().Get("Retry-After"), "8.5 s, rounded up")
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, `"client";q=2;w=10`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, `"client";r=0;t=9`, w.Header().Get("RateLimit"), "as Retry-After")
	p := problemOf(t, w)
	require.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", p.Type)
	require.Equal(t, []string{"client"}, p.Policies)
	require.NotContains(t, w.Body.String(), "echo")

	require.Equal(t, 200, do(h, from("198.51.100.1:1")).Code, "another client")

	// Retry-After is never early: at that second, and not before the true wait, it passes.
	clock.Advance(8500*time.Millisecond - 1)
	require.Equal(t, "1", get(h, "/").Header().Get("Retry-After"))
	clock.Advance(1)
	require.Equal(t, 200, get(h, "/").Code)
}

func TestHandler_RefusalRunsNoPartOfTheHandler(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	none := newLog(t, clock, "none", 0, time.Second)
	gate := gates.New(t, clock, flow.Rule{Resource: "GET (unmatched)"})
	for _, cfg := range []leaphttp.Config{
		{Limits: []leaphttp.Limit{{Limiter: none}}},
		{Gate: gate},
		{Gate: gate, Limits: []leaphttp.Limit{{Limiter: none}}},
	} {
		require.Equal(t, 429, get(leaphttp.Handler(forbidden(t), cfg), "/").Code)
	}
}

func TestHandler_SecondLimitRefuses_FirstIsRefunded(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	first, second := newLog(t, clock, "first", 5, time.Second), newLog(t, clock, "second", 1, time.Minute)
	third := newLog(t, clock, "third", 2, time.Hour)
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{
		{Limiter: first, Key: by("k")}, {Limiter: second, Key: by("k")}, {Limiter: third, Key: by("k")},
	}})
	require.Equal(t, 200, get(h, "/").Code)
	for range 20 {
		w := get(h, "/")
		require.Equal(t, 429, w.Code)
		require.Equal(t, "60", w.Header().Get("Retry-After"))
		require.Equal(t, []string{"second"}, problemOf(t, w).Policies)
		require.Equal(t, `"first";r=4;t=1, "second";r=0;t=60, "third";r=1`, w.Header().Get("RateLimit"))
	}
	require.EqualValues(t, 4, first.Peek("k").Remaining)
	require.EqualValues(t, 1, third.Peek("k").Remaining)

	// Limits after the one that refuses are asked too: the wait is the longest.
	_, err := third.Allow(t.Context(), "k")
	require.NoError(t, err)
	w := get(h, "/")
	require.Equal(t, "3600", w.Header().Get("Retry-After"))
	require.Equal(t, []string{"second", "third"}, problemOf(t, w).Policies)

	// Whatever their order.
	h = leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: third, Key: by("k")}, {Limiter: second, Key: by("k")}}})
	require.Equal(t, "3600", get(h, "/").Header().Get("Retry-After"))
}

func TestHandler_GateRefuses_LimitsAreRefunded(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	l := newLog(t, clock, "client", 3, time.Minute)
	gate := gates.New(t, clock, flow.Rule{ID: "inside", Resource: "GET /x", Threshold: 1, Interval: 4 * time.Second})
	h := leaphttp.Handler(ok, leaphttp.Config{
		Gate: gate, Route: func(*http.Request) string { return "/x" }, Limits: []leaphttp.Limit{{Limiter: l, Key: by("k")}},
	})
	w := get(h, "/x")
	require.Equal(t, 200, w.Code)
	require.Equal(t, `"client";r=2;t=60`, w.Header().Get("RateLimit"))
	for range 10 {
		w = get(h, "/x")
		require.Equal(t, 429, w.Code)
		require.Equal(t, `"client";r=2`, w.Header().Get("RateLimit"), "as it stands after the refund; no t beyond Retry-After")
		require.Equal(t, "4", w.Header().Get("Retry-After"))
	}
	require.NotContains(t, w.Body.String(), "inside", "rules are the service's own business")
	require.EqualValues(t, 2, l.Peek("k").Remaining)
	require.EqualValues(t, 10, snapshot(gate, "GET /x").Block)

	require.Equal(t, 429, do(h, from("192.0.2.1:1")).Code)
	_, _ = l.AllowN(t.Context(), "k", 2)
	require.Equal(t, 429, get(h, "/x").Code)
	require.EqualValues(t, 11, snapshot(gate, "GET /x").Block, "what a limit refuses does not come to the gate")
}

// TestHandler_ClientGoneWhileWaiting: a client that hangs up has not had its turn for
// nothing, and a request whose client is gone before is charged and does not run.
func TestHandler_ClientGoneWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := gatetest.NewClock()
		l := &strict{Limiter: newLog(t, clock, "client", 5, time.Minute)}
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{
			{Resource: "GET (unmatched)", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour},
		}))
		h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{Limiter: l, Key: by("k")}}})
		remaining := func() int64 {
			d, err := l.AllowN(t.Context(), "k", 0)
			require.NoError(t, err)
			return d.Remaining
		}
		get(h, "/")
		r := hangingUp(t, time.Second)
		do(h, r)
		require.EqualValues(t, 3, remaining())

		require.Equal(t, 503, do(h, r).Code)
		require.EqualValues(t, 2, remaining())
	})
}

// strict is a limiter that does nothing for a context that has ended, as one that asks a
// server.
type strict struct{ limit.Limiter }

func (s *strict) Refund(ctx context.Context, key string, d limit.Decision, n int64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.Limiter.Refund(ctx, key, d, n)
}

func TestHandler_StatusOfTheGate(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	gate := gates.New(t, clock, flow.Rule{Resource: "GET /flow"})
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{Resource: "GET /full", MaxInFlight: 1}}
		return nil
	}))
	mux := http.NewServeMux()
	var inner *httptest.ResponseRecorder
	cfg := leaphttp.Config{Gate: gate, Mux: mux}
	mux.Handle("GET /flow", forbidden(t))
	var h http.Handler
	mux.HandleFunc("GET /full", func(http.ResponseWriter, *http.Request) { inner = get(h, "/full") })
	h = leaphttp.Handler(mux, cfg)

	require.Equal(t, 429, get(h, "/flow").Code)
	require.Equal(t, 200, get(h, "/full").Code)
	require.Equal(t, 503, inner.Code)
	require.Empty(t, inner.Header().Values("Retry-After"), "nobody knows when a place is free")
	p := problemOf(t, inner)
	require.Equal(t, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", p.Type)
	require.Empty(t, p.Policies)

	for given, want := range map[int]int{529: 529, 0: 503, 200: 503, 600: 503} {
		cfg.Status = func(b *leapgate.BlockError) int {
			require.Equal(t, "flow", b.Kind)
			return given
		}
		w := get(leaphttp.Handler(mux, cfg), "/flow")
		require.Equal(t, want, w.Code)
		if want == 529 {
			require.Equal(t, "about:blank", problemOf(t, w).Type)
		}
	}
}

func TestHandler_OwnRefusal(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	var got []*leaphttp.Refusal
	refuse := func(w http.ResponseWriter, r *http.Request, refusal *leaphttp.Refusal) {
		got = append(got, refusal)
		if r.Header.Get("Accept") == "text/html" {
			w.WriteHeader(refusal.Status)
			_, _ = io.WriteString(w, "<p>later")
			return
		}
		refusal.WriteProblem(w)
	}
	h := leaphttp.Handler(ok, leaphttp.Config{
		Gate:   gates.New(t, clock, flow.Rule{ID: "r", Resource: "GET (unmatched)"}),
		Limits: []leaphttp.Limit{{Limiter: newLog(t, clock, "c", 1, 2*time.Second), Key: leaphttp.Header("X")}}, Refuse: refuse,
	})
	require.Equal(t, 429, get(h, "/").Code)
	require.Equal(t, "r", got[0].Block.RuleID)
	require.ErrorIs(t, got[0].Err, leapgate.ErrBlocked)

	h = leaphttp.Handler(ok, leaphttp.Config{
		Limits: []leaphttp.Limit{{Limiter: newLog(t, clock, "c", 0, 2*time.Second)}}, Refuse: refuse,
	})
	r := from("192.0.2.9:1")
	r.Header.Set("Accept", "text/html")
	w := do(h, r)
	require.Equal(t, 429, w.Code)
	require.Equal(t, "<p>later", w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Empty(t, w.Header().Values("Retry-After"), "it will never pass")
	require.Equal(t, limit.Never, got[1].RetryAfter)
	require.Equal(t, []string{"c"}, got[1].Policies)

	// What a refusal was changed to is what is answered.
	refusal := &leaphttp.Refusal{Status: 429, Policies: []string{`a"<b>`}}
	w = httptest.NewRecorder()
	refusal.WriteProblem(w)
	require.Equal(t, []string{`a"<b>`}, problemOf(t, w).Policies)
}

func TestHandler_Exceptions(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("the cache is down")
	for _, c := range []struct {
		name      string
		handler   http.HandlerFunc
		exception int64
		panics    any
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, 0, nil},
		{"only written", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, 0, nil},
		{"404", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, 0, nil},
		{"499", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, 0, nil},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 1, nil},
		{"503", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) }, 1, nil},
		{"500 after a write", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil); w.WriteHeader(500) }, 0, nil},
		{"500 after a string", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ""); w.WriteHeader(500) }, 0, nil},
		{"500 after a flush", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 0, nil},
		{"500 after a copy", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader("x"), 1))
			w.WriteHeader(500)
		}, 0, nil},
		{"500 after 200", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); w.WriteHeader(500) }, 0, nil},
		{"500 after 103", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(500) }, 1, nil},
		{"500 after 101", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101); w.WriteHeader(500) }, 0, nil},
		{"own error", func(w http.ResponseWriter, _ *http.Request) { leaphttp.SetError(w, errOwn) }, 1, nil},
		{"own error and 500", func(w http.ResponseWriter, _ *http.Request) { leaphttp.SetError(w, errOwn); w.WriteHeader(500) }, 1, nil},
		{"no error", func(w http.ResponseWriter, _ *http.Request) { leaphttp.SetError(w, nil) }, 0, nil},
		{"canceled", func(w http.ResponseWriter, _ *http.Request) { leaphttp.SetError(w, context.Canceled) }, 0, nil},
		{"panic", func(http.ResponseWriter, *http.Request) { panic("oh") }, 1, "oh"},
		{"panic after 200", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("oh") }, 1, "oh"},
		{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, http.ErrAbortHandler},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := gatetest.NewClock()
			gate := gates.New(t, clock)
			h := leaphttp.Handler(c.handler, leaphttp.Config{Gate: gate})
			var paniced any
			func() {
				defer func() { paniced = recover() }()
				get(h, "/")
			}()
			require.Equal(t, c.panics, paniced)
			s := snapshot(gate, "GET (unmatched)")
			require.Equal(t, []int64{1, 1, c.exception, 0}, []int64{s.Pass, s.Success, s.Exception, s.Concurrency})
		})
	}
}

func TestHandler_GoroutineEnds(t *testing.T) {
	t.Parallel()
	gate := gates.New(t, gatetest.NewClock())
	h := leaphttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }), leaphttp.Config{Gate: gate})
	done := make(chan struct{})
	go func() {
		defer close(done)
		get(h, "/")
	}()
	<-done
	s := snapshot(gate, "GET (unmatched)")
	require.Equal(t, []int64{1, 1, 0}, []int64{s.Success, s.Exception, s.Concurrency})
}

func TestHandler_OutcomeDecides(t *testing.T) {
	t.Parallel()
	var seen []error
	gate := leapgate.Must(leapgate.Config{Outcome: func(err error) leapgate.Outcome {
		seen = append(seen, err)
		if err == leaphttp.StatusError(503) { //nolint:errorlint // it is not wrapped
			return leapgate.Success
		}
		return leapgate.Failure
	}})
	for _, status := range []int{500, 503} {
		get(leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }),
			leaphttp.Config{Gate: gate}), "/")
	}
	require.EqualValues(t, 1, snapshot(gate, "GET (unmatched)").Exception)
	require.Equal(t, []error{leaphttp.StatusError(500), leaphttp.StatusError(503)}, seen)
	require.EqualError(t, seen[0], "leaphttp: status 500")
}

func TestHandler_LimiterFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		clock := gatetest.NewClock()
		closed, before := newLog(t, clock, "closed", 1, time.Second), newLog(t, clock, "before", 9, time.Second)
		_ = closed.Close()
		cfg := leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: before, Key: by("k")}, {Limiter: closed}}, Logger: logger}
		h := leaphttp.Handler(ok, cfg)
		for range 3 {
			w := get(h, "/")
			require.Equal(t, 200, w.Code)
			require.Equal(t, `"before";q=9;w=1`, w.Header().Get("RateLimit-Policy"), "what does not work is not promised")
		}
		require.Equal(t, 1, strings.Count(log.String(), "limiter failed"), log.String())
		time.Sleep(time.Minute)
		get(h, "/")
		require.Equal(t, 2, strings.Count(log.String(), "limiter failed"))

		cfg.Limits[1].FailClosed = true
		var refusal *leaphttp.Refusal
		cfg.Refuse = func(w http.ResponseWriter, _ *http.Request, f *leaphttp.Refusal) { refusal = f; f.WriteProblem(w) }
		h = leaphttp.Handler(forbidden(t), cfg)
		w := get(h, "/")
		require.Equal(t, 503, w.Code)
		require.Empty(t, w.Header().Values("Retry-After"))
		require.ErrorIs(t, refusal.Err, limit.ErrClosed)
		require.EqualValues(t, 5, before.Peek("k").Remaining, "four passed, the refused one was refunded")
	})
}

// picky is a limiter that some keys are not good enough for.
type picky struct{ limit.Limiter }

func (picky) AllowN(context.Context, string, int64) (limit.Decision, error) {
	return limit.Decision{}, limit.ErrKey
}

func TestHandler_BadKeyNeverAdmits(t *testing.T) {
	t.Parallel()
	h := leaphttp.Handler(forbidden(t), leaphttp.Config{
		Limits: []leaphttp.Limit{{Limiter: picky{}}}, Logger: slog.New(slog.DiscardHandler),
	})
	require.Equal(t, 503, get(h, "/").Code)
}

// TestHandler_ContextEnded: a client that goes away is no reason to pass a limit.
func TestHandler_ContextEnded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := leaphttp.Handler(forbidden(t), leaphttp.Config{
		Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "c", 1, time.Second)}},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 503, do(h, from("192.0.2.1:1").WithContext(ctx)).Code)
	require.Empty(t, log.String(), "the limiter did not fail")
}

func TestHandler_Skip(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{
		{Limiter: newLog(t, clock, "a", 1, time.Second), Skip: func(r *http.Request) bool { return r.Header.Get("X-Admin") != "" }},
		{Limiter: newLog(t, clock, "b", 9, time.Second)},
	}})
	r := from("192.0.2.1:1")
	r.Header.Set("X-Admin", "1")
	for range 3 {
		w := do(h, r)
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"b";q=9;w=1`, w.Header().Get("RateLimit-Policy"))
	}
	require.Equal(t, 200, do(h, from("192.0.2.1:1")).Code)
	require.Equal(t, 429, do(h, from("192.0.2.1:1")).Code)
}

func TestHandler_Origin(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	gate := gates.New(t, clock, flow.Rule{Resource: "GET (unmatched)", Origin: "shop", Threshold: 1})
	h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Origin: leaphttp.Header("X-Origin")})
	call := func(origin string) int {
		r := from("192.0.2.1:1")
		r.Header.Set("X-Origin", origin)
		return do(h, r).Code
	}
	require.Equal(t, 200, call("shop"))
	require.Equal(t, 429, call("shop"))
	require.Equal(t, 200, call("other"))
	require.Equal(t, 200, call(strings.Repeat("x", 1<<20)), "no error of a client's making")
}

func TestHandler_ClosedGate(t *testing.T) {
	t.Parallel()
	gate := gates.New(t, gatetest.NewClock())
	_ = gate.Close()
	require.Equal(t, 200, get(leaphttp.Handler(ok, leaphttp.Config{Gate: gate}), "/").Code)
}

func TestHandler_ManyLimits(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	var limits []leaphttp.Limit
	for range 7 {
		limits = append(limits, leaphttp.Limit{Limiter: newLog(t, clock, "", 1, time.Second)})
	}
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: limits})
	w := get(h, "/")
	require.Equal(t, 200, w.Code)
	require.Equal(t, 7, strings.Count(w.Header().Get("RateLimit"), ";r=0;t=1"))
	w = get(h, "/")
	require.Equal(t, 429, w.Code)
	require.Len(t, problemOf(t, w).Policies, 7)
}

// TestHandler_NeverMoreThanTheLimit: many at once, each refused by a later limit or
// admitted; the numbers are exact.
func TestHandler_NeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	first, second := newLog(t, clock, "first", 1000, time.Second), newLog(t, clock, "second", 100, time.Second)
	gate := gates.New(t, clock, flow.Rule{Resource: "GET (unmatched)", Threshold: 60})
	h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{
		{Limiter: first, Key: by("k")}, {Limiter: second, Key: by("k")},
	}})
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				if get(h, "/").Code == 200 {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 60, passed.Load())
	require.EqualValues(t, 940, first.Peek("k").Remaining)
	require.EqualValues(t, 40, second.Peek("k").Remaining)
	s := snapshot(gate, "GET (unmatched)")
	require.EqualValues(t, 60, s.Pass)
	require.Zero(t, s.Concurrency)
}
