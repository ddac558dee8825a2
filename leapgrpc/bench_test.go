package leapgrpc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
)

// BenchmarkUnary is what a call costs that passes, beside interceptors that do nothing. The floor is that of
// an entry and its exit: two readings of the clock and three atomic additions.
func BenchmarkUnary(b *testing.B) {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	require.NoError(b, gate.LoadFlowRules([]flow.Rule{{Resource: unary, Threshold: 1e12}}))
	counter, err := limit.NewCounter(limit.Config{Limit: 16_000_000, Window: time.Second})
	require.NoError(b, err)
	gated := leapgrpc.Must(leapgrpc.Config{Gate: gate})
	limited := leapgrpc.Must(leapgrpc.Config{Gate: gate, Limits: []leapgrpc.Limit{{Limiter: counter, Key: func(leapgrpc.Call) string { return "client" }}}})
	info, req := &grpc.UnaryServerInfo{FullMethod: unary}, new(pb.SimpleRequest)
	invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	ctx := b.Context()
	bare := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(ctx, req)
	}
	server := func(interceptor grpc.UnaryServerInterceptor) func() error {
		return func() error { _, err := interceptor(ctx, req, info, answer); return err }
	}
	var counts [3]atomic.Int64
	began := time.Now()
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"floor", func() error {
			_ = time.Since(began)
			for i := range counts {
				counts[i].Add(1)
			}
			_ = time.Since(began)
			return nil
		}},
		{"server, bare", server(bare)},
		{"server, a gate with a rule", server(gated.UnaryServer)},
		{"server, a limiter too", server(limited.UnaryServer)},
		{"client, a gate with a rule", func() error { return gated.UnaryClient(ctx, unary, req, nil, nil, invoker) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
