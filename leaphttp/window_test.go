package leaphttp_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// told is what one item of RateLimit says; t is -1 if it says none.
type told struct{ r, t int }

func toldBy(t *testing.T, h http.Header) (all []told) {
	t.Helper()
	for item := range strings.SplitSeq(h.Get("RateLimit"), ", ") {
		one := told{-1, -1}
		for _, parameter := range strings.Split(item, ";")[1:] {
			name, value, _ := strings.Cut(parameter, "=")
			n, err := strconv.Atoi(value)
			require.NoError(t, err)
			switch name {
			case "r":
				one.r = n
			case "t":
				one.t = n
			}
		}
		all = append(all, one)
	}
	return all
}

// everyLimiter makes the limiters of package limit with the same limit.
func everyLimiter(t *testing.T, cfg limit.Config) map[string]limit.Limiter {
	t.Helper()
	counter, err := limit.NewCounter(cfg)
	require.NoError(t, err)
	log, err := limit.NewLog(cfg)
	require.NoError(t, err)
	bucketed, err := limit.NewBucketed(cfg)
	require.NoError(t, err)
	return map[string]limit.Limiter{"Counter": counter, "Log": log, "Bucketed": bucketed, "All": limit.All(counter)}
}

// A client that sends what r allows, and at r=0 waits t, is never refused and gets its
// quota, as far as its limiter grants that to a client that asks all the time: a Counter
// keeps about one back in each window.
func TestHeaders_ClientThatGoesByTheFieldsGetsItsQuota(t *testing.T) {
	t.Parallel()
	const windows = 10
	for _, c := range []struct {
		quota  int64
		window time.Duration
	}{{5, 10 * time.Second}, {1, 10 * time.Second}, {7, time.Minute}, {100, time.Minute}, {200, time.Hour}} {
		for third := range 3 {
			phase := time.Duration(third)*c.window/3 + time.Duration(third)*137*time.Millisecond
			polite, eager := gatetest.NewClock(), gatetest.NewClock()
			polite.Advance(phase)
			eager.Advance(phase)
			end := polite.Now() + windows*int64(c.window)
			cfg := limit.Config{Name: "client", Limit: c.quota, Window: c.window, Now: eager.Now}
			granted := make(map[string]int)
			for name, l := range everyLimiter(t, cfg) {
				for eager.Set(end - windows*int64(c.window)); eager.Now() < end; eager.Advance(c.window / 500) {
					for d, err := l.AllowN(t.Context(), name, 1); d.Allowed; d, err = l.AllowN(t.Context(), name, 1) {
						require.NoError(t, err)
						granted[name]++
					}
				}
			}
			require.EqualValues(t, windows*c.quota, granted["Log"])
			cfg.Now = polite.Now
			for name, l := range everyLimiter(t, cfg) {
				h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: l, Key: by(name)}}})
				passed := 0
				for polite.Set(end - windows*int64(c.window)); polite.Now() < end; {
					w := get(h, "/")
					require.Equal(t, 200, w.Code)
					passed++
					if now := toldBy(t, w.Header())[0]; now.r == 0 {
						polite.Advance(time.Duration(now.t) * time.Second)
					}
				}
				due := min(granted[name], windows*int(c.quota))
				require.GreaterOrEqual(t, float64(passed), 0.95*float64(due),
					"%s, %d per %v, from %v on: %d of %d", name, c.quota, c.window, phase, passed, due)
			}
		}
	}
}

// At r=0 all that is told is one figure: t, Retry-After and X-RateLimit-Reset.
func TestHeaders_OneWaitInAllFields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(600 * time.Millisecond) // into the window, which begins with the bubble
		l, err := limit.NewCounter(limit.Config{Name: "client", Limit: 5, Window: 10 * time.Second})
		require.NoError(t, err)
		h := leaphttp.Handler(ok, leaphttp.Config{
			Headers: leaphttp.Draft | leaphttp.Legacy, Limits: []leaphttp.Limit{{Limiter: l, Key: by("k")}},
		})
		for range 4 {
			require.Equal(t, 200, get(h, "/").Code)
		}
		passed, refused := get(h, "/"), get(h, "/")
		require.Equal(t, 200, passed.Code)
		require.Equal(t, 429, refused.Code)
		require.Equal(t, "12", refused.Header().Get("Retry-After"), "9.4 s to the end of the window, and 2 until 5 weigh 4")
		for _, w := range []http.Header{passed.Header(), refused.Header()} {
			require.Equal(t, `"client";r=0;t=12`, w.Get("RateLimit"))
			require.Equal(t, strconv.FormatInt(time.Now().Add(11400*time.Millisecond).Unix(), 10), w.Get("X-RateLimit-Reset"))
		}
		time.Sleep(11399 * time.Millisecond)
		require.Equal(t, 429, get(h, "/").Code)
		time.Sleep(time.Millisecond)
		require.Equal(t, 200, get(h, "/").Code)
	})
}

// While something remains, t is how long no more than that can be used.
func TestHeaders_NoMoreThanWhatRemainsWithinT(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	for name, l := range everyLimiter(t, limit.Config{Name: "client", Limit: 10, Window: 20 * time.Second, Now: clock.Now}) {
		h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: l, Key: by(name)}}})
		clock.Advance(3700 * time.Millisecond)
		for range 3 {
			get(h, "/")
			clock.Advance(time.Second)
		}
		now := toldBy(t, get(h, "/").Header())[0]
		require.Equal(t, 6, now.r, name)
		for range now.r {
			require.Equal(t, 200, get(h, "/").Code, name)
		}
		clock.Advance(time.Duration(now.t-1) * time.Second)
		require.Equal(t, 429, get(h, "/").Code, name)
		clock.Advance(time.Second)
		require.Equal(t, 200, get(h, "/").Code, name)
		clock.Advance(time.Hour)
	}
}

// No t beside a Retry-After is longer than that, whatever refuses.
func TestHeaders_NoWaitBeyondRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := gatetest.NewClock()
		hour, minute := newLog(t, clock, "hour", 10, time.Hour), newLog(t, clock, "minute", 2, time.Minute)
		gate := gates.New(t, clock, flow.Rule{Resource: "GET (unmatched)", Threshold: 1, Interval: 3 * time.Second})
		limits := []leaphttp.Limit{{Limiter: hour, Key: by("k")}, {Limiter: minute, Key: by("k")}}
		h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Limits: limits, Headers: leaphttp.Draft | leaphttp.Legacy})
		require.Equal(t, `"hour";r=9;t=3600, "minute";r=1;t=60`, get(h, "/").Header().Get("RateLimit"))

		w := get(h, "/") // the rule
		require.Equal(t, "3", w.Header().Get("Retry-After"))
		require.Equal(t, `"hour";r=9, "minute";r=1`, w.Header().Get("RateLimit"))
		require.Equal(t, strconv.FormatInt(time.Now().Unix()+3, 10), w.Header().Get("X-RateLimit-Reset"))

		clock.Advance(3 * time.Second)
		require.Equal(t, 200, get(h, "/").Code)
		w = get(h, "/") // the minute
		require.Equal(t, "57", w.Header().Get("Retry-After"))
		require.Equal(t, `"hour";r=8, "minute";r=0;t=57`, w.Header().Get("RateLimit"))
		require.Equal(t, strconv.FormatInt(time.Now().Unix()+57, 10), w.Header().Get("X-RateLimit-Reset"))
	})
}
