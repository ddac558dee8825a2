package leapredis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// noServer is a Client of a server that is not there. A program has
// viarueidis.New(client) or viagoredis.New(client) in its place.
type noServer struct{}

func (noServer) EvalSHA(context.Context, string, string, ...string) ([]int64, error) {
	return nil, errors.New("connection refused")
}

// There is one server, so what fails for one key fails for all.
func (noServer) Clustered() bool    { return false }
func (noServer) Node(string) string { return "" }

func (noServer) Eval(context.Context, string, string, ...string) ([]int64, error) {
	return nil, errors.New("connection refused")
}

// full is a Client of a server on which every key of a counter was used up 400 ms ago, in a
// window of 1 s.
type full struct{}

func (full) EvalSHA(context.Context, string, string, ...string) ([]int64, error) {
	const taken, previous, current, now = 0, 0, 100, 1_800_000_000_400_000
	return []int64{taken, previous, current, now}, nil
}

func (f full) Eval(ctx context.Context, script, key string, args ...string) ([]int64, error) {
	return f.EvalSHA(ctx, script, key, args...)
}

func ExampleNewCounter() {
	perClient, err := leapredis.NewCounter(full{}, leapredis.Config{Name: "api", Limit: 100, Prefix: "api:", WhenAway: leapredis.Deny})
	if err != nil {
		panic(err)
	}
	defer perClient.Close()

	d, err := perClient.Allow(context.Background(), "client 7")
	fmt.Println(d.Allowed, d.RetryAfter, d.Degraded, err)
	// Output: false 610ms false <nil>
}

func ExampleNewLog() {
	_, err := leapredis.NewLog(noServer{}, leapredis.Config{Limit: -1, Prefix: "{a}"})
	fmt.Println(err)
	// Output:
	// limit: bad configuration of Log: Limit is -1; want 0 to 562949953421312
	// limit: bad configuration of Log: Prefix is "{a}"; want 1 to 128 bytes without { and }
}

// While no server answers, this process, which is one of four, admits a quarter.
func ExampleConfig_whenAway() {
	perClient, err := leapredis.NewCounter(noServer{}, leapredis.Config{
		Limit: 100, Window: time.Minute, Prefix: "api:",
		WhenAway: leapredis.Local, Instances: 4,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	defer perClient.Close()

	admitted := 0
	for range 100 {
		d, err := perClient.Allow(context.Background(), "client 7")
		if err != nil {
			panic(err)
		}
		if d.Allowed && d.Degraded {
			admitted++
		}
	}
	link := perClient.Link()
	fmt.Println(admitted, link.State, link.RoundTrips, link.Failures, perClient.Stats().Away)
	// Output: 25 Open 5 5 true
}

// A limit that all processes share, and one of this process alone: the shared one is asked
// first, and gets back what the other refuses.
func ExampleRateLimiter_Remote() {
	shared, err := leapredis.NewCounter(full{}, leapredis.Config{Name: "shared", Limit: 100, Prefix: "api:", Instances: 4})
	if err != nil {
		panic(err)
	}
	defer shared.Close()
	own, err := limit.NewCounter(limit.Config{Name: "own", Limit: 10})
	if err != nil {
		panic(err)
	}
	both := limit.All(own, shared)
	d, err := both.Allow(context.Background(), "client 7")
	fmt.Println(d.Allowed, d.Name, err, both.Describe()[0].Name)
	// Output: false shared <nil> shared
}
