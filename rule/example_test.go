package rule_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// All faults of all rules are told at once, and the rules stay as they were.
func ExampleFaults() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: math.NaN()},
		{ID: "orders-qps", Resource: "GET /cart", Threshold: 10, Buckets: 7},
	})
	fmt.Println(err)

	var first *rule.Fault
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
