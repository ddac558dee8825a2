// Quickstart guards one call by one rule: three calls a second pass, and the others are
// refused, with the reason.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

func main() {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	rules := []flow.Rule{{ID: "orders-qps", Resource: "orders", Threshold: 3}}
	if err := gate.LoadFlowRules(rules); err != nil {
		panic(err)
	}
	for range 5 {
		if err := gate.Do(context.Background(), "orders", query); err != nil {
			fmt.Println(err) // is leapgate.ErrBlocked, or what query returned
			continue
		}
		fmt.Println("passed")
	}
}

// query stands for the call that needs protection.
func query(context.Context) error { return nil }
