// Pacing lets calls pass one by one instead of in bursts: what comes too early waits
// for its turn, and what would have to wait too long is refused.
//
//	go run ./examples/pacing
//
// Ten jobs come at once to a printer that takes ten a second. Six get a turn within
// half a second, a tenth apart; when one gives up, those behind it move up; four are told
// when to try again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/examples/internal/program"
	"github.com/leapgate-go/leapgate/flow"
)

func main() { program.Main("pacing", show) }

func show(out io.Writer) error {
	gate, err := leapgate.New(leapgate.Config{})
	if err != nil {
		return err
	}
	defer gate.Close()
	err = gate.LoadFlowRules([]flow.Rule{{
		ID: "printer-pace", Resource: "printer", Threshold: 10, Behavior: flow.Pace, MaxWait: 500 * time.Millisecond,
	}})
	if err != nil {
		return err
	}

	began := time.Now()
	var jobs sync.WaitGroup
	var mu sync.Mutex // one line at a time
	say := func(job int, what string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%3d ms  job %d %s\n", time.Since(began).Round(10*time.Millisecond).Milliseconds(), job, what)
	}
	for job := 1; job <= 10; job++ {
		// Job 3 has a client that hangs up after 150 ms. Had it said so before, by a deadline, it would
		// have been refused at once.
		ctx, cancel := context.WithCancel(context.Background())
		if job == 3 {
			time.AfterFunc(150*time.Millisecond, cancel)
		}
		entered := make(chan struct{})
		jobs.Go(func() {
			defer cancel()
			time.AfterFunc(5*time.Millisecond, func() { close(entered) }) // by then it has its place in the queue
			entry, err := gate.EntryContext(ctx, "printer")
			var blocked *leapgate.BlockError
			switch {
			case errors.Is(err, context.Canceled):
				say(job, "gave up waiting")
			case errors.As(err, &blocked):
				say(job, fmt.Sprintf("is refused; retry in %v", blocked.RetryAfter.Round(10*time.Millisecond)))
			default:
				say(job, "prints")
				entry.Exit()
			}
		})
		<-entered // so that they come in order
	}
	jobs.Wait()
	return nil
}
