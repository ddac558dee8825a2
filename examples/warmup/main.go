// Warmup admits little at first and more as a service gets going: caches fill, code is
// compiled, pools are opened.
//
//	go run ./examples/warmup
//
// Two hundred calls come at the beginning of every second to a service that can do a
// hundred a second once it is warm, ten seconds after it began, and a third of that
// when it is cold. Then nobody comes for a while, and it has cooled down. No time
// passes in truth: the gate is given its clock.
package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/examples/internal/program"
	"github.com/leapgate-go/leapgate/flow"
)

func main() { program.Main("warmup", show) }

func show(out io.Writer) error {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gate, err := leapgate.New(leapgate.Config{Now: func() int64 { return now.UnixNano() }})
	if err != nil {
		return err
	}
	defer gate.Close()
	err = gate.LoadFlowRules([]flow.Rule{{
		ID: "reports-warm", Resource: "reports", Threshold: 100,
		Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second, ColdFactor: 3,
	}})
	if err != nil {
		return err
	}
	for second := range 30 {
		calls := 200
		if second >= 14 && second < 28 {
			calls = 0
		}
		admitted := 0
		for range calls {
			entry, err := gate.Entry("reports")
			if err == nil {
				admitted++
				entry.Exit()
			}
		}
		switch {
		case calls > 0:
			fmt.Fprintf(out, "%3d s %4d admitted  %s\n", second, admitted, strings.Repeat("#", admitted/2))
		case second == 14:
			fmt.Fprintln(out, "        … nobody comes")
		}
		now = now.Add(time.Second)
	}
	return nil
}
