package leapgrpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
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
	"github.com/leapgate-go/leapgate/leapgrpc"
)

type (
	out = pb.StreamingOutputCallRequest
	in  = pb.StreamingInputCallRequest
)

func TestStreamServer_AStreamIsOneCallForAsLongAsItIsOpen(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gate})})
		pause := 10 * time.Millisecond // 10 s in all
		if by.name != "bufconn" {
			pause = 100 * time.Microsecond
		}
		stream, err := w.FullDuplexCall(t.Context())
		require.NoError(t, err)
		for range 1000 {
			require.NoError(t, stream.Send(new(out)))
			_, err := stream.Recv()
			require.NoError(t, err)
			require.EqualValues(t, 1, snapshot(gate, duplex).Concurrency)
			pass(t, pause)
		}
		require.NoError(t, stream.CloseSend())
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		until(t, func() bool { return snapshot(gate, duplex).Success == 1 })
		s := snapshot(gate, duplex)
		assert.EqualValues(t, 1, s.Pass)
		assert.Zero(t, s.Concurrency)
		assert.Zero(t, s.Exception)
		if by.name == "bufconn" {
			assert.Equal(t, 10*time.Second, s.AvgRT)
		}
	})
}

func TestStreamServer_AMessageTooManyEndsTheStream(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		received := 0
		w := by.start(t, setup{
			server: leapgrpc.Must(leapgrpc.Config{Gate: gate, PerMessage: []leapgrpc.Limit{{Limiter: per(t, "messages", 100, time.Minute)}}}),
			service: service{duplex: func(stream grpc.BidiStreamingServer[out, pb.StreamingOutputCallResponse]) error {
				for {
					if _, err := stream.Recv(); err != nil {
						if _, again := stream.Recv(); again == nil {
							return status.Error(codes.Internal, "received after the refusal")
						}
						return fmt.Errorf("what the handler makes of it: %v", err) //nolint:errorlint // it is lost
					}
					received++
					if err := stream.Send(new(pb.StreamingOutputCallResponse)); err != nil {
						return err
					}
				}
			}},
		})
		stream, err := w.FullDuplexCall(t.Context())
		require.NoError(t, err)
		for range 100 {
			require.NoError(t, stream.Send(new(out)))
			_, err := stream.Recv()
			require.NoError(t, err)
		}
		pass(t, 20*time.Millisecond) // a handler that waits for a message has taken none
		require.NoError(t, stream.Send(new(out)))
		_, err = stream.Recv()
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		d := detailsOf(t, err)
		assert.Positive(t, d.retry.GetRetryDelay().AsDuration())
		assert.Equal(t, "messages", d.quota.GetViolations()[0].GetDescription())
		until(t, func() bool { return snapshot(gate, duplex).Success == 1 })
		assert.Equal(t, 100, received)
		assert.EqualValues(t, 1, snapshot(gate, duplex).Ignored)
		assert.Zero(t, snapshot(gate, duplex).Concurrency)
	})
}

func TestStreamServer_ARefusalHasNoHeadersAndAPushback(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t, flow.Rule{Resource: input, Threshold: 0})
		w := by.start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: gate, NoDetails: true})})
		stream, err := w.StreamingInputCall(t.Context())
		require.NoError(t, err)
		_, err = stream.CloseAndRecv()
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		assert.Empty(t, status.Convert(err).Details())
		header, err := stream.Header()
		require.NoError(t, err)
		assert.Empty(t, header)
		assert.Equal(t, []string{"-1"}, stream.Trailer().Get(pushback))
	})
}

func TestStreamServer_MethodsThatAreNotRegisteredAreOneResource(t *testing.T) {
	t.Parallel()
	for _, services := range []bool{false, true} {
		everywhere(t, func(t *testing.T, by network) {
			t.Helper()
			gate := gateWith(t)
			cfg := leapgrpc.Config{Gate: gate}
			var w world
			if services {
				cfg.Services = func() map[string]grpc.ServiceInfo { return w.server.GetServiceInfo() }
			}
			calls := 1000
			answer := grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.NotFound, "nothing here") })
			w = by.start(t, setup{server: leapgrpc.Must(cfg), options: []grpc.ServerOption{answer}})
			for i := range calls {
				err := w.conn.Invoke(t.Context(), fmt.Sprintf("/x.Y/%d%s", i, strings.Repeat("y", i)), new(pb.Empty), new(pb.Empty))
				require.Equal(t, codes.NotFound, status.Code(err))
			}
			require.NoError(t, w.call(t))
			var names []string
			for _, s := range gate.Snapshot() {
				names = append(names, s.Resource)
			}
			assert.ElementsMatch(t, []string{leapgrpc.Unknown, unary}, names)
			assert.EqualValues(t, calls, snapshot(gate, leapgrpc.Unknown).Pass)
		})
	}
}

// TestStreamClient_EndsOnceHoweverTheStreamEnds: see also the documentation of StreamClient.
func TestStreamClient_EndsOnceHoweverTheStreamEnds(t *testing.T) {
	t.Parallel()
	broken := service{duplex: func(stream grpc.BidiStreamingServer[out, pb.StreamingOutputCallResponse]) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		return status.Error(codes.Internal, "broken")
	}}
	type stream = grpc.BidiStreamingClient[out, pb.StreamingOutputCallResponse]
	for _, c := range []struct {
		name               string
		service            service
		end                func(t *testing.T, s stream, cancel func(), w world)
		exception, ignored int64
	}{
		{name: "received to the end", end: func(t *testing.T, s stream, _ func(), _ world) {
			t.Helper()
			require.NoError(t, s.CloseSend())
			_, err := s.Recv()
			require.ErrorIs(t, err, io.EOF)
		}},
		{name: "an error is received", service: broken, exception: 1, end: func(t *testing.T, s stream, _ func(), _ world) {
			t.Helper()
			require.NoError(t, s.Send(new(out)))
			_, err := s.Recv()
			require.Equal(t, codes.Internal, status.Code(err))
		}},
		{name: "canceled and never received", ignored: 1, end: func(_ *testing.T, _ stream, cancel func(), _ world) { cancel() }},
		{name: "canceled while receiving", ignored: 1, end: func(t *testing.T, s stream, cancel func(), _ world) {
			t.Helper()
			go func() { pass(t, 5*time.Millisecond); cancel() }()
			_, err := s.Recv()
			require.Equal(t, codes.Canceled, status.Code(err))
		}},
		{name: "the connection is closed and nobody receives", ignored: 1, end: func(t *testing.T, _ stream, _ func(), w world) {
			t.Helper()
			require.NoError(t, w.conn.Close())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, by network) {
				t.Helper()
				gate := gateWith(t)
				s := setup{client: leapgrpc.Must(leapgrpc.Config{Gate: gate}), service: c.service}
				w := by.start(t, s)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stream, err := w.FullDuplexCall(ctx)
				require.NoError(t, err)
				if c.service.duplex == nil {
					require.NoError(t, stream.Send(new(out)))
					_, err = stream.Recv()
					require.NoError(t, err)
				}
				pass(t, 10*time.Millisecond)
				require.EqualValues(t, 1, snapshot(gate, duplex).Concurrency, "never earlier")
				c.end(t, stream, cancel, w)
				until(t, func() bool { return snapshot(gate, duplex).Success == 1 })
				_, _ = stream.Recv()
				cancel()
				pass(t, 10*time.Millisecond)
				got := snapshot(gate, duplex)
				assert.EqualValues(t, 1, got.Pass)
				assert.EqualValues(t, 1, got.Success)
				assert.Zero(t, got.Concurrency)
				assert.Equal(t, c.exception, got.Exception)
				assert.Equal(t, c.ignored, got.Ignored)
			})
		})
	}
}

func TestStreamClient_TheOneAnswerEndsAStreamThatOnlySends(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{client: leapgrpc.Must(leapgrpc.Config{Gate: gate})})
		stream, err := w.StreamingInputCall(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(new(in)))
		require.EqualValues(t, 1, snapshot(gate, input).Concurrency)
		_, err = stream.CloseAndRecv()
		require.NoError(t, err)
		s := snapshot(gate, input)
		assert.EqualValues(t, 1, s.Success)
		assert.Zero(t, s.Concurrency)
		assert.Zero(t, s.Exception+s.Ignored)
	})
}

func TestStreamClient_ADeadlineThatPassesIsAFailure(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate := gateWith(t)
		w := by.start(t, setup{client: leapgrpc.Must(leapgrpc.Config{Gate: gate})})
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		_, err := w.FullDuplexCall(ctx)
		require.NoError(t, err)
		until(t, func() bool { return snapshot(gate, duplex).Success == 1 })
		assert.EqualValues(t, 1, snapshot(gate, duplex).Exception)
	})
}

// An interceptor in between that retries makes several streams of one: the first to end is not the end.
func TestStreamClient_AnInterceptorThatRetriesInsideIsOneCall(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate, attempts := gateWith(t), 0
		w := by.start(t, setup{
			client: leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			dial:   []grpc.DialOption{grpc.WithChainStreamInterceptor(retryOnce)},
			service: service{duplex: func(stream grpc.BidiStreamingServer[out, pb.StreamingOutputCallResponse]) error {
				if attempts++; attempts == 1 {
					return status.Error(codes.Internal, "the first fails")
				}
				return stream.Send(new(pb.StreamingOutputCallResponse))
			}},
		})
		stream, err := w.FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		assert.EqualValues(t, 1, snapshot(gate, duplex).Concurrency)
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		s := snapshot(gate, duplex)
		assert.EqualValues(t, 1, s.Success)
		assert.Zero(t, s.Exception)
		assert.Equal(t, 2, attempts)
	})
}

// retryOnce opens a stream again when the first message of it is an error.
func retryOnce(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	open := func() (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }
	first, err := open()
	return &retryingStream{ClientStream: first, open: open}, err
}

type retryingStream struct {
	grpc.ClientStream
	open func() (grpc.ClientStream, error)
}

func (s *retryingStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil || s.open == nil || err == io.EOF { //nolint:errorlint // as package grpc returns it
		return err
	}
	if s.ClientStream, err = s.open(); err != nil {
		return err
	}
	s.open = nil
	return s.ClientStream.RecvMsg(m)
}

// A stream that is not of package grpc does not know its options.
func TestStreamClient_AStreamOfATestEndsToo(t *testing.T) {
	t.Parallel()
	gate := gateWith(t)
	x := leapgrpc.Must(leapgrpc.Config{Gate: gate})
	ctx, cancel := context.WithCancel(t.Context())
	streamer := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return fakeStream{ctx}, nil
	}
	desc := &grpc.StreamDesc{ServerStreams: true}
	_, err := x.StreamClient(ctx, desc, nil, "/a.B/C", streamer)
	require.NoError(t, err)
	require.EqualValues(t, 1, snapshot(gate, "/a.B/C (stream)").Concurrency)
	cancel()
	until(t, func() bool { return snapshot(gate, "/a.B/C (stream)").Ignored == 1 })

	stream, err := x.StreamClient(t.Context(), desc, nil, "/a.B/C", streamer)
	require.NoError(t, err)
	require.ErrorIs(t, stream.RecvMsg(nil), io.EOF)
	assert.EqualValues(t, 2, snapshot(gate, "/a.B/C (stream)").Success)

	failing := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, status.Error(codes.Unavailable, "")
	}
	_, err = x.StreamClient(t.Context(), desc, nil, "/a.B/C", failing)
	require.Equal(t, codes.Unavailable, status.Code(err))
	assert.EqualValues(t, 1, snapshot(gate, "/a.B/C (stream)").Exception)

	panicking := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		panic("at the disco")
	}
	assert.PanicsWithValue(t, "at the disco", func() { _, _ = x.StreamClient(t.Context(), desc, nil, "/a.B/C", panicking) })
	s := snapshot(gate, "/a.B/C (stream)")
	assert.EqualValues(t, 2, s.Exception)
	assert.Zero(t, s.Concurrency)
	assert.Equal(t, leapgate.Ignored, leapgrpc.DefaultOutcome(context.Canceled))
}

type fakeStream struct{ ctx context.Context } //nolint:containedctx // a stream has one

func (fakeStream) Header() (metadata.MD, error) { return nil, nil } //nolint:nilnil // as package grpc
func (fakeStream) Trailer() metadata.MD         { return nil }
func (fakeStream) CloseSend() error             { return nil }
func (s fakeStream) Context() context.Context   { return s.ctx }
func (fakeStream) SendMsg(any) error            { return nil }
func (fakeStream) RecvMsg(any) error            { return io.EOF }

// A stream is retried by package grpc as long as nobody has asked for its context or its headers.
func TestStreamClient_AStreamIsStillRetried(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, by network) {
		t.Helper()
		gate, attempts := gateWith(t), 0
		w := by.start(t, setup{
			client: leapgrpc.Must(leapgrpc.Config{Gate: gate}),
			dial:   []grpc.DialOption{grpc.WithDefaultServiceConfig(retrying)},
			service: service{duplex: func(grpc.BidiStreamingServer[out, pb.StreamingOutputCallResponse]) error {
				if attempts++; attempts == 1 {
					return status.Error(codes.Unavailable, "")
				}
				return nil
			}},
		})
		stream, err := w.FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, 2, attempts)
		s := snapshot(gate, duplex)
		assert.EqualValues(t, 1, s.Success)
		assert.Zero(t, s.Exception)
	})
}
