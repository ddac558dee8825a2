package leapredis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
)

func TestSlot_IsThatOfACluster(t *testing.T) {
	t.Parallel()
	// What CLUSTER KEYSLOT says of them.
	for key, want := range map[string]int{"": 0, "123456789": 12739, "foo": 12182} {
		require.Equal(t, want, slot(key), key)
	}
}

// cluster is three servers, of which each has a third of the slots. One that hangs answers
// nothing until it is released.
type cluster struct {
	*server
	names bool // it tells which server keeps a key
	hangs [3]atomic.Bool
	moved atomic.Bool // another has taken the place of the first
	mu    sync.Mutex
	held  chan struct{} // guarded by mu; closed when it is released
}

func newCluster(names bool) *cluster {
	return &cluster{server: newServer(), names: names, held: make(chan struct{})}
}

func (c *cluster) node(key string) int { return slot(key) * 3 / slots }

func (c *cluster) Clustered() bool { return true }

func (c *cluster) Node(key string) string {
	n := c.node(key)
	switch {
	case !c.names:
		return ""
	case n == 0 && c.moved.Load():
		return "node 3"
	default:
		return "node " + strconv.Itoa(n)
	}
}

func (c *cluster) wait(key string) error {
	if !c.hangs[c.node(key)].Load() {
		return nil
	}
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	timer := time.NewTimer(time.Second) // as clients do
	defer timer.Stop()
	select {
	case <-held:
	case <-timer.C:
	}
	return errCut
}

func (c *cluster) release() {
	for i := range c.hangs {
		c.hangs[i].Store(false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.held)
	c.held = make(chan struct{})
}

func (c *cluster) EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error) {
	if err := c.wait(key); err != nil {
		return nil, err
	}
	return c.server.EvalSHA(ctx, sha, key, args...)
}

func (c *cluster) Eval(ctx context.Context, text, key string, args ...string) ([]int64, error) {
	return c.server.Eval(ctx, text, key, args...)
}

// keysOn makes keys, by the server that keeps them.
func keysOn(c *cluster, k kind, l limiter) (all [3][]string) {
	for i := range 600 {
		key := fmt.Sprintf("key-%d", i)
		n := c.node(k.core(l).wire(key))
		all[n] = append(all[n], key)
	}
	return all
}

// One of three servers hangs. The keys of the others are decided there, all that are on servers
// that are named, and all but a few where a range of slots belongs to two servers.
func TestServers_OneThatHangsTakesNoOtherAlong(t *testing.T) {
	t.Parallel()
	for _, names := range []bool{true, false} {
		t.Run(fmt.Sprint("named: ", names), func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				c := newCluster(names)
				var log logs
				l := k.start(t, c, Config{Limit: 1 << 40, Window: time.Hour, Logger: log.logger()})
				keys := keysOn(c, k, l)
				allow(t, l, keys[2][0], 1)
				c.hangs[1].Store(true)
				var calls, shared atomic.Int64
				var all sync.WaitGroup
				ask := func(key string, healthy bool) {
					d := allow(t, l, key, 1)
					switch {
					case healthy:
						calls.Add(1)
						if !d.Degraded {
							shared.Add(1)
						}
					case !d.Degraded:
						t.Error("it was answered by a server that hangs")
					}
				}
				r := rand.New(rand.NewPCG(1, 2))
				for range 3000 { // 3 s
					for n := range keys {
						all.Go(func() { ask(keys[n][r.IntN(len(keys[n]))], n != 1) })
						synctest.Wait()
					}
					time.Sleep(time.Millisecond)
				}
				all.Wait()
				if names {
					require.Equal(t, calls.Load(), shared.Load())
				} else {
					require.GreaterOrEqual(t, 100*shared.Load(), 99*calls.Load())
				}
				require.Equal(t, Open, l.Link().State)
				require.EqualValues(t, 1, l.Link().Openings)
				require.True(t, l.Stats().Away)
				require.Equal(t, 1, log.count("the server is away"), log.String())
				require.Equal(t, names, log.count(`server="node 1"`) == 1, log.String())

				c.release()
				for _, key := range keys[1] {
					allow(t, l, key, 1) // some are probes
					time.Sleep(retryTime)
				}
				for _, key := range keys[1] {
					require.False(t, allow(t, l, key, 1).Degraded)
				}
				link := l.Link()
				require.Equal(t, Closed, link.State)
				require.Zero(t, link.Away)
				require.EqualValues(t, 1, link.Openings)
				require.Equal(t, 1, log.count("the server is back"), log.String())
			})
		})
	}
}

// The server that took the place of one that hangs is asked at once, and the one that no key is
// on any more is not told to be away for ever.
func TestServers_AnotherTakesTheKeys(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		c := newCluster(true)
		l := k.start(t, c, Config{Limit: 1 << 40, Window: time.Hour})
		key := keysOn(c, k, l)[0][0]
		allow(t, l, key, 1)
		c.hangs[0].Store(true)
		for range failuresToOpen {
			require.True(t, allow(t, l, key, 1).Degraded)
			time.Sleep(quietTime)
		}
		require.Equal(t, 1, l.Link().Away)
		c.release()
		c.moved.Store(true)
		require.False(t, allow(t, l, key, 1).Degraded)
		require.True(t, l.Stats().Away)
		time.Sleep(unasked + retryTime + time.Nanosecond)
		require.False(t, l.Stats().Away)
	})
}

// What was taken for away by its slots, before the client could name servers or where nobody asks
// again, is not told to be away for ever, and what happens next is told.
func TestServers_RangesThatNobodyAsks(t *testing.T) {
	t.Parallel()
	for _, names := range []bool{true, false} {
		t.Run(fmt.Sprint("named: ", names), func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				c := newCluster(names)
				for i := range c.hangs {
					c.hangs[i].Store(true)
				}
				var log logs
				l := k.start(t, c, Config{Limit: 1 << 40, Window: time.Hour, Logger: log.logger()})
				keys := keysOn(c, k, l)
				for _, key := range []string{keys[0][0], keys[1][0]} {
					for range failuresToOpen + moreFailures {
						require.True(t, allow(t, l, key, 1).Degraded)
						time.Sleep(quietTime)
					}
				}
				require.Equal(t, 2, l.Link().Away)
				c.release()
				time.Sleep(retryTime)
				require.False(t, allow(t, l, keys[0][0], 1).Degraded)
				if names {
					require.False(t, allow(t, l, keys[0][0], 1).Degraded)
					require.Zero(t, l.Link().Away, "the servers have names now")
				} else {
					require.Equal(t, 1, l.Link().Away)
				}
				time.Sleep(unasked + retryTime + time.Nanosecond)
				require.Zero(t, l.Link().Away)
				require.Equal(t, Closed, l.Link().State)
				require.False(t, l.Stats().Away)
				require.Equal(t, 1, log.count("no server is known to be away any more"), log.String())

				c.names = false
				c.hangs[0].Store(true)
				for range failuresToOpen + moreFailures {
					require.True(t, allow(t, l, keys[0][1], 1).Degraded)
					time.Sleep(quietTime)
				}
				require.Equal(t, 1, l.Link().Away)
				require.EqualValues(t, 2, l.Link().Openings)
				require.Equal(t, 2, log.count("the server is away"), log.String())
				c.release()
				time.Sleep(retryTime)
				require.False(t, allow(t, l, keys[0][1], 1).Degraded)
				require.Zero(t, l.Link().Away)
			})
		})
	}
}

// How often servers went away does not become less when one of them is forgotten.
func TestServers_OpeningsOfThoseThatAreForgotten(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		c := newCluster(true)
		l := k.start(t, c, Config{Limit: 1 << 40, Window: time.Hour})
		keys := keysOn(c, k, l)
		allow(t, l, keys[0][0], 1)
		c.hangs[0].Store(true)
		for range failuresToOpen {
			require.True(t, allow(t, l, keys[0][0], 1).Degraded)
			time.Sleep(quietTime)
		}
		c.release()
		c.moved.Store(true)
		time.Sleep(2 * unasked)
		require.EqualValues(t, 1, l.Link().Openings)
		for n := range keys { // other servers get names
			allow(t, l, keys[n][0], 1)
		}
		require.EqualValues(t, 1, l.Link().Openings)
	})
}

// However many names a client has for its servers, few are kept.
func TestServers_NamesAreBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(true)
	s := newServers(c, DefaultTimeout)
	for i := range 10 * maxNamed {
		s.name(strconv.Itoa(i))
		require.LessOrEqual(t, len(*s.named.Load()), maxNamed)
	}
	x := s.name("x")
	require.Same(t, x, s.name("x"))
}

// Limits that share a client are asked one after the other. The server hangs: a call of all
// waits for it once.
func TestServers_LimitsOfOneClientWaitOnce(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		h := hung{make(chan struct{})}
		var all []limit.Limiter
		for i := range 3 {
			all = append(all, k.start(t, h, Config{Prefix: fmt.Sprint("p", i, ":"), Limit: 1 << 30}))
		}
		another := k.start(t, h, Config{Limit: 1 << 30, Timeout: 2 * DefaultTimeout})
		group := limit.All(all...)
		for i := range 2 * failuresToOpen {
			begun := time.Now()
			require.True(t, allow(t, group, "a", 1).Degraded)
			if i < failuresToOpen {
				require.Equal(t, DefaultTimeout, time.Since(begun))
			} else {
				require.Zero(t, time.Since(begun))
			}
			time.Sleep(quietTime)
		}
		for _, l := range all {
			require.Equal(t, Open, l.(limiter).Link().State)
		}
		require.Equal(t, Closed, another.Link().State, "what is too late for one is not for another")
		close(h.release)
		synctest.Wait()
	})
}

// What is known of servers is forgotten when no limiter asks them any more.
func TestServers_AreForgotten(t *testing.T) {
	t.Parallel()
	h := hung{make(chan struct{})}
	key := sharing{h, time.Second}
	known := func() bool {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		_, ok := shared.all[key]
		return ok
	}
	s := serversOf(h, time.Second)
	require.Same(t, s, serversOf(h, time.Second))
	require.NotSame(t, s, serversOf(h, time.Minute))
	require.True(t, known())
	runtime.KeepAlive(s)
	require.Eventually(t, func() bool { runtime.GC(); return !known() }, time.Minute, time.Millisecond)

	f := strange(func() ([]int64, error) { return nil, errCut })
	s = serversOf(f, time.Second)
	require.NotSame(t, s, serversOf(f, time.Second), "functions cannot be compared")
}

// A call that is answered while none is sent ends that.
func TestServers_AnAnswerEndsTheQuiet(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 1 << 40})
		allow(t, l, "a", 1)
		s.latency.set(DefaultTimeout + 5*time.Millisecond)
		var all sync.WaitGroup
		all.Go(func() { require.True(t, allow(t, l, "a", 1).Degraded) })
		time.Sleep(DefaultTimeout - time.Millisecond)
		s.latency.set(4 * time.Millisecond)
		all.Go(func() { require.False(t, allow(t, l, "b", 1).Degraded) }) // answered 3 ms after the other was not
		time.Sleep(2 * time.Millisecond)
		require.True(t, allow(t, l, "b", 1).Degraded, "at once")
		time.Sleep(3 * time.Millisecond)
		require.False(t, allow(t, l, "b", 1).Degraded)
		all.Wait()
		time.Sleep(time.Second)
	})
}

// A process that is late itself does not take the server for away, but for one that answers
// nothing for seconds.
func TestServers_AProcessThatIsLate(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 1 << 40, Window: time.Hour})
		allow(t, l, "a", 1)
		s.latency.set(2 * DefaultTimeout)
		link := k.core(l).link
		var skew atomic.Int64 // a timer is late that runs out later than the clock says
		actual := link.clock
		link.clock.Given = func() int64 { return actual.Now() + skew.Load() }
		late := func() limit.Decision {
			time.AfterFunc(DefaultTimeout/2, func() { skew.Add(int64(minLateness)) })
			return allow(t, l, "a", 1)
		}
		for range 100 {
			require.True(t, late().Degraded)
			time.Sleep(DefaultTimeout)
			require.Equal(t, Closed, l.Link().State)
		}
		require.EqualValues(t, 100, l.Link().Late)
		require.EqualValues(t, 100, l.Link().Failures)

		time.Sleep(time.Second)
		s.latency.set(time.Hour)
		calls := int(excusedTime / (DefaultTimeout + minLateness + quietTime))
		for range calls {
			require.Equal(t, Closed, l.Link().State)
			begun := time.Now()
			late()
			require.Equal(t, DefaultTimeout, time.Since(begun))
			require.True(t, allow(t, l, "a", 1).Degraded)
			require.Equal(t, DefaultTimeout, time.Since(begun), "the next call need not wait")
			time.Sleep(quietTime)
		}
		for range failuresToOpen + 1 {
			late()
			time.Sleep(quietTime)
		}
		require.Equal(t, Open, l.Link().State)
		time.Sleep(2 * time.Hour)
	})
}

// A caller that leaves while the server is asked has asked once, and is charged; and a refusal
// is remembered, so that a flood of such does not reach the server.
func TestAllow_ACallerWhoLeavesGainsNothing(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 5, Window: time.Hour, LeaseTime: time.Minute})
		_, err := l.Peek(t.Context(), "a")
		require.NoError(t, err)
		before := s.called(k.script)
		s.latency.set(20 * time.Millisecond)
		refused := 0
		for range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			d, err := l.AllowN(ctx, "a", 1)
			cancel()
			if err == nil {
				require.False(t, d.Allowed)
				require.False(t, d.Degraded)
				refused++
			}
			time.Sleep(20 * time.Millisecond)
		}
		require.Equal(t, 294, refused)
		require.Equal(t, 6, s.called(k.script)-before)
		require.Zero(t, s.called(k.script+" refund"))
		require.EqualValues(t, 5, s.held(k.core(l).wire("a")))
		require.Zero(t, l.Link().Failures)
	})
}

// A server that hangs is found out also where no caller waits as long as the limiter does.
func TestAllow_CallersWhoLeaveDoNotHideAServerThatHangs(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		h := hung{make(chan struct{})}
		l := k.start(t, h, Config{Limit: 1 << 30})
		for range failuresToOpen {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = l.AllowN(ctx, "a", 1)
			cancel()
		}
		time.Sleep(DefaultTimeout)
		require.LessOrEqual(t, l.Link().RoundTrips, int64(failuresToOpen))
		require.True(t, allow(t, l, "a", 1).Degraded)
		close(h.release)
		time.Sleep(time.Second)
	})
}
