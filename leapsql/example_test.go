package leapsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/leapsql"
	"github.com/leapgate-go/leapgate/rule"
)

func Example() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "orders-db", Resource: "orders-db *", Match: rule.Glob, Consecutive: 3, MinCalls: 3, OpenFor: 10 * time.Second},
	}})
	if err != nil {
		panic(err)
	}
	database := &fake{fails: func(_ context.Context, what string) error {
		if what == "exec" {
			return errors.New("disk full")
		}
		return nil
	}}
	connector, err := leapsql.New(database, leapsql.Config{Gate: gate, Resource: "orders-db"})
	if err != nil {
		panic(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for range 4 {
		_, err := db.Exec("INSERT INTO orders VALUES (1)")
		fmt.Println(err, errors.Is(err, leapgate.ErrBlocked))
	}
	var n int
	fmt.Println(db.QueryRow("SELECT 1").Scan(&n), n)
	// Output:
	// disk full false
	// disk full false
	// disk full false
	// breaker rule "orders-db" on "orders-db exec": 3 of 3 failures in a row; retry in 10s true
	// <nil> 1
}
