package resource_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

// The last refusal of each rule shows in the snapshot of its resource.
func ExampleLastRefusal() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return now.UnixNano() }})
	_ = gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 0}})
	_, _ = gate.EntryContext(context.Background(), "GET /orders", leapgate.WithOrigin("mobile"), leapgate.WithCount(3))

	now = now.Add(5 * time.Minute)
	for _, rule := range gate.Resource("GET /orders").Snapshot().Rules {
		last := rule.LastRefusal
		fmt.Printf("%s refused %s at %s: %v of %v\n", rule.ID, last.Origin, last.At.UTC().Format(time.TimeOnly), last.Observed, rule.Threshold)
	}
	// Output:
	// GET /orders/1 refused mobile at 12:00:00: 3 of 0
}
