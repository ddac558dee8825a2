package flow_test

import (
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

func ExampleRule() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return now.UnixNano() }})
	err := gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 2},
		{Resource: "GET /orders", Threshold: 1000, Interval: time.Hour, Strict: true},
		{Resource: "db.query", Threshold: 50, Mode: rule.Shadow}, // counts, never blocks
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, rule := range gate.FlowRules() {
		fmt.Printf("%s: %v in %v, %v\n", rule.ID, rule.Threshold, rule.Interval, rule.Mode)
	}

	for range 3 {
		entry, err := gate.Entry("GET /orders")
		if err != nil {
			fmt.Println(err)
			continue
		}
		now = now.Add(100 * time.Millisecond) // the work
		entry.Exit()
		fmt.Println("served")
	}
	// Output:
	// orders-qps: 2 in 1s, enforce
	// GET /orders/2: 1000 in 1h0m0s, enforce
	// db.query/1: 50 in 1s, shadow
	// served
	// served
	// flow rule "orders-qps" on "GET /orders": 3 of 2 in 1s; retry in 800ms
}
