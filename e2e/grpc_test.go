//go:build e2e

package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// newServer returns a server with the rules of a gate on its methods, and a limit for each client.
func newServer(gate *leapgate.Gate) (*grpc.Server, error) {
	perClient, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 1000, Window: time.Minute})
	if err != nil {
		return nil, err
	}
	limits, err := leapgrpc.New(leapgrpc.Config{
		Gate:   gate,
		Limits: []leapgrpc.Limit{{Limiter: perClient}}, // by the address of the peer; Key can be any other
	})
	if err != nil {
		return nil, err
	}
	return grpc.NewServer(
		grpc.ChainUnaryInterceptor(limits.UnaryServer), // the first of the chain; the program's own come behind it
		grpc.ChainStreamInterceptor(limits.StreamServer),
	), nil
}

// dial returns a connection that asks a gate of the client's own before it calls, and heeds what
// the server says.
func dial(target string, gate *leapgate.Gate) (*grpc.ClientConn, error) {
	limits, err := leapgrpc.New(leapgrpc.Config{Gate: gate})
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(
		target,
		grpc.WithChainUnaryInterceptor(limits.UnaryClient),
		grpc.WithChainStreamInterceptor(limits.StreamClient),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS in production
	)
}

type testService struct {
	pb.UnimplementedTestServiceServer
}

func (testService) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return new(pb.SimpleResponse), nil
}

const unaryCall = "/grpc.testing.TestService/UnaryCall"

// serveGRPC serves the service behind a gate, and returns its address.
func serveGRPC(t *testing.T, gate *leapgate.Gate) string {
	t.Helper()
	server, err := newServer(gate)
	require.NoError(t, err)
	pb.RegisterTestServiceServer(server, testService{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return listener.Addr().String()
}

func TestGRPC_AClientHeedsTheServer(t *testing.T) {
	t.Parallel()
	server, client := leapgate.Must(leapgate.Config{}), leapgate.Must(leapgate.Config{})
	require.NoError(t, server.LoadFlowRules([]flow.Rule{{ID: "one", Resource: unaryCall, Threshold: 1, Interval: time.Minute}}))
	conn, err := dial("dns:///"+serveGRPC(t, server), client)
	require.NoError(t, err)
	defer conn.Close()
	call := func() error {
		_, err := pb.NewTestServiceClient(conn).UnaryCall(t.Context(), new(pb.SimpleRequest))
		return err
	}
	require.NoError(t, call())
	err = call()
	require.NotErrorIs(t, err, leapgate.ErrBlocked, "the server has refused it")
	require.Equal(t, "one", leapgrpc.Blocked(err).RuleID)
	require.ErrorIs(t, call(), leapgate.ErrBlocked)
	require.EqualValues(t, 1, server.Lookup(unaryCall).Snapshot().Block)
	require.Len(t, server.Snapshot(), 1)
}

// connect-go has its own implementation of the protocol, and its own table of codes.
func TestGRPC_AClientOfConnectReadsTheRefusal(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "one", Resource: unaryCall, Threshold: 1, Interval: 5 * time.Second}}))
	address := serveGRPC(t, gate)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	client := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](&http.Client{Transport: transport}, "http://"+address+unaryCall, connect.WithGRPC())
	call := func() error {
		_, err := client.CallUnary(t.Context(), connect.NewRequest(new(pb.SimpleRequest)))
		return err
	}
	require.NoError(t, call())
	refused, ok := errors.AsType[*connect.Error](call())
	require.True(t, ok)
	require.Equal(t, connect.CodeResourceExhausted, refused.Code())
	require.NotEmpty(t, refused.Meta().Get("grpc-retry-pushback-ms"))
	seen := make(map[string]bool)
	for _, detail := range refused.Details() {
		v, err := detail.Value()
		require.NoError(t, err)
		switch d := v.(type) {
		case *errdetails.RetryInfo:
			seen["retry"] = d.GetRetryDelay().AsDuration() > 0
		case *errdetails.QuotaFailure:
			seen["quota"] = d.GetViolations()[0].GetDescription() == "one"
		case *errdetails.ErrorInfo:
			seen["reason"] = d.GetReason() == leapgrpc.ReasonRateLimited
		}
	}
	require.Equal(t, map[string]bool{"retry": true, "quota": true, "reason": true}, seen)
}

// The calls of grpc_health_probe: a Check, with a deadline, of the server or of one service.
func TestGRPC_AHealthProbeIsAnsweredWhateverIsUsedUp(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: ".*", Match: rule.Regexp, Threshold: 0}}))
	conn, err := grpc.NewClient("dns:///"+serveGRPC(t, gate), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("grpc_health_probe"))
	require.NoError(t, err)
	defer conn.Close()
	for range 2000 { // more than the limit of one client
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, new(healthpb.HealthCheckRequest))
		stop()
		require.NoError(t, err)
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, answer.GetStatus())
	}
	for _, s := range gate.Snapshot() {
		require.Zero(t, s.Pass+s.Block, s.Resource)
	}
}
