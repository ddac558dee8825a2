package leapredis

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

var errCut = errors.New("connection reset by peer")

// broken is a fault that can be switched on and off.
type broken struct {
	err   atomic.Pointer[error]
	after bool // what is asked is done, and only the answer is lost
}

// breakable returns what breaks s from here on.
func (s *server) breakable() *broken {
	b := new(broken)
	s.fault = b.fault
	return b
}

func (b *broken) set(err error) { b.err.Store(&err) }

func (b *broken) fault(_ string, before bool) error {
	if err := b.err.Load(); err != nil && before != b.after {
		return *err
	}
	return nil
}

func TestAway_TheServerIsSlow(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 100, Window: time.Hour})
		require.False(t, allow(t, l, "a", 1).Degraded)
		s.latency.set(200 * time.Millisecond)
		for i := range 100 {
			begun := time.Now()
			d := allow(t, l, "a", 1)
			require.True(t, d.Degraded)
			if i < failuresToOpen {
				require.Equal(t, DefaultTimeout, time.Since(begun))
			} else {
				require.LessOrEqual(t, time.Since(begun), DefaultTimeout)
			}
			time.Sleep(quietTime)
		}
		time.Sleep(time.Second) // what came late is given back
		require.EqualValues(t, 1, s.held("test:{}a"))

		// What was admitted here is not charged there, and what is refunded is refunded here.
		d := allow(t, l, "a", 1)
		require.False(t, d.Allowed, "100 here")
		s.latency.set(0)
		time.Sleep(retryTime)
		d = allow(t, l, "a", 1)
		require.False(t, d.Degraded)
		require.EqualValues(t, 98, d.Remaining)
		require.Equal(t, Closed, l.Link().State)
	})
}

// However often something fails, each call is sent once, and what it does is done once.
func TestAway_NothingIsCountedTwice(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		b.after = true
		l := k.start(t, s, Config{Limit: 1000, Window: time.Minute, WhenAway: Deny})
		require.True(t, allow(t, l, "a", 1).Allowed)
		b.set(errCut)
		for range 3 {
			require.False(t, allow(t, l, "a", 1).Allowed)
			time.Sleep(time.Microsecond)
		}
		d := limit.Decision{Charged: 1}
		require.ErrorIs(t, l.Settle(t.Context(), "a", d, 11), ErrAway)
		b.set(nil)
		require.EqualValues(t, 4+10, s.held("test:{}a"), "the answers were lost, not the calls")
		require.Equal(t, 5, s.called(k.script))
	})
}

func TestAway_EveryErrorOfAServerMeansThePolicy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down", "NOAUTH Authentication required.", "NOPERM this user has no permissions",
		"BUSY Redis is busy running a script", "TRYAGAIN Multiple keys request",
		"ERR unknown command 'EVALSHA', with args beginning with: 'secret'", "ERR max number of clients reached", "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				s := newServer()
				b := s.breakable()
				var log logs
				l := k.start(t, s, Config{Name: "n", Limit: 10, WhenAway: Deny, Logger: log.logger()})
				require.True(t, allow(t, l, "secret", 1).Allowed)
				b.set(&ReplyError{text})
				for range 30 {
					d := allow(t, l, "secret", 1)
					require.False(t, d.Allowed)
					require.True(t, d.Degraded)
				}
				require.Equal(t, Link{State: Open, Away: 1, Openings: 1, RoundTrips: l.Link().RoundTrips, Failures: failuresToOpen, Instances: 1}, l.Link())
				b.set(nil)
				time.Sleep(time.Second)
				require.True(t, allow(t, l, "secret", 1).Allowed)
				require.Equal(t, 1, log.count("the server is away"), log.String())
				require.Equal(t, 1, log.count("the server is back"))
				denied := log.count("the server denies what decisions need")
				require.Equal(t, strings.HasPrefix(text, "NOPERM"), denied == 1)
				require.Equal(t, 2+denied, log.count("limiter=n"))
				require.Zero(t, log.count("secret"))
			})
		})
	}
}

// A server that has no memory answers all the same: it reads, and limits that are used up are refused.
func TestAway_AServerThatRejectsWritesIsNotAway(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"NOREPLICAS Not enough good replicas to write.", "MISCONF Redis is configured to save",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				s := newServer()
				b := s.breakable()
				var log logs
				l := k.start(t, s, Config{Limit: 10, Window: time.Hour, WhenAway: Deny, Logger: log.logger()})
				require.Equal(t, 10, admitted(t, "used up", l))
				for range 30 {
					b.set(&ReplyError{text})
					require.True(t, allow(t, l, "secret", 1).Degraded)
					b.set(nil)
					d, err := l.Peek(t.Context(), "used up")
					require.NoError(t, err)
					require.False(t, d.Allowed || d.Degraded)
				}
				link := l.Link()
				require.Equal(t, Closed, link.State)
				require.Equal(t, [2]int64{0, 30}, [2]int64{link.Openings, link.Failures})
				require.Equal(t, 1, log.count("the server rejects writes"), log.String())
				require.Equal(t, 1, log.count("msg="), log.String())
				require.Zero(t, log.count("secret"))
			})
		})
	}
}

func TestAway_IsToldInStats(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		b.set(errCut)
		l := k.start(t, s, Config{Limit: 10, Instances: 2})
		for range 8 {
			allow(t, l, "a", 1)
		}
		require.Equal(t, limit.Stats{MaxKeys: limit.DefaultMaxKeys, Allowed: 5, Refused: 3, Degraded: 8, Away: true}, l.Stats())
		b.set(nil)
		time.Sleep(time.Second)
		allow(t, l, "a", 1)
		require.False(t, l.Stats().Away)
	})
}

// While the server is away, 1 call in 200 ms is sent, and recovery takes no longer.
func TestAway_ProbesAreRealCallsAndFew(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		l := k.start(t, s, Config{Limit: 1 << 30})
		allow(t, l, "a", 1)
		b.set(errCut)
		before := l.Link().RoundTrips
		for range 10_000 { // 10 s
			allow(t, l, "a", 1)
			time.Sleep(time.Millisecond)
		}
		require.EqualValues(t, failuresToOpen+49, l.Link().RoundTrips-before)
		require.EqualValues(t, 1, l.Link().Openings)
		b.set(nil)
		begun := time.Now()
		for allow(t, l, "a", 1).Degraded {
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, time.Since(begun), retryTime)
	})
}

func TestAway_ACallersEndIsNoFailure(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 100, Window: time.Minute})
		allow(t, l, "a", 1)
		s.latency.set(20 * time.Millisecond)
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			begun := time.Now()
			_, err := l.AllowN(ctx, "a", 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 5*time.Millisecond, time.Since(begun))
			cancel()
			_, err = l.AllowN(ctx, "a", 1)
			require.Error(t, err)
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 51, s.held("test:{}a"), "what was asked is asked once, and stays taken")
		require.Equal(t, 51, s.called(k.script))
		require.Equal(t, Closed, l.Link().State)
		require.Zero(t, l.Link().Failures)
		require.Equal(t, limit.Stats{MaxKeys: limit.DefaultMaxKeys, Allowed: 1}, l.Stats())
	})
}

func TestAway_AProbeWhoseCallerLeavesIsNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		b := s.breakable()
		b.set(errCut)
		l := counter(t, s, Config{Limit: 100})
		for range failuresToOpen {
			allow(t, l, "a", 1)
		}
		b.set(nil)
		s.latency.set(20 * time.Millisecond)
		time.Sleep(retryTime)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := l.AllowN(ctx, "a", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(retryTime)
		require.False(t, allow(t, l, "a", 1).Degraded)
	})
}

// However many callers leave at once: the server is well, and the next is answered by it.
func TestAway_ManyCallersLeaveAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 1 << 40, Window: time.Minute})
		allow(t, l, "a", 1)
		s.latency.set(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		for range 2 * maxStuck {
			all.Go(func() {
				_, err := l.AllowN(ctx, "a", 1)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		all.Wait()
		for range failuresToOpen {
			require.False(t, allow(t, l, "a", 1).Degraded)
		}
		require.Zero(t, l.Link().Failures)
		require.Zero(t, stuck(k.core(l).link))
	})
}

// While it is known to be away, callers that wait less than a probe does are answered by the
// policy, but for one in 200 ms.
func TestAway_CallersWhoLeaveAreNotAllProbes(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		h := hung{make(chan struct{})}
		l := k.start(t, h, Config{Limit: 1 << 30})
		for range failuresToOpen {
			allow(t, l, "a", 1)
			time.Sleep(quietTime)
		}
		left := 0
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			if _, err := l.AllowN(ctx, "a", 1); err != nil {
				left++
			}
			cancel()
		}
		require.Positive(t, left)
		require.LessOrEqual(t, left, 10)
		close(h.release)
		time.Sleep(time.Second)
	})
}

// hung is a client that looks at no context.
type hung struct{ release chan struct{} }

func (h hung) EvalSHA(context.Context, string, string, ...string) ([]int64, error) {
	<-h.release
	return nil, errCut
}

func (h hung) Eval(ctx context.Context, s, key string, args ...string) ([]int64, error) {
	return h.EvalSHA(ctx, s, key, args...)
}

func TestAway_AClientThatHangs(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		h := hung{make(chan struct{})}
		l := k.start(t, h, Config{Limit: 1 << 30, Timeout: 10 * time.Millisecond})
		for range 1000 {
			begun := time.Now()
			require.True(t, allow(t, l, "a", 1).Degraded)
			require.LessOrEqual(t, time.Since(begun), 10*time.Millisecond)
			time.Sleep(retryTime)
		}
		require.LessOrEqual(t, l.Link().RoundTrips, int64(maxStuck))
		require.EqualValues(t, maxStuck, stuck(k.core(l).link))
		close(h.release)
		synctest.Wait()
		require.Zero(t, stuck(k.core(l).link))
	})
}

// Callers that leave before they have waited long enough do not hide that it hangs.
func TestAway_AClientThatHangsAndCallersThatLeave(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		h := hung{make(chan struct{})}
		l := k.start(t, h, Config{Limit: 1 << 30})
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = l.AllowN(ctx, "a", 1)
			cancel()
		}
		require.True(t, allow(t, l, "a", 1).Degraded)
		require.NotEqual(t, Closed, l.Link().State)
		require.LessOrEqual(t, l.Link().RoundTrips, 2*DefaultTimeout.Milliseconds())
		close(h.release)
		time.Sleep(time.Second)
		require.Zero(t, stuck(k.core(l).link))
	})
}

type strange func() ([]int64, error)

func (f strange) EvalSHA(context.Context, string, string, ...string) ([]int64, error) { return f() }
func (f strange) Eval(context.Context, string, string, ...string) ([]int64, error)    { return f() }

func TestAway_AClientThatPanicsOrTellsNonsense(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]strange{
		"panic":    func() ([]int64, error) { panic("no") },
		"nil":      func() ([]int64, error) { return nil, nil },
		"too many": func() ([]int64, error) { return make([]int64, 100), nil },
		"NOSCRIPT": func() ([]int64, error) { return nil, &ReplyError{"NOSCRIPT"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				l := k.start(t, f, Config{Limit: 10, WhenAway: Allow})
				for range 10 {
					d := allow(t, l, "a", 1)
					require.True(t, d.Allowed)
					require.True(t, d.Degraded)
				}
				require.Equal(t, Open, l.Link().State)
				require.ErrorIs(t, l.Reset(t.Context(), "a"), ErrAway)
			})
		})
	}
}

func TestClose_WithCallsUnderWay(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		s.latency.set(10 * time.Millisecond)
		l := k.start(t, s, Config{Limit: 1 << 30, Instances: count, Lease: 1})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for {
					if _, err := l.Allow(t.Context(), "a"); err != nil {
						assert.ErrorIs(t, err, limit.ErrClosed)
						return
					}
				}
			})
		}
		time.Sleep(time.Second)
		require.NoError(t, l.Close())
		all.Wait()
	})
}

func TestHTTP_BehindTheMiddleware(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		b := s.breakable()
		shared := counter(t, s, Config{Name: "shared", Limit: 2, Window: time.Minute, WhenAway: Deny})
		own, err := limit.NewCounter(limit.Config{Name: "own", Limit: 3})
		require.NoError(t, err)
		m, err := leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: own}, {Limiter: shared}}})
		require.NoError(t, err)
		h := m(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		get := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
			return w
		}
		require.Equal(t, http.StatusOK, get().Code)
		require.Equal(t, http.StatusOK, get().Code)
		w := get()
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Equal(t, 1, int(own.Peek("192.0.2.1").Remaining))

		// While no server answers, nobody has used up anything.
		b.set(errCut)
		time.Sleep(time.Second)
		w = get()
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "#temporary-reduced-capacity")
		require.NotContains(t, w.Body.String(), "shared")
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.NotContains(t, w.Header().Get("RateLimit-Policy"), "shared", "what is not counted is not announced")
		require.Equal(t, 1, int(own.Peek("192.0.2.1").Remaining), "the own limit has it back")
	})
}
