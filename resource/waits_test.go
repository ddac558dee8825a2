package resource_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
)

func TestWaits_OfTenPacedCallsAreExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 10, Behavior: flow.Pace, MaxWait: 2 * time.Second}}))
		begin := time.Now()
		var calls sync.WaitGroup
		for range 10 { // they wait for 0, 100, … 900 ms
			calls.Go(func() {
				e, err := g.Entry("a")
				require.NoError(t, err)
				time.Sleep(5 * time.Millisecond)
				e.Exit()
			})
		}
		time.Sleep(250 * time.Millisecond)
		s := gates.Snapshot(t, g, "a")
		require.Equal(t, []int64{3, 7, 2}, []int64{s.Pass, s.Waiting, s.Waits})
		require.Equal(t, 300*time.Millisecond, s.WaitTime)
		calls.Wait()
		require.Equal(t, 905*time.Millisecond, time.Since(begin))
		s = gates.Snapshot(t, g, "a")
		require.Equal(t, []int64{10, 0, 9}, []int64{s.Pass, s.Waiting, s.Waits}, "the first did not wait")
		require.Equal(t, 4500*time.Millisecond, s.WaitTime)
		require.Equal(t, 5*time.Millisecond, s.AvgRT, "the response time begins after the wait")
		require.InEpsilon(t, 500*time.Millisecond, s.WaitP50, 0.044)
		require.InEpsilon(t, 900*time.Millisecond, s.WaitP95, 0.044)
		require.InEpsilon(t, 900*time.Millisecond, s.WaitP99, 0.044)

		totals := totalsOf(t, g, "a")
		require.EqualValues(t, 4500*time.Millisecond, totals.Counts[metric.Wait])
		require.EqualValues(t, 9, totals.Waits.Count())
		require.Zero(t, totals.Waiting)
		time.Sleep(15 * time.Second)
		s = gates.Snapshot(t, g, "a")
		require.Zero(t, s.WaitP99, "of the last ten seconds")
		require.EqualValues(t, 9, s.Waits)
	})
}

func TestWaits_WhoGivesUpHasWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{Resource: "a", MaxInFlight: 1, MaxWait: time.Second}}}))
		e, err := g.Entry("a")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		ctx = gatetest.Unannounced(ctx)
		defer cancel()
		_, err = g.EntryContext(ctx, "a", leapgate.WithCount(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = g.Entry("a") // to the end of its second
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		e.Exit()
		s := gates.Snapshot(t, g, "a")
		require.Equal(t, []int64{1, 2, 2, 0}, []int64{s.Pass, s.Block, s.Waits, s.Waiting})
		require.Equal(t, 1300*time.Millisecond, s.WaitTime)
	})
}

// A call is one, however many rules let it wait; with a count of n it is n calls.
func TestWaits_OfOneCallAreAddedUp(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	waits := func(id string, d time.Duration) *scriptedCheck {
		return &scriptedCheck{id: id, stage: resource.Waiting, reserve: func(int64, resource.Caller) resource.Verdict {
			return resource.Verdict{Delay: &resource.Delay{For: d}}
		}}
	}
	var g *leapgate.Gate
	var waiting []int64
	g, _ = scriptedGate(t, leapgate.Config{Now: c.Now, Sleep: func(_ context.Context, d time.Duration) error {
		waiting = append(waiting, gates.Snapshot(t, g, "a").Waiting)
		c.Advance(d)
		return nil
	}}, waits("x", 20*time.Millisecond), waits("y", 30*time.Millisecond))
	e, err := g.EntryContext(t.Context(), "a", leapgate.WithCount(3))
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, []int64{3, 3}, waiting)
	totals := totalsOf(t, g, "a")
	require.EqualValues(t, 3*50*time.Millisecond, totals.Counts[metric.Wait])
	require.EqualValues(t, 3, totals.Waits.Count())
	require.InEpsilon(t, 50*time.Millisecond, totals.Waits.Quantile(0.5), 0.044)
}

func TestWaits_ThatPanicAreOver(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g, _ := scriptedGate(t, leapgate.Config{Now: c.Now, Sleep: func(context.Context, time.Duration) error { panic("sleep") }},
		&scriptedCheck{id: "x", stage: resource.Waiting, reserve: func(int64, resource.Caller) resource.Verdict {
			return resource.Verdict{Delay: &resource.Delay{For: time.Second}}
		}})
	require.PanicsWithValue(t, "sleep", func() { g.Entry("a") })
	s := gates.Snapshot(t, g, "a")
	require.Equal(t, []int64{1, 0}, []int64{s.Waits, s.Waiting})
}

func TestWaits_AllocateNothingForCallsThatDoNotWait(t *testing.T) {
	g := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 1e6, Interval: time.Hour, Behavior: flow.Reject}}))
	a := g.Resource("a")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		e, err := a.Entry()
		if err != nil {
			panic(err)
		}
		e.Exit()
	}))
	require.Zero(t, totalsOf(t, g, "a").Waits.Count())
}
