package viagoredis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
)

// No server answers, so this process, which is one of four, admits a quarter of the limit.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer client.Close()
	perClient, err := leapredis.NewCounter(viagoredis.New(client), leapredis.Config{
		Limit: 100, Window: time.Minute, Prefix: "api:", Instances: 4, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer perClient.Close()

	d, err := perClient.Allow(context.Background(), "client 7")
	fmt.Println(d.Allowed, d.Limit, d.Degraded, err)
	// Output: true 25 true <nil>
}

// No server answers. After three failures the breaker is open, and commands fail at once.
func ExampleHook() {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	err := gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{Resource: "redis", Consecutive: 3, MinCalls: 3, OpenFor: 10 * time.Second},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1, MaxRetries: -1})
	defer client.Close()
	client.AddHook(viagoredis.Hook(gate.Resource("redis")))

	for range 4 {
		err := client.Get(context.Background(), "key").Err()
		fmt.Println(errors.Is(err, leapgate.ErrBlocked))
	}
	// Output:
	// false
	// false
	// false
	// true
}
