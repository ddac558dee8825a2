// Overload is a process that gets three times the calls that it can do. Without rules it works
// hard and serves hardly anybody in time. With a system rule it serves about as many as it can,
// those first that matter most, and as fast as on a quiet day.
//
//	go run ./examples/overload
//	go run ./examples/overload -http 127.0.0.1:8080
//
// The process gives itself half a processor, in a cgroup, which only root may make. Else it has
// one processor, by GOMAXPROCS, or what its container has. It says which, and finds out how much it
// can do. It takes about 18 seconds, and prints what became of the calls, by criticality.
//
// With -http, the page at that address shows the load, the rule's state, and what it has
// refused, by criticality; it stays until Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/examples/internal/program"
	"github.com/leapgate-go/leapgate/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("overload", flag.ContinueOnError)
	address := flags.String("http", "", "the `address` to serve the page on; empty: there is no page")
	if code, ok := program.Parse(flags, args, stderr); !ok {
		return code
	}
	var listener net.Listener
	if *address != "" {
		var err error
		if listener, err = net.Listen("tcp", *address); err != nil {
			return program.Code(flags, err)
		}
	}
	return program.Code(flags, confine(ctx, listener, stdout))
}

// confine shows everything with less than what the machine has.
func confine(ctx context.Context, listener net.Listener, out io.Writer) (err error) {
	work := calibrate()
	has, leave := enter()
	defer func() { err = errors.Join(err, leave()) }()
	sampler, err := load.Start(load.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sampler.Close()) }()
	if p := sampler.Signals().Processors; p > 1 {
		// What is used is a share of what its container has: with less it would never come to much.
		runtime.GOMAXPROCS(int(math.Ceil(p)))
		has = fmt.Sprintf("the %.3g processors of its container: it may make no cgroup", p)
	}
	fmt.Fprintf(out, "This process has %s.\n", has)

	gate, err := leapgate.New(leapgate.Config{Load: sampler})
	if err != nil {
		return err
	}
	defer gate.Close()
	if listener == nil {
		return show(ctx, gate, work.do, out)
	}
	return serve(ctx, listener, gate, out, func() error { return show(ctx, gate, work.do, out) })
}

// serve serves the page of a gate while do runs, and then until ctx ends.
func serve(ctx context.Context, listener net.Listener, gate *leapgate.Gate, out io.Writer, do func() error) error {
	page := dashboard.Handler(gate, dashboard.Config{Title: "Overload"})
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	server.RegisterOnShutdown(func() { _ = page.Close() }) // streams would never end by themselves
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(out, "See it live: http://%s/\n", listener.Addr())

	err := do()
	if err == nil && ctx.Err() == nil {
		fmt.Fprintln(out, "\nThe page stays until Ctrl-C.")
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
		}
	}
	grace, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	return errors.Join(err, server.Shutdown(grace))
}
