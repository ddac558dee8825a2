package leapgrpc_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

const pushback = "grpc-retry-pushback-ms"

func TestServer_ARefusalHasDetailsAndAPushbackAndNoHeaders(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t, flow.Rule{ID: "orders-qps", Resource: unary, Threshold: 1})
		w := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gate})})
		require.NoError(t, w.call(t))
		pass(t, 700*time.Microsecond) // so that the wait is no whole number of milliseconds
		var header, trailer metadata.MD
		err := w.call(t, grpc.Header(&header), grpc.Trailer(&trailer))
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		d := detailsOf(t, err)
		wait := d.retry.GetRetryDelay().AsDuration()
		assert.Positive(t, wait)
		assert.LessOrEqual(t, wait, time.Second)
		require.Len(t, d.quota.GetViolations(), 1)
		assert.Equal(t, "orders-qps", d.quota.GetViolations()[0].GetDescription())
		assert.Empty(t, d.quota.GetViolations()[0].GetSubject())
		assert.Equal(t, leapgrpc.ReasonRateLimited, d.reason)
		assert.Equal(t, []string{strconv.FormatInt(int64(math.Ceil(wait.Seconds()*1000)), 10)}, trailer.Get(pushback))
		assert.Empty(t, header)
		assert.NotContains(t, status.Convert(err).Message(), "orders")
	})
}

const retrying = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.001s",
	"backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED","UNAVAILABLE"]}}]}`

func TestServer_AClientWithARetryPolicySucceedsByItself(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t, flow.Rule{Resource: unary, Threshold: 1, Interval: 200 * time.Millisecond})
		w := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gate}), dial: []grpc.DialOption{grpc.WithDefaultServiceConfig(retrying)}})
		require.NoError(t, w.call(t))
		require.NoError(t, w.call(t))
		s := snapshot(gate, unary)
		assert.EqualValues(t, 2, s.Pass)
		assert.EqualValues(t, 1, s.Block, "the attempts of the second call are two")
	})
}

// What an outer interceptor must not do: see the package's documentation.
func TestServer_HeadersThatAnOuterInterceptorSetsEndTheRetries(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t, flow.Rule{Resource: unary, Threshold: 1, Interval: 200 * time.Millisecond})
		outer := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := grpc.SetHeader(ctx, metadata.Pairs("request-id", "7")); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		}
		w := by.start(t, setup{
			server:  leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			options: []grpc.ServerOption{grpc.ChainUnaryInterceptor(outer)},
			dial:    []grpc.DialOption{grpc.WithDefaultServiceConfig(retrying)},
		})
		require.NoError(t, w.call(t))
		assert.Equal(t, codes.ResourceExhausted, status.Code(w.call(t)))
	})
}

func TestServer_AnOpenBreakerIsUnavailableForAsLongAsItIsOpen(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
			{Resource: unary, ErrorRatio: 0.5, MinCalls: 1, OpenFor: 3200 * time.Millisecond},
		}}))
		w := by.start(t, setup{
			server:  leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			service: service{unary: func(context.Context, *pb.SimpleRequest) error { return status.Error(codes.Internal, "broken") }},
		})
		require.Equal(t, codes.Internal, status.Code(w.call(t)))
		var trailer metadata.MD
		err := w.call(t, grpc.Trailer(&trailer))
		require.Equal(t, codes.Unavailable, status.Code(err))
		d := detailsOf(t, err)
		assert.Equal(t, leapgrpc.ReasonCircuitOpen, d.reason)
		assert.Nil(t, d.quota)
		wait := d.retry.GetRetryDelay().AsDuration()
		assert.LessOrEqual(t, wait, 3200*time.Millisecond)
		assert.Greater(t, wait, time.Second)
		assert.Equal(t, []string{strconv.FormatInt(int64(math.Ceil(wait.Seconds()*1000)), 10)}, trailer.Get(pushback))
		if by.name == "bufconn" {
			assert.Equal(t, 3200*time.Millisecond, wait)
			assert.Equal(t, []string{"3200"}, trailer.Get(pushback))
		}
	})
}

func TestServer_AWaitThatNobodyKnowsIsNotTold(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{Resource: unary, MaxInFlight: 1}}}))
		inside, leave := make(chan struct{}), make(chan struct{})
		w := by.start(t, setup{
			server:  leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			service: service{unary: func(context.Context, *pb.SimpleRequest) error { close(inside); <-leave; return nil }},
		})
		done := make(chan error, 1)
		go func() { done <- w.call(t) }()
		<-inside
		var trailer metadata.MD
		err := w.call(t, grpc.Trailer(&trailer))
		require.Equal(t, codes.Unavailable, status.Code(err))
		d := detailsOf(t, err)
		assert.Nil(t, d.retry)
		assert.Nil(t, d.quota)
		assert.Equal(t, leapgrpc.ReasonOverloaded, d.reason)
		assert.Empty(t, trailer.Get(pushback))
		close(leave)
		require.NoError(t, <-done)
	})
}

func TestServer_HealthIsCheckedWhateverIsUsedUp(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t, flow.Rule{ID: "nothing", Resource: "*", Match: rule.Glob, Threshold: 0})
		places, err := limit.NewInFlight(limit.Config{Name: "places", Limit: 1})
		require.NoError(t, err)
		w := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{
			{Limiter: per(t, "nothing", 0, time.Second)}, {InFlight: places},
		}})})
		require.Equal(t, codes.ResourceExhausted, status.Code(w.call(t)))
		checker := healthpb.NewHealthClient(w.conn)
		got, err := checker.Check(t.Context(), new(healthpb.HealthCheckRequest))
		require.NoError(t, err)
		assert.Equal(t, healthpb.HealthCheckResponse_SERVING, got.GetStatus())
		_, err = checker.List(t.Context(), new(healthpb.HealthListRequest))
		require.NoError(t, err)

		watched, stop := context.WithCancel(t.Context())
		watch, err := checker.Watch(watched, new(healthpb.HealthCheckRequest))
		require.NoError(t, err)
		_, err = watch.Recv()
		require.NoError(t, err)
		const name = "/grpc.health.v1.Health/Watch (stream)"
		assert.EqualValues(t, 1, snapshot(gate, name).Concurrency)
		assert.EqualValues(t, 1, places.Stats().InFlight)
		second, err := checker.Watch(t.Context(), new(healthpb.HealthCheckRequest))
		require.NoError(t, err)
		_, err = second.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err), "it counts among those in flight")
		stop()
		until(t, func() bool { return snapshot(gate, name).Concurrency == 0 && places.Stats().InFlight == 0 })
		s := snapshot(gate, name)
		assert.EqualValues(t, 1, s.Pass)
		assert.Zero(t, s.Block)
	})
}

func TestServer_OutcomesGoByTheCode(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{{ID: "b", Resource: unary, ErrorCount: 1000}}}))
		var code codes.Code
		w := by.start(t, setup{
			server:  leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			service: service{unary: func(context.Context, *pb.SimpleRequest) error { return status.Error(code, "") }},
		})
		code = codes.NotFound
		for range 100 {
			require.Equal(t, code, status.Code(w.call(t)))
		}
		assert.Zero(t, snapshot(gate, unary).Exception)
		code = codes.Internal
		for range 10 {
			require.Equal(t, code, status.Code(w.call(t)))
		}
		assert.EqualValues(t, 10, snapshot(gate, unary).Exception)
		code = codes.ResourceExhausted
		require.Equal(t, code, status.Code(w.call(t)))
		s := snapshot(gate, unary)
		assert.EqualValues(t, 10, s.Exception)
		assert.EqualValues(t, 1, s.Ignored)
		assert.EqualValues(t, 111, s.Success)
	})
}

func TestDefaultOutcome_OfEveryCode(t *testing.T) {
	t.Parallel()
	want := map[leapgate.Outcome][]codes.Code{
		leapgate.Failure: {codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss, 99},
		leapgate.Ignored: {codes.Canceled, codes.ResourceExhausted},
		leapgate.Success: {
			codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
			codes.FailedPrecondition, codes.OutOfRange, codes.Aborted, codes.Unimplemented,
		},
	}
	seen := 0
	for outcome, all := range want {
		for _, code := range all {
			assert.Equal(t, outcome, leapgrpc.DefaultOutcome(status.Error(code, "")), code)
			seen++
		}
	}
	assert.Equal(t, 18, seen)
	assert.Equal(t, leapgate.Failure, leapgrpc.DefaultOutcome(errors.New("without a status")))
	assert.Equal(t, leapgate.Failure, leapgrpc.DefaultOutcome(context.DeadlineExceeded))
	assert.Equal(t, leapgate.Ignored, leapgrpc.DefaultOutcome(context.Canceled))
}

func TestServer_AClientThatHangsUpOpensNoBreakerAndOneWhoseDeadlinePassesDoes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{
			server: leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			service: service{unary: func(ctx context.Context, _ *pb.SimpleRequest) error {
				<-ctx.Done()
				return status.Error(codes.Internal, ctx.Err().Error())
			}},
		})
		ctx, hangUp := context.WithCancel(t.Context())
		go func() {
			until(t, func() bool { return snapshot(gate, unary).Concurrency == 1 })
			hangUp()
		}()
		_, err := w.UnaryCall(ctx, new(pb.SimpleRequest))
		require.Equal(t, codes.Canceled, status.Code(err))
		until(t, func() bool { return snapshot(gate, unary).Success == 1 })
		assert.EqualValues(t, 1, snapshot(gate, unary).Ignored)

		for i, deadline := range []time.Duration{5 * time.Millisecond, 90 * time.Millisecond, 200 * time.Millisecond} {
			ctx, stop := context.WithTimeout(t.Context(), deadline)
			defer stop()
			_, err = w.UnaryCall(ctx, new(pb.SimpleRequest))
			require.Contains(t, []codes.Code{codes.DeadlineExceeded, codes.Internal}, status.Code(err), "both sides come to the deadline at once")
			until(t, func() bool { return snapshot(gate, unary).Success == int64(i)+2 })
		}
		s := snapshot(gate, unary)
		assert.Equal(t, []int64{1, 3}, []int64{s.Exception, s.Ignored}, "the first two deadlines are shorter than MinDeadline")
	})
}

func TestConfig_MinDeadlineBelowZeroCountsAllDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := gateWith(t)
		x := leapgrpc.Must(leapgrpc.Config{Gate: gate, MinDeadline: -1})
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		_, err := x.UnaryServer(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unary}, func(ctx context.Context, _ any) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, snapshot(gate, unary).Exception)
	})
}

// garbage is a codec of a client whose messages no server can read.
type garbage struct{}

func (garbage) Marshal(any) ([]byte, error) { return []byte{0xff}, nil }
func (garbage) Unmarshal([]byte, any) error { return nil }
func (garbage) Name() string                { return "proto" }

func TestServer_AMessageThatCannotBeReadOpensNoBreaker(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gate})})
		stream, err := w.FullDuplexCall(t.Context(), grpc.ForceCodec(garbage{}))
		require.NoError(t, err)
		require.NoError(t, stream.Send(new(pb.StreamingOutputCallRequest)))
		_, err = stream.Recv()
		require.Equal(t, codes.Internal, status.Code(err))
		s := snapshot(gate, duplex)
		assert.Equal(t, []int64{1, 0, 1}, []int64{s.Success, s.Exception, s.Ignored})
	})
}

func TestServer_AWaitBeyondTheDeadlineIsNotPushedBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t, flow.Rule{Resource: unary, Threshold: 1, Interval: 5 * time.Second})
		w := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gate}), dial: []grpc.DialOption{grpc.WithDefaultServiceConfig(retrying)}})
		require.NoError(t, w.call(t))
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		var trailer metadata.MD
		_, err := w.UnaryCall(ctx, new(pb.SimpleRequest), grpc.Trailer(&trailer))
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, []string{"-1"}, trailer.Get(pushback))
		wait := detailsOf(t, err).retry.GetRetryDelay().AsDuration()
		assert.Greater(t, wait, 4*time.Second)
		assert.LessOrEqual(t, wait, 5*time.Second)
	})
}

// A client has come to its deadline before the server has.
func TestServer_AWaitThatEndsJustBeforeTheDeadlineIsNotPushedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := networks[0].start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gateWith(t, flow.Rule{Resource: unary, Threshold: 1})})})
		require.NoError(t, w.call(t))
		wait := detailsOf(t, w.call(t)).retry.GetRetryDelay().AsDuration()
		for deadline, want := range map[time.Duration]string{wait + 9*time.Millisecond: "-1", wait + 15*time.Millisecond: strconv.Itoa(int(wait.Milliseconds()))} {
			ctx, stop := context.WithTimeout(t.Context(), deadline)
			defer stop()
			var trailer metadata.MD
			_, err := w.UnaryCall(ctx, new(pb.SimpleRequest), grpc.Trailer(&trailer))
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			assert.Equal(t, []string{want}, trailer.Get(pushback))
		}
	})
}

func TestServer_WhatNeverPassesOrPassesLateIsNotPushedBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		never := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gateWith(t, flow.Rule{Resource: unary, Threshold: 0})})})
		var trailer metadata.MD
		err := never.call(t, grpc.Trailer(&trailer))
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		assert.Nil(t, detailsOf(t, err).retry)
		assert.Equal(t, []string{"-1"}, trailer.Get(pushback))

		late := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Limits: []leapgrpc.Limit{{Limiter: per(t, "minute", 1, time.Minute)}}})})
		require.NoError(t, late.call(t))
		err = late.call(t, grpc.Trailer(&trailer))
		assert.Greater(t, detailsOf(t, err).retry.GetRetryDelay().AsDuration(), 10*time.Second)
		assert.Equal(t, []string{"-1"}, trailer.Get(pushback))
	})
}
