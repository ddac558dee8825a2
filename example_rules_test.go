package leapgate_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
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

func ExampleGate_LoadRules() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadRules(leapgate.Rules{
		Flow: []flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 100}},
		Isolation: []isolation.Rule{
			{ID: "reports", Resource: "GET /report", MaxInFlight: 3},
			{Resource: "db.*", Match: rule.Glob, MaxInFlight: 20, MaxWait: 100 * time.Millisecond},
		},
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
	for _, r := range gate.Rules().Isolation {
		fmt.Println(r.ID, r.MaxInFlight, r.MaxWait)
	}
	// Output:
	// <nil>
	// isolation rule "reports" on "GET /report": 4 of 3 in flight
	// reports 3 0s
	// db.*/1 20 100ms
}

// Every fault of every rule is told at once, and nothing is loaded.
func ExampleRules_Validate() {
	rules := leapgate.Rules{
		Flow:      []flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: -1, Interval: time.Microsecond}},
		Isolation: []isolation.Rule{{Resource: "db.query"}},
	}
	fmt.Println(rules.Validate())
	// Output:
	// flow rule 0 ("orders-qps" on "GET /orders"): Threshold is -1; want a finite number of at least 0
	// flow rule 0 ("orders-qps" on "GET /orders"): Interval is 1µs; want 1ms to 24h0m0s
	// isolation rule 0 (on "db.query"): MaxInFlight is 0; want 1 to 1000000000
}

// The rules of one resource are replaced, and all others stay.
func ExampleGate_EditRules() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 100},
		{ID: "cart-qps", Resource: "GET /cart", Threshold: 50},
	})
	err := gate.EditRules(func(all *leapgate.Rules) error {
		all.Flow = slices.DeleteFunc(all.Flow, func(r flow.Rule) bool { return r.Resource == "GET /orders" })
		all.Flow = append(all.Flow, flow.Rule{ID: "orders-qps", Resource: "GET /orders", Threshold: 200})
		return nil
	})
	fmt.Println(err)
	for _, r := range gate.Rules().Flow {
		fmt.Println(r.ID, r.Threshold)
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
	err := gate.ReplaceRules("rules.yaml", leapgate.Rules{
		Flow:      []flow.Rule{{ID: "cart-qps", Resource: "GET /cart", Threshold: 50}},
		Isolation: []isolation.Rule{{ID: "reports", Resource: "GET /report", MaxInFlight: 3}},
	})
	fmt.Println(err)
	err = gate.ReplaceRules("rules.yaml", leapgate.Rules{
		Flow: []flow.Rule{{ID: "cart-qps", Resource: "GET /cart", Threshold: 70}},
	})
	fmt.Println(err)
	for _, r := range gate.Rules().Flow {
		fmt.Printf("%s %v %q\n", r.ID, r.Threshold, r.Source)
	}
	fmt.Println(len(gate.Rules().Isolation), "isolation rules")
	// Output:
	// <nil>
	// <nil>
	// own 100 ""
	// cart-qps 70 "rules.yaml"
	// 0 isolation rules
}
