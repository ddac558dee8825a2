package leapgrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/stat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	unary  = "/grpc.testing.TestService/UnaryCall"
	duplex = "/grpc.testing.TestService/FullDuplexCall (stream)"
	input  = "/grpc.testing.TestService/StreamingInputCall (stream)"
)

// service answers as its functions do; nil is an answer at once.
type service struct {
	pb.UnimplementedTestServiceServer
	unary  func(ctx context.Context, in *pb.SimpleRequest) error
	duplex func(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error
	input  func(stream grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error
}

func (s *service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary != nil {
		if err := s.unary(ctx, in); err != nil {
			return nil, err
		}
	}
	return new(pb.SimpleResponse), nil
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	if s.duplex != nil {
		return s.duplex(stream)
	}
	for { // an echo
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(new(pb.StreamingOutputCallResponse)); err != nil {
			return err
		}
	}
}

func (s *service) StreamingInputCall(stream grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	if s.input != nil {
		return s.input(stream)
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return stream.SendAndClose(new(pb.StreamingInputCallResponse))
		} else if err != nil {
			return err
		}
	}
}

// network is how clients come to a server: in memory and in a time of their own, or, with tag
// e2e, by a socket and in real time.
type network struct {
	name string
	run  func(t *testing.T, test func(t *testing.T))
	// listen returns a listener, and the target and the options that dial it.
	listen func(t *testing.T) (net.Listener, string, []grpc.DialOption)
}

var networks = []network{{
	name: "bufconn",
	run:  func(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) },
	listen: func(*testing.T) (net.Listener, string, []grpc.DialOption) {
		l := bufconn.Listen(1 << 16)
		dial := func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }
		return l, "passthrough:///bufconn", []grpc.DialOption{grpc.WithContextDialer(dial)}
	},
}}

// everywhere runs a test over all networks.
func everywhere(t *testing.T, test func(t *testing.T, by network)) {
	t.Helper()
	for _, by := range networks {
		t.Run(by.name, func(t *testing.T) {
			by.run(t, func(t *testing.T) {
				t.Helper()
				test(t, by)
			})
		})
	}
}

// world is a server and a client of it.
type world struct {
	pb.TestServiceClient
	conn   *grpc.ClientConn
	server *grpc.Server
}

// setup is how a world is made.
type setup struct {
	service service
	server  *leapgrpc.Interceptors // nil: none
	client  *leapgrpc.Interceptors // nil: none
	options []grpc.ServerOption
	dial    []grpc.DialOption
	made    func(*grpc.Server) // before it serves
}

func (by network) start(t *testing.T, s setup) world {
	t.Helper()
	if s.server != nil {
		s.options = append(s.options, grpc.ChainUnaryInterceptor(s.server.UnaryServer), grpc.ChainStreamInterceptor(s.server.StreamServer))
	}
	server := grpc.NewServer(s.options...)
	pb.RegisterTestServiceServer(server, &s.service)
	checker := health.NewServer()
	healthpb.RegisterHealthServer(server, checker)
	if s.made != nil {
		s.made(server)
	}
	listener, target, dial := by.listen(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if s.client != nil {
		dial = append(dial, grpc.WithChainUnaryInterceptor(s.client.UnaryClient), grpc.WithChainStreamInterceptor(s.client.StreamClient))
	}
	conn, err := grpc.NewClient(target, append(dial, s.dial...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close() // a test may have closed it
		server.Stop()
		assert.NoError(t, <-served)
	})
	return world{pb.NewTestServiceClient(conn), conn, server}
}

// call makes a unary call.
func (w world) call(t *testing.T, opts ...grpc.CallOption) error {
	t.Helper()
	_, err := w.UnaryCall(t.Context(), new(pb.SimpleRequest), opts...)
	return err
}

// gateWith returns a gate with flow rules, whose entries must all end with the test.
func gateWith(t *testing.T, rules ...flow.Rule) *leapgate.Gate {
	t.Helper()
	gate := leapgatetest.New(t, leapgate.Config{}, nil)
	require.NoError(t, gate.LoadFlowRules(rules))
	return gate.Gate
}

// per returns a limiter that admits so many in a window.
func per(t *testing.T, name string, most int64, window time.Duration) *limit.RateLimiter {
	t.Helper()
	l, err := limit.NewLog(limit.Config{Name: name, Limit: most, Window: window})
	require.NoError(t, err)
	return l
}

// details are those of the status of a refusal.
type details struct {
	retry  *errdetails.RetryInfo
	quota  *errdetails.QuotaFailure
	reason string
}

func detailsOf(t *testing.T, err error) (d details) {
	t.Helper()
	s, ok := status.FromError(err)
	require.True(t, ok)
	for _, detail := range s.Details() {
		switch x := detail.(type) {
		case *errdetails.RetryInfo:
			d.retry = x
		case *errdetails.QuotaFailure:
			d.quota = x
		case *errdetails.ErrorInfo:
			require.Equal(t, "leapgate", x.GetDomain())
			d.reason = x.GetReason()
		}
	}
	return d
}

func snapshot(gate *leapgate.Gate, name string) stat.Snapshot {
	if r := gate.Lookup(name); r != nil {
		return r.Snapshot()
	}
	return stat.Snapshot{}
}

// pass lets time pass. Any goroutine may call it.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	assert.NoError(t, gatetest.SleepOnTimer(t.Context(), d))
}

// until waits until what the other side does has come about. Any goroutine may call it.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for range 10_000 {
		if done() {
			return
		}
		pass(t, time.Millisecond)
	}
	t.Error("it has not come about")
}
