package sentinel_test

import (
	"fmt"

	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/rulefile/sentinel"
)

func ExampleParse() {
	rules, losses, err := sentinel.Parse("flow.json", []byte(`[
		{"resource": "GET /orders", "threshold": 100, "statIntervalInMs": 1000, "controlBehavior": 1, "maxQueueingTimeMs": 500},
		{"resource": "db.query", "strategy": 1, "retryTimeoutMs": 3000, "threshold": 0.5}
	]`))
	if err != nil {
		panic(err)
	}
	for _, loss := range losses {
		fmt.Println(loss)
	}
	text, err := rulefile.YAML(rules)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
	// Output:
	// flow.json:3:61: skipped: circuit breaker rule on "db.query": there are no such rules in Leapgate
	// flow:
	//   - resource: GET /orders
	//     threshold: 100
	//     interval: 1s
	//     behavior: pace
	//     maxWait: 500ms
}
