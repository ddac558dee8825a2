package bench

import (
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
	throttle "github.com/zeromicro/go-zero/core/breaker"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/stat"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

// The cases of Leapgate that breakers of others come near.
const (
	nearBreaker  = "leapgate/Do, breaker"
	nearProbe    = "leapgate/breaker, half-open"
	nearOpen     = "leapgate/blocked, breaker open"
	nearFull     = "leapgate/blocked, breaker half-open"
	nearThrottle = "leapgate/breaker, throttle"
	nearReject   = "leapgate/blocked, breaker throttles"
)

// aDay is as long as a breaker of Leapgate can be open, and longer than any benchmark.
const aDay = 24 * time.Hour

// gateWithBreaker makes a gate with a breaker on each of the resources.
func gateWithBreaker(r breaker.Rule, names ...string) *leapgate.Gate {
	g := leapgate.Must(leapgate.Config{MaxResources: len(names), Now: now})
	loadBreakers(g, r, names...)
	return g
}

func loadBreakers(g *leapgate.Gate, r breaker.Rule, names ...string) {
	if err := g.EditRules(func(all *leapgate.Rules) error {
		all.Breaker = nil
		for _, name := range names {
			r.Resource = name
			all.Breaker = append(all.Breaker, r)
		}
		return nil
	}); err != nil {
		panic(err)
	}
}

// onBreaker makes workers that enter and exit one resource with a breaker that is closed.
func onBreaker(r breaker.Rule) func() func() func(int) {
	return func() func() func(int) { return entersAndExits(gateWithBreaker(r, "orders").Resource("orders")) }
}

// onSystem makes workers that enter and exit one resource under a system rule that is calm.
func onSystem(r system.Rule) func() func() func(int) {
	return func() func() func(int) {
		given := new(load.Given)
		given.Set(load.Signals{CPU: load.Known(0.5)})
		g := leapgate.Must(leapgate.Config{Now: now, Load: given})
		r.Match = rule.All
		if err := g.LoadRules(leapgate.Rules{System: []system.Rule{r}}); err != nil {
			panic(err)
		}
		return entersAndExits(g.Resource("orders"))
	}
}

// halfOpen returns a resource whose breaker is half-open from its next call on, which is a
// probe.
func halfOpen(probes int64) *resource.Resource {
	r := breaker.Rule{ErrorRatio: 1, Probes: probes, ProbeTimeout: aDay, Force: breaker.Open}
	g := gateWithBreaker(r, "orders")
	g.Resource("orders")
	r.Force = breaker.None
	loadBreakers(g, r, "orders")
	return g.Resource("orders")
}

// fail makes a call that fails, if it is admitted.
func fail(r *resource.Resource) {
	if e, err := r.Entry(); err == nil {
		e.SetOutcome(leapgate.Failure)
		e.Exit()
	}
}

// refuses makes workers that are always refused.
func refuses(r *resource.Resource) func() func(int) {
	return shared(func(n int) {
		for range n {
			if _, err := r.Entry(); err == nil {
				panic("it passed")
			}
		}
	})()
}

var breakerCases = []Case{
	{Name: "leapgate/system rule, calm", Floor: FloorEntry, Make: onSystem(system.Rule{MaxCPU: 0.9, MaxInFlight: 1_000_000})},
	{Name: "leapgate/system rule, calls in flight", Floor: FloorEntry, Make: onSystem(system.Rule{MaxInFlight: 1_000_000})},
	{Name: "leapgate/breaker", Floor: FloorEntry, Make: onBreaker(breaker.Rule{ErrorRatio: 0.5})},
	{Name: "leapgate/breaker, slow calls too", Floor: FloorEntry, Make: onBreaker(
		breaker.Rule{ErrorRatio: 0.5, SlowRatio: 0.5, SlowAfter: time.Second})},
	// Every probe ends ignored, so that it decides nothing.
	{Name: nearProbe, Floor: FloorEntry, Make: func() func() func(int) {
		r := halfOpen(1000)
		return shared(func(n int) {
			for range n {
				e, err := r.Entry()
				if err != nil {
					panic(err)
				}
				e.SetOutcome(leapgate.Ignored)
				e.Exit()
			}
		})()
	}},
	{Name: nearThrottle, Floor: FloorEntry, Make: onBreaker(breaker.Rule{Behavior: breaker.Throttle})},
	{Name: nearBreaker, Floor: FloorEntry, Make: func() func() func(int) {
		g := gateWithBreaker(breaker.Rule{ErrorRatio: 0.5}, "orders")
		ctx := context.Background()
		nothing := func(context.Context) error { return nil }
		return shared(func(n int) {
			for range n {
				if err := g.Do(ctx, "orders", nothing); err != nil {
					panic(err)
				}
			}
		})()
	}},
	{Name: nearOpen, Floor: FloorEntry, Make: func() func() func(int) {
		r := gateWithBreaker(breaker.Rule{ErrorRatio: 1, MinCalls: 1, OpenFor: aDay}, "orders").Resource("orders")
		fail(r)
		return refuses(r)
	}},
	{Name: nearFull, Floor: FloorEntry, Make: func() func() func(int) {
		r := halfOpen(1)
		if _, err := r.Entry(); err != nil { // a probe that never ends
			panic(err)
		}
		return refuses(r)
	}},
	// One call a second passes, and fails.
	{Name: nearReject, Floor: FloorEntry, Make: func() func() func(int) {
		r := gateWithBreaker(breaker.Rule{Behavior: breaker.Throttle, MaxReject: 1}, "orders").Resource("orders")
		for range 1000 {
			fail(r)
		}
		return shared(func(n int) {
			for range n {
				fail(r)
			}
		})()
	}},
}

// failsafeGet makes workers that run a function under a policy of failsafe-go.
func failsafeGet(policy func() failsafe.Policy[int], want error) func() func() func(int) {
	return func() func() func(int) {
		e := failsafe.With(policy())
		return shared(func(n int) {
			for range n {
				if _, err := e.Get(nothing); !errors.Is(err, want) {
					panic(decided)
				}
			}
		})()
	}
}

// failsafeBreaker makes a breaker over the calls of the last ten seconds, in the library's ten
// buckets, which so many successes in the half-open state close.
func failsafeBreaker(probes uint) circuitbreaker.CircuitBreaker[int] {
	return circuitbreaker.NewBuilder[int]().
		WithFailureRateThreshold(0.5, 100, 10*time.Second).
		WithSuccessThreshold(probes).
		WithDelay(time.Hour).
		Build()
}

// sonyBreaker makes a breaker of gobreaker that any failure opens, with one bucket, or many.
func sonyBreaker(interval, bucket, timeout time.Duration, probes uint32) *gobreaker.CircuitBreaker[int] {
	return gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
		Interval:     interval,
		BucketPeriod: bucket,
		Timeout:      timeout,
		MaxRequests:  probes,
		ReadyToTrip:  func(gobreaker.Counts) bool { return true },
	})
}

// executes makes workers that run a function under a breaker of gobreaker.
func executes(newBreaker func() *gobreaker.CircuitBreaker[int], want error) func() func() func(int) {
	return func() func() func(int) {
		b := newBreaker()
		return shared(func(n int) {
			for range n {
				if _, err := b.Execute(nothing); !errors.Is(err, want) {
					panic(decided)
				}
			}
		})()
	}
}

// sonyHalfOpen makes a breaker of gobreaker that is half-open from its next call on.
func sonyHalfOpen(probes uint32) *gobreaker.CircuitBreaker[int] {
	b := sonyBreaker(0, 0, 1, probes)
	_, _ = b.Execute(func() (int, error) { return 0, errors.ErrUnsupported }) // any failure opens it
	for b.State() != gobreaker.StateHalfOpen {
		runtime.Gosched()
	}
	return b
}

// Importing go-zero's breaker starts a goroutine that writes the processor's load into the output
// every minute, and a refusal writes a line every 5 minutes.
func init() {
	logx.Disable()
	stat.DisableLog()
}

// newThrottle makes go-zero's breaker, which throttles as [breaker.Throttle] does.
func newThrottle() throttle.Breaker { return throttle.NewBreaker(throttle.WithName("orders")) }

// PeerBreakers are breakers of other libraries for which memory is measured. Make makes one, and
// has it called once; all make their buckets at once.
var PeerBreakers = []struct {
	Name string
	Make func() any
}{
	{"gobreaker, one bucket", func() any { return called(sonyBreaker(0, 0, time.Hour, 1)) }},
	{"gobreaker, 10 buckets", func() any { return called(sonyBreaker(10*time.Second, time.Second, time.Hour, 1)) }},
	{"failsafe-go, 10 buckets", func() any {
		b := failsafeBreaker(1)
		b.RecordSuccess()
		return b
	}},
	{"go-zero, 40 buckets", func() any {
		b := newThrottle()
		_ = b.Do(func() error { return nil })
		return b
	}},
}

func called(b *gobreaker.CircuitBreaker[int]) any {
	_, _ = b.Execute(nothing)
	return b
}

var breakerPeers = []Case{
	{
		Name: "failsafe-go breaker, Get", Floor: FloorEntry, Near: nearBreaker,
		Make: failsafeGet(func() failsafe.Policy[int] { return failsafeBreaker(1) }, nil),
	},
	{
		// So many successes would close it.
		Name: "failsafe-go breaker, Get, half-open", Floor: FloorEntry, Near: nearProbe,
		Make: failsafeGet(func() failsafe.Policy[int] {
			b := failsafeBreaker(1 << 26)
			b.HalfOpen()
			return b
		}, nil),
	},
	{
		Name: "failsafe-go breaker, Get, open", Floor: FloorEntry, Near: nearOpen,
		Make: failsafeGet(func() failsafe.Policy[int] {
			b := failsafeBreaker(1)
			b.Open()
			return b
		}, circuitbreaker.ErrOpen),
	},
	{
		Name: "failsafe-go breaker, Get, half-open, refused", Floor: FloorEntry, Near: nearFull,
		Make: failsafeGet(func() failsafe.Policy[int] {
			b := failsafeBreaker(1)
			b.HalfOpen()
			b.TryAcquirePermit() // the only one
			return b
		}, circuitbreaker.ErrOpen),
	},

	{
		Name: "gobreaker Execute", Floor: FloorEntry, Near: nearBreaker,
		Make: executes(func() *gobreaker.CircuitBreaker[int] { return sonyBreaker(0, 0, time.Hour, 1) }, nil),
	},
	{
		Name: "gobreaker Execute, 10 buckets of 1 s", Floor: FloorEntry, Near: nearBreaker,
		Make: executes(func() *gobreaker.CircuitBreaker[int] { return sonyBreaker(10*time.Second, time.Second, time.Hour, 1) }, nil),
	},
	{
		Name: "gobreaker Execute, half-open", Floor: FloorEntry, Near: nearProbe,
		Make: executes(func() *gobreaker.CircuitBreaker[int] { return sonyHalfOpen(math.MaxUint32) }, nil),
	},
	{
		Name: "gobreaker Execute, open", Floor: FloorEntry, Near: nearOpen,
		Make: executes(func() *gobreaker.CircuitBreaker[int] {
			b := sonyBreaker(0, 0, time.Hour, 1)
			_, _ = b.Execute(func() (int, error) { return 0, gobreaker.ErrOpenState }) // any failure opens it
			return b
		}, gobreaker.ErrOpenState),
	},
	{
		Name: "gobreaker Execute, half-open, refused", Floor: FloorEntry, Near: nearFull,
		Make: executes(func() *gobreaker.CircuitBreaker[int] {
			b := sonyHalfOpen(1)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = b.Execute(func() (int, error) { runtime.Goexit(); return 0, nil }) // a probe that is never counted
			}()
			<-ended
			return b
		}, gobreaker.ErrTooManyRequests),
	},

	{
		Name: "go-zero breaker Allow and Accept", Floor: FloorEntry, Near: nearThrottle,
		Make: func() func() func(int) {
			b := newThrottle()
			return shared(func(n int) {
				for range n {
					p, err := b.Allow()
					if err != nil {
						panic(err)
					}
					p.Accept()
				}
			})()
		},
	},
	{
		// One call a second passes, and fails. A refusal reads the last errors for its line in the
		// log without the lock under which a failure writes them.
		Name: "go-zero breaker Allow, refused", Floor: FloorEntry, Near: nearReject, Races: true,
		Make: func() func() func(int) {
			b := newThrottle()
			mayFail := func(n int) {
				for range n {
					if p, err := b.Allow(); err == nil {
						p.Reject("it is away")
					}
				}
			}
			mayFail(1000)
			return shared(mayFail)()
		},
	},
}
