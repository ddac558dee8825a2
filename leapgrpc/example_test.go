package leapgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// serve serves the service in memory, and returns a client and what ends both.
func serve(options []grpc.ServerOption, dial ...grpc.DialOption) (pb.TestServiceClient, func()) {
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, new(service))
	listener := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///orders", append(dial,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)...)
	if err != nil {
		panic(err)
	}
	return pb.NewTestServiceClient(conn), func() {
		_ = conn.Close()
		server.Stop()
		<-served
	}
}

// A server with rules on its methods, and a limit for each client.
func ExampleNew() {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	err := gate.LoadFlowRules([]flow.Rule{{ID: "unary-qps", Resource: "/grpc.testing.TestService/UnaryCall", Threshold: 2, Interval: time.Hour, Buckets: 1}})
	if err != nil {
		panic(err)
	}
	perTenant, err := limit.NewCounter(limit.Config{Name: "per-tenant", Limit: 100, Window: time.Minute})
	if err != nil {
		panic(err)
	}
	limits, err := leapgrpc.New(leapgrpc.Config{
		Gate:   gate,
		Limits: []leapgrpc.Limit{{Limiter: perTenant, Key: leapgrpc.FirstOf(leapgrpc.Metadata("tenant"), leapgrpc.Peer)}},
	})
	if err != nil {
		panic(err)
	}
	client, stop := serve([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(limits.UnaryServer), // and then all others
		grpc.ChainStreamInterceptor(limits.StreamServer),
	})
	defer stop()
	for range 3 {
		_, err := client.UnaryCall(context.Background(), new(pb.SimpleRequest))
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// A client that does not send what the server would refuse.
func ExampleInterceptors_UnaryClient() {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	err := gate.LoadFlowRules([]flow.Rule{{ID: "ours", Resource: "/grpc.testing.TestService/UnaryCall", Threshold: 1, Interval: time.Hour, Buckets: 1}})
	if err != nil {
		panic(err)
	}
	limits := leapgrpc.Must(leapgrpc.Config{Gate: gate})
	client, stop := serve(nil,
		grpc.WithChainUnaryInterceptor(limits.UnaryClient),
		grpc.WithChainStreamInterceptor(limits.StreamClient),
	)
	defer stop()
	for range 2 {
		_, err := client.UnaryCall(context.Background(), new(pb.SimpleRequest))
		fmt.Println(status.Code(err), errors.Is(err, leapgate.ErrBlocked))
	}
	// Output:
	// OK false
	// ResourceExhausted true
}

// A handler that asks a gate by itself.
func ExampleError() {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	if err := gate.LoadFlowRules([]flow.Rule{{Resource: "db.query", Threshold: 0}}); err != nil {
		panic(err)
	}
	handler := func(ctx context.Context) error {
		return leapgrpc.Error(gate.Do(ctx, "db.query", func(context.Context) error { return nil }))
	}
	err := handler(context.Background())
	fmt.Println(status.Code(err) == codes.ResourceExhausted, status.Convert(err).Message())
	// Output: true the quota is used up
}

// What a client learns of a refusal.
func ExampleBlocked() {
	refused := &leapgate.BlockError{RetryAfter: 2 * time.Second}
	received := status.Convert(leapgrpc.Error(refused)).Err() // over the network
	if b := leapgrpc.Blocked(received); b != nil {
		fmt.Println(b.Kind, b.RetryAfter)
	}
	// Output: system 2s
}

// Behind a proxy, the client is the one that it names in x-forwarded-for.
func ExampleAddress() {
	key := leapgrpc.Address(leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()}))
	fmt.Println(key(callFrom("10.0.0.1:443", "x-forwarded-for", "198.51.100.7")))
	// Output: 198.51.100.7
}

// Floods are refused before the server makes anything of them.
func ExampleInterceptors_InTap() {
	perPeer, err := limit.NewCounter(limit.Config{Name: "per-peer", Limit: 1, Window: time.Hour})
	if err != nil {
		panic(err)
	}
	var server *grpc.Server
	tap, err := leapgrpc.Must(leapgrpc.Config{
		Limits:   []leapgrpc.Limit{{Limiter: perPeer}},
		Services: func() map[string]grpc.ServiceInfo { return server.GetServiceInfo() },
	}).InTap()
	if err != nil {
		panic(err)
	}
	server = grpc.NewServer(grpc.InTapHandle(tap))
	client, stop := serve([]grpc.ServerOption{grpc.InTapHandle(tap)})
	defer stop()
	for range 2 {
		_, err := client.UnaryCall(context.Background(), new(pb.SimpleRequest))
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}
