package isolation

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/callerror"
)

// A call that comes when as many wait as may is blocked at once, and one that comes after one has left is not.
func TestQueue_IsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := waiting(time.Minute)
		rule.MaxQueue = 2
		g, start := newGate(t, false, rule), time.Now()
		held := g.hold(t, "a", 3)
		calls := []*call{g.queue(t, start, 1), g.queue(t, start, 3), g.queue(t, start, 1)}
		require.Equal(t, "--b", ended(calls), "calls count, not places")
		require.Zero(t, calls[2].at)
		require.EqualError(t, calls[2].err, `isolation rule "few" on "a": 4 of 3 in flight`)
		calls[0].give()
		require.Equal(t, "b-b", ended(calls))
		calls = append(calls, g.queue(t, start, 1), g.queue(t, start, 1))
		require.Equal(t, "b-b-b", ended(calls))

		rule.MaxQueue = 3 // of those that come from now on
		g.load(t, rule)
		calls = append(calls, g.queue(t, start, 1), g.queue(t, start, 1))
		require.Equal(t, "b-b-b-b", ended(calls))
		rule.MaxQueue = 1
		g.load(t, rule)
		require.Equal(t, "b-b-b-b", ended(calls), "nobody is driven out")
		exit(held...)
		require.Equal(t, "bPb-b-b", ended(calls))
		calls[1].e.Exit()
		require.Equal(t, "bPbPbPb", ended(calls))
		for _, c := range calls {
			c.e.Exit()
		}
		g.rest(t, 3+3+1+1, 1+1+1+1)
	})
}

func TestQueue_HasABoundAlsoWithoutOneInTheRule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, false, Rule{ID: "few", Resource: "a", MaxInFlight: 1, MaxWait: time.Minute})
		e, err := g.Resource("a").Entry()
		require.NoError(t, err)
		var refused atomic.Int64
		var all sync.WaitGroup
		start := time.Now()
		for range defaultMaxQueue + 7 {
			all.Go(func() {
				if e, err := g.Resource("a").Entry(); err != nil && time.Since(start) == 0 {
					refused.Add(1)
				} else {
					e.Exit()
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, 7, refused.Load())
		e.Exit()
		all.Wait()
		g.rest(t, defaultMaxQueue+1, 7)
	})
}

// A call that waits and gives up leaves nothing behind.
func TestQueue_RefundAfterTheTurnCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, false, waiting(time.Minute))
		held := g.hold(t, "a", 3)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				e, err := g.Resource("a").EntryContext(ctx)
				if err == nil {
					e.Exit()
				} else {
					require.ErrorIs(t, err, callerror.ErrBlocked)
				}
			})
		}
		synctest.Wait()
		cancel()
		exit(held...)
		all.Wait()
		s := g.rule(t, "a", "few")
		require.Equal(t, int64(10), s.Admitted-3+s.Blocked)
		g.rest(t, s.Admitted, s.Blocked)
	})
}

// Places come free every 50 ms, and a call has 20 ms left: it is refused at once, and takes nobody's
// place. When nobody has waited for long, what was known is worth nothing, and it waits again.
func TestQueue_CallsThatWouldWaitInVainAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		g, start := newGate(t, false, Rule{ID: "one", Resource: "a", MaxInFlight: 1, MaxWait: time.Minute}), time.Now()
		held := g.hold(t, "a", 1)
		enter := func(left time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			e, err := g.Resource("a").EntryContext(ctx)
			e.Exit()
			return err
		}
		require.ErrorIs(t, enter(20*ms), context.DeadlineExceeded)
		require.Equal(t, 20*ms, time.Since(start), "nothing is known yet")

		first := g.queue(t, start, 1)
		time.Sleep(50 * ms)
		exit(held...)
		require.Equal(t, "P", ended([]*call{first}))
		err := enter(20 * ms)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, callerror.ErrBlocked)
		require.EqualError(t, err, `isolation rule "one" on "a": 2 of 1 in flight: context deadline exceeded`)
		require.Equal(t, 70*ms, time.Since(start), "at once")
		require.Equal(t, int64(1), g.taken(t, "a", "one"))
		s := g.rule(t, "a", "one")
		require.Equal(t, []int64{2, 2}, []int64{s.Admitted, s.Blocked})

		second := g.queue(t, start, 1)
		require.ErrorIs(t, enter(99*ms), context.DeadlineExceeded, "two would have to leave")
		require.Equal(t, 70*ms, time.Since(start))
		time.Sleep(50 * ms)
		first.e.Exit()
		require.Equal(t, "P", ended([]*call{second}))
		time.Sleep(20 * time.Second)
		begin := time.Now()
		require.ErrorIs(t, enter(20*ms), context.DeadlineExceeded)
		require.Equal(t, 20*ms, time.Since(begin))
		second.e.Exit()
		require.NoError(t, enter(ms))
		require.Zero(t, g.taken(t, "a", "one"))
	})
}
