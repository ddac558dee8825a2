package leapgrpc_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

// tapped starts a server with a tap.
func (by network) tapped(t *testing.T, cfg leapgrpc.Config, s setup) world {
	t.Helper()
	var w world
	cfg.Services = func() map[string]grpc.ServiceInfo { return w.server.GetServiceInfo() }
	handle, err := leapgrpc.Must(cfg).InTap()
	require.NoError(t, err)
	s.options = append(s.options, grpc.InTapHandle(handle))
	w = by.start(t, s)
	return w
}

func TestInTap_RefusesWithTheStatusOfAnInterceptor(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t, flow.Rule{ID: "flood", Resource: unary, Threshold: 1, Interval: time.Minute})
		ran := 0
		w := by.tapped(t, leapgrpc.Config{Gate: gate}, setup{service: service{unary: func(context.Context, *pb.SimpleRequest) error { ran++; return nil }}})
		require.NoError(t, w.call(t))
		var trailer metadata.MD
		err := w.call(t, grpc.Trailer(&trailer))
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		d := detailsOf(t, err)
		assert.Positive(t, d.retry.GetRetryDelay().AsDuration())
		assert.Equal(t, "flood", d.quota.GetViolations()[0].GetDescription())
		assert.Equal(t, leapgrpc.ReasonRateLimited, d.reason)
		assert.Empty(t, trailer.Get(pushback))
		assert.Equal(t, 1, ran)
		s := snapshot(gate, unary)
		assert.EqualValues(t, 1, s.Pass)
		assert.Zero(t, s.Concurrency)
		assert.EqualValues(t, 1, s.Ignored)

		got, err := healthpb.NewHealthClient(w.conn).Check(t.Context(), new(healthpb.HealthCheckRequest))
		require.NoError(t, err)
		assert.Equal(t, healthpb.HealthCheckResponse_SERVING, got.GetStatus())
	})
}

func TestInTap_MethodsThatAreNotRegisteredAreOneResource(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.tapped(t, leapgrpc.Config{Gate: gate}, setup{})
		for i := range 100 {
			err := w.conn.Invoke(t.Context(), fmt.Sprintf("/x.Y/%d", i), new(pb.Empty), new(pb.Empty))
			require.Equal(t, codes.Unimplemented, status.Code(err))
		}
		stream, err := w.FullDuplexCall(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.CloseSend())
		_, _ = stream.Recv()
		var names []string
		for _, s := range gate.Snapshot() {
			names = append(names, s.Resource)
		}
		assert.ElementsMatch(t, []string{leapgrpc.Unknown, duplex}, names)
	})
}

func TestInTap_WhatCannotBeAskedThereIsAnErrorOfTheConfiguration(t *testing.T) {
	t.Parallel()
	gate := gateWith(t)
	require.NoError(t, gate.LoadRules(leapgate.Rules{
		Flow: []flow.Rule{
			{ID: "paced", Resource: "a", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Second},
			{ID: "good", Resource: "a", Threshold: 1},
			{ID: "off", Resource: "a", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Second, Mode: rule.Off},
		},
		Param: []param.Rule{
			{ID: "queued", Resource: "a", Arg: "x", Threshold: 1, Behavior: param.Pace, MaxWait: time.Minute},
			{ID: "inside", Resource: "a", Arg: "x", MaxInFlight: 1},
		},
		Isolation: []isolation.Rule{{ID: "places", Resource: "a", MaxInFlight: 1}},
		Breaker:   []breaker.Rule{{ID: "broken", Resource: "a", ErrorCount: 1}},
		System:    []system.Rule{{ID: "machine", Resource: "a", MaxQPS: 1}},
	}))
	places, err := limit.NewInFlight(limit.Config{Name: "each", Limit: 1})
	require.NoError(t, err)
	_, err = leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{{InFlight: places}, {Limiter: remote{per(t, "far", 1, time.Second)}}}}).InTap()
	require.ErrorIs(t, err, leapgrpc.ErrConfig)
	for _, want := range []string{
		`Services is nil`, `rule "paced" lets calls wait for 1s`, `rule "queued" lets calls wait for 1m0s`, `rule "inside" of kind param, with MaxInFlight 1,`,
		`rule "places" of kind isolation`, `rule "broken" of kind breaker`, `rule "machine" of kind system`, `limit "limit-1" is in flight`,
		`limit "limit-2" asks another process`,
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.NotContains(t, err.Error(), "good")
	assert.NotContains(t, err.Error(), "off")
	_, err = leapgrpc.Must(leapgrpc.Config{}).InTap()
	assert.ErrorContains(t, err, "Gate is nil and Limits is empty")
}

type remote struct{ *limit.RateLimiter }

func (remote) Remote() bool { return true }

// Rules may be loaded when the server runs already.
func TestInTap_NeverWaits(t *testing.T) {
	t.Parallel()
	networks[0].run(t, func(t *testing.T) {
		t.Helper()
		gate := gateWith(t)
		services := func() map[string]grpc.ServiceInfo { return nil }
		handle, err := leapgrpc.Must(leapgrpc.Config{Gate: gate, Services: services}).InTap()
		require.NoError(t, err)
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: leapgrpc.Unknown, Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}}))
		began := time.Now()
		for i := range 10 {
			ctx, err := handle(t.Context(), &tap.Info{FullMethodName: "/x.Y/Z"})
			assert.Equal(t, t.Context(), ctx)
			if i > 0 {
				assert.Equal(t, codes.ResourceExhausted, status.Code(err))
			}
		}
		assert.Zero(t, time.Since(began))
		require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{Resource: leapgrpc.Unknown, MaxInFlight: 1, MaxWait: time.Minute}}}))
		e, err := gate.Entry(leapgrpc.Unknown)
		require.NoError(t, err)
		defer e.Exit()
		_, err = handle(t.Context(), &tap.Info{FullMethodName: "/x.Y/Z"})
		require.Error(t, err)
		assert.Zero(t, time.Since(began))
	})
}
