package resource_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

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

func TestOptions_BadOriginIsAnErrorAndCountsNothing(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "orders", Threshold: 10})
	long := strings.Repeat("o", 1025)
	_, err := g.EntryContext(t.Context(), "orders", leapgate.WithOrigin(long))
	require.ErrorIs(t, err, leapgate.ErrOrigin)
	require.NotErrorIs(t, err, leapgate.ErrBlocked)
	require.EqualError(t, err, `leapgate: bad origin: "oooooooooooooooooooooooooooooooo"… has 1025 bytes; want at most 1024`)
	err = g.Do(t.Context(), "orders", func(context.Context) error { t.Error("it runs"); return nil },
		leapgate.WithCount(2), leapgate.WithOrigin(long), leapgate.WithPriority())
	require.ErrorIs(t, err, leapgate.ErrOrigin)
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{0, 0, 0}, []int64{s.Pass, s.Block, s.Rules[0].Admitted})
	e, err := g.EntryContext(t.Context(), "orders", leapgate.WithOrigin(long[1:]))
	require.NoError(t, err)
	e.Exit()
}

func TestOptions_CountHasBounds(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	for n, text := range map[int64]string{
		0: "leapgate: bad count: 0; want 1 to 1048576", -1: "leapgate: bad count: -1; want 1 to 1048576",
		1<<20 + 1: "leapgate: bad count: 1048577; want 1 to 1048576",
	} {
		_, err := g.EntryContext(t.Context(), "orders", leapgate.WithOrigin("me"), leapgate.WithCount(n))
		require.ErrorIs(t, err, leapgate.ErrCount)
		require.NotErrorIs(t, err, leapgate.ErrBlocked)
		require.EqualError(t, err, text)
	}
	e, err := g.EntryContext(t.Context(), "orders", leapgate.WithCount(1<<20))
	require.NoError(t, err)
	e.Exit()
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{1 << 20, 1 << 20, 0}, []int64{s.Pass, s.Success, s.Concurrency})
}

func TestOptions_OfOneCallAddUpAndTheLastOfAKindHolds(t *testing.T) {
	t.Parallel()
	var got []resource.Caller
	check := &scriptedCheck{id: "a", reserve: func(_ int64, by resource.Caller) resource.Verdict {
		got = append(got, by)
		return resource.Verdict{}
	}}
	g, _ := scriptedGate(t, leapgate.Config{Now: gatetest.NewClock().Now}, check)
	for _, opts := range [][]leapgate.EntryOption{
		nil,
		{{}},
		{leapgate.WithPriority()},
		{leapgate.WithOrigin("a"), leapgate.WithCount(2), leapgate.WithPriority(), leapgate.WithOrigin("b"), leapgate.WithCount(3)},
		{leapgate.WithOrigin("a"), leapgate.WithOrigin("")},
	} {
		e, err := g.EntryContext(t.Context(), "orders", opts...)
		require.NoError(t, err)
		e.Exit()
	}
	require.Equal(t, []resource.Caller{{}, {}, {Priority: true}, {Origin: "b", Priority: true}, {}}, got)
	require.Equal(t, int64(1+1+1+3+1), gates.Snapshot(t, g, "orders").Pass)
}

func TestLastRefusal_KeepsACopyOfTheOrigin(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c, flow.Rule{Resource: "orders", Threshold: 0})
	buffer := []byte("mobile and a whole request")
	origin := unsafe.String(&buffer[0], 6)
	_, err := g.EntryContext(t.Context(), "orders", leapgate.WithOrigin(origin))
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	buffer[0] = 'X'
	c.Advance(time.Minute)
	last := gates.Snapshot(t, g, "orders").Rules[0].LastRefusal
	require.Equal(t, "mobile", last.Origin)
	require.Equal(t, time.Unix(0, c.Now()).Add(-time.Minute), last.At)
}

// Of a flood, a bounded number is kept, and the first of the next millisecond again.
func TestLastRefusal_OfManyInAMillisecondIsThe64th(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c)
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{Resource: "orders", MaxInFlight: 1}}))
	last := func() stat.Refusal { return gates.Snapshot(t, g, "orders").Rules[0].LastRefusal }
	require.Zero(t, last())
	refuse := func(n int64) {
		_, err := g.EntryContext(t.Context(), "orders", leapgate.WithCount(n))
		require.ErrorIs(t, err, leapgate.ErrBlocked)
	}
	for i := range int64(100) {
		refuse(2 + i)
		c.Advance(time.Microsecond)
		require.Equal(t, min(2+i, 65), int64(last().Observed))
	}
	c.Advance(900 * time.Microsecond)
	refuse(500)
	require.Equal(t, 500.0, last().Observed)
	for range 100 {
		refuse(500)
	}
	c.Advance(-time.Hour)
	refuse(501)
	require.Equal(t, 501.0, last().Observed)
	require.True(t, last().At.Equal(time.Unix(0, c.Now())))
}

// A rule that is reloaded keeps its last refusal, and each rule has its own.
func TestLastRefusal_IsOfTheRuleThatRefused(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c, flow.Rule{ID: "qps", Resource: "orders", Threshold: 1})
	few := isolation.Rule{ID: "few", Resource: "orders", MaxInFlight: 1}
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{few}))
	e, err := g.Entry("orders")
	require.NoError(t, err)
	require.False(t, gates.Enter(t, g, "orders")) // by qps
	at := c.Now()
	c.Advance(10 * time.Second)
	require.False(t, gates.Enter(t, g, "orders")) // by few
	e.Exit()
	before := gates.Snapshot(t, g, "orders").Rules
	few.MaxInFlight = 5
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{few}))
	rules := gates.Snapshot(t, g, "orders").Rules
	require.True(t, rules[0].LastRefusal.At.Equal(time.Unix(0, at)))
	require.Equal(t, time.Duration(0), rules[0].LastRefusal.RetryAfter) // few was full as well
	require.True(t, rules[1].LastRefusal.At.Equal(time.Unix(0, c.Now())))
	require.Equal(t, 2.0, rules[1].LastRefusal.Observed)
	// What is told of it is as it was then.
	require.Equal(t, 5.0, rules[1].Threshold)
	require.EqualError(t, resource.LastBlock("orders", rules[1]), `isolation rule "few" on "orders": 2 of 1 in flight`)
	require.Equal(t, before[1].LastRefusal, rules[1].LastRefusal)
	require.Nil(t, resource.LastBlock("orders", stat.RuleSnapshot{ID: "few"}))
}

func TestVerdict_IsSmall(t *testing.T) {
	t.Parallel()
	const word = unsafe.Sizeof(uintptr(0))
	require.Equal(t, 16+2*word, unsafe.Sizeof(resource.Verdict{}))
	require.LessOrEqual(t, unsafe.Sizeof(leapgate.EntryOption{}), 5*word+8)
	require.LessOrEqual(t, unsafe.Sizeof(leapgate.BlockError{}), 16+word+8)
}

func TestEntry_AllocatesNothingWithRulesOfBothGuards(t *testing.T) {
	for n := 1; n <= 4; n++ {
		var flows []flow.Rule
		var isolations []isolation.Rule
		for range n {
			flows = append(flows, flow.Rule{Resource: "orders", Threshold: 1e9}, flow.Rule{Resource: "few", Threshold: 1e9})
			isolations = append(isolations, isolation.Rule{Resource: "orders", MaxInFlight: 1e6},
				isolation.Rule{Resource: "few", MaxInFlight: 1, Mode: rule.Shadow},
				isolation.Rule{Resource: "few", MaxInFlight: 1e6})
		}
		isolations = append(isolations, isolation.Rule{Resource: "few", MaxInFlight: 3})
		g := gates.New(t, gatetest.NewClock(), flows...)
		require.NoError(t, gates.LoadIsolation(g, isolations))
		orders, few := g.Resource("orders"), g.Resource("few")
		ctx, fn := context.Background(), func(context.Context) error { return nil }
		origin := leapgate.WithOrigin("mobile")
		require.Zero(t, testing.AllocsPerRun(1000, func() { e, _ := orders.Entry(); e.Exit() }), n)
		require.Zero(t, testing.AllocsPerRun(1000, func() { e, _ := g.EntryContext(ctx, "orders", leapgate.WithCount(3), origin); e.Exit() }), n)
		require.Zero(t, testing.AllocsPerRun(1000, func() { _ = g.Do(ctx, "orders", fn, leapgate.WithPriority()) }), n)
		e, err := few.Entry()
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(1000, func() { e, _ := few.Entry(); e.Exit() }), "%d, would block", n)
		// The last refusal is kept 64 times.
		require.LessOrEqual(t, testing.AllocsPerRun(2000, func() { _, _ = few.EntryContext(ctx, leapgate.WithCount(3), origin) }), 1.0, n)
		e.Exit()
	}
}

// Waiting costs what it costs, but leaves nothing behind.
func TestEntry_ReadsTheClockOnceMoreAfterAWait(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var readings atomic.Int64
	g := leapgate.Must(leapgate.Config{
		Now:   func() int64 { readings.Add(1); return c.Now() },
		Sleep: func(_ context.Context, d time.Duration) error { c.Advance(d); return nil },
	})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}}))
	handle := g.Resource("orders")
	for _, want := range []int64{1, 2, 2} {
		readings.Store(0)
		e, err := handle.Entry()
		require.NoError(t, err)
		require.Equal(t, want, readings.Load())
		e.Exit()
		require.Equal(t, want+1, readings.Load())
	}
}
