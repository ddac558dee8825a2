// Retry is a server that admits two calls in half a second, and two clients of it. One sees what a refusal
// says. The other has a retry policy, as package grpc has it, and nothing of Leapgate: it waits for as
// long as the refusal says, and succeeds by itself.
//
//	go run ./examples/retry
//
// It takes about a second.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing" // stands for a service of your own
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgrpc"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = show(os.Stdout, listener, "dns:///"+listener.Addr().String())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "retry:", err)
		os.Exit(1)
	}
}

const method = "/grpc.testing.TestService/UnaryCall"

// policy is the service config of the client that retries. How long it waits, the server says.
const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "1s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

func show(out io.Writer, listener net.Listener, target string, dial ...grpc.DialOption) error {
	gate, err := leapgate.New(leapgate.Config{})
	if err != nil {
		return err
	}
	defer gate.Close()
	if err := gate.LoadFlowRules([]flow.Rule{{ID: "two-per-half-second", Resource: method, Threshold: 2, Interval: 500 * time.Millisecond}}); err != nil {
		return err
	}
	limits, err := leapgrpc.New(leapgrpc.Config{Gate: gate})
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limits.UnaryServer), // the first, so that refusals have no headers
		grpc.ChainStreamInterceptor(limits.StreamServer),
	)
	pb.RegisterTestServiceServer(server, service{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err := plain(out, target, dial); err != nil {
		return err
	}
	if err := retrying(out, target, append(dial, grpc.WithDefaultServiceConfig(policy))); err != nil {
		return err
	}
	s := gate.Lookup(method).Snapshot()
	fmt.Fprintf(out, "\nThe server has admitted %d calls and refused %d.\n", s.Pass, s.Block)
	server.Stop()
	return <-served
}

// plain shows a refusal.
func plain(out io.Writer, target string, dial []grpc.DialOption) error {
	fmt.Fprintln(out, "A client without a retry policy calls three times:")
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 3 {
		var trailer metadata.MD
		if _, err = pb.NewTestServiceClient(conn).UnaryCall(context.Background(), new(pb.SimpleRequest), grpc.Trailer(&trailer)); err == nil {
			fmt.Fprintln(out, "  OK")
			continue
		}
		s := status.Convert(err)
		fmt.Fprintf(out, "  %v: %s\n", s.Code(), s.Message())
		for _, detail := range s.Details() {
			switch d := detail.(type) {
			case *errdetails.ErrorInfo:
				fmt.Fprintf(out, "    ErrorInfo     %s of %s\n", d.GetReason(), d.GetDomain())
			case *errdetails.RetryInfo:
				fmt.Fprintf(out, "    RetryInfo     %v\n", d.GetRetryDelay().AsDuration().Round(time.Millisecond))
			case *errdetails.QuotaFailure:
				fmt.Fprintf(out, "    QuotaFailure  %s\n", d.GetViolations()[0].GetDescription())
			}
		}
		fmt.Fprintf(out, "    trailer       grpc-retry-pushback-ms: %v\n", trailer.Get("grpc-retry-pushback-ms"))
	}
	return nil
}

// retrying shows a call that is refused, and comes again by itself.
func retrying(out io.Writer, target string, dial []grpc.DialOption) error {
	fmt.Fprintln(out, "\nA client with one calls:")
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return err
	}
	defer conn.Close()
	began := time.Now()
	if _, err := pb.NewTestServiceClient(conn).UnaryCall(context.Background(), new(pb.SimpleRequest)); err != nil {
		return err
	}
	fmt.Fprintf(out, "  OK after %v, without a line of code for it\n", time.Since(began).Round(time.Millisecond))
	return nil
}

type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return new(pb.SimpleResponse), nil
}
