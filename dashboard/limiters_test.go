package dashboard_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// fakeLimiter says what it is told. It has no Offenders.
type fakeLimiter struct{ stats func() limit.Stats }

func (l *fakeLimiter) Stats() limit.Stats            { return l.stats() }
func (l *fakeLimiter) Describe() []limit.Description { return nil }

func newLimiter(t *testing.T, c *gatetest.Clock) *limit.RateLimiter {
	t.Helper()
	l, err := limit.NewCounter(limit.Config{Name: `per "client"`, Limit: 2, Window: time.Minute, MaxKeys: 50, Offenders: 20, Now: c.Now})
	require.NoError(t, err)
	return l
}

func refuse(t *testing.T, l *limit.RateLimiter, key string, times int) {
	t.Helper()
	for range 2 + times {
		_, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
	}
}

func TestLimiters_FiguresAndOffenders(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	l := newLimiter(t, c)
	refuse(t, l, "<b>\n", 3)
	refuse(t, l, "a\xff", 7)
	for i := range 12 {
		refuse(t, l, strings.Repeat("k", i+1), 1)
	}
	all := limit.Stats{
		Keys: 1, MaxKeys: 2, Expired: 3, Evicted: 4, Crowded: 5, Bytes: 6, Coarse: 7, Allowed: 8, Refused: 9, Degraded: 10, WouldRefuse: 11, Away: true,
	}
	d := dashboard.Handler(gates.New(t, c), dashboard.Config{
		Limiters: []dashboard.Limiter{l, &fakeLimiter{func() limit.Stats { return all }}}, ShowKeys: dashboard.Everybody,
	})
	limiters := list(get(t, d, "limiters"), "limiters")
	require.Len(t, limiters, 2)
	require.Equal(t, []any{map[string]any{"name": `per "client"`, "limit": 2.0, "window": 60000.0}}, limiters[0]["limits"])
	require.Equal(t, []any{14.0, 50.0}, []any{limiters[0]["keys"], limiters[0]["maxKeys"]})
	offenders := list(limiters[0], "offenders")
	require.Len(t, offenders, 10)
	require.Equal(t, map[string]any{"key": "a\ufffd", "refused": 7.0, "excess": 0.0}, offenders[0])
	require.Equal(t, map[string]any{"key": "<b>\n", "refused": 3.0, "excess": 0.0}, offenders[1])
	require.Equal(t, map[string]any{
		"limits": []any{}, "offenders": []any{}, "keys": 1.0, "maxKeys": 2.0, "expired": 3.0, "evicted": 4.0, "crowded": 5.0, "bytes": 6.0, "coarse": 7.0,
		"allowed": 8.0, "refused": 9.0, "degraded": 10.0, "wouldRefuse": 11.0, "away": true,
	}, limiters[1])
	refused(t, d, http.StatusBadRequest, http.MethodGet, "limiters?k=100", "")
}

// What operators change while the program runs is seen.
func TestLimiters_AsTheyAreNow(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	burst, err := limit.NewBurst(limit.Config{Name: "b", Limit: 10, Burst: 3, MaxLimit: 50, Now: c.Now})
	require.NoError(t, err)
	places, err := limit.NewInFlight(limit.Config{Name: "p", Limit: 2, Mode: rule.Shadow})
	require.NoError(t, err)
	d := dashboard.Handler(gates.New(t, c), dashboard.Config{Limiters: []dashboard.Limiter{burst, places}})
	for range 3 {
		_, _, err := places.Acquire(t.Context(), "a")
		require.NoError(t, err)
	}
	require.NoError(t, burst.SetLimit(20))
	require.NoError(t, burst.SetBurst(7))
	require.NoError(t, burst.SetMode(rule.Off))
	limiters := list(get(t, d, "limiters"), "limiters")
	require.Equal(t, []any{map[string]any{"name": "b", "limit": 20.0, "window": 1000.0, "burst": 7.0, "mode": "off"}}, limiters[0]["limits"])
	require.Equal(t, []any{map[string]any{"name": "p", "limit": 2.0, "window": 0.0, "mode": "shadow"}}, limiters[1]["limits"])
	require.Equal(t, []any{2.0, 3.0, 1.0}, []any{limiters[1]["inFlight"], limiters[1]["allowed"], limiters[1]["wouldRefuse"]})
}

func TestLimiters_KeysAreHashesThatStay(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	l := newLimiter(t, c)
	refuse(t, l, "192.0.2.7", 2)
	refuse(t, l, "192.0.2.8", 1)
	keys := func(d *dashboard.Dashboard) [2]string {
		offenders := list(list(get(t, d, "limiters"), "limiters")[0], "offenders")
		return [2]string{offenders[0]["key"].(string), offenders[1]["key"].(string)}
	}
	cfg := dashboard.Config{Limiters: []dashboard.Limiter{l}, ShowKeys: dashboard.Nobody}
	d := dashboard.Handler(gates.New(t, c), cfg)
	first := keys(d)
	require.Regexp(t, "^key-[0-9a-f]{16}$", first[0])
	require.NotEqual(t, first[0], first[1])
	require.Equal(t, first, keys(d))
	require.NotEqual(t, first, keys(dashboard.Handler(gates.New(t, c), cfg)), "the hash has a key of its own")
	require.Equal(t, true, get(t, d, "about")["hiddenKeys"])
}

func TestLimiters_InFramesWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		l := newLimiter(t, c)
		client, _ := serve(t, dashboard.Handler(gates.New(t, c), dashboard.Config{Limiters: []dashboard.Limiter{l}, ShowKeys: dashboard.Everybody}))
		w := watch(t, client)
		require.Contains(t, string(w.next().Limiters), `"keys":0`)
		require.Nil(t, w.next().Limiters)
		refuse(t, l, "x", 4)
		require.Contains(t, string(w.next().Limiters), `{"key":"x","refused":4,"excess":0}`)
		require.Nil(t, w.next().Limiters)
	})
}

// One that the program brought breaks down: the others are shown, and the program goes on.
func TestLimiters_ThatPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		var log bytes.Buffer
		client, _ := serve(t, dashboard.Handler(gates.New(t, c), dashboard.Config{
			Limiters: []dashboard.Limiter{&fakeLimiter{func() limit.Stats { panic("no\nstats") }}, newLimiter(t, c)},
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		}))
		w := watch(t, client)
		f := w.next()
		require.Contains(t, string(f.Limiters), `[{"limits":[],"keys":0,"maxKeys":0,`)
		require.Contains(t, string(f.Limiters), `"maxKeys":50`)
		require.NotNil(t, w.next())
		require.Equal(t, 1, strings.Count(log.String(), "panicked"))
	})
}
