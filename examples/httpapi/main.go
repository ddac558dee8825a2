// Httpapi is a small HTTP API with limits: for each address, and for each API key. Any number of its
// processes share them through a Redis.
//
//	go run ./examples/httpapi
//	go run ./examples/httpapi -redis 127.0.0.1:6379 -processes 2
//
// README.md beside it shows what curl gets. Ctrl-C ends it, and shows what passed and
// what was blocked on each route.
//
// It is a module of its own, so that the modules of the library need no client of Redis for it.
package main

import (
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leapgate-go/leapgate/examples/internal/program"
	"github.com/leapgate-go/leapgate/leapredis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("httpapi", flag.ContinueOnError)
	var at addresses
	flags.StringVar(&at.api, "listen", "127.0.0.1:8080", "the `address` to serve")
	flags.StringVar(&at.metrics, "metrics", "", "the `address` to serve metrics for Prometheus at; empty: none")
	var limits limits
	flags.Int64Var(&limits.perAddress, "per-address", 5, "how many requests an address may send in a window")
	flags.DurationVar(&limits.window, "window", 10*time.Second, "the `length` of that window")
	flags.Int64Var(&limits.perKey, "per-key", 3, "how many reports an API key may ask for in a minute")
	flags.StringVar(&limits.redis, "redis", "", "the `address` of a Redis through which processes share the limits, or some "+
		"addresses of a Cluster with commas; empty: the limits are of this process")
	flags.IntVar(&limits.processes, "processes", 1, "how many processes share the limits: each has its part while Redis is away")
	flags.DurationVar(&limits.timeout, "redis-timeout", leapredis.DefaultTimeout, "how `long` a request waits for Redis: less than a second")
	if code, ok := program.Parse(flags, args, stderr); !ok {
		return code
	}
	return program.Code(flags, serve(ctx, at, limits, stdout))
}
