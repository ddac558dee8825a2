package leapredis

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
)

// What was refused is not asked for again until it may pass, or for LeaseTime: a flood
// does not reach the server.
func TestAllow_AFloodOfRefusedCallsIsAnsweredHere(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := withFields()
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
		s := withFields()
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
		s := withFields()
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
		l := k.start(t, withFields(), Config{Limit: 5})
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
