//go:build e2e

package leapgrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgrpc"
)

// With the tag, all that is tested in memory is tested over a socket too.
func init() { //nolint:gochecknoinits // a list of a test
	networks = append(networks, network{
		name: "socket",
		run:  func(t *testing.T, test func(t *testing.T)) { t.Helper(); test(t) },
		listen: func(t *testing.T) (net.Listener, string, []grpc.DialOption) {
			t.Helper()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			return l, "dns:///" + l.Addr().String(), nil
		},
	})
}

func socket(t *testing.T) network {
	t.Helper()
	return networks[len(networks)-1]
}

func TestSocket_OfAHundredThousandCallsExactlyTheLimitIsAdmitted(t *testing.T) {
	before := goleak.IgnoreCurrent()
	const calls, workers, most, mine = 100_000, 50, 30_000, 40_000
	var ran atomic.Int64
	t.Run("load", func(t *testing.T) {
		server := gateWith(t, flow.Rule{Resource: unary, Threshold: most, Interval: 24 * time.Hour, Buckets: 1})
		client := gateWith(t, flow.Rule{Resource: unary, Threshold: mine, Interval: 24 * time.Hour, Buckets: 1})
		w := socket(t).start(t, setup{
			server:  leapgrpc.Must(leapgrpc.Config{Gate: server}),
			client:  leapgrpc.Must(leapgrpc.Config{Gate: client, MaxPause: -1}),
			service: service{unary: func(context.Context, *pb.SimpleRequest) error { ran.Add(1); return nil }},
		})
		var passed, here, there atomic.Int64
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range calls / workers {
					switch err := w.call(t); {
					case err == nil:
						passed.Add(1)
					case errors.Is(err, leapgate.ErrBlocked):
						here.Add(1)
					case status.Code(err) == codes.ResourceExhausted:
						there.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, most, passed.Load())
		assert.EqualValues(t, most, ran.Load())
		assert.EqualValues(t, calls-mine, here.Load())
		assert.EqualValues(t, mine-most, there.Load())
		for _, gate := range []*leapgate.Gate{server, client} {
			s := snapshot(gate, unary)
			assert.Equal(t, s.Pass, s.Success)
			assert.Zero(t, s.Concurrency)
			assert.Zero(t, s.Exception)
		}
		assert.EqualValues(t, most, snapshot(server, unary).Pass)
		assert.EqualValues(t, mine, snapshot(client, unary).Pass)
		assert.EqualValues(t, mine-most, snapshot(client, unary).Ignored)
	})
	goleak.VerifyNone(t, before)
}

func TestSocket_AThousandStreamsLeaveNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	const streams = 1000
	t.Run("streams", func(t *testing.T) {
		server, client := gateWith(t), gateWith(t)
		require.NoError(t, server.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{Resource: duplex, MaxInFlight: streams}}}))
		w := socket(t).start(t, setup{server: leapgrpc.Must(leapgrpc.Config{Gate: server}), client: leapgrpc.Must(leapgrpc.Config{Gate: client})})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		open := make([]grpc.BidiStreamingClient[out, pb.StreamingOutputCallResponse], streams)
		for i := range open {
			stream, err := w.FullDuplexCall(ctx)
			require.NoError(t, err)
			require.NoError(t, stream.Send(new(out)))
			_, err = stream.Recv()
			require.NoError(t, err)
			open[i] = stream
		}
		assert.EqualValues(t, streams, snapshot(server, duplex).Concurrency)
		assert.EqualValues(t, streams, snapshot(client, duplex).Concurrency)
		refused, err := w.FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = refused.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
		for i, stream := range open { // half of them end, and half are left to the end of their context
			if i%2 == 0 {
				require.NoError(t, stream.CloseSend())
				_, err := stream.Recv()
				require.ErrorIs(t, err, io.EOF)
			}
		}
		until(t, func() bool { return snapshot(server, duplex).Concurrency == streams/2 })
		assert.EqualValues(t, streams/2, snapshot(client, duplex).Concurrency)
		cancel()
		until(t, func() bool { return snapshot(server, duplex).Concurrency+snapshot(client, duplex).Concurrency == 0 })
		s := snapshot(server, duplex)
		assert.EqualValues(t, streams, s.Success)
		assert.EqualValues(t, streams/2, s.Ignored)
		s = snapshot(client, duplex)
		assert.EqualValues(t, streams+1, s.Success)
		assert.EqualValues(t, streams/2, s.Ignored)
		assert.EqualValues(t, 1, s.Exception, "the one that the server refused")
	})
	runtime.GC()
	goleak.VerifyNone(t, before)
}
