// Demo shows Leapgate at work: a small HTTP server with two guarded
// handlers, clients that ask for far more than the rules admit, and a table of
// what passed and what was blocked, every second.
//
//	go run ./examples/demo -for 10s
//
// QPS never goes beyond the limit of a resource, however hard the clients try. (It
// may show a little less, for the last second ends with a tenth that has only just
// begun.) The calls beyond it are answered with 429 Too Many Requests and a
// Retry-After. Ctrl-C ends the program before its time; without -for, only Ctrl-C
// does. At the end there is a summary.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/leapgate-go/leapgate/examples/internal/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	length := flags.Duration("for", 0, "how `long` to run, such as 10s; 0 is until Ctrl-C")
	if code, ok := program.Parse(flags, args, stderr); !ok {
		return code
	}
	switch {
	case *length < 0:
		return program.Wrong(flags, "-for is %v; want 0 or more", *length)
	case *length == 0:
		*length = math.MaxInt64
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = show(ctx, listener, &http.Transport{}, *length, newTable(stdout))
	}
	return program.Code(flags, err)
}

// show serves and drives the shop until ctx ends or length is over, prints the
// table every second, and leaves nothing running. The clients reach the listener
// through transport.
func show(ctx context.Context, listener net.Listener, transport *http.Transport, length time.Duration, table *table) error {
	gate, err := newGate()
	if err != nil {
		return err
	}
	defer gate.Close()

	failures := make(chan error, 1) // the first one ends the show; there may be no reader for others
	fail := func(err error) {
		select {
		case failures <- err:
		default:
		}
	}
	server := &http.Server{Handler: newHandler(gate), ReadHeaderTimeout: time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fail(err)
		}
	}()

	base := "http://" + listener.Addr().String()
	table.title(base)
	start := time.Now()
	clients := startClients(&http.Client{Transport: transport, Timeout: 5 * time.Second}, base, fail)
	err = watch(ctx, length, failures, func(elapsed time.Duration) { table.rows(elapsed, gate.Snapshot()) })

	// The clients go first, so that none of them finds the door shut.
	refusal := clients.stop()
	transport.CloseIdleConnections()
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(grace))
	<-served
	if err != nil {
		return err
	}
	table.summary(time.Since(start), gate.Snapshot(), refusal)
	return table.err
}

// watch calls show every second, and at the end of length. It returns the failure
// that came before the end, if any.
func watch(ctx context.Context, length time.Duration, failures <-chan error, show func(elapsed time.Duration)) error {
	start := time.Now()
	for elapsed := time.Duration(0); elapsed < length; {
		elapsed += min(time.Second, length-elapsed)
		select {
		case err := <-failures:
			return err
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(start.Add(elapsed))):
			show(elapsed)
		}
	}
	return nil
}
