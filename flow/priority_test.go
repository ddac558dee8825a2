package flow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

// newWaitingGate is a gate in which calls wait by setting the clock. It tells how long
// they waited.
func newWaitingGate(t testing.TB, rules ...flow.Rule) (g *gate, waits *[]time.Duration) {
	t.Helper()
	g, waits = &gate{}, new([]time.Duration)
	g.clock.Store(minute)
	g.Gate = leapgate.Must(leapgate.Config{Now: g.clock.Load, Sleep: func(_ context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		g.clock.Add(int64(d))
		return nil
	}})
	require.NoError(t, g.LoadFlowRules(rules))
	return g, waits
}

func TestPriority_BorrowsFromTheNextBucketAndWaitsForIt(t *testing.T) {
	t.Parallel()
	g, waits := newWaitingGate(t, two("a", 10))
	require.Equal(t, 10, g.try(t, "a", 10))
	for range 10 {
		require.Equal(t, 1, g.at(700*ms).try(t, "a", 1, leapgate.WithPriority()))
		require.EqualValues(t, minute+int64(time.Second), g.clock.Load())
	}
	require.Zero(t, g.at(700*ms).try(t, "a", 1, leapgate.WithPriority()), "the eleventh")
	require.Len(t, *waits, 10)
	require.Equal(t, 300*ms, (*waits)[9])

	figures := g.at(1000 * ms).Resource("a").Snapshot()
	require.EqualValues(t, 10, figures.OccupiedPass)
	require.EqualValues(t, 20, figures.Pass)
	require.EqualValues(t, 1, figures.Block)
	require.Equal(t, figuresOf{"a/1", 20, 1, 0}, g.rule(t, "a", "a/1"))
	require.Zero(t, g.try(t, "a", 5), "the bucket begins with ten")
	require.Equal(t, 10, g.at(2000*ms).try(t, "a", 15))
}

func TestPriority_WaitsNoLongerThanTheRuleSays(t *testing.T) {
	t.Parallel()
	late := func(maxWait time.Duration) (*gate, *[]time.Duration) {
		rule := two("a", 10)
		rule.MaxWait = maxWait
		g, waits := newWaitingGate(t, rule)
		require.Equal(t, 10, g.at(500*ms).try(t, "a", 10))
		g.at(700 * ms)
		return g, waits
	}
	g, waits := late(0)
	require.Zero(t, g.try(t, "a", 1, leapgate.WithPriority()), "800 ms is more than the default of 500")
	require.Empty(t, *waits)
	g, waits = late(800 * ms)
	require.Equal(t, 1, g.try(t, "a", 1, leapgate.WithPriority()))
	require.Equal(t, []time.Duration{800 * ms}, *waits)
}

func TestPriority_WithRoomDoesNotWait(t *testing.T) {
	t.Parallel()
	g, waits := newWaitingGate(t, two("a", 10))
	require.Equal(t, 10, g.try(t, "a", 10, leapgate.WithPriority()))
	require.Empty(t, *waits)
	require.Zero(t, g.Resource("a").Snapshot().OccupiedPass)
}

func TestPriority_WhatIsBorrowedIsGivenBackIfTheWaitEnds(t *testing.T) {
	t.Parallel()
	g := &gate{}
	g.clock.Store(minute)
	gone := errors.New("gone")
	g.Gate = leapgate.Must(leapgate.Config{Now: g.clock.Load, Sleep: func(context.Context, time.Duration) error { return gone }})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{two("a", 10)}))
	require.Equal(t, 10, g.try(t, "a", 10))
	for range 20 {
		_, err := g.at(700*ms).EntryContext(context.Background(), "a", leapgate.WithPriority())
		require.ErrorIs(t, err, gone)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		require.EqualError(t, err, `flow rule "a/1" on "a": 11 of 10 in 1s; retry in 300ms: gone`)
	}
	require.Equal(t, 10, g.at(1000*ms).try(t, "a", 20))
	require.Zero(t, g.Resource("a").Snapshot().OccupiedPass)
}

// A call with priority that a later rule blocks has borrowed nothing.
func TestPriority_IsGivenBackIfALaterRuleBlocks(t *testing.T) {
	t.Parallel()
	g, _ := newWaitingGate(t, two("a", 10), flow.Rule{ID: "hour", Resource: "a", Threshold: 10, Interval: time.Hour})
	require.Equal(t, 10, g.try(t, "a", 10))
	_, err := g.at(700*ms).EntryContext(context.Background(), "a", leapgate.WithPriority())
	var b *leapgate.BlockError
	require.ErrorAs(t, err, &b)
	require.Equal(t, "hour", b.RuleID)
	require.EqualValues(t, 10, g.rule(t, "a", "a/1").admitted)
}

// A clock that jumps back further than a difference can hold: the call is refused, and its wait
// cannot be told.
func TestPriority_ClockJumpsBackFar(t *testing.T) {
	t.Parallel()
	g, waits := newWaitingGate(t, two("a", 10))
	g.clock.Store(3 << 61)
	require.Equal(t, 10, g.try(t, "a", 10))
	g.clock.Store(-1 << 62)
	_, err := g.EntryContext(t.Context(), "a", leapgate.WithPriority())
	var b *leapgate.BlockError
	require.ErrorAs(t, err, &b)
	require.Zero(t, b.RetryAfter)
	require.Empty(t, *waits)
}
