package leapredis

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

var _ limit.Acquirer = (*InFlight)(nil)

func startInFlight(t testing.TB, client Client, cfg Config) *InFlight {
	t.Helper()
	cfg.Prefix = "test:"
	if cfg.Instances == 0 {
		cfg.Instances = 1
	}
	cfg.Logger = quiet
	f, err := NewInFlight(client, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// enter takes a place of key, and expects an answer.
func enter(t testing.TB, f *InFlight, key string) (*limit.Place, limit.Decision) {
	t.Helper()
	p, d, err := f.Acquire(t.Context(), key)
	require.NoError(t, err)
	return &p, d
}

// taken is how many places of a key a server has, ended leases included.
func (s *server) taken(wire string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.places[wire])
}

func TestInFlight_SoManyAtATimeByAllProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		one, other := startInFlight(t, s, Config{Name: "exports", Limit: 2}), startInFlight(t, s, Config{Limit: 2})
		a, d := enter(t, one, "a")
		require.Equal(t, limit.Decision{Allowed: true, Name: "exports", Limit: 2, Remaining: 1, Charged: 1}, d)
		_, d = enter(t, other, "a")
		require.True(t, d.Allowed)
		p, d := enter(t, one, "a")
		require.Equal(t, limit.Decision{Name: "exports", Limit: 2}, d)
		p.Release() // it is none
		d, err := other.Peek(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, limit.Decision{Limit: 2}, d)
		require.EqualValues(t, 1, one.Stats().InFlight)
		a.Release()
		a.Release()
		d, err = one.Peek(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, limit.Decision{Allowed: true, Name: "exports", Limit: 2, Remaining: 1}, d)
		_, d = enter(t, other, "a")
		require.True(t, d.Allowed)
		_, d = enter(t, one, "b")
		require.True(t, d.Allowed)
		require.Equal(t, limit.Stats{Allowed: 2, Refused: 1, InFlight: 1, MaxKeys: limit.DefaultMaxKeys}, one.Stats())
		require.Equal(t, []limit.Description{{Name: "exports", Limit: 2}}, one.Describe())
	})
}

// A process that died gives its places back when their leases end; one that was only slow
// frees nobody else's.
func TestInFlight_LeasesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		f := startInFlight(t, s, Config{Limit: 1, LeaseTime: 10 * time.Second})
		slow, d := enter(t, f, "a")
		require.True(t, d.Allowed)
		time.Sleep(10*time.Second - time.Microsecond)
		_, d = enter(t, f, "a")
		require.False(t, d.Allowed)
		time.Sleep(time.Microsecond)
		second, d := enter(t, f, "a")
		require.True(t, d.Allowed, "the lease has ended")
		require.ErrorIs(t, slow.Renew(t.Context()), ErrLeaseEnded)
		slow.Release()
		_, d = enter(t, f, "a")
		require.False(t, d.Allowed, "the second has its place still")
		second.Release()
		_, d = enter(t, f, "a")
		require.True(t, d.Allowed)
	})
}

func TestInFlight_RenewedByTheirCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		b := s.breakable()
		f := startInFlight(t, s, Config{Limit: 1, LeaseTime: 9 * time.Second, WhenAway: Deny})
		p, d := enter(t, f, "a")
		require.True(t, d.Allowed)
		for range 20 {
			time.Sleep(3 * time.Second)
			require.NoError(t, p.Renew(t.Context()))
			_, d = enter(t, f, "a")
			require.False(t, d.Allowed)
		}
		b.set(errCut)
		require.ErrorIs(t, p.Renew(t.Context()), ErrAway)
		b.set(nil)
		time.Sleep(time.Second)
		require.NoError(t, p.Renew(t.Context()), "the lease has not ended")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.latency.set(time.Millisecond)
		require.ErrorIs(t, p.Renew(ctx), context.Canceled)
		p.Release()
		require.NoError(t, p.Renew(t.Context()), "there is nothing to renew")
	})
}

func TestInFlight_LimitsPerKeyAndCallAndModes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		f := startInFlight(t, s, Config{Limit: 1, MaxLimit: 10, LimitFor: byPlan})
		for key, most := range map[string]int{"any": 1, "vip 1": 10, "ban 1": 0} {
			got := 0
			for range 20 {
				if _, d := enter(t, f, key); d.Allowed {
					got++
				}
			}
			require.Equal(t, most, got)
		}
		_, d := enter(t, f, "ban 1")
		require.Equal(t, limit.Never, d.RetryAfter)
		before := f.Link().RoundTrips
		_, d = enter(t, f, "free 1")
		require.True(t, d.Allowed)
		require.Equal(t, before, f.Link().RoundTrips)
		_, _, err := f.Acquire(t.Context(), "bad 1")
		require.ErrorIs(t, err, limit.ErrCount)
		_, d, err = f.AcquireLimit(t.Context(), "any", 2)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.NoError(t, f.SetLimit(3))
		_, d = enter(t, f, "any")
		require.True(t, d.Allowed)
		require.NoError(t, f.SetMode(rule.Shadow))
		p, d := enter(t, f, "any")
		require.True(t, d.Allowed && d.WouldRefuse)
		p.Release()
		require.Equal(t, 3, s.taken("test:{}any"), "what would have been refused has no place")
		require.NoError(t, f.SetMode(rule.Off))
		_, d = enter(t, f, "any")
		require.True(t, d.Allowed && !d.WouldRefuse)
		_, _, err = f.Acquire(t.Context(), "")
		require.ErrorIs(t, err, limit.ErrKey)
		require.NoError(t, f.Close())
		_, _, err = f.Acquire(t.Context(), "a")
		require.ErrorIs(t, err, limit.ErrClosed)
	})
}

func TestInFlight_Policies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		local := startInFlight(t, away(), Config{Limit: 10, Instances: 4})
		var places []*limit.Place
		for range 5 {
			p, d := enter(t, local, "a")
			require.True(t, d.Degraded)
			if d.Allowed {
				places = append(places, p)
			}
		}
		require.Len(t, places, 2, "10 ÷ 4")
		require.EqualValues(t, 2, local.Stats().InFlight)
		for _, p := range places {
			require.NoError(t, p.Renew(t.Context()))
			p.Release()
		}
		d, err := local.Peek(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.EqualValues(t, 2, d.Remaining)
		require.Zero(t, local.Stats().InFlight)

		p, d := enter(t, startInFlight(t, away(), Config{Limit: 1, WhenAway: Allow}), "a")
		require.True(t, d.Allowed && d.Degraded)
		p.Release()
		_, d = enter(t, startInFlight(t, away(), Config{Limit: 1, WhenAway: Deny}), "a")
		require.True(t, !d.Allowed && d.Degraded && d.Unavailable)
		require.Positive(t, d.RetryAfter)
		_, d = enter(t, startInFlight(t, away(), Config{Limit: 0, WhenAway: Deny}), "a")
		require.False(t, d.Allowed || d.Unavailable)
	})
}

// A place that could not be released is when a server answers again, and not only when its
// lease ends.
func TestInFlight_ReleasesThatFailAreSentWhenAServerAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		b := s.breakable()
		f := startInFlight(t, s, Config{Limit: 20, LeaseTime: time.Hour, WhenAway: Deny})
		var places []*limit.Place
		for range 20 {
			p, d := enter(t, f, "a")
			require.True(t, d.Allowed)
			places = append(places, p)
		}
		b.set(errCut)
		for _, p := range places {
			p.Release()
		}
		require.Equal(t, 20, s.taken("test:{}a"))
		require.Zero(t, f.Stats().InFlight)
		b.set(nil)
		time.Sleep(time.Second)
		enter(t, f, "b")
		synctest.Wait()
		require.Zero(t, s.taken("test:{}a"))
	})
}

// A call that gives up, or is answered too late, has no place: it is given back.
func TestInFlight_NobodyKeepsAPlaceThatHeWasNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		f := startInFlight(t, s, Config{Limit: 10, LeaseTime: time.Hour, WhenAway: Deny})
		p, _ := enter(t, f, "b") // so that the server knows the scripts
		p.Release()
		s.latency.set(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		defer cancel()
		_, _, err := f.Acquire(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, s.taken("test:{}a"))
		time.Sleep(time.Second)
		require.Zero(t, s.taken("test:{}a"))

		s.latency.set(80 * time.Millisecond)
		_, d := enter(t, f, "a")
		require.True(t, d.Degraded && !d.Allowed)
		require.Equal(t, 1, s.taken("test:{}a"))
		time.Sleep(time.Second)
		require.Zero(t, s.taken("test:{}a"))
	})
}

// A place that was taken by a call whose answer was lost is given back too, and so is one whose
// way back was lost: when a server answers again, also if nobody calls.
func TestInFlight_PlacesThatNobodyKnowsOfDoNotStayTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		latency time.Duration
		patient time.Duration // how long the caller stays
		cut     time.Duration // when the connection breaks
		lost    bool          // of what is asked, only the answers
	}{
		{"the answer is lost", 20 * time.Millisecond, time.Hour, 0, true},
		{"the answer is lost when it is late", 80 * time.Millisecond, time.Hour, 0, true},
		{"the answer is lost when the caller has left", 20 * time.Millisecond, 15 * time.Millisecond, 0, true},
		{"the answer is late, and the way back is cut", 80 * time.Millisecond, time.Hour, 90 * time.Millisecond, false},
		{"the caller has left, and the way back is cut", 20 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				b := s.breakable()
				f := startInFlight(t, s, Config{Limit: 10, LeaseTime: time.Hour, WhenAway: Deny})
				p, _ := enter(t, f, "b") // so that the server knows the scripts
				p.Release()
				s.latency.set(c.latency)
				b.after = c.lost
				time.AfterFunc(c.cut, func() { b.set(errCut) })
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), c.patient)
				defer cancel()
				_, d, err := f.Acquire(ctx, "a")
				require.True(t, err != nil || d.Degraded)
				synctest.Wait()
				require.Equal(t, 1, s.taken("test:{}a"))
				time.Sleep(10 * time.Second)
				s.latency.set(0)
				b.set(nil)
				time.Sleep(2 * time.Second)
				require.Zero(t, s.taken("test:{}a"))
			})
		})
	}
}

func TestInFlight_TheServersClockGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var back time.Duration
		s.now = func() int64 { return time.Now().Add(-back).UnixMicro() }
		f := startInFlight(t, s, Config{Limit: 1, LeaseTime: 10 * time.Second})
		p, _ := enter(t, f, "a")
		back = 5 * time.Second
		time.Sleep(12 * time.Second)
		_, d := enter(t, f, "a")
		require.False(t, d.Allowed, "the lease lasts longer by that")
		require.NoError(t, p.Renew(t.Context()))
		p.Release()
		_, d = enter(t, f, "a")
		require.True(t, d.Allowed)
	})
}

func TestInFlight_RepliesThatNoScriptGives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, r := range [][]int64{{2, 2}, {-1, 0}, {1, 0}, {0, -1}, {0, 4}, {1, maxHeld + 1}, {0}} {
			f := startInFlight(t, strange(func() ([]int64, error) { return r, nil }), Config{Limit: 5, WhenAway: Deny})
			_, d := enter(t, f, "a")
			require.True(t, d.Degraded && !d.Allowed, "%v", r)
		}
	})
}

// Never one above, whether calls leave, are late, panic or forget; in the end all are free.
func TestInFlight_Hammer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, keys = 5, 4
		s := newServer()
		s.latency.set(2 * time.Millisecond)
		var inside [keys]atomic.Int64
		var all sync.WaitGroup
		var admitted, refused atomic.Int64
		call := func(f *InFlight, r *rand.Rand) {
			defer func() { _ = recover() }()
			key := r.IntN(keys)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(8000))*time.Microsecond)
			defer cancel()
			p, d, err := f.Acquire(ctx, string(rune('a'+key)))
			defer p.Release()
			switch {
			case err != nil:
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				return
			case !d.Allowed:
				refused.Add(1)
				return
			}
			admitted.Add(1)
			assert.LessOrEqual(t, inside[key].Add(1), int64(most))
			defer inside[key].Add(-1)
			for range r.IntN(3) {
				time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
				assert.NoError(t, p.Renew(context.Background()))
			}
			if r.IntN(10) == 0 {
				panic("a call fails")
			}
		}
		for process := range uint64(4) {
			f := startInFlight(t, s, Config{Limit: most, LeaseTime: time.Second, WhenAway: Deny})
			for id := range uint64(16) {
				all.Go(func() {
					r := rand.New(rand.NewPCG(process, id))
					for range 40 {
						call(f, r)
						time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					}
				})
			}
		}
		all.Wait()
		require.Greater(t, admitted.Load(), int64(100))
		require.Positive(t, refused.Load())
		time.Sleep(time.Second / 2)
		for key := range keys {
			require.Zero(t, s.taken("test:{}"+string(rune('a'+key))))
		}
	})
}

func TestInFlight_Faults(t *testing.T) {
	t.Parallel()
	_, err := NewInFlight(newServer(), Config{
		Limit: 10, Prefix: "p:", Window: time.Second, Burst: 3, Lease: 5, LeaseTime: time.Millisecond, WhenAway: Deny,
	})
	for _, fault := range []string{
		"bad configuration of InFlight: Window is 1s; want 0: calls in flight have none",
		"Burst is 3; want 0: only a Burst has one",
		"Lease is 5; want 0: each place is leased by itself, for LeaseTime",
		"LeaseTime is 1ms; want 100ms to 24h0m0s, or 0 for 1m0s",
	} {
		require.ErrorContains(t, err, fault)
	}
	require.ErrorIs(t, err, limit.ErrConfig)
}
