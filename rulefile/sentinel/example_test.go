package sentinel_test

import (
	"fmt"

	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/rulefile/sentinel"
)

func ExampleParse() {
	rules, losses, err := sentinel.Parse("flow.json", []byte(`[
		{"resource": "GET /orders", "threshold": 100, "statIntervalInMs": 1000, "controlBehavior": 1, "maxQueueingTimeMs": 500},
		{"resource": "db.query", "strategy": 1, "retryTimeoutMs": 3000, "minRequestAmount": 20, "statIntervalMs": 1000, "threshold": 0.5},
		{"resource": "db.query", "count": 0.5, "grade": 1, "timeWindow": 3},
		{"highestCpuUsage": 0.8}
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
	// flow.json:4:37: changed: breaker rule on "db.query": Sentinel opens above count, Leapgate at it
	// flow.json:5:3: changed: system rule: it binds all resources; Sentinel's is for inbound ones, so give it a pattern that they have
	// flow:
	//   - resource: GET /orders
	//     threshold: 100
	//     interval: 1s
	//     behavior: pace
	//     maxWait: 500ms
	// breaker:
	//   - resource: db.query
	//     interval: 1s
	//     minCalls: 20
	//     errorRatio: 0.5
	//     openFor: 3s
	//     probes: 1
	//   - resource: db.query
	//     interval: 1s
	//     minCalls: 5
	//     errorRatio: 0.5
	//     openFor: 3s
	//     probes: 1
	// system:
	//   - match: all
	//     maxCPU: 0.8
	//     strategy: refuse
}
