package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

func show(what string, d limit.Decision) {
	switch {
	case d.Allowed:
		fmt.Printf("%s: passed, %d of %d left\n", what, d.Remaining, d.Limit)
	case d.RetryAfter == limit.Never:
		fmt.Printf("%s: refused, for ever\n", what)
	default:
		fmt.Printf("%s: refused by %q, retry in %v\n", what, d.Name, d.RetryAfter)
	}
}

func ExampleNewCounter() {
	c := gatetest.NewClock()
	perClient, err := limit.NewCounter(limit.Config{Name: "per client", Limit: 3, Window: 4 * time.Second, Now: c.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Advance(time.Second)
	for i := range 4 {
		d, err := perClient.Allow(context.Background(), "198.51.100.7")
		if err != nil {
			fmt.Println(err)
		}
		show(fmt.Sprint("call ", i+1), d)
		c.Advance(time.Second)
	}
	c.Advance(time.Second)
	d, _ := perClient.Allow(context.Background(), "198.51.100.7")
	show("two seconds later", d)
	// Output:
	// call 1: passed, 2 of 3 left
	// call 2: passed, 1 of 3 left
	// call 3: passed, 0 of 3 left
	// call 4: refused by "per client", retry in 1.333333334s
	// two seconds later: passed, 0 of 3 left
}

func ExampleNewLog() {
	c := gatetest.NewClock()
	logins, err := limit.NewLog(limit.Config{Name: "logins", Limit: 2, Window: time.Minute, Now: c.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 3 {
		d, _ := logins.Allow(context.Background(), "alice")
		show(fmt.Sprint("login ", i+1), d)
		c.Advance(10 * time.Second)
	}
	// Output:
	// login 1: passed, 1 of 2 left
	// login 2: passed, 0 of 2 left
	// login 3: refused by "logins", retry in 40s
}

func ExampleNewBucketed() {
	c := gatetest.NewClock()
	l, err := limit.NewBucketed(limit.Config{Name: "exact", Limit: 100, Window: time.Minute, Buckets: 6, Strict: true, Now: c.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, _ := l.AllowN(context.Background(), "tenant", 100)
	show("a burst", d)
	d, _ = l.Allow(context.Background(), "tenant")
	show("one more", d)
	// Output:
	// a burst: passed, 0 of 100 left
	// one more: refused by "exact", retry in 1m10s
}

// 5 a second, and up to 8 at once.
func ExampleNewBurst() {
	c := gatetest.NewClock()
	l, err := limit.NewBurst(limit.Config{Name: "calls", Limit: 5, Burst: 8, Now: c.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, _ := l.AllowN(context.Background(), "a", 8)
	show("a burst", d)
	d, _ = l.Allow(context.Background(), "a")
	show("one more", d)
	c.Advance(time.Second)
	d, _ = l.AllowN(context.Background(), "a", 5)
	show("a second later", d)
	// Output:
	// a burst: passed, 0 of 5 left
	// one more: refused by "calls", retry in 200ms
	// a second later: passed, 0 of 5 left
}

func ExampleNewInFlight() {
	ctx := context.Background()
	exports, err := limit.NewInFlight(limit.Config{Name: "exports", Limit: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	export := func(tenant string, run func()) {
		place, d, err := exports.Acquire(ctx, tenant)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer place.Release()
		if !d.Allowed {
			fmt.Println(tenant, "has", d.Limit, "exports running already")
			return
		}
		run()
	}
	export("acme", func() {
		export("acme", func() {
			export("acme", nil)
			export("globex", func() { fmt.Println(exports.Stats().InFlight, "are running") })
		})
	})
	fmt.Println(exports.Peek("acme").Remaining, "places are free again")
	// Output:
	// acme has 2 exports running already
	// 3 are running
	// 2 places are free again
}

func ExampleConfig() {
	_, err := limit.NewCounter(limit.Config{Name: "per client", Limit: -1, Window: time.Microsecond})
	fmt.Println(err)
	fmt.Println(errors.Is(err, limit.ErrConfig))

	var fault *limit.ConfigError
	if errors.As(err, &fault) {
		fmt.Println(fault.Field, fault.Value)
	}
	// Output:
	// limit: bad configuration of Counter "per client": Limit is -1; want 0 to 2305843009213693951
	// limit: bad configuration of Counter "per client": Window is 1µs; want 1ms to 8784h0m0s, or 0 for 1s
	// true
	// Limit -1
}

func ExampleRateLimiter_AllowN() {
	c := gatetest.NewClock()
	bytes, _ := limit.NewCounter(limit.Config{Name: "bytes", Limit: 1 << 20, Now: c.Now})
	for _, n := range []int64{1 << 19, 1 << 19, 0, 1 << 21} {
		d, err := bytes.AllowN(context.Background(), "upload", n)
		if err != nil {
			fmt.Println(err)
			continue
		}
		show(fmt.Sprint(n), d)
	}
	_, err := bytes.AllowN(context.Background(), "", 1)
	fmt.Println(err)
	// Output:
	// 524288: passed, 524288 of 1048576 left
	// 524288: passed, 0 of 1048576 left
	// 0: refused by "bytes", retry in 1.000000954s
	// 2097152: refused, for ever
	// limit: bad key: it is empty; want 1 to 1024 bytes
}

// Plans: most tenants have 2 in a minute, some have more, and the company's own are exempt.
func ExampleConfig_plans() {
	plans := map[string]int64{"acme": 3, "ourselves": limit.Exempt, "late payer": 0}
	perTenant, _ := limit.NewCounter(limit.Config{
		Limit: 2, Window: time.Minute, MaxLimit: 1000,
		LimitFor: func(tenant string) int64 {
			if plan, ok := plans[tenant]; ok {
				return plan
			}
			return limit.Default
		},
	})
	for _, tenant := range []string{"somebody", "acme", "ourselves", "late payer"} {
		passed := 0
		for range 10 {
			if d, err := perTenant.Allow(context.Background(), tenant); err == nil && d.Allowed {
				passed++
			}
		}
		fmt.Println(tenant, passed)
	}
	// Output:
	// somebody 2
	// acme 3
	// ourselves 10
	// late payer 0
}

func ExampleRateLimiter_AllowLimit() {
	perTenant, _ := limit.NewCounter(limit.Config{Limit: 1, Window: time.Minute, MaxLimit: 1000})
	for range 3 {
		// The plan is in the token of the request.
		d, _ := perTenant.AllowLimit(context.Background(), "acme", 1, 2)
		fmt.Println(d.Allowed, d.Remaining)
	}
	_, err := perTenant.AllowLimit(context.Background(), "acme", 1, 2000)
	fmt.Println(err)
	// Output:
	// true 1
	// true 0
	// false 0
	// limit: bad count: a limit of 2000; want 0 to 1000, which is Config.MaxLimit
}

func ExampleRateLimiter_SetLimit() {
	l, _ := limit.NewCounter(limit.Config{Limit: 10, Window: time.Minute, MaxLimit: 100})
	_, _ = l.AllowN(context.Background(), "a", 10)
	fmt.Println(l.SetLimit(30), l.Peek("a").Remaining)
	// Output: <nil> 20
}

// A table of plans that changes while the program runs. rulefile.Config.Limits reads one from a
// file.
func ExampleRateLimiter_SetPlans() {
	l, _ := limit.NewCounter(limit.Config{Limit: 2, Window: time.Minute, MaxLimit: 100})
	_ = l.SetPlans(map[string]int64{"acme": 4, "partner": limit.Exempt, "banned": 0})
	for _, tenant := range []string{"initech", "acme", "partner", "banned"} {
		passed := 0
		for range 10 {
			if d, err := l.Allow(context.Background(), tenant); err == nil && d.Allowed {
				passed++
			}
		}
		fmt.Println(tenant, passed)
	}
	// Output:
	// initech 2
	// acme 4
	// partner 10
	// banned 0
}

// A queue is read in batches, as large as there is room for.
func ExampleRateLimiter_AllowAtMost() {
	l, _ := limit.NewLog(limit.Config{Limit: 10, Window: time.Minute})
	for range 3 {
		d, _ := l.AllowAtMost(context.Background(), "queue", 7)
		fmt.Println(d.Allowed, d.Charged)
	}
	// Output:
	// true 7
	// true 3
	// false 0
}

// A limit is tried before it is set: it says what it would do.
func ExampleRateLimiter_SetMode() {
	l, _ := limit.NewLog(limit.Config{Limit: 2, Window: time.Minute, Mode: rule.Shadow})
	for range 5 {
		_, _ = l.Allow(context.Background(), "a")
	}
	s := l.Stats()
	fmt.Println(s.Allowed, "allowed,", s.WouldRefuse, "of them only for now")
	_ = l.SetMode(rule.Enforce)
	d, _ := l.Allow(context.Background(), "a")
	fmt.Println(d.Allowed)
	// Output:
	// 5 allowed, 3 of them only for now
	// false
}

func ExampleRateLimiter_AllowNAt() {
	c, _ := limit.NewCounter(limit.Config{Limit: 100, Window: time.Minute})
	minute := int64(time.Minute)
	c.AllowNAt(0, "a", 60)      // in the minute before
	c.AllowNAt(minute, "a", 20) // in this one
	d := c.AllowNAt(minute+minute/2, "a", 0)
	fmt.Println("half of it is over, and", d.Limit-d.Remaining, "are held")
	// Output: half of it is over, and 50 are held
}

func ExampleRateLimiter_Peek() {
	c := gatetest.NewClock()
	l, _ := limit.NewCounter(limit.Config{Limit: 10, Now: c.Now})
	fmt.Println(l.Peek("a").Remaining)
	_, _ = l.Allow(context.Background(), "a")
	fmt.Println(l.Peek("a").Remaining, l.Peek("a").ResetAfter)
	// Output:
	// 10
	// 9 2s
}

func ExampleRateLimiter_Wait() {
	c := gatetest.NewClock()
	l, _ := limit.NewCounter(limit.Config{Limit: 10, Now: c.Now})
	d, err := l.Wait(context.Background(), "a", 10)
	fmt.Println(d.Allowed, err)

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	d, err = l.Wait(ctx, "a", 1) // it would take longer, and does not wait at all
	fmt.Println(d.Allowed, d.RetryAfter, err)
	// Output:
	// true <nil>
	// false 1.1s <nil>
}

// The cost of a call to a language model is known when it has answered.
func ExampleRateLimiter_Settle() {
	c := gatetest.NewClock()
	ctx := context.Background()
	tokens, _ := limit.NewCounter(limit.Config{Name: "tokens", Limit: 10_000, Window: time.Minute, Now: c.Now})
	d, _ := tokens.AllowN(ctx, "team", 4000) // the prompt, and an estimate of the answer
	fmt.Println(tokens.Settle(ctx, "team", d, 1500), tokens.Peek("team").Remaining)

	d, _ = tokens.AllowN(ctx, "team", 4000)
	fmt.Println(tokens.Settle(ctx, "team", d, 9000), tokens.Peek("team").Remaining)
	show("the next", tokens.Peek("team"))
	// Output:
	// <nil> 8500
	// <nil> 0
	// the next: refused by "tokens", retry in 1m2.862857143s
}

func ExampleRateLimiter_Refund() {
	c := gatetest.NewClock()
	ctx := context.Background()
	l, _ := limit.NewCounter(limit.Config{Limit: 10, Now: c.Now})
	d, _ := l.AllowN(ctx, "a", 5)
	fmt.Println(l.Refund(ctx, "a", d, 5), l.Peek("a").Remaining) // the call was not made after all
	fmt.Println(l.Refund(ctx, "a", d, 6))
	// Output:
	// <nil> 10
	// limit: bad count: a refund of 6 of a decision that charged 5
}

func ExampleRateLimiter_Reset() {
	l, _ := limit.NewCounter(limit.Config{Limit: 10})
	_, _ = l.AllowN(context.Background(), "a", 10)
	l.Reset("a")
	fmt.Println(l.Peek("a").Remaining)
	// Output: 10
}

func ExampleRateLimiter_Offenders() {
	c := gatetest.NewClock()
	l, _ := limit.NewCounter(limit.Config{Limit: 1, Offenders: 100, Now: c.Now})
	for range 50 {
		_, _ = l.Allow(context.Background(), "198.51.100.7")
	}
	for range 3 {
		_, _ = l.Allow(context.Background(), "203.0.113.5")
	}
	for _, o := range l.Offenders(10) {
		fmt.Printf("%q was refused %d times\n", o.Key, o.Refused)
	}
	l.ForgetOffenders()
	fmt.Println(len(l.Offenders(10)))
	// Output:
	// "198.51.100.7" was refused 49 times
	// "203.0.113.5" was refused 2 times
	// 0
}

func ExampleRateLimiter_Stats() {
	c := gatetest.NewClock()
	l, _ := limit.NewCounter(limit.Config{Limit: 1, MaxKeys: 100, WhenFull: limit.Deny, Now: c.Now})
	for i := range 150 {
		_, _ = l.Allow(context.Background(), fmt.Sprint("client ", i))
	}
	s := l.Stats()
	fmt.Println(s.Keys, "keys,", s.Crowded, "refused for want of a place,", s.Evicted, "forgotten")
	c.Advance(time.Hour)
	l.Sweep()
	fmt.Println(l.Stats().Keys, "keys,", l.Stats().Expired, "expired")
	// Output:
	// 100 keys, 50 refused for want of a place, 0 forgotten
	// 0 keys, 100 expired
}

func ExampleRateLimiter_Close() {
	l, _ := limit.NewCounter(limit.Config{Limit: 1})
	fmt.Println(l.Close())
	_, err := l.Allow(context.Background(), "a")
	fmt.Println(err)
	// Output:
	// <nil>
	// limit: limiter is closed
}

// A batch is as large as both limits have room for.
func ExampleGroup_AllowAtMost() {
	c := gatetest.NewClock()
	second, _ := limit.NewCounter(limit.Config{Name: "per second", Limit: 5, Now: c.Now})
	hour, _ := limit.NewLog(limit.Config{Name: "per hour", Limit: 7, Window: time.Hour, Now: c.Now})
	both := limit.All(second, hour)
	for range 3 {
		d, _ := both.AllowAtMost(context.Background(), "queue", 10)
		fmt.Println(d.Allowed, d.Charged)
		c.Advance(2 * time.Second)
	}
	// Output:
	// true 5
	// true 2
	// false 0
}

func ExampleAll() {
	c := gatetest.NewClock()
	ctx := context.Background()
	second, _ := limit.NewCounter(limit.Config{Name: "per second", Limit: 2, Now: c.Now})
	hour, _ := limit.NewBucketed(limit.Config{Name: "per hour", Limit: 3, Window: time.Hour, Now: c.Now})
	both := limit.All(second, hour)
	for i := range 4 {
		d, err := both.Allow(ctx, "a")
		if err != nil {
			fmt.Println(err)
		}
		show(fmt.Sprint("call ", i+1), d)
		c.Advance(2 * time.Second)
	}
	fmt.Println(second.Peek("a").Remaining, "left of the second: a refusal costs nothing")
	// Output:
	// call 1: passed, 1 of 2 left
	// call 2: passed, 1 of 2 left
	// call 3: passed, 0 of 3 left
	// call 4: refused by "per hour", retry in 59m54s
	// 2 left of the second: a refusal costs nothing
}
