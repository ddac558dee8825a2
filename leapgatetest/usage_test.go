package leapgatetest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// orders is the code under test: it is given its gate.
func orders(ctx context.Context, gate *leapgate.Gate) (string, error) {
	return leapgate.CallOr(ctx, gate, "GET /orders",
		func(context.Context) (string, error) { return "fresh", nil },
		func(context.Context, *leapgate.BlockError) (string, error) { return "cached", nil })
}

// A gate of one's own, filled up, and a clock that the test moves: what does the program do when it is
// refused, and after that?
func TestUsage_WhatAProgramDoesWhenItIsRefused(t *testing.T) {
	t.Parallel()
	clock := leapgatetest.NewClock()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 100}}))

	got, err := orders(t.Context(), gate.Gate)
	require.NoError(t, err)
	require.Equal(t, "fresh", got)

	gate.Fill("GET /orders")
	got, err = orders(t.Context(), gate.Gate)
	require.NoError(t, err)
	require.Equal(t, "cached", got)

	_, err = gate.Entry("GET /orders")
	leapgatetest.RequireBlocked(t, err, "orders-qps")
	leapgatetest.RequireRetryAfter(t, err, time.Nanosecond, time.Second)

	clock.Advance(time.Second)
	got, err = orders(t.Context(), gate.Gate)
	require.NoError(t, err)
	require.Equal(t, "fresh", got)
}

// Rules are tried by calls at chosen times.
func TestUsage_WhatRulesAdmit(t *testing.T) {
	t.Parallel()
	clock := leapgatetest.NewClock()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 10}}))
	for _, want := range []int{10, 0, 10} {
		require.Equal(t, want, pass(gate, "GET /orders", 20))
		clock.Advance(500 * time.Millisecond)
	}
}

// Breakers are opened by hand, to see what the program does then.
func TestUsage_ABreakerThatIsOpen(t *testing.T) {
	t.Parallel()
	gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "orders-breaker", Resource: "GET /orders", ErrorRatio: 0.5},
	}}))
	gate.Open("orders-breaker")
	got, _ := orders(t.Context(), gate.Gate)
	require.Equal(t, "cached", got)
	gate.Close("orders-breaker")
	got, _ = orders(t.Context(), gate.Gate)
	require.Equal(t, "fresh", got)
}

// A server that hangs opens a breaker: calls that are in flight for too long count as slow, before they
// have ended.
func TestUsage_AServerThatHangsOpensABreaker(t *testing.T) {
	t.Parallel()
	const hanging = 5
	server := leapgatetest.Server(t, http.StatusOK, leapgatetest.Hang)
	clock := leapgatetest.NewClock()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "api-breaker", Resource: "api", SlowRatio: 0.5, SlowAfter: time.Second, MinCalls: hanging, Probes: 1},
	}}))
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: leaphttp.MustTransport(leaphttp.TransportConfig{
		Base: base, Gate: gate.Gate, Resource: func(*http.Request) string { return "api" },
	})}
	ctx, cancel := context.WithCancel(t.Context())
	get := func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	require.NoError(t, get())

	ended := make(chan error, hanging)
	for range hanging {
		go func() { ended <- get() }()
	}
	require.Eventually(t, func() bool { return gate.Lookup("api").Snapshot().Pass == 1+hanging }, time.Minute, time.Millisecond)
	clock.Advance(1100 * time.Millisecond)
	e, err := gate.Entry("api") // which sees that they hang
	e.Exit()
	if !errors.Is(err, leapgate.ErrBlocked) {
		err = get()
	}
	leapgatetest.RequireBlocked(t, err, "api-breaker")
	leapgatetest.RequireBlocked(t, get(), "api-breaker")
	cancel()
	for range hanging {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}
