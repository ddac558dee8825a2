package leapgrpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgrpc"
)

// exhausted is what a server answers that asks to wait.
func exhausted(t *testing.T, code codes.Code, wait time.Duration) error {
	t.Helper()
	s, err := status.New(code, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	require.NoError(t, err)
	return s.Err()
}

func TestClient_ATargetThatAsksToWaitIsNotCalledAndOthersAre(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		calls, wait := 0, 2*time.Second
		if by.name != "bufconn" {
			wait = 300 * time.Millisecond
		}
		gate := gateWith(t)
		target := "a"
		x := leapgrpc.Must(leapgrpc.Config{Gate: gate, Target: func(leapgrpc.Call) string { return target }})
		w := by.start(t, setup{client: x, service: service{unary: func(context.Context, *pb.SimpleRequest) error {
			if calls++; calls == 1 {
				return exhausted(t, codes.ResourceExhausted, wait)
			}
			return nil
		}}})
		err := w.call(t)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.NotErrorIs(t, err, leapgate.ErrBlocked, "the server has refused it")
		err = w.call(t)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		refused, ok := errors.AsType[*leapgrpc.RefusedError](err)
		require.True(t, ok)
		assert.Equal(t, "a", refused.Target)
		assert.Equal(t, codes.ResourceExhausted, refused.Code)
		assert.LessOrEqual(t, refused.RetryAfter, wait)
		assert.Contains(t, refused.Error(), `not sent: "a" answered ResourceExhausted`)
		_, err = w.FullDuplexCall(t.Context())
		require.ErrorIs(t, err, leapgate.ErrBlocked, "streams too")
		target = "b"
		require.NoError(t, w.call(t))
		target = "a"
		pass(t, wait-20*time.Millisecond)
		if by.name == "bufconn" {
			require.ErrorIs(t, w.call(t), leapgate.ErrBlocked)
		}
		pass(t, 20*time.Millisecond)
		require.NoError(t, w.call(t))
		assert.Equal(t, 3, calls)
		s := snapshot(gate, unary)
		assert.EqualValues(t, 3, s.Pass)
		assert.EqualValues(t, 1, s.Ignored)
		assert.Zero(t, s.Exception)
	})
}

func TestClient_APushbackIsHeededAndWhatSaysNothingIsNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answer  error
		trailer string
		waits   bool
	}{
		{"pushback", status.Error(codes.Unavailable, ""), "200", true},
		{"no pushback", status.Error(codes.Unavailable, ""), "", false},
		{"not to retry", status.Error(codes.ResourceExhausted, ""), "-1", false},
		{"no number", status.Error(codes.ResourceExhausted, ""), "soon", false},
		{"another code", status.Error(codes.Aborted, ""), "200", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, by network) {
				t.Helper()
				w := by.start(t, setup{client: leapgrpc.Must(leapgrpc.Config{Pushback: true}), service: service{unary: func(ctx context.Context, _ *pb.SimpleRequest) error {
					if c.trailer != "" {
						if err := grpc.SetTrailer(ctx, metadata.Pairs(pushback, c.trailer)); err != nil {
							return err
						}
					}
					return c.answer
				}}})
				require.Equal(t, status.Code(c.answer), status.Code(w.call(t)))
				err := w.call(t)
				assert.Equal(t, status.Code(c.answer), status.Code(err))
				assert.Equal(t, c.waits, errors.Is(err, leapgate.ErrBlocked))
			})
		})
	}
}

func TestClient_AStreamsRefusalIsHeeded(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		w := by.start(t, setup{
			client: leapgrpc.Must(leapgrpc.Config{}),
			server: leapgrpc.Must(leapgrpc.Config{Gate: gateWith(t, flow.Rule{Resource: duplex, Threshold: 1, Interval: time.Minute}), NoDetails: true, MaxPushback: time.Hour}),
		})
		for i := range 2 {
			stream, err := w.FullDuplexCall(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.CloseSend())
			if _, err = stream.Recv(); i == 1 {
				require.Equal(t, codes.ResourceExhausted, status.Code(err))
			}
		}
		require.ErrorIs(t, w.call(t), leapgate.ErrBlocked)
	})
}

func TestClient_ItsOwnGateAndLimitsRefuseHere(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		calls := 0
		perTarget := per(t, "per-target", 2, time.Minute)
		gate := gateWith(t, flow.Rule{ID: "one", Resource: unary, Threshold: 1, Interval: time.Minute})
		w := by.start(t, setup{
			client:  leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{{Limiter: perTarget}}}),
			service: service{unary: func(context.Context, *pb.SimpleRequest) error { calls++; return nil }},
		})
		require.NoError(t, w.call(t))
		err := w.call(t)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		b, ok := errors.AsType[*leapgate.BlockError](err)
		require.True(t, ok)
		assert.Equal(t, "one", b.RuleID)
		assert.Equal(t, "leapgrpc: the quota is used up", err.Error())
		assert.EqualValues(t, 1, perTarget.Peek(w.conn.Target()).Remaining, "the limit has it back")
		assert.Equal(t, 1, calls)
		require.NoError(t, gate.LoadFlowRules(nil))
		require.NoError(t, w.call(t))
		err = w.call(t)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		refused, ok := errors.AsType[*leapgrpc.RefusedError](err)
		require.True(t, ok)
		assert.Equal(t, "per-target", refused.Policy)
		assert.Contains(t, refused.Error(), `limit "per-target" is used up; retry in`)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = w.UnaryCall(ctx, new(pb.SimpleRequest))
		assert.Equal(t, codes.Canceled, status.Code(err))
	})
}

func TestClient_ARetryInsideIsOneCall(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		mine := gateWith(t)
		w := by.start(t, setup{
			client: leapgrpc.Must(leapgrpc.Config{Gate: mine}),
			server: leapgrpc.Must(leapgrpc.Config{Gate: gateWith(t, flow.Rule{Resource: unary, Threshold: 1, Interval: 200 * time.Millisecond})}),
			dial:   []grpc.DialOption{grpc.WithDefaultServiceConfig(retrying)},
		})
		require.NoError(t, w.call(t))
		require.NoError(t, w.call(t), "the pushback is waited out inside")
		require.NoError(t, w.call(t))
		assert.EqualValues(t, 3, snapshot(mine, unary).Success)
		assert.Zero(t, snapshot(mine, unary).Ignored)
	})
}
