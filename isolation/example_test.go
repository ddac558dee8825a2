package isolation_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/simulate"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

func ExampleRule() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{
		{ID: "reports", Resource: "GET /report", MaxInFlight: 2},
		{Match: rule.Default, MaxInFlight: 100}, // each of all other resources
	}})
	if err != nil {
		fmt.Println(err)
	}
	first, _ := gate.Entry("GET /report")
	second, _ := gate.Entry("GET /report")
	_, err = gate.Entry("GET /report")
	fmt.Println(err)

	first.Exit() // gives its place back
	third, err := gate.Entry("GET /report")
	fmt.Println(err)
	second.Exit()
	third.Exit()
	// Output:
	// isolation rule "reports" on "GET /report": 3 of 2 in flight
	// <nil>
}

// Calls may wait for a place, but not if there can never be enough.
func ExampleRule_maxWait() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{
		{ID: "db", Resource: "db.query", MaxInFlight: 1, MaxWait: time.Minute},
	}})
	query, _ := gate.Entry("db.query")
	go query.Exit() // somewhere else, a little later

	next, err := gate.Entry("db.query")
	fmt.Println(err)
	next.Exit()
	_, err = gate.EntryContext(context.Background(), "db.query", leapgate.WithCount(2))
	fmt.Println(err)
	// Output:
	// <nil>
	// isolation rule "db" on "db.query": 2 of 1 in flight
}

// A service with ten places for work gets three times the calls that it can do. Time is simulated.
func ExampleRule_adaptive() {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC).UnixNano()
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return now }})
	_ = gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{
		ID: "search", Resource: "GET /search", Strategy: isolation.Adaptive, MaxInFlight: 200, InitialInFlight: 100,
	}}})
	service := simulate.Simulation{Start: now, Set: func(t int64) { now = t }, Enter: func(int) (func(), bool) {
		e, err := gate.Entry("GET /search")
		return func() { e.Exit() }, err == nil
	}}
	load := simulate.Phase{Rate: 3000, Servers: 10, Times: simulate.Times{Mean: 10 * time.Millisecond}}
	for _, load.For = range []time.Duration{time.Second, 9 * time.Second, 20 * time.Second} {
		r := service.Run(load)[0]
		s := gate.Resource("GET /search").Snapshot().Rules[0]
		fmt.Printf("limit %v, %s: %.0f%% of the capacity, %v\n", s.Effective, s.State, 100*r.Goodput(), r.Quantile(0.99).Round(time.Millisecond))
	}
	// Output:
	// limit 32, measuring: 99% of the capacity, 130ms
	// limit 14, steady: 99% of the capacity, 33ms
	// limit 15, steady: 100% of the capacity, 17ms
}
