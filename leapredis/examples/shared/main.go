// Shared is one limit for three processes.
//
//	go run ./leapredis/examples/shared
//
// It starts three processes, which try more than they may: 100 calls a second, together. A
// table shows what each was allowed in each second: through the server, the sum is never
// above 100. Then the server is killed, and each process goes on alone, with a third of the
// limit. When the server is back, so is the shared limit. In the seconds in which it goes and
// comes, both hold one after the other, so the sum of both may be above 100; those lines say
// so.
//
// The server is a redis-server that it starts on a free port. Where that is not installed,
// it says how to get it (apt-get install redis-server), or give it the address of one that
// runs: it is not killed then.
//
//	redis-server --port 6379 --save "" &
//	go run ./leapredis/examples/shared -redis 127.0.0.1:6379
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/redis/rueidis"

	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viarueidis"
)

const (
	processes = 3
	most      = 100              // for all processes, in a window
	each      = most / processes // for each, without the server
)

func main() {
	redis := flag.String("redis", "", "`address` of a server that runs; empty: start one")
	window := flag.Duration("window", time.Second, "the limit's window")
	short := flag.Bool("short", false, "windows of a quarter of a second")
	process := flag.Bool("process", false, "be one of the processes")
	flag.Parse()
	if *short {
		*window = 250 * time.Millisecond
	}
	var err error
	if *window < 50*time.Millisecond {
		err = fmt.Errorf("a window of %v; want 50ms or more", *window)
	} else if *process {
		err = call(*redis, *window, os.Stdin, os.Stdout)
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, os.Stdout, *redis, *window)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shared:", err)
		os.Exit(1)
	}
}

// call is what each of the processes does: it tries a call every few milliseconds, and
// writes which were allowed, until in ends.
func call(redis string, window time.Duration, in io.Reader, out io.Writer) error {
	client, err := rueidis.NewClient(viarueidis.Options(redis))
	if err != nil {
		return err
	}
	defer client.Close()
	limiter, err := leapredis.NewCounter(viarueidis.New(client), leapredis.Config{
		Name: "calls", Limit: most, Window: window, Prefix: "shared-example:",
		Instances: processes, // without the server, each has its part
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer limiter.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // until the parent has enough, or is gone
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	answers := bufio.NewWriter(out)
	tick := time.NewTicker(window / (2 * most)) // three times that is six times the limit
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return answers.Flush()
		case <-tick.C:
		}
		d, err := limiter.Allow(ctx, "everybody")
		if err != nil || !d.Allowed {
			continue
		}
		// A counter counts by windows. This one ends a window before all is free again.
		number := time.Now().Add(d.ResetAfter).Round(window).UnixNano()/int64(window) - 2
		fmt.Fprintln(answers, number, d.Degraded)
		if err := answers.Flush(); err != nil {
			return err
		}
	}
}
