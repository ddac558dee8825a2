package breaker_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
)

func ExampleRule() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gate := leapgate.Must(leapgate.Config{
		Now: func() int64 { return now.UnixNano() },
		OnChange: func(c leapgate.Change) {
			fmt.Printf("%s %s → %s: %s\n", c.At.UTC().Format("15:04:05"), c.From, c.To, c.Reason)
		},
	})
	err := gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "db", Resource: "db.query", ErrorRatio: 0.5, MinCalls: 4, Probes: 1},
	}})
	if err != nil {
		fmt.Println(err)
	}
	query := func(err error) {
		e, refused := gate.Entry("db.query")
		if refused != nil {
			fmt.Println(refused)
			return
		}
		defer e.Exit()
		e.SetError(err)
	}

	query(nil)
	query(nil)
	query(errors.New("connection lost"))
	query(errors.New("connection lost"))
	query(nil)
	now = now.Add(5 * time.Second)
	query(nil) // the probe
	// Output:
	// 12:00:00 closed → open: 2 of 4 calls failed in 10s
	// breaker rule "db" on "db.query": 2 of 4 calls failed in 10s; retry in 5s
	// 12:00:05 open → half-open: 5s after it has opened
	// 12:00:05 half-open → closed: 1 of 1 probes succeeded
}

// A throttle refuses only so many calls that two remain for each that succeeds.
func ExampleRule_throttle() {
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return 0 }})
	_ = gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{Resource: "search", Behavior: breaker.Throttle},
	}})
	called := 0
	for i := range 1000 {
		e, err := gate.Entry("search")
		if err != nil {
			continue
		}
		called++
		if i%5 > 0 { // four of five fail
			e.SetOutcome(leapgate.Failure)
		}
		e.Exit()
	}
	fmt.Println("the backend was spared a third or more:", called < 667)
	// Output:
	// the backend was spared a third or more: true
}

// An operator keeps calls away, whatever their results.
func ExampleForce() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{{ID: "mail", Resource: "mail", ErrorRatio: 0.5}}})
	force := func(f breaker.Force) {
		_ = gate.EditRules(func(all *leapgate.Rules) error {
			all.Breaker[0].Force = f
			return nil
		})
	}
	force(breaker.Open)
	_, err := gate.Entry("mail")
	fmt.Println(err)

	force(breaker.None) // the next call is a probe
	e, err := gate.Entry("mail")
	fmt.Println(err)
	e.Exit()

	var states []string
	for _, c := range gate.Resource("mail").Snapshot().Rules[0].LastChanges {
		states = append(states, c.To)
	}
	fmt.Println(strings.Join(states, ", "))
	// Output:
	// breaker rule "mail" on "mail": 1 of 0, forced open
	// <nil>
	// open, half-open
}
