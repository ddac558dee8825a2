package isolation_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate"
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
