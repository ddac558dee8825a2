package resource_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// The ways of a call, of evictions and of guards are tested through the gate, beside
// leapgate.go; here is what the registry does by itself.

func TestNewRegistry_ZeroConfigIsGood(t *testing.T) {
	t.Parallel()
	g := resource.NewRegistry(resource.Config{})
	e, err := g.Resource("orders").Entry()
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, int64(1), g.Snapshot()[0].Success)
	require.Zero(t, g.GuardFaults())
}

func TestFind_GivesTheSameResourceForTheSameName(t *testing.T) {
	t.Parallel()
	g := resource.NewRegistry(resource.Config{})
	a, err := g.Find("a")
	require.NoError(t, err)
	again, err := g.Find("a")
	require.NoError(t, err)
	require.Same(t, a, again)
	require.Same(t, a, g.Resource("a"))
	_, err = g.Find("")
	require.ErrorIs(t, err, leapgate.ErrName)
}

func TestOther_IsThereFromTheBeginningAndShowsWhenItIsUsed(t *testing.T) {
	t.Parallel()
	g := resource.NewRegistry(resource.Config{})
	require.Empty(t, g.Snapshot())
	e, err := g.Resource(resource.Other).Entry()
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, resource.Other, g.Snapshot()[0].Resource)
	require.Equal(t, 1.0, g.Resource(resource.Other).QPS(metric.Pass))
}

func TestBlockError_ReadsAloud(t *testing.T) {
	t.Parallel()
	cause := &resource.Cause{Resource: "a\n\x00<b>", Kind: "flow", RuleID: `x"y`, Threshold: 1.5, Interval: time.Second}
	for wait, want := range map[time.Duration]string{
		0:                            `flow rule "x\"y" on "a\n\x00<b>": 2 of 1.5 in 1s`,
		time.Nanosecond:              `flow rule "x\"y" on "a\n\x00<b>": 2 of 1.5 in 1s; retry in 1µs`,
		230 * time.Millisecond:       `flow rule "x\"y" on "a\n\x00<b>": 2 of 1.5 in 1s; retry in 230ms`,
		230*time.Millisecond + 1:     `flow rule "x\"y" on "a\n\x00<b>": 2 of 1.5 in 1s; retry in 231ms`,
		time.Hour + time.Microsecond: `flow rule "x\"y" on "a\n\x00<b>": 2 of 1.5 in 1s; retry in 1h0m0.001s`,
	} {
		require.EqualError(t, &resource.BlockError{Cause: cause, Observed: 2, RetryAfter: wait}, want)
	}
	require.EqualError(t, &resource.BlockError{}, "leapgate: blocked")
	require.ErrorIs(t, &resource.BlockError{}, leapgate.ErrBlocked)
}

func TestRuleErrors_AreErrRule(t *testing.T) {
	t.Parallel()
	var err error = rule.Faults{{Kind: "flow", Field: "Threshold", Value: -1, Want: "0 or more"}}
	require.ErrorIs(t, err, rule.ErrFault)
	require.EqualError(t, err, "flow rule 0: Threshold is -1; want 0 or more")
}

func TestZeroOption_ChangesNothing(t *testing.T) {
	t.Parallel()
	r := resource.NewRegistry(resource.Config{}).Resource("orders")
	e, err := r.EntryContext(t.Context(), resource.EntryOption{}, resource.WithCount(3), resource.EntryOption{})
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, int64(3), r.Snapshot().Pass)
}

func ExampleEntry() {
	gate := leapgate.Must(leapgate.Config{MaxResources: 100})
	e, err := gate.Entry("GET /orders")
	if err != nil {
		return
	}
	e.SetError(errors.New("it broke"))
	e.Exit()
	for _, s := range gate.Snapshot() {
		fmt.Println(s.Resource, s.Pass, s.Success, s.Exception)
	}
	// Output:
	// GET /orders 1 1 1
}

func ExampleResource_EntryContext() {
	orders := leapgate.Must(leapgate.Config{}).Resource("GET /orders")
	e, err := orders.EntryContext(context.Background(), resource.WithCount(5))
	if err != nil {
		return
	}
	fmt.Println(orders.Snapshot().Concurrency, "in flight")
	e.Exit()
	fmt.Println(orders.Snapshot().Concurrency, "in flight")
	// Output:
	// 5 in flight
	// 0 in flight
}

func ExampleCall() {
	orders := leapgate.Must(leapgate.Config{}).Resource("GET /orders")
	n, err := resource.Call(context.Background(), orders, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err)
	// Output:
	// 42 <nil>
}

func ExampleResource_History() {
	noon := func() int64 { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano() }
	orders := leapgate.Must(leapgate.Config{Now: noon}).Resource("GET /orders")
	e, err := orders.Entry()
	if err != nil {
		return
	}
	e.Exit()
	history := orders.History()
	fmt.Println(len(history), "seconds,", history[60].Pass, "passed in the running one")
	fmt.Println(orders.Recent().Count(), "in the last ten seconds,", orders.Minute().Count(), "in the last minute")
	// Output:
	// 61 seconds, 1 passed in the running one
	// 1 in the last ten seconds, 1 in the last minute
}
