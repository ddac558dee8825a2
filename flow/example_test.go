package flow_test

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

func ExampleRule() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return now.UnixNano() }})
	err := gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 2},
		{Resource: "GET /orders", Threshold: 1000, Interval: time.Hour, Strict: true},
		{Resource: "db.query", Threshold: 50, Mode: flow.Shadow}, // counts, never blocks
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

// All faults of all rules are told at once, and the rules stay as they were.
func ExampleRuleErrors() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: math.NaN()},
		{ID: "orders-qps", Resource: "GET /cart", Threshold: 10, Buckets: 7},
	})
	fmt.Println(err)

	var first *flow.RuleError
	if errors.As(err, &first) {
		fmt.Println(first.Index, first.Field)
	}
	fmt.Println(len(gate.FlowRules()), "rules")
	// Output:
	// flow rule 0 ("orders-qps" on "GET /orders"): Threshold is NaN; want a finite number of at least 0
	// flow rule 1 ("orders-qps" on "GET /cart"): Buckets is 7; want a number that divides 1s into buckets of at least 1ms, such as 5
	// flow rule 1 ("orders-qps" on "GET /cart"): ID is "orders-qps"; want one that is not the ID of rule 0
	// 0 Threshold
	// 0 rules
}
