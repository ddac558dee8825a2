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

// free is a Client of a server on which all places are free.
type free struct{ full }

func (free) EvalSHA(context.Context, string, string, ...string) ([]int64, error) {
	const taken, inside = 1, 1
	return []int64{taken, inside}, nil
}

func ExampleNewInFlight() {
	exports, err := leapredis.NewInFlight(free{}, leapredis.Config{
		Name: "exports", Limit: 10, Prefix: "exports:", LeaseTime: time.Minute, Instances: 4,
	})
	if err != nil {
		panic(err)
	}
	defer exports.Close()

	ctx := context.Background()
	place, d, err := exports.Acquire(ctx, "tenant 7")
	if err != nil || !d.Allowed {
		return
	}
	defer place.Release()
	for range 2 { // a part of the work, which takes less than a minute
		if err := place.Renew(ctx); err != nil {
			return // leapredis.ErrLeaseEnded: the place may be another's
		}
	}
	fmt.Println(d.Remaining, exports.Stats().InFlight)
	// Output: 9 1
}

func ExampleNewBurst() {
	perClient, err := leapredis.NewBurst(noServer{}, leapredis.Config{
		Limit: 100, Burst: 20, Window: time.Minute, Prefix: "api:", Timeout: time.Second,
		WhenAway: leapredis.Local, Instances: 4, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	defer perClient.Close()

	// No server answers, so this process has its share: 5 at once, and 25 in a minute.
	d, err := perClient.AllowAtMost(context.Background(), "client 7", 20)
	fmt.Println(d.Charged, d.Degraded, d.ResetAfter, err)
	// Output: 5 true 12s <nil>
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
