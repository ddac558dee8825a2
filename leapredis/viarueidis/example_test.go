package viarueidis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viarueidis"
)

// 1,000 calls a minute for each client, over all processes. A process takes up to 20 permits
// at a time, and goes on for 100 ms without asking.
func ExampleNew() { //nolint:testableexamples // it needs a server: rueidis connects when the client is made
	client, err := rueidis.NewClient(viarueidis.Options("127.0.0.1:6379"))
	if err != nil {
		fmt.Println("no server answers:", err)
		return
	}
	defer client.Close()
	perClient, err := leapredis.NewCounter(viarueidis.New(client), leapredis.Config{
		Name: "per client", Limit: 1000, Window: time.Minute, Prefix: "api:", Lease: 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer perClient.Close()

	d, err := perClient.Allow(context.Background(), "client 7")
	fmt.Println(d.Allowed, d.RetryAfter, err)
}

func ExampleOptions() {
	options := viarueidis.Options("127.0.0.1:6379")
	options.Username, options.Password = "limits", "secret"
	fmt.Println(options.InitAddress, options.Username, options.Password, options.ConnWriteTimeout)
	// Output: [127.0.0.1:6379] limits secret 800ms
}
