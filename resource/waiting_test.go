package resource_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// The place goes to another name between the answers of two checks, and nobody waits.
func TestAdmission_ResourceIsEvictedBetweenTwoChecks(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var g *leapgate.Gate
	evict, refuses := false, false
	first, last := &scriptedCheck{id: "a"}, &scriptedCheck{id: "z"}
	first.reserve = func(int64, resource.Caller) resource.Verdict {
		if evict {
			evict = false
			c.Advance(time.Hour)
			e, err := g.Entry("other name")
			require.Equal(t, refuses, err != nil)
			e.Exit()
			require.NotContains(t, names(g), "orders")
			c.Advance(time.Hour)
		}
		return resource.Verdict{}
	}
	last.reserve = func(int64, resource.Caller) resource.Verdict {
		if refuses {
			return refusal(-1)
		}
		return resource.Verdict{}
	}
	g, guard := scriptedGate(t, leapgate.Config{Now: c.Now, MaxResources: 1}, first, last)
	sum := func() (sum stat.Snapshot) {
		for _, s := range g.Snapshot() {
			sum.Pass, sum.Success, sum.Block = sum.Pass+s.Pass, sum.Success+s.Success, sum.Block+s.Block
		}
		return sum
	}
	require.True(t, gates.Enter(t, g, "orders"))
	guard.noted()

	evict = true
	require.True(t, gates.Enter(t, g, "orders"))
	require.Equal(t, "+a0 +z0 =a =z "+ // the other name
		"+a0 +z0 -z0 -a0 "+ // void
		"+a0 +z0 =a =z", guard.noted())
	require.Equal(t, []int64{2, 2, 0}, []int64{sum().Pass, sum().Success, sum().Block})

	evict, refuses = true, true
	require.False(t, gates.Enter(t, g, "orders"))
	require.Equal(t, "+a0 !z -a0 "+ // the other name
		"+a0 !z -a0", guard.noted(), "the refusal stands: the rule has counted it")
	require.Equal(t, []int64{1, 1, 2}, []int64{sum().Pass, sum().Success, sum().Block})
}

func TestWaiting_GateIsClosedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		check := &scriptedCheck{id: "a", stage: resource.Waiting}
		var turns []*scriptedTurn
		check.reserve = func(int64, resource.Caller) resource.Verdict {
			turns = append(turns, &scriptedTurn{due: -1})
			return resource.Verdict{Delay: &resource.Delay{For: time.Hour, Turn: turns[len(turns)-1]}}
		}
		g, guard := scriptedGate(t, leapgate.Config{}, check)
		results := make(chan bool, 2)
		ctx, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), ctx} {
			go func() {
				e, err := g.EntryContext(ctx, "orders")
				e.Exit()
				results <- err == nil
			}()
			synctest.Wait()
		}
		require.NoError(t, g.Close())
		require.True(t, gates.Enter(t, g, "orders")) // is not asked
		cancel()
		require.False(t, <-results)
		turns[0].is(0)
		require.True(t, <-results)
		require.Equal(t, "+a0 +a0 -a turn =a", guard.noted())
		s := gates.Snapshot(t, g, "orders")
		require.Equal(t, []int64{1, 1, 1}, []int64{s.Pass, s.Success, s.Block})
	})
}

func TestWaiting_DeadlinesAndContextsThatHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "pace", Resource: "paced", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}}))
		require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{ID: "few", Resource: "few", MaxInFlight: 1, MaxWait: time.Minute}}))
		for _, name := range []string{"paced", "few"} {
			start := time.Now()
			e, err := g.Entry(name)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			ctx = gatetest.Unannounced(ctx)
			_, err = g.EntryContext(ctx, name)
			require.ErrorIs(t, err, leapgate.ErrBlocked)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var blocked *leapgate.BlockError
			require.ErrorAs(t, err, &blocked)
			require.Equal(t, name, blocked.Resource)
			require.Equal(t, 300*time.Millisecond, time.Since(start))

			err = g.Do(ctx, name, func(context.Context) error { t.Error("it runs"); return nil })
			require.Equal(t, context.DeadlineExceeded, err)
			cancel()
			require.Equal(t, 300*time.Millisecond, time.Since(start))
			e.Exit()
			s := gates.Snapshot(t, g, name)
			require.Equal(t, []int64{1, 1, 1}, []int64{s.Pass, s.Success, s.Block})
			require.Equal(t, []int64{1, 1}, []int64{s.Rules[0].Admitted, s.Rules[0].Blocked})

			start = time.Now()
			e, err = g.EntryContext(nil, name) //nolint:staticcheck // nil is what is tested
			require.NoError(t, err)
			e.Exit()
			if name == "paced" { // the turn of the call that gave up was free again
				require.Equal(t, 700*time.Millisecond, time.Since(start))
			}
		}
	})
}
