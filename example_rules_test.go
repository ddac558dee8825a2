package leapgate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
)

func ExampleWithOrigin() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{ID: "batch", Resource: "GET /orders", Threshold: 0, Origin: "batch"}})
	for _, origin := range []string{"mobile", "batch"} {
		e, err := gate.EntryContext(context.Background(), "GET /orders", leapgate.WithOrigin(origin))
		fmt.Println(origin, err)
		e.Exit()
	}
	fmt.Println("last refused:", gate.Resource("GET /orders").Snapshot().Rules[0].LastRefusal.Origin)
	// Output:
	// mobile <nil>
	// batch flow rule "batch" on "GET /orders": 1 of 0 in 1s
	// last refused: batch
}

// A call with priority may take what a rule that counts in windows will have room for.
// Where there is room now, it makes no difference.
func ExampleWithPriority() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 100}})
	e, err := gate.EntryContext(context.Background(), "GET /orders", leapgate.WithPriority())
	fmt.Println(err)
	e.Exit()
	s := gate.Resource("GET /orders").Snapshot()
	fmt.Println(s.Pass, "passed,", s.OccupiedPass, "of them on credit")
	// Output:
	// <nil>
	// 1 passed, 0 of them on credit
}

func ExampleGate_LoadIsolationRules() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadIsolationRules([]isolation.Rule{
		{ID: "reports", Resource: "GET /report", MaxInFlight: 3},
		{Resource: "db.*", Match: isolation.Glob, MaxInFlight: 20, MaxWait: 100 * time.Millisecond},
	})
	fmt.Println(err)
	for range 5 {
		e, err := gate.EntryContext(context.Background(), "GET /report", leapgate.WithCount(2))
		if err != nil {
			fmt.Println(err)
			break
		}
		defer e.Exit()
	}
	for _, rule := range gate.IsolationRules() {
		fmt.Println(rule.ID, rule.MaxInFlight, rule.MaxWait)
	}
	// Output:
	// <nil>
	// isolation rule "reports" on "GET /report": 4 of 3 in flight
	// reports 3 0s
	// db.*/1 20 100ms
}

func ExampleGate_SetFlowRules() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 100},
		{ID: "cart-qps", Resource: "GET /cart", Threshold: 50},
	})
	err := gate.SetFlowRules("GET /orders", []flow.Rule{{ID: "orders-qps", Threshold: 200}})
	fmt.Println(err)
	for _, rule := range gate.FlowRules() {
		fmt.Println(rule.ID, rule.Threshold)
	}
	// Output:
	// <nil>
	// cart-qps 50
	// orders-qps 200
}

func ExampleGate_ReplaceRules() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadFlowRules([]flow.Rule{{ID: "own", Resource: "GET /orders", Threshold: 100}})

	// What was read from a file, and read again when it changed.
	err := gate.ReplaceRules("rules.yaml",
		[]flow.Rule{{ID: "cart-qps", Resource: "GET /cart", Threshold: 50}},
		[]isolation.Rule{{ID: "reports", Resource: "GET /report", MaxInFlight: 3}})
	fmt.Println(err)
	err = gate.ReplaceRules("rules.yaml", []flow.Rule{{ID: "cart-qps", Resource: "GET /cart", Threshold: 70}}, nil)
	fmt.Println(err)
	for _, rule := range gate.FlowRules() {
		fmt.Printf("%s %v %q\n", rule.ID, rule.Threshold, rule.Source)
	}
	fmt.Println(len(gate.IsolationRules()), "isolation rules")
	// Output:
	// <nil>
	// <nil>
	// own 100 ""
	// cart-qps 70 "rules.yaml"
	// 0 isolation rules
}
