package leapredis

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/limit"
)

// steady calls so often in a time, evenly, and tells how many were admitted.
func steady(t *testing.T, l limit.Limiter, key string, calls int, in time.Duration) (admitted int) {
	t.Helper()
	for range calls {
		if allow(t, l, key, 1).Allowed {
			admitted++
		}
		time.Sleep(in / time.Duration(calls))
	}
	return admitted
}

func TestLease_SavesRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1 << 40, Lease: 10})
		for range 100 { // at one time: each lease is spent before the next is taken
			require.True(t, allow(t, l, "a", 1).Allowed)
		}
		// 1, 1, 1+1, 1+3, 1+7, then 10 each.
		require.Equal(t, 5+9, s.called("counter"))
		link := l.Link()
		require.EqualValues(t, 100-s.called("counter"), link.Leased)
		require.EqualValues(t, 100, l.Stats().Allowed)
		time.Sleep(200 * time.Millisecond) // what is left goes back
		require.EqualValues(t, 100, s.held("test:{}a"))
		require.EqualValues(t, 1, s.called("counter refund"))
		require.Positive(t, l.Link().Returned)
	})
}

// A key that comes once in a while takes nothing beyond what it uses.
func TestLease_FollowsTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1 << 40, Lease: 100, Window: time.Hour})
		require.Equal(t, 20, steady(t, l, "slow", 20, 20*time.Second))
		require.Equal(t, 20, s.called("counter"))
		require.Zero(t, l.Link().Leases)

		require.Equal(t, 500, steady(t, l, "fast", 500, time.Second)) // 50 in the time of a lease
		time.Sleep(time.Second)
		require.EqualValues(t, 500, s.held("test:{}fast"))
		require.Less(t, s.called("counter")-20, 40)
		before := l.Link().Returned
		require.Equal(t, 50, steady(t, l, "fast", 50, 5*time.Second)) // 1
		require.Less(t, l.Link().Returned-before, int64(5))
	})
}

func TestLease_ShrinksNearTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var taken []int64
		s.observe = func(name, _ string, _ int64, r []int64) {
			if name == "counter" {
				taken = append(taken, r[0])
			}
		}
		l := counter(t, s, Config{Limit: 1000, Window: time.Hour, Lease: 500})
		admitted := 0
		for range 1500 {
			if allow(t, l, "a", 1).Allowed {
				admitted++
			}
		}
		require.Equal(t, 1000, admitted)
		left := int64(1000)
		for _, n := range taken {
			if n > 1 {
				require.LessOrEqual(t, n, 1+left/8)
			}
			left -= n
		}
		require.Zero(t, left)
		require.EqualValues(t, []int64{1, 1, 1, 1, 1, 0}, taken[len(taken)-6:])
	})
}

func TestLease_EndsAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.latency.set(20 * time.Millisecond)
		l := counter(t, s, Config{Limit: 1000, Window: time.Hour, Lease: 10, LeaseTime: 100 * time.Millisecond})
		lease := func() *lease { return leaseOf(l, "a") }
		admitted := lend(t, l, "a")
		require.EqualValues(t, 1, lease().left.Load())
		time.Sleep(79*time.Millisecond + 999*time.Microsecond) // since the server was asked: 99.999 ms
		before := s.called("counter")
		require.True(t, allow(t, l, "a", 1).Allowed)
		require.Equal(t, before, s.called("counter"))
		require.NoError(t, l.Refund(t.Context(), "a", limit.Decision{Charged: 1, Ticket: lease().ticket}, 1))
		require.EqualValues(t, 1, lease().left.Load())
		time.Sleep(time.Microsecond)
		require.True(t, allow(t, l, "a", 1).Allowed)
		require.Equal(t, before+1, s.called("counter"))
		time.Sleep(time.Second)
		require.EqualValues(t, admitted+1, s.held("test:{}a"))
	})
}

// lend calls until there is a lease with permits, and tells how many were admitted.
func lend(t *testing.T, l *RateLimiter, key string) (admitted int64) {
	t.Helper()
	for leaseOf(l, key) == nil || leaseOf(l, key).left.Load() == 0 {
		require.True(t, allow(t, l, key, 1).Allowed)
		admitted++
	}
	return admitted
}

func leaseOf(l *RateLimiter, key string) *lease {
	if n := l.keys.Find(l.keys.Hash(key), key); n != nil {
		return n.Value.lease.Load()
	}
	return nil
}

func TestLease_EndsWithTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.latency.set(2 * time.Millisecond)
		l := counter(t, s, Config{Limit: 1000, Window: time.Second, Lease: 10, LeaseTime: 500 * time.Millisecond})
		time.Sleep(800 * time.Millisecond)
		lend(t, l, "a")
		lease := leaseOf(l, "a")
		require.LessOrEqual(t, lease.end, time.Now().Truncate(time.Second).Add(time.Second).UnixNano())
		time.Sleep(time.Until(time.Unix(0, lease.end)))
		before := s.called("counter")
		allow(t, l, "a", 1)
		require.Equal(t, before+1, s.called("counter"), "the lease is over")
		time.Sleep(time.Second)
		require.Positive(t, lease.left.Load(), "nothing goes back to a window that is over")
	})
}

// What is left goes back once, whatever becomes of the call.
func TestLease_GivesBackOnce(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			b := broken{after: after}
			s.fault = func(name string, before bool) error {
				if name == "counter refund" {
					return b.fault(name, before)
				}
				return nil
			}
			l := counter(t, s, Config{Limit: 1000, Window: time.Hour, Lease: 10})
			lend(t, l, "a")
			held := s.held("test:{}a")
			b.set(errCut)
			time.Sleep(10 * time.Second)
			if after {
				held--
			}
			require.Equal(t, held, s.held("test:{}a"))
			require.Zero(t, l.Link().Returned)
			require.NoError(t, l.Close())
			require.Equal(t, held, s.held("test:{}a"))
		})
	}
}

func TestLease_CloseGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.latency.set(time.Millisecond)
		l := counter(t, s, Config{Limit: 1 << 40, Window: time.Hour, Lease: 10})
		keys := []string{"a", "b", "c", "d", "e", "f", "{", "}"}
		admitted := map[string]int64{}
		for _, key := range keys {
			admitted[key] = lend(t, l, key)
		}
		require.NoError(t, l.Close())
		for _, key := range keys {
			require.Equal(t, admitted[key], s.held(l.wire(key)), key)
		}
		require.EqualValues(t, len(keys), l.Link().Returned)
	})
}

func TestLease_Reset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1 << 40, Window: time.Hour, Lease: 10})
		for range 20 {
			allow(t, l, "a", 1)
		}
		require.NoError(t, l.Reset(t.Context(), "a"))
		require.Zero(t, s.held("test:{}a"))
		allow(t, l, "a", 1)
		require.Positive(t, s.held("test:{}a"), "no permit of before is served")
		time.Sleep(time.Second)
		require.EqualValues(t, 1, s.held("test:{}a"))
	})
}

// A refund goes to the lease, and from there to the next call.
func TestLease_Refund(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1 << 40, Window: time.Hour, Lease: 10})
		var last limit.Decision
		for range 20 {
			last = allow(t, l, "a", 1)
		}
		left := leaseOf(l, "a").left.Load()
		require.NoError(t, l.Refund(t.Context(), "a", last, 1))
		require.Equal(t, left+1, leaseOf(l, "a").left.Load())
		time.Sleep(time.Second)
		require.EqualValues(t, 19, s.held("test:{}a"))
		require.NoError(t, l.Refund(t.Context(), "a", last, 1)) // a wrong one, but there it goes
		require.EqualValues(t, 18, s.held("test:{}a"))
	})
}

// The server goes away: what is leased is served until it ends, and then the policy answers.
func TestLease_TheServerGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		b := s.breakable()
		l := counter(t, s, Config{Limit: 1 << 40, Window: time.Hour, Lease: 10, WhenAway: Deny})
		lend(t, l, "a")
		left := leaseOf(l, "a").left.Load()
		require.Positive(t, left)
		b.set(errCut)
		for i := range left + 5 {
			d := allow(t, l, "a", 1)
			require.Equal(t, i < left, d.Allowed)
			require.Equal(t, i >= left, d.Degraded)
		}
	})
}

func TestLease_BoundedKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 10, Lease: 10, MaxKeys: 100})
		for i := range 5000 {
			allow(t, l, string(rune(i+1000)), 1)
		}
		require.LessOrEqual(t, l.Stats().Keys, 100)
		require.EqualValues(t, 5000, l.Stats().Allowed)
	})
}

func TestLease_ServingAllocatesNothing(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	s := newServer()
	l := counter(t, s, Config{Limit: 1 << 40, Window: time.Hour, Lease: 100_000, LeaseTime: time.Minute})
	ctx := t.Context()
	for range 50_000 {
		allow(t, l, "a", 1)
	}
	require.Greater(t, leaseOf(l, "a").left.Load(), int64(2000))
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = l.AllowN(ctx, "a", 1) }))
}

// known is a client that answers at once.
type known struct{ reply []int64 }

func (k known) EvalSHA(context.Context, string, string, ...string) ([]int64, error) {
	return k.reply, nil
}

func (k known) Eval(context.Context, string, string, ...string) ([]int64, error) { return k.reply, nil }

func TestAllow_Allocations(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	passes := counter(t, known{[]int64{1, 0, 1, 1e15}}, Config{Limit: 100})
	allow(t, passes, "a", 1)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _, _ = passes.AllowN(ctx, "a", 1) }), 2.0)

	refuses := counter(t, known{[]int64{0, 0, 100, 1e15}}, Config{Limit: 100, Window: time.Hour, LeaseTime: time.Minute})
	require.False(t, allow(t, refuses, "a", 1).Allowed)
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = refuses.AllowN(ctx, "a", 1) }))
}

// Any number of processes over one server, with leases, refunds, late answers and lost
// ones: all that is admitted in a window of the server was counted there, and that is never
// above the limit.
func TestHammer_LeasesNeverAdmitMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		limit int64
		lease int64
	}{{"per call", 40, 1}, {"few", 40, 10}, {"many", 2000, 50}, {"one", 1, 100}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { hammer(t, c.limit, c.lease) })
		})
	}
}

func hammer(t *testing.T, most, lease int64) {
	t.Helper()
	const processes, goroutines = 5, 8
	const window = 100 * time.Millisecond
	s := newServer()
	s.latency.set(2 * time.Millisecond)
	var mu sync.Mutex
	var worst int64
	s.observe = func(name, _ string, _ int64, r []int64) {
		if name == "counter" {
			mu.Lock() // the test may read it while a call runs whose caller has gone
			worst = max(worst, r[2])
			mu.Unlock()
		}
	}
	slow := rand.New(rand.NewPCG(1, uint64(lease)))
	s.fault = func(_ string, before bool) error {
		mu.Lock()
		what := slow.IntN(200)
		mu.Unlock()
		switch what {
		case 0:
			return errCut
		case 1:
			if !before {
				time.Sleep(60 * time.Millisecond) // and its caller has gone
			}
		}
		return nil
	}
	type place struct {
		key    string
		ticket int64
	}
	admitted := map[place]int64{}
	var total atomic.Int64
	var all sync.WaitGroup
	for p := range processes {
		l := counter(t, s, Config{Limit: most, Window: window, Lease: lease, LeaseTime: 30 * time.Millisecond, WhenAway: Deny})
		for g := range goroutines {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(p), uint64(g)))
				for end := time.Now().Add(time.Second); time.Now().Before(end); {
					key := string(rune('a' + r.IntN(2)))
					n := int64(1)
					if r.IntN(8) == 0 {
						n = r.Int64N(4)
					}
					asked := time.Now()
					d, err := l.AllowN(t.Context(), key, n)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Charged > 0 {
						// It was admitted while the window that was charged lasted, or before.
						if number := asked.UnixMicro() / window.Microseconds(); number > d.Ticket&(1<<generationAt-1) {
							t.Errorf("asked in window %d, charged to %d", number, d.Ticket)
						}
						kept := d.Charged
						if r.IntN(5) == 0 {
							give := r.Int64N(kept + 1)
							_ = l.Refund(t.Context(), key, d, give) // done or not, they are not used
							kept -= give
						}
						mu.Lock()
						admitted[place{key, d.Ticket}] += kept
						mu.Unlock()
						total.Add(kept)
					}
					time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
				}
			})
		}
	}
	all.Wait()
	time.Sleep(time.Second) // those whose callers have gone
	mu.Lock()
	defer mu.Unlock()
	require.LessOrEqual(t, worst, most)
	for where, n := range admitted {
		require.LessOrEqual(t, n, most, where)
	}
	require.Greater(t, total.Load(), most*4)
}

// Once what is left has been taken to be given back, nobody gets it.
func TestLease_FinishIsTheEnd(t *testing.T) {
	t.Parallel()
	for range 200 {
		var l lease
		l.left.Store(100)
		var taken, left atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 40 {
					if _, ok := l.take(1); ok {
						taken.Add(1)
					}
				}
			})
		}
		all.Go(func() { left.Add(l.finish()) })
		all.Go(func() { left.Add(l.finish()) })
		all.Wait()
		require.EqualValues(t, 100, taken.Load()+left.Load())
		_, ok := l.take(0)
		require.False(t, ok)
		require.False(t, l.give(1))
	}
}

// What was charged to another window is no permit of this one.
func TestLease_ARefundOfAnotherWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1 << 40, Lease: 10})
		old := allow(t, l, "a", 1)
		time.Sleep(time.Second)
		lend(t, l, "a")
		left, held := leaseOf(l, "a").left.Load(), s.held("test:{}a")
		require.NoError(t, l.Refund(t.Context(), "a", old, 1))
		require.Equal(t, left, leaseOf(l, "a").left.Load())
		require.Equal(t, held, s.held("test:{}a"))
	})
}

// By this process's clock the window lasts a little longer than by the server's, so permits
// of two windows can be there at a time.
func TestLease_TheNextWindowComesEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 1 << 40, Lease: 10})
		time.Sleep(950 * time.Millisecond)
		lend(t, l, "a")
		first := leaseOf(l, "a")
		n := l.keys.Find(l.keys.Hash("a"), "a")
		now := l.link.clock.Now()
		reply := reply{5, 5, 5, time.Now().Add(60 * time.Millisecond).UnixMicro()} // its clock is ahead
		l.leases.put(n, now, now, 4, &reply, &limit.Decision{})
		second := leaseOf(l, "a")
		require.NotSame(t, first, second)
		require.EqualValues(t, 4, second.left.Load())
		require.Equal(t, first.ticket+1, second.ticket)

		late := reply
		late[3] -= time.Second.Microseconds() // of the window before
		l.leases.put(n, now, now, 3, &late, &limit.Decision{})
		require.Same(t, second, leaseOf(l, "a"))
		require.EqualValues(t, 4, second.left.Load())
	})
}
