package leapgatetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapgatetest"
)

func ExampleClock() {
	clock := leapgatetest.NewClock()
	gate := leapgate.Must(leapgate.Config{Now: clock.Now, Sleep: clock.Sleep})
	if err := gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 2}}); err != nil {
		panic(err)
	}
	for range 3 {
		e, err := gate.Entry("GET /orders")
		fmt.Println(err == nil)
		e.Exit()
	}
	clock.Advance(time.Second)
	e, err := gate.Entry("GET /orders")
	fmt.Println(err == nil)
	e.Exit()
	// Output:
	// true
	// true
	// false
	// true
}

func ExampleClock_Sleep() {
	clock := leapgatetest.NewClock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(clock.Sleep(ctx, time.Hour))
	// Output:
	// context canceled
}

func ExampleBlock() {
	orders := func(w http.ResponseWriter, err error) { // what is tested
		if errors.Is(err, leapgate.ErrBlocked) {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		}
	}
	w := httptest.NewRecorder()
	orders(w, leapgatetest.Block("flow", "orders-qps", 101, 100, 230*time.Millisecond))
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 429 flow rule "orders-qps" on "": 101 of 100; retry in 230ms
}
