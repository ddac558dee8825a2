// Package overload puts limits on calls in flight in front of a simulated service, and prints
// what comes of the calls:
//
//	go test ./overload -v -table
//
// It is a test, since the peer reads the real clock, which only tests can make stand still.
package overload

import (
	"flag"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/simulate"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/system"
)

var table = flag.Bool("table", false, "go through all cases, and not through a few seconds of one")

// places is the largest limit, and fixed a limit as one sets it by guess.
const places, fixed = 200, 20

// limiter lets calls in.
type limiter struct {
	enter func() (exit func(), ok bool)
	busy  func(share float64) // is told every 250 ms how many of the servers were busy; nil: it does not ask
}

// limiters are those of the table; least is the smallest limit.
var limiters = []struct {
	name string
	make func(least int) limiter
}{
	{"leapgate, adaptive", func(least int) limiter {
		return limiterOf(leapgate.Rules{Isolation: []isolation.Rule{
			{Resource: "api", Strategy: isolation.Adaptive, MinInFlight: int64(least), MaxInFlight: places},
		}})
	}},
	{"leapgate, system", func(int) limiter {
		return limiterOf(leapgate.Rules{System: []system.Rule{{Resource: "api", MaxCPU: 0.9, MaxInFlight: places}}})
	}},
	{"failsafe-go, adaptive", func(least int) limiter {
		l := adaptivelimiter.NewBuilder[any]().WithLimits(uint(least), places, fixed).Build()
		return limiter{enter: func() (func(), bool) {
			permit, ok := l.TryAcquirePermit()
			if !ok {
				return nil, false
			}
			return permit.Record, true
		}}
	}},
	{"fixed, 20", func(int) limiter {
		return limiterOf(leapgate.Rules{Isolation: []isolation.Rule{{Resource: "api", MaxInFlight: fixed}}})
	}},
	{"none", func(int) limiter {
		return limiter{enter: func() (func(), bool) { return func() {}, true }}
	}},
}

func limiterOf(rules leapgate.Rules) limiter {
	start, signals, cpu := time.Now(), new(load.Given), 0.0
	gate := leapgate.Must(leapgate.Config{Load: signals, Now: func() int64 { return int64(time.Since(start)) + int64(time.Hour) }})
	if err := gate.LoadRules(rules); err != nil {
		panic(err)
	}
	api := gate.Resource("api")
	l := limiter{enter: func() (func(), bool) {
		e, err := api.Entry()
		return func() { e.Exit() }, err == nil
	}}
	if rules.System != nil {
		l.busy = func(share float64) {
			cpu += (share - cpu) * (1 - math.Exp2(-0.25)) // a half-life of 1 s, as package load has
			signals.Set(load.Signals{CPU: load.Signal{Value: cpu, Raw: share, Known: true}})
		}
	}
	return l
}

// scene is what happens to a service, from the begin of its step on.
type scene struct {
	name          string
	before, after simulate.Phase
	length        time.Duration // of what is judged, from 10 s after the step on
}

func scenes() (all []scene) {
	shapes := []simulate.Shape{simulate.Deterministic, simulate.Exponential, simulate.Bimodal}
	for _, servers := range []int{2, 4, 10, 30, 100} {
		for _, shape := range shapes {
			p := service(servers, shape)
			all = append(all, scene{fmt.Sprintf("3 × the load, %d servers, %s", servers, shape), at(p, 0.7), at(p, 3), time.Minute})
		}
	}
	for _, shape := range shapes {
		p := service(20, shape)
		few := at(p, 0.7)
		few.Servers = 5
		all = append(all, scene{"5 of 20 servers left, " + shape.String(), at(p, 0.7), few, time.Minute})
		slow := service(4, shape)
		slow.Delay = simulate.Times{Mean: 24 * time.Millisecond, Shape: shape}
		for _, demand := range []float64{0.7, 3} {
			quick := at(slow, demand)
			slower := quick
			slower.Delay.Mean *= 5
			all = append(all, scene{fmt.Sprintf("dependency 5 × slower at load %v, %s", demand, shape), quick, slower, time.Minute})
		}
		p = service(10, shape)
		p.Times.Mean = 200 * time.Millisecond
		all = append(all, scene{"an hour of 3 × the load, 10 servers, " + shape.String(), at(p, 0.7), at(p, 3), time.Hour})
	}
	return all
}

// service can do 500 calls a second, however many servers it has.
func service(servers int, shape simulate.Shape) simulate.Phase {
	return simulate.Phase{Servers: servers, Times: simulate.Times{Mean: time.Duration(servers) * 2 * time.Millisecond, Shape: shape}}
}

func at(p simulate.Phase, demand float64) simulate.Phase {
	p.Rate = demand * p.Capacity()
	return p
}

func TestTable(t *testing.T) {
	all, unit := scenes(), time.Second
	if !*table {
		all, unit = all[:1], 50*time.Millisecond
	}
	fmt.Println("| what happens | limit | passed before | goodput at first | p99 at first | goodput | p99 |\n|---|---|---:|---:|---:|---:|---:|")
	for _, s := range all {
		for _, l := range limiters {
			if l.name == "none" && s.length > time.Minute {
				continue // it would hold millions of calls
			}
			synctest.Test(t, func(*testing.T) { row(s, l.name, l.make(min(4, s.after.Servers)), unit) })
		}
	}
}

// row goes through a scene and prints what came of it.
func row(s scene, name string, l limiter, unit time.Duration) {
	start := time.Now()
	sim := simulate.Simulation{
		Patience: 20 * (s.after.Times.Mean + s.after.Delay.Mean),
		// The limiters beside read the clock of the runtime, which a bubble sets.
		Set:   func(now int64) { time.Sleep(time.Until(start.Add(time.Duration(now)))) },
		Enter: func(int) (func(), bool) { return l.enter() },
	}
	if l.busy != nil {
		sim.Every, sim.Tick = 250*time.Millisecond, func(_ int64, share float64) { l.busy(share) }
	}
	warm, first, rest := s.before, s.after, s.after
	warm.For, s.before.For, first.For, rest.For = 20*unit, 20*unit, 10*unit, s.length/time.Second*unit
	r := sim.Run(warm, s.before, first, rest)
	can := min(rest.Rate, rest.Capacity()) / rest.Capacity()
	slower := func(r *simulate.Result) float64 {
		return float64(r.Quantile(0.99)) / float64(r.Times.P99()+r.Delay.P99())
	}
	fmt.Printf("| %s | %s | %.1f %% | %.2f | %.1f × | %.2f | %.1f × |\n", s.name, name, 100*r[1].Passed(),
		r[2].Goodput()/can, slower(&r[2]), r[3].Goodput()/can, slower(&r[3]))
}
