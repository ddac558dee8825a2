package whatif_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/whatif"
)

// requests are what a program has written down: one each second from alice, and every ten seconds
// one from bob.
func requests(yield func(whatif.Request, error) bool) {
	for i := range 120 {
		r := whatif.Request{
			At:       time.Date(2024, 5, 20, 9, 0, i, 0, time.UTC),
			Resource: "GET /search", Key: "alice", Status: 200, Duration: 40 * time.Millisecond,
		}
		if i%10 == 5 {
			r.Key = "bob"
		}
		if !yield(r, nil) {
			return
		}
	}
}

// Whom would a limit of 45 searches in a minute have hit?
func ExampleRun() {
	report, err := whatif.Run(context.Background(), whatif.Config{
		Rules: leapgate.Rules{Flow: []flow.Rule{
			{ID: "searches", Resource: "GET /search", Threshold: 45, Interval: time.Minute},
		}},
	}, requests)
	if err != nil {
		panic(err)
	}
	rule := report.Rules[0]
	fmt.Printf("blocked %d of %d, the first at %s\n", rule.Blocked, rule.Requests, rule.First.Format(time.TimeOnly))
	for _, key := range rule.Top {
		fmt.Printf("%s: %d of %d\n", key.Key, key.Blocked, key.Requests)
	}
	// Output:
	// blocked 30 of 120, the first at 09:00:45
	// alice: 26 of 108
	// bob: 4 of 12
}

// Who is better off if each client has a limit of its own instead?
func ExampleCompare() {
	forAll := whatif.Config{Rules: leapgate.Rules{Flow: []flow.Rule{
		{ID: "searches", Resource: "GET /search", Threshold: 45, Interval: time.Minute},
	}}}
	limit := int64(45)
	forEach := whatif.Config{Limits: map[string]rulefile.Limit{
		"searches": {Limit: &limit, Window: time.Minute},
	}}
	c, err := whatif.Compare(context.Background(), forAll, forEach, requests)
	if err != nil {
		panic(err)
	}
	for _, key := range c.MostBetter {
		fmt.Printf("%s: %d blocked before, %d after\n", key.Key, key.Before, key.After)
	}
	// Output:
	// alice: 26 blocked before, 19 after
	// bob: 4 blocked before, 0 after
}

// Which limit for each client would bother few?
func ExampleSuggest() {
	s, err := whatif.Suggest(context.Background(), whatif.Config{Windows: []time.Duration{time.Minute}}, requests, nil)
	if err != nil {
		panic(err)
	}
	if err := s.WriteText(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// 120 requests of 2 keys for 1 resource
	// 2024-05-20 09:00:00 to 2024-05-20 09:01:59, in UTC; busiest minute 2024-05-20 09:00:00 with 60
	// busiest key "alice" with 90.0 % of them
	//
	// a limit for each key in 1m: 2 keys, the busiest with 54
	//   limit  blocked  share   keys
	//   1      116      96.7 %  2
	//   2      112      93.3 %  2
	//   3      108      90.0 %  2
	//   5      100      83.3 %  2
	//   10     88       73.3 %  1
	//   20     68       56.7 %  1
	//   30     48       40.0 %  1
	//   50     8        6.67 %  1
	//   100    0        0 %     0
	//   The table counts in windows of the clock. A limiter slides, so it usually blocks somewhat more.
	//   suggested: 100, which would have blocked 0 %, of 0 keys
	//   The log has only 2 keys: with fewer than 1000, a few of them determine the suggestion.
	//
	// note: One key has 90.0 % of all requests: is it a proxy, with many clients behind it?
}
