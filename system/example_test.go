package system_test

import (
	"context"
	"fmt"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

// Batches wait while the CPU is busy; the calls of users are bounded, all together.
func Example() {
	given := new(load.Given) // a program has a sampler
	gate := leapgate.Must(leapgate.Config{Load: given})
	defer gate.Close()
	if err := gate.LoadRules(leapgate.Rules{System: []system.Rule{
		{ID: "users", Resource: "GET *", Match: rule.Glob, MaxCPU: 0.9, MaxInFlight: 500},
		{ID: "batches", Resource: "batch", MaxCPU: 0.7, Strategy: system.Refuse},
	}}); err != nil {
		panic(err)
	}
	given.Set(load.Signals{CPU: load.Known(0.75)})
	call := func(name string, opts ...leapgate.EntryOption) {
		err := gate.Do(context.Background(), name, func(context.Context) error { return nil }, opts...)
		fmt.Printf("%s: refused %t\n", name, err != nil)
	}
	call("GET /orders", leapgate.WithCriticality(leapgate.Critical))
	call("batch", leapgate.WithCriticality(leapgate.Background))
	fmt.Println(gate.Resource("batch").Snapshot().Rules[0].State)
	// Output:
	// GET /orders: refused false
	// batch: refused true
	// refusing
}
