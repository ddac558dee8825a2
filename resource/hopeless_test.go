package resource_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
)

// A call that would wait 50 ms, and whose context ends in 20.
func TestWait_ACallWhoseContextEndsBeforeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 20, Behavior: flow.Pace, MaxWait: time.Minute}}))
		enter := func(patience time.Duration) (took time.Duration, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			e, err := g.EntryContext(ctx, "a")
			e.Exit()
			return time.Since(start), err
		}
		took, err := enter(time.Second)
		require.NoError(t, err)
		require.Zero(t, took)
		for range 3 { // it takes no turn
			took, err = enter(20 * time.Millisecond)
			require.ErrorIs(t, err, leapgate.ErrBlocked)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Zero(t, took)
		}
		took, err = enter(50 * time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, 50*time.Millisecond, took)
		require.Zero(t, g.Resource("a").Snapshot().Waiting)
	})
}

// When a place will be free nobody knows, so a call queues for one while it can.
func TestWait_ForAPlaceACallWaitsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{Resource: "a", MaxInFlight: 1, MaxWait: time.Minute}}}))
		e, err := g.Entry("a")
		require.NoError(t, err)
		time.AfterFunc(10*time.Millisecond, e.Exit)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		second, err := g.EntryContext(ctx, "a")
		require.NoError(t, err)
		second.Exit()
	})
}
