package leapredis

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
)

// away is a server that is not there.
func away() Client { return strange(func() ([]int64, error) { return nil, errCut }) }

func TestLocal_AllProcessesTogetherDoNotExceedTheLimit(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		for _, most := range []int64{0, 7, 8, 10, 11, 99, 100} {
			sum := 0
			for range 7 {
				l := k.start(t, away(), Config{Limit: most, Instances: 7})
				for range 50 {
					d := allow(t, l, "a", 1)
					require.True(t, d.Degraded)
					if d.Allowed {
						sum++
					} else if most > 0 {
						require.LessOrEqual(t, d.RetryAfter, 2*time.Second)
					}
				}
			}
			require.EqualValues(t, most/7*7, sum)
		}
	})
}

func TestLocal_RefundsAndSettlementsStayHere(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		b.set(errCut)
		l := k.start(t, s, Config{Limit: 10, Instances: 2, Window: time.Minute})
		d := allow(t, l, "a", 5)
		require.True(t, d.Allowed)
		require.False(t, allow(t, l, "a", 1).Allowed)
		require.NoError(t, l.Refund(t.Context(), "a", d, 2))
		e := allow(t, l, "a", 2)
		require.True(t, e.Allowed)
		b.set(nil)
		time.Sleep(time.Second)
		require.False(t, allow(t, l, "a", 10).Degraded)
		require.NoError(t, l.Refund(t.Context(), "a", e, 2))
		require.NoError(t, l.Settle(t.Context(), "a", d, 7))
		p, err := l.Peek(t.Context(), "a")
		require.NoError(t, err)
		require.Zero(t, p.Remaining, "the server knows nothing of them")

		// Nor does the other way round: what the server has charged is not given back here.
		before := allow(t, l, "b", 3)
		b.set(errCut)
		require.ErrorIs(t, l.Refund(t.Context(), "b", before, 3), ErrAway)
		for range 10 {
			allow(t, l, "x", 1)
		}
		require.True(t, allow(t, l, "b", 5).Allowed)
		require.NoError(t, l.Refund(t.Context(), "b", limit.Decision{Degraded: true}, 0))
		require.False(t, allow(t, l, "b", 1).Allowed)
		require.ErrorIs(t, l.Reset(t.Context(), "b"), ErrAway)
		require.True(t, allow(t, l, "b", 1).Allowed, "it was reset here")
	})
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		yes := k.start(t, away(), Config{Name: "n", Limit: 10, WhenAway: Allow})
		d := allow(t, yes, "a", 10)
		require.Equal(t, limit.Decision{Allowed: true, Degraded: true, Name: "n", Limit: 10, Remaining: 10, Charged: 10}, d)
		require.NoError(t, yes.Refund(t.Context(), "a", d, 10))
		require.NoError(t, yes.Settle(t.Context(), "a", d, 100))
		require.Equal(t, limit.Decision{Degraded: true, Name: "n", Limit: 10, Remaining: 10, RetryAfter: limit.Never}, allow(t, yes, "a", 11))

		no := k.start(t, away(), Config{Name: "n", Limit: 10, WhenAway: Deny})
		d = allow(t, no, "a", 1)
		require.Positive(t, d.RetryAfter)
		require.LessOrEqual(t, d.RetryAfter, retryTime)
		d.RetryAfter = 0
		require.Equal(t, limit.Decision{Degraded: true, Unavailable: true, Name: "n", Limit: 10}, d)
		d = allow(t, no, "a", 11)
		require.Equal(t, limit.Never, d.RetryAfter)
		require.False(t, d.Unavailable, "it would not pass with a server either")
		p, err := no.Peek(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, p.Degraded)
	})
}

func TestLocal_ProcessesAreCounted(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		var all []limiter
		for range 4 {
			all = append(all, k.start(t, s, Config{Limit: 100, Instances: count}))
		}
		require.EqualValues(t, AssumedInstances, all[0].Link().Instances)
		traffic := func(d time.Duration, of ...limiter) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				for _, l := range of {
					allow(t, l, "a", 1)
				}
			}
			synctest.Wait()
		}
		traffic(13*time.Second, all...)
		for _, l := range all {
			require.EqualValues(t, 4, l.Link().Instances)
		}
		require.LessOrEqual(t, s.called("instances"), 4*7)
		require.NoError(t, all[3].Close()) // tells so
		traffic(3*time.Second, all[:3]...)
		require.EqualValues(t, 3, all[0].Link().Instances)
		traffic(13*time.Second, all[:2]...) // the third is not heard of
		require.EqualValues(t, 2, all[0].Link().Instances)

		b.set(errCut)
		require.Equal(t, 50, admitted(t, "b", all[0]))
		b.set(nil)
	})
}

// Before it could count them, a process does not take itself for the only one.
func TestLocal_NeverCounted(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		l := k.start(t, away(), Config{Limit: 100, Instances: count})
		require.Equal(t, 100/AssumedInstances, admitted(t, "b", l))
	})
}

// When the number of processes changes, nobody has two shares at once, nor a larger one than
// the new number gives it.
func TestLocal_TheNumberChanges(t *testing.T) {
	t.Parallel()
	eachCount(t, func(k kind) {
		t := k.t
		l := k.start(t, away(), Config{Limit: 100, Instances: count})
		counted := &k.core(l).instances.counted
		heard := k.core(l).link.clock.Now()
		counted.Store(&census{2, 0, heard})
		require.Equal(t, 50, admitted(t, "a", l))
		require.True(t, allow(t, l, "c", 20).Allowed)
		counted.Store(&census{4, 0, heard})
		time.Sleep(time.Second / 10)
		require.Zero(t, admitted(t, "a", l))
		require.Equal(t, 25, admitted(t, "b", l), "that is its share now")
		require.False(t, allow(t, l, "b", 0).Allowed)
		require.True(t, allow(t, l, "c", 0).Allowed)
		d := allow(t, l, "c", 10)
		require.False(t, d.Allowed)
		require.EqualValues(t, 25, d.Limit)
		require.EqualValues(t, 5, d.Remaining)
		require.Zero(t, d.Charged)
		require.Equal(t, time.Second, allow(t, l, "c", 26).RetryAfter, "as what is more than a share is told")
		require.Equal(t, limit.Never, allow(t, l, "c", 101).RetryAfter)
		require.EqualValues(t, 1, allow(t, l, "c", 4).Remaining, "what was refused is not counted")
		time.Sleep(allow(t, l, "c", 10).RetryAfter)
		require.True(t, allow(t, l, "c", 10).Allowed)
		time.Sleep(2 * time.Second)
		require.Equal(t, 25, admitted(t, "a", l))
		counted.Store(&census{1, 0, heard})
		require.Equal(t, 50, admitted(t, "d", l), "it has been used until then")
		time.Sleep(3 * time.Second)
		require.Equal(t, 100, admitted(t, "a", l))
	})
}

// So many that there is no share for each: a process that comes later in the order of names has none.
// It says so in its figures, and refuses as always.
func TestLocal_MoreProcessesThanTheLimit(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		l := k.start(t, away(), Config{Limit: 12, Instances: count})
		counted := &k.core(l).instances.counted
		heard := k.core(l).link.clock.Now()
		counted.Store(&census{13, 11, heard})
		require.EqualValues(t, 1, l.Link().Share)
		require.False(t, l.Stats().NoShare)
		require.True(t, allow(t, l, "a", 1).Allowed)
		require.False(t, allow(t, l, "a", 1).Allowed)
		counted.Store(&census{13, 12, heard})
		require.Zero(t, l.Link().Share)
		require.True(t, l.Stats().NoShare)
		for n := range int64(4) {
			d := allow(t, l, "b", n)
			require.False(t, d.Allowed)
			require.Equal(t, time.Second, d.RetryAfter)
			require.Zero(t, d.Remaining)
		}
	})
}

func TestLocal_OnlyALimitThatIsNotZeroCanHaveNoShare(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		require.False(t, k.start(t, away(), Config{Limit: 0, Instances: count}).Stats().NoShare)
		l := k.start(t, away(), Config{Limit: 1, Instances: 5, WhenAway: Deny})
		require.False(t, l.Stats().NoShare)
		require.Zero(t, l.Link().Share)
	})
}

// A limit of which a process would have nothing while no server answers is a fault, which
// says what to choose.
func TestConfig_ALimitBelowTheNumberOfProcesses(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			faulty := func(most int64, instances int, policy Policy) error {
				l, err := k.make(away(), Config{Prefix: "p:", Limit: most, Instances: instances, WhenAway: policy})
				if err == nil {
					require.NoError(t, l.Close())
				}
				return err
			}
			require.EqualError(t, faulty(5, 0, Local), fmt.Sprintf("%v of %s", limit.ErrConfig, k.limiter())+
				": Instances is 0; want 1 to 5 with a Limit of 5, which leaves none for each of the 10 processes "+
				"that are assumed until they are counted; or a WhenAway of Allow or Deny")
			require.ErrorContains(t, faulty(5, 6, Local), "Instances is 6; want 1 to 5 with a Limit of 5, which leaves none for each of "+
				"more processes while no server answers; or a WhenAway of Allow or Deny")
			for _, policy := range []Policy{Allow, Deny} {
				require.NoError(t, faulty(5, 0, policy))
				require.NoError(t, faulty(5, 6, policy))
			}
			require.NoError(t, faulty(AssumedInstances, 0, Local))
			require.NoError(t, faulty(5, 5, Local))
			require.NoError(t, faulty(0, 0, Local))
			require.NoError(t, faulty(0, 6, Local))
		})
	}
}
