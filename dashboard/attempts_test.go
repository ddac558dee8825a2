package dashboard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

// from asks as somebody at an address.
func from(d http.Handler, address, method, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost/api/v1/"+path, strings.NewReader(`{"resource": "b", "threshold": 1}`))
	r.RemoteAddr = address
	r.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// Whoever tries passwords gets ten answers a minute, whatever he asks for, and then none, right
// or wrong. Others do not notice, and nobody waits.
func TestAttempts_GuessesAreFew(t *testing.T) {
	t.Parallel()
	for _, endpoint := range [][3]string{
		{"POST", "rules?kind=flow", "edit"}, {"GET", "who", "edit"}, {"GET", "about", "read"}, {"GET", "limiters", "read"}, {"GET", "resource?name=a", "read"}, {"HEAD", "about", "read"},
	} {
		t.Run(endpoint[0]+" "+endpoint[1], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, l := refusing(t, gatetest.ClockAt(start))
				var asked atomic.Int64
				d := dashboard.Handler(g, dashboard.Config{Limiters: []dashboard.Limiter{l}, Logger: quiet(), Authorize: func(r *http.Request) (string, error) {
					asked.Inc()
					return annWith("right")(r)
				}})
				began := time.Now()
				guess := func(i int) int {
					return from(d, "203.0.113.9:1000", endpoint[0], endpoint[1], fmt.Sprint("Bearer guess ", i)).Code
				}
				for i := range 1000 {
					code := guess(i)
					switch {
					case endpoint[2] == "read":
						require.Equal(t, http.StatusOK, code)
					case i < 10:
						require.Equal(t, http.StatusUnauthorized, code)
					default:
						require.Equal(t, http.StatusTooManyRequests, code)
					}
				}
				require.EqualValues(t, 10, asked.Load(), "it is not asked any more")

				// The right one is not told from the others.
				w := from(d, "203.0.113.9:1000", "GET", "about", "Bearer right")
				require.Equal(t, from(d, "203.0.113.9:1000", "GET", "about", "").Body.String(), w.Body.String())
				require.NotContains(t, w.Body.String(), "ann")
				w = from(d, "203.0.113.9:1001", "POST", "rules?kind=flow", "Bearer right")
				require.Equal(t, http.StatusTooManyRequests, w.Code)
				require.Contains(t, w.Body.String(), "too many failed attempts from your address; try again in ")
				var seconds int
				_, err := fmt.Sscan(w.Header().Get("Retry-After"), &seconds)
				require.NoError(t, err)
				require.True(t, seconds > 0 && seconds <= 120, seconds)

				// Others, and reading.
				require.Equal(t, http.StatusCreated, from(d, "203.0.113.10:1", "POST", "rules?kind=flow", "Bearer right").Code)
				require.Equal(t, http.StatusOK, from(d, "203.0.113.9:1000", "GET", "resources", "").Code)
				require.Zero(t, time.Since(began))

				// Retry-After is true.
				time.Sleep(time.Duration(seconds) * time.Second)
				require.Equal(t, http.StatusCreated, from(d, "203.0.113.9:1", "POST", "rules?kind=flow", "Bearer right").Code)
			})
		})
	}
}

// A page sends its credentials with all that it reads: that is one failure. Users who may change
// rules never fail, nor do readers without credentials.
func TestAttempts_WhatCounts(t *testing.T) {
	t.Parallel()
	g, l := refusing(t, gatetest.ClockAt(start))
	var log bytes.Buffer
	d := dashboard.Handler(g, dashboard.Config{
		Limiters: []dashboard.Limiter{l}, Authorize: annWith("right"), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const at = "203.0.113.9:1000"
	for range 100 {
		require.NotContains(t, from(d, at, "GET", "about", "Bearer old").Body.String(), "ann")
		require.Equal(t, http.StatusOK, from(d, at, "GET", "resource?name=a", "").Code)
		require.Equal(t, http.StatusOK, from(d, at, "GET", "limiters", "").Code)
		require.Contains(t, from(d, at, "GET", "about", "Bearer right").Body.String(), `"who":"ann"`)
		require.JSONEq(t, `{"who": "ann"}`, from(d, at, "GET", "who", "Bearer right").Body.String())
	}
	require.Equal(t, 1, strings.Count(log.String(), "failed authorisation"), log.String())
	for i := range 9 {
		require.Equal(t, http.StatusUnauthorized, from(d, at, "GET", "who", "").Code, i)
	}
	require.Equal(t, http.StatusTooManyRequests, from(d, at, "GET", "who", "").Code)
	require.Equal(t, http.StatusTooManyRequests, from(d, at, "GET", "who", "Bearer old").Code)
}

// A program may go by another field than Authorization. One that is known to be wrong does not
// let that be guessed in changes.
func TestAttempts_EveryFailedChangeCounts(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var log bytes.Buffer
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Authorize: func(r *http.Request) (string, error) {
			asked.Inc()
			if r.Header.Get("X-Token") != "right" {
				return "", errors.New("no")
			}
			return "ann", nil
		},
	})
	for i := range 100 {
		r := httptest.NewRequest(http.MethodDelete, "http://localhost/api/v1/rule?kind=flow&id=a", http.NoBody)
		r.RemoteAddr = "203.0.113.9:1000"
		r.Header.Set("Authorization", "Bearer always the same")
		r.Header.Set("X-Token", fmt.Sprint("guess ", i))
		d.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.EqualValues(t, 10, asked.Load(), "it is not asked any more")
	require.Equal(t, 10, strings.Count(log.String(), "failed authorisation"), log.String())
}

// All at once are no more than one after the other.
func TestAttempts_ManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet(), Authorize: func(*http.Request) (string, error) {
			asked.Inc()
			time.Sleep(time.Second) // a slow directory of users
			return "", errors.New("no")
		}})
		codes := make([]atomic.Int64, 600)
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				codes[from(d, "203.0.113.9:1000", "GET", "who", fmt.Sprint("Bearer ", i)).Code].Inc()
			})
		}
		wg.Wait()
		require.EqualValues(t, 10, asked.Load())
		require.EqualValues(t, 10, codes[http.StatusForbidden].Load())
		require.EqualValues(t, 490, codes[http.StatusTooManyRequests].Load())
	})
}

// Addresses that are counted one by one are bounded; of IPv6, one machine has many.
func TestAttempts_OfManyAddresses(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet(), Authorize: func(*http.Request) (string, error) {
		asked.Inc()
		return "", errors.New("no")
	}})
	for i := range 1000 {
		from(d, fmt.Sprintf("[2001:db8::%x]:1000", i), "GET", "who", "")
	}
	require.EqualValues(t, 10, asked.Load())
	asked.Store(0)
	const addresses = 8000
	for i := range addresses {
		from(d, fmt.Sprintf("10.%d.%d.%d:1000", i>>16, i>>8&255, i&255), "GET", "who", "")
	}
	require.Less(t, asked.Load(), int64(addresses/2+addresses/8), "beyond the bound they count together")
	require.GreaterOrEqual(t, asked.Load(), int64(4000))
}

// Failures from a whole network leave other networks alone, and addresses that have signed in before.
func TestAttempts_OfANetworkLockNobodyElseOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet(), Authorize: annWith("right")})
		who := func(address, token string) int { return from(d, address, "GET", "who", "Bearer "+token).Code }
		require.Equal(t, http.StatusOK, who("[2001:db8:0:ffff::1]:1", "right"))
		for network := range 5000 {
			who(fmt.Sprintf("[2001:db8:0:%x::1]:1", network), "wrong")
		}
		require.Equal(t, http.StatusTooManyRequests, who("[2001:db8:0:fffe::1]:1", "right"), "it is in the network that fails")
		require.Equal(t, http.StatusOK, who("[2001:db8:0:ffff::1]:1", "right"), "it has signed in before")
		for _, other := range []string{"[2001:db8:1::1]:1", "[2001:db9::1]:1", "192.0.2.1:1"} {
			require.Equal(t, http.StatusUnauthorized, who(other, "wrong"), other)
			require.Equal(t, http.StatusOK, who(other, "right"), other)
		}
		// Networks of every size are exhausted one after the other.
		for network := range 5000 {
			for range 2 {
				who(fmt.Sprintf("[2001:db8:%x::1]:1", network+2), "wrong")
			}
		}
		require.Equal(t, http.StatusOK, who("[2001:db9:ffff::1]:1", "right"))
		require.Equal(t, http.StatusOK, who("198.51.100.1:1", "right"))
	})
}

// An attempt counts whatever the first of several Authorization lines is.
func TestAttempts_CountAllLinesOfAuthorization(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet(), Authorize: func(r *http.Request) (string, error) {
		asked.Inc()
		if r.Header.Values("Authorization")[1] != "Bearer right" {
			return "", errors.New("no")
		}
		return "ann", nil
	}})
	for i := range 100 {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/about", http.NoBody)
		r.Header["Authorization"] = []string{"", fmt.Sprint("Bearer guess ", i)}
		d.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.EqualValues(t, 10, asked.Load())
}

// Behind a proxy, clients are told apart if the program says how.
func TestAttempts_BehindAProxy(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{
		Authorize: annWith("right"), Logger: quiet(),
		Address: func(r *http.Request) string { return r.Header.Get("X-Client") },
	})
	who := func(client, authorization string) int {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/who", http.NoBody)
		r.Header.Set("X-Client", client)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w.Code
	}
	for i := range 20 {
		who(strings.Repeat("a", 5000), fmt.Sprint("Bearer ", i))
	}
	require.Equal(t, http.StatusTooManyRequests, who(strings.Repeat("a", 6000), "Bearer right"), "only the beginning counts")
	require.Equal(t, http.StatusOK, who("b", "Bearer right"))
	require.Equal(t, http.StatusOK, who("", "Bearer right"))
}

func TestAttempts_AreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	fail := errors.New("the directory says: no\nlevel=INFO\x1b[31m " + strings.Repeat("x", 5000))
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start), flow.Rule{Resource: "a"}), dashboard.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Authorize: func(*http.Request) (string, error) { return "", fail },
	})
	for i := range 50 {
		from(d, "203.0.113.9:1000", "DELETE", "rule?kind=flow&id=a/1", fmt.Sprint("Bearer secret-", i))
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 10)
	for _, line := range lines {
		require.Contains(t, line, `level=WARN msg="leapgate: failed authorisation on the dashboard" address=203.0.113.9 method=DELETE error=`)
		require.Less(t, len(line), 600)
		require.NotContains(t, line, "secret")
		require.NotContains(t, line, "\x1b")
	}
}

// Those who may are let in at all times, and one who tries passwords beside them is not.
func TestAttempts_Hammer(t *testing.T) {
	t.Parallel()
	const each = 200
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Authorize: annWith("right"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range each {
				assert.Equal(t, http.StatusOK, from(d, fmt.Sprintf("10.0.0.%d:1", i), "GET", "who", "Bearer right").Code)
				from(d, "10.0.1.1:1", "GET", "who", fmt.Sprint("Bearer ", k, i))
			}
		})
	}
	wg.Wait()
	require.Equal(t, http.StatusTooManyRequests, from(d, "10.0.1.1:1", "GET", "who", "Bearer right").Code)
}

// An address that is throttled is not asked about, also with what is known to be wrong.
func TestAttempts_OfAThrottledAddressNothingIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet(), Authorize: func(r *http.Request) (string, error) {
			asked.Inc()
			return annWith("right")(r)
		}})
		for range 12 {
			from(d, "203.0.113.9:1000", "GET", "who", "Bearer wrong")
		}
		require.EqualValues(t, 10, asked.Load())
		for range 200 {
			require.Equal(t, http.StatusOK, from(d, "203.0.113.9:1000", "GET", "about", "Bearer wrong").Code)
		}
		require.EqualValues(t, 10, asked.Load())
		time.Sleep(2 * time.Minute)
		from(d, "203.0.113.9:1000", "GET", "about", "Bearer wrong")
		require.EqualValues(t, 11, asked.Load())
	})
}
