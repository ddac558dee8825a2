package leapredis

import (
	"context"
	"fmt"
	"hash/crc32"
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

// cluster is three servers, of which each has a third of the keys. One that hangs answers
// nothing until it is released.
type cluster struct {
	*server
	hangs [3]atomic.Bool
	moved atomic.Bool // another has taken the place of the first
	mu    sync.Mutex
	held  chan struct{} // guarded by mu; closed when it is released
}

func newCluster() *cluster {
	return &cluster{server: newServer(), held: make(chan struct{})}
}

func (c *cluster) node(key string) int { return int(crc32.ChecksumIEEE([]byte(key)) % 3) }

func (c *cluster) Node(key string) string {
	n := c.node(key)
	if n == 0 && c.moved.Load() {
		n = 3
	}
	return "node " + strconv.Itoa(n)
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

// One of three servers hangs. The keys of the others are decided there.
func TestServers_OneThatHangsTakesNoOtherAlong(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		c := newCluster()
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
		require.Equal(t, calls.Load(), shared.Load())
		require.Equal(t, Open, l.Link().State)
		require.EqualValues(t, 1, l.Link().Openings)
		require.True(t, l.Stats().Away)
		require.Equal(t, 1, log.count("the server is away"), log.String())
		require.Equal(t, 1, log.count(`server="node 1"`), log.String())

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
}

// The server that took the place of one that hangs is asked at once, and the one that no key is
// on any more is not told to be away for ever.
func TestServers_AnotherTakesTheKeys(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		c := newCluster()
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

// How often servers went away does not become less when one of them is forgotten.
func TestServers_OpeningsOfThoseThatAreForgotten(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		c := newCluster()
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
	c := newCluster()
	s := newServers(c)
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
