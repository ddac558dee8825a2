// Httpapi is a small HTTP API with limits: for each address, and for each API key.
//
//	go run ./examples/httpapi
//
// README.md beside it shows what curl gets. Ctrl-C ends it, and shows what passed and
// what was blocked on each route.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/leapgate-go/leapgate"

	"github.com/leapgate-go/leapgate/examples/internal/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("httpapi", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "the `address` to serve")
	var limits limits
	flags.Int64Var(&limits.perAddress, "per-address", 5, "how many requests an address may send in a window")
	flags.DurationVar(&limits.window, "window", 10*time.Second, "the `length` of that window")
	flags.Int64Var(&limits.perKey, "per-key", 3, "how many reports an API key may ask for in a minute")
	if code, ok := program.Parse(flags, args, stderr); !ok {
		return code
	}
	return program.Code(flags, serve(ctx, *listen, limits, stdout))
}

func serve(ctx context.Context, listen string, limits limits, out io.Writer) error {
	gate, err := newGate()
	if err != nil {
		return err
	}
	defer gate.Close()
	handler, err := newAPI(gate, limits)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "Serving http://%s\n", listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = server.Shutdown(grace)
	summary(out, gate)
	return err
}

func summary(out io.Writer, gate *leapgate.Gate) {
	for _, s := range gate.Snapshot() {
		fmt.Fprintf(out, "%-20s  passed %d, blocked by rules %d, exceptions %d\n", s.Resource, s.Pass, s.Block, s.Exception)
	}
}
