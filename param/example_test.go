package param_test

import (
	"context"
	"fmt"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/resource"
)

func ExampleRule() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadRules(leapgate.Rules{Param: []param.Rule{
		{ID: "per tenant", Resource: "GET /report", Arg: "tenant", MaxInFlight: 1, Items: "big=10, banned=0"},
	}})
	if err != nil {
		fmt.Println(err)
	}
	enter := func(tenant string) (resource.Entry, error) {
		return gate.EntryContext(context.Background(), "GET /report", leapgate.WithArg("tenant", tenant))
	}
	first, _ := enter("a")
	other, err := enter("b") // has places of its own
	fmt.Println(err)
	_, err = enter("a")
	fmt.Println(err)
	first.Exit()
	other.Exit()
	_, err = enter("banned")
	fmt.Println(err)
	// Output:
	// <nil>
	// param rule "per tenant" on "GET /report": 2 of 1 in flight
	// param rule "per tenant" on "GET /report": 1 of 0 in flight
}

// Which values are hot? A rule with Top and without a threshold tells, and blocks none.
func ExampleRule_probe() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadRules(leapgate.Rules{Param: []param.Rule{{Resource: "GET /item", Arg: "item", Top: 2}}})
	if err != nil {
		fmt.Println(err)
	}
	for _, id := range []string{"7", "42", "7", "8", "7", "42"} {
		e, err := gate.EntryContext(context.Background(), "GET /item", leapgate.WithArg("item", id))
		if err == nil {
			e.Exit()
		}
	}
	for _, v := range gate.Resource("GET /item").Snapshot().Rules[0].Busiest {
		fmt.Println(v.Value, v.Count, v.Excess)
	}
	// Output:
	// 7 3 0
	// 42 2 0
}
