package bench

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
)

const grpcMethod = "/orders.Orders/Get"

// grpcCases are unary calls that pass, as package grpc makes them, without a network. The floor is that of
// an entry and its exit; what the interceptor itself costs is what is above the bare one.
var grpcCases = []Case{
	{
		Name: "floor/gRPC server, bare interceptor",
		Make: shared(serveGRPC(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return handler(ctx, req)
		})),
	},
	{
		Name: "floor/gRPC client, bare interceptor",
		Make: shared(callGRPC(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoker(ctx, method, req, reply, cc, opts...)
		})),
	},
	grpcCase("leapgate/gRPC server, no rule", true, leapgrpc.Config{}),
	grpcCase("leapgate/gRPC server, exact rule", true, leapgrpc.Config{}, flow.Rule{Threshold: unreachable}),
	grpcCase("leapgate/gRPC server, exact rule and a limiter", true, leapgrpc.Config{Limits: grpcLimits()}, flow.Rule{Threshold: unreachable}),
	grpcCase("leapgate/gRPC client, exact rule", false, leapgrpc.Config{}, flow.Rule{Threshold: unreachable}),
	grpcCase("leapgate/gRPC client, exact rule and pushback", false, leapgrpc.Config{Pushback: true}, flow.Rule{Threshold: unreachable}),
}

func grpcCase(name string, server bool, cfg leapgrpc.Config, rules ...flow.Rule) Case {
	return Case{Name: name, Floor: FloorEntry, Make: func() func() func(int) {
		cfg.Gate = gateWith([]string{grpcMethod}, rules...)
		x := leapgrpc.Must(cfg)
		if server {
			return shared(serveGRPC(x.UnaryServer))()
		}
		return shared(callGRPC(x.UnaryClient))()
	}}
}

func grpcLimits() []leapgrpc.Limit {
	l, err := limit.NewCounter(limit.Config{Limit: 16_000_000, Window: time.Second})
	if err != nil {
		panic(err)
	}
	return []leapgrpc.Limit{{Limiter: l, Key: func(leapgrpc.Call) string { return "client" }}}
}

func serveGRPC(interceptor grpc.UnaryServerInterceptor) func(n int) {
	info, req := &grpc.UnaryServerInfo{FullMethod: grpcMethod}, any(new(int))
	handler := func(_ context.Context, req any) (any, error) { return req, nil }
	return func(n int) {
		for range n {
			if _, err := interceptor(context.Background(), req, info, handler); err != nil {
				panic(err)
			}
		}
	}
}

func callGRPC(interceptor grpc.UnaryClientInterceptor) func(n int) {
	message := any(new(int))
	invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	return func(n int) {
		for range n {
			if err := interceptor(context.Background(), grpcMethod, message, message, nil, invoker); err != nil {
				panic(err)
			}
		}
	}
}
