package leapgrpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
)

func TestNew_NamesAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	places, err := limit.NewInFlight(limit.Config{Limit: 1})
	require.NoError(t, err)
	same := per(t, "same", 1, time.Second)
	_, err = leapgrpc.New(leapgrpc.Config{
		Resource:    func(leapgrpc.Call) string { return "" },
		Args:        map[string]leapgrpc.Key{"": leapgrpc.Peer, "nil": nil},
		Limits:      []leapgrpc.Limit{{}, {Limiter: same}, {Limiter: same}, {Limiter: (*limit.RateLimiter)(nil)}},
		PerMessage:  []leapgrpc.Limit{{InFlight: places}},
		MaxPushback: -1, MaxPause: 1, MaxTargets: -1,
	})
	require.ErrorIs(t, err, leapgrpc.ErrConfig)
	for _, want := range []string{
		"Resource is set without a Gate", "Args is set without a Gate", `Args has the name ""`, `Args["nil"] is nil`,
		"Limits[0].Limiter is nil", `Limits[2]: the name "same" is there twice`, "Limits[3].Limiter is a nil *limit.RateLimiter",
		"PerMessage[0].InFlight is set", "MaxPushback is -1ns; want 1ms or more", "MaxPause is 1ns", "MaxTargets is -1; want 1 or more, or 0 for 1000",
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.Panics(t, func() { leapgrpc.Must(leapgrpc.Config{MaxTargets: -1}) })
}

// local calls UnaryServer without a server.
func local(x *leapgrpc.Interceptors, ctx context.Context, handler grpc.UnaryHandler) error { //nolint:revive // x is what is called
	_, err := x.UnaryServer(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, handler)
	return err
}

func answer(context.Context, any) (any, error) { return nil, nil } //nolint:nilnil // a handler's

func TestUnaryServer_APanicIsAFailureAndGoesOn(t *testing.T) {
	t.Parallel()
	gate := gateWith(t)
	places, err := limit.NewInFlight(limit.Config{Limit: 1})
	require.NoError(t, err)
	x := leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{{InFlight: places}}})
	assert.PanicsWithValue(t, "no", func() { _ = local(x, t.Context(), func(context.Context, any) (any, error) { panic("no") }) })
	bad := leapgrpc.Must(leapgrpc.Config{
		Gate: gate, Limits: []leapgrpc.Limit{{InFlight: places}}, Outcome: func(error) leapgate.Outcome { panic("outcome") },
	})
	assert.PanicsWithValue(t, "outcome", func() { _ = local(bad, t.Context(), answer) })
	s := snapshot(gate, "/a.B/C")
	assert.EqualValues(t, 2, s.Exception)
	assert.Zero(t, s.Concurrency)
	assert.Zero(t, places.Stats().InFlight)
}

func TestUnaryServer_WhatTheGateRefusesTheLimitsGetBack(t *testing.T) {
	t.Parallel()
	gate := gateWith(t, flow.Rule{Resource: "/a.B/C", Threshold: 0})
	rate := per(t, "rate", 5, time.Minute)
	x := leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{{Limiter: rate, Key: func(leapgrpc.Call) string { return "k" }}}})
	err := local(x, t.Context(), answer)
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.EqualValues(t, 5, rate.Peek("k").Remaining)

	boom := leapgrpc.Must(leapgrpc.Config{
		Gate: gate, Limits: []leapgrpc.Limit{{Limiter: rate, Key: func(leapgrpc.Call) string { return "k" }}},
		Resource: func(leapgrpc.Call) string { panic("resource") },
	})
	assert.Panics(t, func() { _ = local(boom, t.Context(), answer) })
	assert.EqualValues(t, 5, rate.Peek("k").Remaining)
}

func TestUnaryServer_AClientThatHangsUpWhileItWaitsHasPaid(t *testing.T) {
	t.Parallel()
	networks[0].run(t, func(t *testing.T) {
		t.Helper()
		gate := gateWith(t, flow.Rule{Resource: "/a.B/C", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour})
		rate := per(t, "rate", 5, time.Hour)
		x := leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{{Limiter: rate, Key: func(leapgrpc.Call) string { return "k" }}}})
		require.NoError(t, local(x, t.Context(), answer))
		ctx, hangUp := context.WithCancel(t.Context())
		go func() { pass(t, time.Second); hangUp() }()
		err := local(x, ctx, answer)
		require.ErrorIs(t, err, context.Canceled)
		assert.EqualValues(t, 3, rate.Peek("k").Remaining)
	})
}

func TestUnaryServer_ALimiterThatFailsAdmitsUnlessItIsToFailClosed(t *testing.T) {
	t.Parallel()
	rate := per(t, "rate", 5, time.Minute)
	require.NoError(t, rate.Close())
	open := leapgrpc.Must(leapgrpc.Config{Limits: []leapgrpc.Limit{{Limiter: rate}}})
	require.NoError(t, local(open, t.Context(), answer))
	closed := leapgrpc.Must(leapgrpc.Config{Limits: []leapgrpc.Limit{{Limiter: rate, FailClosed: true}}})
	err := local(closed, t.Context(), answer)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, leapgrpc.ReasonOverloaded, detailsOf(t, err).reason)
	assert.NotErrorIs(t, err, leapgate.ErrBlocked)
}

func TestUnaryServer_AContextThatHasEndedIsItsCode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, cfg := range []leapgrpc.Config{{}, {Gate: gateWith(t)}} {
		err := local(leapgrpc.Must(cfg), ctx, answer)
		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.ErrorIs(t, err, context.Canceled)
	}
}

func TestUnaryServer_OriginArgsAndCriticalityOfACall(t *testing.T) {
	t.Parallel()
	gate := gateWith(t)
	require.NoError(t, gate.LoadRules(leapgate.Rules{
		Flow:  []flow.Rule{{ID: "origin", Resource: "/a.B/C", Origin: "bob", Threshold: 0}},
		Param: []param.Rule{{ID: "item", Resource: "/a.B/C", Arg: "item", Threshold: 1, Interval: time.Minute}},
	}))
	x := leapgrpc.Must(leapgrpc.Config{
		Gate: gate, Origin: leapgrpc.Metadata("user"),
		Args:        map[string]leapgrpc.Key{"item": leapgrpc.Metadata("item")},
		Criticality: func(leapgrpc.Call) leapgate.Criticality { return leapgate.Critical },
	})
	by := func(pairs ...string) error {
		return local(x, metadata.NewIncomingContext(t.Context(), metadata.Pairs(pairs...)), answer)
	}
	rule := func(err error) string {
		b, _ := errors.AsType[*leapgate.BlockError](err)
		require.NotNil(t, b)
		return b.RuleID
	}
	assert.Equal(t, "origin", rule(by("user", "bob")))
	require.NoError(t, by("user", "ann", "item", "7"))
	assert.Equal(t, "item", rule(by("user", "ann", "item", "7")))
	require.NoError(t, by("user", "ann", "item", "8"))
	require.NoError(t, by())
}

func TestResource_ThatANobodyNames(t *testing.T) {
	t.Parallel()
	gate := gateWith(t)
	x := leapgrpc.Must(leapgrpc.Config{Gate: gate, Resource: func(leapgrpc.Call) string { return "" }})
	require.NoError(t, local(x, t.Context(), answer))
	assert.EqualValues(t, 1, snapshot(gate, leapgrpc.Unknown).Pass)
}

func TestUnary_ACallThatPassesAllocatesNextToNothing(t *testing.T) {
	if gatetest.Race {
		t.Skip("allocations differ with the race detector")
	}
	gate := leapgate.Must(leapgate.Config{}) // one of the kit traces entries
	defer gate.Close()
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "/a.B/C", Threshold: 1e9}}))
	x := leapgrpc.Must(leapgrpc.Config{Gate: gate})
	ctx := t.Context()
	info := &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}
	req := new(pb.SimpleRequest)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = x.UnaryServer(ctx, req, info, answer) }))
	invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = x.UnaryClient(ctx, "/a.B/C", req, nil, nil, invoker) }))
	pushback := leapgrpc.Must(leapgrpc.Config{Gate: gate, Pushback: true})
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = pushback.UnaryClient(ctx, "/a.B/C", req, nil, nil, invoker) }), 2.0)
	counter, err := limit.NewCounter(limit.Config{Limit: 1e6, Window: time.Hour})
	require.NoError(t, err)
	limited := leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{{Limiter: counter, Key: func(leapgrpc.Call) string { return "k" }}}})
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = limited.UnaryServer(ctx, req, info, answer) }), 2.0)
}
