// Shadow tries limits before they are set.
//
//	go run ./examples/shadow
//
// A minute of traffic, about 60 calls a second with a rush in the middle, meets a rule
// that blocks beyond 100. The same rule tries 80 as its candidate, and a second rule, in
// mode shadow, tries 150 calls in any two seconds. Neither changes what callers get; the
// snapshot says what would have been. No time passes in truth: the gate is given its
// clock.
package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/examples/internal/program"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

func main() { program.Main("shadow", show) }

func show(out io.Writer) error {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gate, err := leapgate.New(leapgate.Config{Now: func() int64 { return now.UnixNano() }})
	if err != nil {
		return err
	}
	defer gate.Close()
	err = gate.LoadFlowRules([]flow.Rule{
		{ID: "live", Resource: "search", Threshold: 100, Candidate: 80},
		{ID: "try-strict", Resource: "search", Threshold: 150, Interval: 2 * time.Second, Strict: true, Mode: rule.Shadow},
	})
	if err != nil {
		return err
	}
	for tick := range 600 { // of a tenth of a second
		calls := 5 + tick%3
		if tick > 250 && tick < 350 {
			calls *= 2
		}
		for range calls {
			if entry, err := gate.Entry("search"); err == nil {
				entry.Exit()
			}
		}
		now = now.Add(100 * time.Millisecond)
	}

	search := gate.Resource("search").Snapshot()
	fmt.Fprintf(out, "search: %d passed, %d blocked; rules in mode shadow would have blocked %d of those that passed\n\n",
		search.Pass, search.Block, search.WouldBlock)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "rule\tmode\tthreshold\tblocked\twould block\tcandidate\twould block")
	for _, r := range search.Rules {
		fmt.Fprintf(table, "%s\t%v\t%v in %v\t%d\t%d\t%v\t%d\n",
			r.ID, r.Mode, r.Threshold, r.Interval, r.Blocked, r.WouldBlock, r.Candidate, r.CandidateWouldBlock)
	}
	return table.Flush()
}
