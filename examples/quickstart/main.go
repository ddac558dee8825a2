// Quickstart guards one call by one rule: three calls a second pass, and the others are
// refused, with the reason.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

func main() {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	err := gate.LoadFlowRules([]flow.Rule{{ID: "orders-qps", Resource: "orders", Threshold: 3}})
	if err != nil {
		panic(err)
	}
	for range 5 {
		err := gate.Do(context.Background(), "orders", query)
		switch {
		case errors.Is(err, leapgate.ErrBlocked):
			fmt.Println("refused:", err)
		case err != nil:
			fmt.Println("failed:", err)
		default:
			fmt.Println("passed")
		}
	}
}

// query stands for the call that needs protection.
func query(context.Context) error { return nil }
