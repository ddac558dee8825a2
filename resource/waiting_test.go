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
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// A call that waits is not in flight yet: its resource may be evicted. Then all that
// was taken goes back, and the call is asked again and counted where its name is served
// now, as of the time at which its wait ended.
func TestWaiting_ResourceIsEvictedMeanwhile(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var asked []int64 // when the check that lets calls wait was asked
	var evict func()
	waits := &scriptedCheck{id: "w", stage: resource.Waiting, reserve: func(now int64, _ resource.Caller) resource.Verdict {
		asked = append(asked, now)
		v := resource.Verdict{Ticket: resource.Ticket{A: int64(len(asked))}}
		if len(asked) == 1 {
			v.Delay = &resource.Delay{For: 2 * time.Minute}
		}
		return v
	}}
	refuses := &scriptedCheck{id: "r", mode: rule.Shadow}
	refuses.reserve = func(int64, resource.Caller) resource.Verdict {
		return refusal(-1)
	}
	g, guard := scriptedGate(t, leapgate.Config{
		Now: c.Now, MaxResources: 1,
		Sleep: func(_ context.Context, d time.Duration) error { c.Advance(d); evict(); return nil },
	}, &scriptedCheck{id: "a"}, waits, &scriptedCheck{id: "s", mode: rule.Shadow}, refuses, &scriptedCheck{id: "z", stage: resource.Waiting})
	asked = []int64{0} // so that this does not wait
	require.True(t, gates.Enter(t, g, "orders"))
	asked = nil
	guard.noted()
	start := c.Now()
	evict = func() {
		guard.noted()
		require.True(t, gates.Enter(t, g, "other name")) // takes the place of orders
		require.Equal(t, []string{"other", "other name"}, names(g))
		guard.noted()
		asked = asked[:1]
		c.Advance(time.Hour)
	}
	e, err := g.Entry("orders")
	require.NoError(t, err)
	end := start + int64(2*time.Minute+time.Hour)
	require.Equal(t, []int64{start, end}, asked)
	require.Equal(t, "+z0 +s0 !r -s0 -z0 -w1 -a0 +a0 +w2 +z0 +s0 !r", guard.noted())
	c.Advance(30 * time.Millisecond)
	e.Exit()
	require.Equal(t, "=a =w =z =s", guard.noted())
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{1, 1, 1, 0}, []int64{s.Pass, s.Success, s.WouldBlock, s.Concurrency})
	require.Equal(t, 30*time.Millisecond, s.AvgRT)
}

// Of what was evicted while a call waited, the turn does not bind the calls that come
// later: they are a gap behind the call that waited.
func TestWaiting_PacedResourceIsEvictedMeanwhile(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var slept []time.Duration
	var g *leapgate.Gate
	g = leapgate.Must(leapgate.Config{Now: c.Now, MaxResources: 1, Sleep: func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		if len(slept) > 1 {
			return nil
		}
		c.Advance(2 * time.Hour)
		require.True(t, gates.Enter(t, g, "other name"))
		c.Advance(2 * time.Hour)
		return nil
	}})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{
		ID: "one", Match: rule.Default, Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour,
	}}))
	require.True(t, gates.Enter(t, g, "orders"))
	require.True(t, gates.Enter(t, g, "orders")) // waits for a minute, and is evicted meanwhile
	require.True(t, gates.Enter(t, g, "orders"))
	require.Equal(t, []time.Duration{time.Minute, time.Minute}, slept)
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{2, 2}, []int64{s.Pass, s.Rules[0].Admitted})
}

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
	require.Equal(t, []int64{3, 3, 0}, []int64{sum().Pass, sum().Success, sum().Block})

	evict, refuses = true, true
	require.False(t, gates.Enter(t, g, "orders"))
	require.Equal(t, "+a0 !z -a0 "+ // the other name
		"+a0 !z -a0", guard.noted(), "the refusal stands: the rule has counted it")
	require.Equal(t, []int64{3, 3, 2}, []int64{sum().Pass, sum().Success, sum().Block})
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

// The gate is closed, and the resource was evicted before, while a call waited: nothing
// holds any more.
func TestWaiting_GateIsClosedAndResourceWasEvicted(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var g *leapgate.Gate
	g, guard := scriptedGate(t, leapgate.Config{
		Now: c.Now, MaxResources: 1,
		Sleep: func(context.Context, time.Duration) error {
			c.Advance(time.Hour)
			e, err := g.Entry("other name")
			require.NoError(t, err)
			e.Exit()
			return g.Close()
		},
	}, &scriptedCheck{id: "a", stage: resource.Waiting, reserve: func(_ int64, by resource.Caller) resource.Verdict {
		if by.Origin == "waits" {
			return resource.Verdict{Delay: &resource.Delay{For: time.Hour}}
		}
		return resource.Verdict{}
	}})
	require.True(t, gates.Enter(t, g, "orders"))
	guard.noted()
	e, err := g.EntryContext(t.Context(), "orders", leapgate.WithOrigin("waits"))
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, "+a0 +a0 =a -a0", guard.noted())
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
