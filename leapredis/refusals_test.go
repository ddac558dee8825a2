package leapredis

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
)

// What was refused is not asked for again until it may pass, or for LeaseTime: a flood
// does not reach the server.
func TestAllow_AFloodOfRefusedCallsIsAnsweredHere(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 5, Window: time.Minute, LeaseTime: 100 * time.Millisecond})
		require.True(t, allow(t, l, "a", 5).Allowed)
		for range 1000 {
			d := allow(t, l, "a", 1)
			require.False(t, d.Allowed)
			require.False(t, allow(t, l, "a", 0).Allowed)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 1+10, s.called(k.script))
		require.Equal(t, limit.Stats{Keys: 1, MaxKeys: limit.DefaultMaxKeys, Allowed: 1, Refused: 1000}, l.Stats())

		// Another process resets the key. It is heard of within LeaseTime.
		other := k.start(t, s, Config{Limit: 5, Window: time.Minute})
		require.NoError(t, other.Reset(t.Context(), "a"))
		time.Sleep(100 * time.Millisecond)
		require.True(t, allow(t, l, "a", 1).Allowed)
	})
}

// The server's clock and this one do not tick together. What passes there is asked for, to
// the tick.
func TestAllow_ARefusalIsBelievedNoLongerThanItLasts(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		s.now = func() int64 { return (time.Now().UnixNano() + 900) / 1000 }
		l := k.start(t, s, Config{Limit: 1, Window: time.Millisecond})
		require.True(t, allow(t, l, "a", 1).Allowed)
		require.False(t, allow(t, l, "a", 1).Allowed)
		for range 30_000 { // 3 ms
			time.Sleep(100 * time.Nanosecond)
			there, err := l.Peek(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, there.Allowed, allow(t, l, "a", 1).Allowed)
		}
		require.Greater(t, l.Stats().Allowed, int64(1))
	})
}

// The server decided before its answer came. What is told here is not too short for that.
func TestAllow_TheWaitThatIsRemembered(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		s.latency.set(20 * time.Millisecond)
		l := k.start(t, s, Config{Limit: 1, Window: time.Minute, Timeout: time.Second})
		require.True(t, allow(t, l, "a", 1).Allowed)
		d := allow(t, l, "a", 1)
		require.Equal(t, d, allow(t, l, "a", 1))
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, d.RetryAfter-10*time.Millisecond, allow(t, l, "a", 1).RetryAfter)
		require.Equal(t, 2, s.called(k.script))
	})
}

// What a call that is smaller than a refused one would get is asked.
func TestAllow_ARefusalOfManyIsNoneOfFew(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		l := k.start(t, newServer(), Config{Limit: 5})
		require.True(t, allow(t, l, "a", 3).Allowed)
		require.False(t, allow(t, l, "a", 3).Allowed)
		require.Equal(t, limit.Never, allow(t, l, "a", 6).RetryAfter)
		require.True(t, allow(t, l, "a", 2).Allowed)
	})
}

// What was refused while permits were out is asked for when they are back.
func TestLease_ARefusalEndsWhenPermitsAreGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := counter(t, s, Config{Limit: 100, Window: time.Hour, Lease: 10, LeaseTime: 10 * time.Second})
		admitted := lend(t, l, "a")
		left := leaseOf(l, "a").left.Load()
		time.Sleep(9 * time.Second)
		require.False(t, allow(t, l, "a", 100-admitted).Allowed)
		time.Sleep(2 * time.Second)
		require.Equal(t, left, l.Link().Returned)
		require.True(t, allow(t, l, "a", 100-admitted).Allowed)
	})
}

// A key that is used up is asked for once in LeaseTime by a process, however many callers it
// has, and however slow the server is.
func TestAllow_AFloodOfManyCallersAsksOnceInLeaseTime(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, time.Millisecond, 40 * time.Millisecond} {
		each(t, func(k kind) {
			t := k.t
			s := newServer()
			l := k.start(t, s, Config{Limit: 5, Window: time.Hour, LeaseTime: 100 * time.Millisecond})
			require.True(t, allow(t, l, "a", 5).Allowed)
			s.latency.set(latency)
			require.False(t, allow(t, l, "a", 1).Allowed)
			before := s.called(k.script)
			flood(t, l, 64, 2*time.Second)
			require.LessOrEqual(t, s.called(k.script)-before, 20)
			require.Greater(t, s.called(k.script)-before, 10)
			require.Zero(t, l.Stats().Degraded)
			require.Greater(t, l.Stats().Refused, int64(100_000))
		})
	}
}

// When one may pass, all that come before the answer ask: of a flood comes to the server what
// comes within a round trip from then, and one in LeaseTime.
func TestAllow_AFloodAsksWhenOneMayPass(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		const callers, most = 64, 10
		s := newServer()
		s.latency.set(time.Millisecond)
		l := k.start(t, s, Config{Limit: most, Window: time.Second, LeaseTime: 100 * time.Millisecond})
		flood(t, l, callers, 2*time.Second)
		before, admitted := s.called(k.script), l.Stats().Allowed
		flood(t, l, callers, 2*time.Second)
		admitted = l.Stats().Allowed - admitted
		require.GreaterOrEqual(t, admitted, int64(15))
		asked := s.called(k.script) - before
		t.Logf("%d of %d calls asked, %d were admitted", asked, l.Stats().Refused+admitted, admitted)
		require.LessOrEqual(t, asked, 20+callers*2*int(admitted))
	})
}

// flood has so many callers ask every millisecond, one after the other.
func flood(t *testing.T, l limiter, callers int, lasts time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	end := time.Now().Add(lasts)
	for id := range callers {
		all.Go(func() {
			time.Sleep(time.Millisecond * time.Duration(id) / time.Duration(callers))
			for time.Now().Before(end) {
				_, err := l.Allow(t.Context(), "a")
				assert.NoError(t, err)
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
}

// While a server is away, what was refused before is decided by the policy, within LeaseTime.
func TestAllow_ARefusalIsNotBelievedWithoutAServer(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		l := k.start(t, s, Config{Limit: 5, Window: time.Hour, LeaseTime: 100 * time.Millisecond})
		require.True(t, allow(t, l, "a", 5).Allowed)
		require.False(t, allow(t, l, "a", 1).Allowed)
		b.set(errCut)
		require.False(t, allow(t, l, "a", 1).Degraded)
		time.Sleep(100 * time.Millisecond)
		for range 5 {
			d := allow(t, l, "a", 1)
			require.True(t, d.Allowed)
			require.True(t, d.Degraded)
		}
		require.False(t, allow(t, l, "a", 1).Allowed)
	})
}
