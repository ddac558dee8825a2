package docs_test

import (
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgatetest"
)

func TestOrders_AreRefusedBeyondTheLimit(t *testing.T) {
	clock := leapgatetest.NewClock()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	err := gate.LoadFlowRules([]flow.Rule{{ID: "orders", Resource: "GET /orders", Threshold: 100}})
	if err != nil {
		t.Fatal(err)
	}
	gate.Fill("GET /orders") // uses up the rule
	_, err = gate.Entry("GET /orders")
	leapgatetest.RequireBlocked(t, err, "orders")

	clock.Advance(time.Second)
	e, err := gate.Entry("GET /orders")
	if err != nil {
		t.Fatal(err)
	}
	e.Exit() // the test fails without it
}
