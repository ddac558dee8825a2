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
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/simulate"
	"github.com/leapgate-go/leapgate/isolation"
)

var table = flag.Bool("table", false, "go through all cases, and not through a few seconds of one")

// places is the largest limit, and fixed a limit as one sets it by guess.
const places, fixed = 200, 20

// limiters let calls in; least is the smallest limit.
var limiters = []struct {
	name string
	make func(least int) func() (exit func(), ok bool)
}{
	{"leapgate, adaptive", func(least int) func() (func(), bool) {
		return rule(isolation.Rule{Strategy: isolation.Adaptive, MinInFlight: int64(least), MaxInFlight: places})
	}},
	{"failsafe-go, adaptive", func(least int) func() (func(), bool) {
		l := adaptivelimiter.NewBuilder[any]().WithLimits(uint(least), places, fixed).Build()
		return func() (func(), bool) {
			permit, ok := l.TryAcquirePermit()
			if !ok {
				return nil, false
			}
			return permit.Record, true
		}
	}},
	{"fixed, 20", func(int) func() (func(), bool) { return rule(isolation.Rule{MaxInFlight: fixed}) }},
	{"none", func(int) func() (func(), bool) {
		return func() (func(), bool) { return func() {}, true }
	}},
}

func rule(r isolation.Rule) func() (func(), bool) {
	start := time.Now()
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return int64(time.Since(start)) + int64(time.Hour) }})
	r.Resource = "api"
	if err := gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{r}}); err != nil {
		panic(err)
	}
	api := gate.Resource("api")
	return func() (func(), bool) {
		e, err := api.Entry()
		return func() { e.Exit() }, err == nil
	}
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
		for _, load := range []float64{0.7, 3} {
			quick := at(slow, load)
			slower := quick
			slower.Delay.Mean *= 5
			all = append(all, scene{fmt.Sprintf("dependency 5 × slower at load %v, %s", load, shape), quick, slower, time.Minute})
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

func at(p simulate.Phase, load float64) simulate.Phase {
	p.Rate = load * p.Capacity()
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
func row(s scene, name string, enter func() (func(), bool), unit time.Duration) {
	start := time.Now()
	sim := simulate.Simulation{
		Patience: 20 * (s.after.Times.Mean + s.after.Delay.Mean),
		// The limiters beside read the clock of the runtime, which a bubble sets.
		Set:   func(now int64) { time.Sleep(time.Until(start.Add(time.Duration(now)))) },
		Enter: func(int) (func(), bool) { return enter() },
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
