package leapgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
)

// hedge makes each call twice at once, and takes the first answer.
func hedge(ctx context.Context, method string, req, _ any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, 2)
	for range cap(answers) {
		go func() {
			answers <- invoker(ctx, method, req, new(pb.SimpleResponse), cc, append(opts, grpc.WaitForReady(false))...)
		}()
	}
	return <-answers
}

// An interceptor behind may make a call several times at once: nothing of ours is written by both. The
// race detector sees it otherwise.
func TestUnaryClient_ACallThatIsHedgedBehindIsOneCall(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{
			client:  leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			dial:    []grpc.DialOption{grpc.WithChainUnaryInterceptor(hedge)},
			service: service{unary: func(context.Context, *pb.SimpleRequest) error { return status.Error(codes.Unavailable, "") }},
		})
		for range 50 {
			require.Equal(t, codes.Unavailable, status.Code(w.call(t, grpc.UseCompressor("identity"))))
		}
		assert.EqualValues(t, 50, snapshot(gate, unary).Exception)
	})
}

// hedgedStream is the first of two streams that were opened at once; the other was canceled.
type hedgedStream struct {
	grpc.ClientStream
	cancel func()
}

func hedgeStreams(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	one, cancel := context.WithCancel(ctx)
	if _, err := streamer(one, desc, cc, method, opts...); err != nil {
		cancel()
		return nil, err
	}
	two, err := streamer(ctx, desc, cc, method, opts...)
	return &hedgedStream{two, cancel}, err
}

func (s *hedgedStream) SendMsg(m any) error {
	s.cancel() // the loser ends while nobody receives
	return s.ClientStream.SendMsg(m)
}

func TestStreamClient_TheLoserOfAHedgeDoesNotEndTheCall(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{
			client: leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			dial:   []grpc.DialOption{grpc.WithChainStreamInterceptor(hedgeStreams)},
		})
		stream, err := w.FullDuplexCall(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(new(out)))
		pass(t, 20*time.Millisecond)
		require.EqualValues(t, 1, snapshot(gate, duplex).Concurrency, "the winner goes on")
		_, err = stream.Recv()
		require.NoError(t, err)
		require.NoError(t, stream.CloseSend())
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		s := snapshot(gate, duplex)
		assert.Zero(t, s.Concurrency)
		assert.EqualValues(t, 1, s.Success)
		assert.Zero(t, s.Ignored)
	})
}

// closing closes the connection when a stream has been opened.
func closing(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	_ = cc.Close()
	_ = gatetest.SleepOnTimer(ctx, 20*time.Millisecond)
	return stream, err
}

func TestStreamClient_AConnectionThatIsClosedWhileAStreamOpensEndsTheCall(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{
			client: leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			dial:   []grpc.DialOption{grpc.WithChainStreamInterceptor(closing)},
		})
		_, err := w.FullDuplexCall(context.Background())
		require.NoError(t, err)
		until(t, func() bool { return snapshot(gate, duplex).Concurrency == 0 })
		assert.EqualValues(t, 1, snapshot(gate, duplex).Ignored)
	})
}

// panicking is a message that cannot be read.
type panicking struct{}

func (panicking) Reset()         { panic("reset") }
func (panicking) String() string { return "" }
func (panicking) ProtoMessage()  { panic("message") }

func TestStreamClient_APanicOfACodecDoesNotKeepThePlace(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{client: leapgrpc.Must(leapgrpc.Config{Gate: gate})})
		stream, err := w.FullDuplexCall(context.Background())
		require.NoError(t, err)
		require.NoError(t, stream.Send(new(out)))
		require.Panics(t, func() { _ = stream.RecvMsg(panicking{}) })
		require.NoError(t, w.conn.Close())
		until(t, func() bool { return snapshot(gate, duplex).Concurrency == 0 })
	})
}

// These are the ways of a stream to end that package grpc names beside RecvMsg.
func TestStreamClient_EndsWithAnErrorOfSendMsgOrHeader(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{
			client: leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			dial:   []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1000))},
			service: service{input: func(grpc.ClientStreamingServer[in, pb.StreamingInputCallResponse]) error {
				return status.Error(codes.Internal, "")
			}},
		})
		stream, err := w.FullDuplexCall(context.Background())
		require.NoError(t, err)
		require.Error(t, stream.Send(&out{Payload: &pb.Payload{Body: make([]byte, 2000)}}))
		assert.Zero(t, snapshot(gate, duplex).Concurrency)
		assert.EqualValues(t, 1, snapshot(gate, duplex).Success)

		failing, err := w.StreamingInputCall(context.Background())
		require.NoError(t, err)
		header, err := failing.Header() // which hides the error
		require.NoError(t, err)
		require.Empty(t, header)
		assert.Zero(t, snapshot(gate, input).Concurrency)
		assert.EqualValues(t, 1, snapshot(gate, input).Exception)
	})
}

// What an interceptor of this package refuses behind another was not sent: it says nothing about the server, which
// has not asked to wait.
func TestClient_ARefusalOfAnInterceptorBehindSaysNothingAboutTheServer(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		full, err := limit.NewInFlight(limit.Config{Name: "full", Limit: 0, MaxLimit: 1})
		require.NoError(t, err)
		for _, cfg := range []leapgrpc.Config{
			{Limits: []leapgrpc.Limit{{InFlight: full}}}, // Unavailable
			{Gate: gateWith(t, flow.Rule{Resource: unary, Threshold: 0}, flow.Rule{Resource: duplex, Threshold: 0})},
		} {
			inner, gate := leapgrpc.Must(cfg), gateWith(t)
			w := by.start(t, setup{client: leapgrpc.Must(leapgrpc.Config{Gate: gate}), dial: []grpc.DialOption{
				grpc.WithChainUnaryInterceptor(inner.UnaryClient), grpc.WithChainStreamInterceptor(inner.StreamClient),
			}})
			for range 2 {
				require.ErrorIs(t, w.call(t), leapgate.ErrBlocked)
				_, err := w.FullDuplexCall(t.Context())
				require.ErrorIs(t, err, leapgate.ErrBlocked)
			}
			for _, name := range []string{unary, duplex} {
				assert.EqualValues(t, 2, snapshot(gate, name).Ignored, name)
				assert.Zero(t, snapshot(gate, name).Exception, name)
			}
		}
		one := leapgrpc.Must(leapgrpc.Config{Gate: gateWith(t, flow.Rule{Resource: unary, Threshold: 1, Interval: time.Minute})})
		w := by.start(t, setup{client: leapgrpc.Must(leapgrpc.Config{}), dial: []grpc.DialOption{grpc.WithChainUnaryInterceptor(one.UnaryClient)}})
		require.NoError(t, w.call(t))
		require.ErrorIs(t, w.call(t), leapgate.ErrBlocked)
		_, err = w.EmptyCall(t.Context(), new(pb.Empty))
		require.NotErrorIs(t, err, leapgate.ErrBlocked, "a method that no rule limits")
	})
}

// A server that is a client itself, and sends the error on, wrapped or not: nothing of the inside goes to
// its own clients, and no quota is said to be used up that is not theirs.
func TestClient_ARefusalThatAServerSendsOnSaysNothingOfTheInside(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		back := by.start(t, setup{client: leapgrpc.Must(leapgrpc.Config{
			Gate: gateWith(t, flow.Rule{ID: "secret-rule", Resource: unary, Threshold: 0, Interval: time.Minute}),
		})})
		for _, wrap := range []func(error) error{
			func(err error) error { return err },
			func(err error) error { return errors.Join(errors.New("shop"), err) },
		} {
			front := by.start(t, setup{service: service{unary: func(context.Context, *pb.SimpleRequest) error { return wrap(back.call(t)) }}})
			err := front.call(t)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "secret")
			assert.Empty(t, status.Convert(err).Details())
			assert.Nil(t, leapgrpc.Blocked(err))
		}
	})
}
