package leaphttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

func TestHeaders_SeveralPolicies(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	burst, daily := newLog(t, clock, "burst", 3, time.Minute), newLog(t, clock, "daily", 5, 24*time.Hour)
	odd := newLog(t, clock, `o"d\d`, 7, 1500*time.Millisecond)
	set := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NotEmpty(t, w.Header().Get("RateLimit"), "set before the handler writes")
	})
	h := leaphttp.Handler(set, leaphttp.Config{Limits: []leaphttp.Limit{
		{Limiter: limit.All(burst, daily), Key: by("k")}, {Limiter: odd, Key: by("k")},
	}})
	w := get(h, "/")
	require.Equal(t, `"burst";q=3;w=60, "daily";q=5;w=86400, "o\"d\\d";q=7`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, `"burst";r=2;t=60, "o\"d\\d";r=6;t=2`, w.Header().Get("RateLimit"), "a window that is not whole seconds has no w")
	for range 4 {
		clock.Advance(time.Minute)
		w = get(h, "/")
	}
	require.Equal(t, `"daily";r=0;t=86160, "o\"d\\d";r=6;t=2`, w.Header().Get("RateLimit"), "now the day has the least left")
	w = get(h, "/")
	require.Equal(t, `"daily";r=0;t=86160, "o\"d\\d";r=6;t=2`, w.Header().Get("RateLimit"))
	require.Equal(t, "86160", w.Header().Get("Retry-After"))
}

func TestHeaders_Forms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			headers       leaphttp.Headers
			draft, legacy bool
		}{
			{0, true, false},
			{leaphttp.Draft, true, false},
			{leaphttp.Legacy, false, true},
			{leaphttp.Draft | leaphttp.Legacy, true, true},
			{leaphttp.NoHeaders, false, false},
		} {
			clock := gatetest.NewClock()
			h := leaphttp.Handler(ok, leaphttp.Config{Headers: c.headers, Limits: []leaphttp.Limit{
				{Limiter: newLog(t, clock, "wide", 10, time.Hour), Key: by("k")},
				{Limiter: newLog(t, clock, "tight", 1, 1500*time.Millisecond), Key: by("k")},
				{Limiter: newLog(t, clock, "wider", 11, time.Hour), Key: by("k")},
			}})
			for i, code := range []int{200, 429} {
				w := get(h, "/")
				require.Equal(t, code, w.Code)
				header := w.Header()
				require.Equal(t, c.draft, len(header["Ratelimit"]) == 1 && len(header["Ratelimit-Policy"]) == 1)
				require.Equal(t, i == 1, header.Get("Retry-After") == "2")
				if !c.legacy {
					require.Empty(t, header.Values("X-RateLimit-Limit"))
					require.Empty(t, header.Values("X-RateLimit-Remaining"))
					require.Empty(t, header.Values("X-RateLimit-Reset"))
					continue
				}
				require.Equal(t, "1", header.Get("X-RateLimit-Limit"))
				require.Equal(t, "0", header.Get("X-RateLimit-Remaining"))
				want := time.Now().Unix() + 2 // the bubble begins with a whole second
				require.Equal(t, strconv.FormatInt(want, 10), header.Get("X-RateLimit-Reset"))
			}
		}
	})
}

// TestHeaders_Nested: each middleware announces its own limits, whatever slices the
// others hold.
func TestHeaders_Nested(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	outer := leaphttp.Must(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, clock, "outer", 9, time.Second)}}})
	inner := leaphttp.Must(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, clock, "inner", 1, time.Second)}}})
	h := outer(inner(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Add("RateLimit", "own") })))
	w := get(h, "/")
	require.Equal(t, []string{`"outer";r=8;t=1`, `"inner";r=0;t=1`, "own"}, w.Header().Values("RateLimit"))
	require.Equal(t, []string{`"outer";q=9;w=1`, `"inner";q=1;w=1`}, w.Header().Values("RateLimit-Policy"))
	w = get(h, "/")
	require.Equal(t, 429, w.Code)
	require.Equal(t, []string{"inner"}, problemOf(t, w).Policies)
}

// canned is a limiter that does not describe itself and always says the same.
type canned struct{ limit.Decision }

func (c canned) AllowN(context.Context, string, int64) (limit.Decision, error) {
	return c.Decision, nil
}
func (c canned) Refund(context.Context, string, limit.Decision, int64) error { return nil }

func TestHeaders_LimiterOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		decision                limit.Decision
		policy, standing, retry string
	}{
		{limit.Decision{Allowed: true, Limit: 5, Remaining: 4, ResetAfter: 1}, `"own";q=5`, `"own";r=4`, ""},
		{limit.Decision{Allowed: true, Limit: 5, Remaining: 4, MoreAfter: 1, ResetAfter: time.Hour}, `"own";q=5`, `"own";r=4;t=1`, ""},
		{limit.Decision{Allowed: true, Limit: 5, MoreAfter: time.Second + 1}, `"own";q=5`, `"own";r=0;t=2`, ""},
		{limit.Decision{Allowed: true, Limit: 5, MoreAfter: limit.Never}, `"own";q=5`, `"own";r=0`, ""},
		{limit.Decision{Allowed: true, Limit: 1 << 60, Remaining: 1 << 60}, `"own";q=999999999999999`, `"own";r=999999999999999`, ""},
		{limit.Decision{Limit: 5, RetryAfter: limit.Never, ResetAfter: limit.Never}, `"own";q=5`, `"own";r=0`, ""},
		{limit.Decision{Limit: 5, RetryAfter: limit.Never - 1}, `"own";q=5`, `"own";r=0;t=9223372037`, "9223372037"},
		{limit.Decision{Limit: 5, Remaining: -3, RetryAfter: time.Second + 1}, `"own";q=5`, `"own";r=0;t=2`, "2"},
		{limit.Decision{Limit: 5, RetryAfter: 3 * time.Second, Crowded: true}, `"own";q=5`, `"own";r=0;t=3`, "3"},
		{limit.Decision{Limit: 5, RetryAfter: 1}, `"own";q=5`, `"own";r=0;t=1`, "1"},
		{limit.Decision{Limit: 5}, `"own";q=5`, `"own";r=0`, ""},
	} {
		w := get(leaphttp.Handler(ok, leaphttp.Config{
			Limits: []leaphttp.Limit{{Limiter: canned{c.decision}, Name: "own"}}, Headers: leaphttp.Draft | leaphttp.Legacy,
		}), "/")
		require.Equal(t, c.policy, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, c.standing, w.Header().Get("RateLimit"))
		require.Equal(t, c.retry, w.Header().Get("Retry-After"))
	}
}

func TestHeaders_RemoteLimitsAreAskedFirst(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	var order []string
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{
		{Limiter: &noting{newLog(t, clock, "near", 1, time.Second), &order, "near"}},
		{Limiter: &far{noting{newLog(t, clock, "far", 1, time.Second), &order, "far"}}},
	}})
	get(h, "/")
	require.Equal(t, []string{"far", "near"}, order)
}

type noting struct {
	limit.Limiter
	order *[]string
	name  string
}

func (n *noting) AllowN(ctx context.Context, key string, count int64) (limit.Decision, error) {
	*n.order = append(*n.order, n.name)
	return n.Limiter.AllowN(ctx, key, count)
}

type far struct{ noting }

func (*far) Remote() bool { return true }

func TestProblem_HeadersOfAnotherAnswer(t *testing.T) {
	t.Parallel()
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "c", 0, time.Second)}}})
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", "3")
	h.ServeHTTP(w, from("192.0.2.1:1"))
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	require.JSONEq(t, `{
		"type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title": "Quota exceeded",
		"status": 429,
		"detail": "The quota \"c\" is used up.",
		"violated-policies": ["c"]
	}`, w.Body.String())
}

// TestHeaders_EveryLimiterDescribesItself: the policies come from the limiters.
func TestHeaders_EveryLimiterDescribesItself(t *testing.T) {
	t.Parallel()
	config := func(name string, most int64) limit.Config {
		return limit.Config{Name: name, Limit: most, Window: 10 * time.Second}
	}
	narrow, err := limit.NewCounter(config("narrow", 5))
	require.NoError(t, err)
	wide, err := limit.NewCounter(config("wide", 100_000_000))
	require.NoError(t, err)
	log, err := limit.NewLog(config("log", 6))
	require.NoError(t, err)
	bucketed, err := limit.NewBucketed(config("bucketed", 7))
	require.NoError(t, err)
	all := limit.All(narrow, wide, canned{}, limit.All(log, bucketed))
	w := get(leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: all}}}), "/")
	require.Equal(t, `"narrow";q=5;w=10, "wide";q=100000000;w=10, "log";q=6;w=10, "bucketed";q=7;w=10`,
		w.Header().Get("RateLimit-Policy"))

	none := limit.All() // limits nothing, and says so
	w = get(leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: none}}}), "/")
	require.Equal(t, 200, w.Code)
	require.Equal(t, `"limit-1";q=0`, w.Header().Get("RateLimit-Policy"))
}

func TestHeaders_LimitWithoutANameInAGroupIsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	group := limit.All(newLog(t, clock, "daily", 100, 24*time.Hour), newLog(t, clock, "", 1, time.Second))
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{
		Limiter: group, Name: "short", Key: func(*http.Request) string { return "all" },
	}}})
	do(h, from("192.0.2.1:1"))
	w := do(h, from("192.0.2.1:1"))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Header().Get("RateLimit"), `"short";r=0`)
	require.Contains(t, w.Body.String(), `"violated-policies":["short"]`)
}
