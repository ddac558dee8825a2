package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// unreachable is a threshold that no benchmark gets to.
const unreachable = 1e15

// now is the clock of the gates: the real one, except in tests that count
// allocations, where no bucket may open meanwhile.
var now func() int64

func resourceNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "GET /orders/" + strconv.Itoa(i)
	}
	return names
}

// gateWith makes a gate with the same rule, if any, on each resource.
func gateWith(names []string, rules ...flow.Rule) *leapgate.Gate {
	g := leapgate.Must(leapgate.Config{MaxResources: max(1, len(names)), Now: now})
	var all []flow.Rule
	for _, name := range names {
		g.Resource(name)
		for _, rule := range rules {
			rule.Resource = name
			all = append(all, rule)
		}
	}
	if err := g.LoadFlowRules(all); err != nil {
		panic(err)
	}
	return g
}

// onIsolation makes workers that enter and exit one resource with an isolation rule.
func onIsolation(r isolation.Rule) func() func() func(int) {
	return func() func() func(int) {
		g := gateWith([]string{"orders"})
		r.Resource = "orders"
		if err := g.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{r}}); err != nil {
			panic(err)
		}
		return entersAndExits(g.Resource("orders"))
	}
}

// onHandle makes workers that enter and exit one resource by its handle.
func onHandle(rules ...flow.Rule) func() func() func(int) {
	return func() func() func(int) {
		return entersAndExits(gateWith([]string{"orders"}, rules...).Resource("orders"))
	}
}

func entersAndExits(r *resource.Resource) func() func(int) {
	return shared(func(n int) {
		for range n {
			e, err := r.Entry()
			if err != nil {
				panic(err)
			}
			e.Exit()
		}
	})()
}

// exported makes workers that enter and exit one resource by its handle, in a gate that a
// collector exports. It is scraped every million calls of a worker: some hundred times
// as often as Prometheus would.
func exported() func() func(int) {
	g := gateWith([]string{"orders"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(leapprom.Must(g, leapprom.Config{}))
	scrape := func() {
		if _, err := registry.Gather(); err != nil {
			panic(err)
		}
	}
	scrape()
	worker := entersAndExits(g.Resource("orders"))
	return func() func(int) {
		run, calls := worker(), 0
		return func(n int) {
			run(n)
			if calls += n; calls >= 1_000_000 {
				calls = 0
				scrape()
			}
		}
	}
}

// amongRules makes workers that enter and exit one resource with one rule, in a gate
// that has so many more for other resources, one in a hundred of them a pattern.
func amongRules(n int) func() func() func(int) {
	return func() func() func(int) {
		rules := Rules(n)
		for i := range rules {
			if i%100 == 99 {
				rules[i].Match, rules[i].Resource = rule.Regexp, "GET /customers/"+strconv.Itoa(i)+"/.*"
			}
		}
		rules = append(rules, flow.Rule{Resource: "orders", Threshold: unreachable})
		g := leapgate.Must(leapgate.Config{Now: now})
		if err := g.LoadFlowRules(rules); err != nil {
			panic(err)
		}
		return entersAndExits(g.Resource("orders"))
	}
}

// byName makes workers that enter and exit resources by their names, one after the other.
func byName(size int, rules ...flow.Rule) func() func() func(int) {
	return byNameOf(resourceNames(size), rules...)
}

// inRandomOrder is byName in an order in which neither the resources nor their names lie in
// memory.
func inRandomOrder(size int, rules ...flow.Rule) func() func() func(int) {
	names := resourceNames(size)
	rand.New(rand.NewPCG(1, 2)).Shuffle(size, func(i, k int) { names[i], names[k] = names[k], names[i] })
	return byNameOf(names, rules...)
}

func byNameOf(names []string, rules ...flow.Rule) func() func() func(int) {
	return func() func() func(int) {
		g := gateWith(slices.Sorted(slices.Values(names)), rules...)
		return walking(len(names), func(n, k int) int {
			for range n {
				k = next(k, len(names))
				e, err := g.Entry(names[k])
				if err != nil {
					panic(err)
				}
				e.Exit()
			}
			return k
		})
	}
}

var leapgateCases = []Case{
	{Name: "leapgate/handle, no rule", Floor: FloorEntry, Make: onHandle()},
	{Name: "leapgate/handle, no rule, with a collector", Floor: FloorEntry, Near: "leapgate/handle, no rule", Make: exported},
	{Name: "leapgate/handle, exact rule", Floor: FloorEntry, Make: onHandle(flow.Rule{Threshold: unreachable})},
	{Name: "leapgate/handle, strict rule", Floor: FloorEntry, Make: onHandle(flow.Rule{Threshold: unreachable, Strict: true})},
	{Name: "leapgate/handle, three rules", Floor: FloorEntry, Make: onHandle(
		flow.Rule{Threshold: unreachable}, flow.Rule{Threshold: unreachable, Interval: time.Minute}, flow.Rule{Threshold: unreachable, Interval: time.Hour})},
	{Name: "leapgate/handle, shadow rule", Floor: FloorEntry, Make: onHandle(flow.Rule{Threshold: unreachable, Mode: rule.Shadow})},
	{Name: "leapgate/handle, warm-up rule", Floor: FloorEntry, Make: onHandle(
		flow.Rule{Threshold: unreachable, Strategy: flow.WarmUp, WarmUpPeriod: time.Minute})},
	{Name: "leapgate/handle, paced by a rule", Floor: FloorEntry, Make: onHandle(
		flow.Rule{Threshold: unreachable, Behavior: flow.Pace, MaxWait: time.Second})},
	{Name: "leapgate/handle, rule with candidate", Floor: FloorEntry, Make: onHandle(
		flow.Rule{Threshold: unreachable, Candidate: unreachable})},
	{Name: "leapgate/handle, isolation rule", Floor: FloorEntry, Make: onIsolation(isolation.Rule{MaxInFlight: isolation.MaxInFlight})},
	{Name: "leapgate/handle, adaptive isolation rule", Floor: FloorEntry, Near: "leapgate/handle, isolation rule", Make: onIsolation(
		isolation.Rule{Strategy: isolation.Adaptive, MinInFlight: 100, InitialInFlight: 200, MaxInFlight: 1000})}, // no worker is refused
	{Name: "leapgate/handle, 10 rules elsewhere", Floor: FloorEntry, Make: amongRules(10)},
	{Name: "leapgate/handle, 1,000 rules elsewhere", Floor: FloorEntry, Make: amongRules(1000)},
	{Name: "leapgate/handle, 10,000 rules elsewhere", Floor: FloorEntry, Make: amongRules(10_000)},
	{Name: "leapgate/blocked", Floor: FloorEntry, Make: func() func() func(int) {
		r := gateWith([]string{"orders"}, flow.Rule{Threshold: 1, Interval: time.Hour}).Resource("orders")
		e, err := r.Entry()
		if err != nil {
			panic(err)
		}
		e.Exit()
		return shared(func(n int) {
			for range n {
				if _, err := r.Entry(); err == nil {
					panic("it passed")
				}
			}
		})()
	}},
	{Name: "leapgate/WithCount(7)", Floor: FloorEntry, Make: func() func() func(int) {
		r := gateWith([]string{"orders"}).Resource("orders")
		ctx := context.Background()
		return shared(func(n int) {
			for range n {
				e, err := r.EntryContext(ctx, leapgate.WithCount(7))
				if err != nil {
					panic(err)
				}
				e.Exit()
			}
		})()
	}},
	{Name: "leapgate/Do", Floor: FloorEntry, Make: func() func() func(int) {
		g := gateWith([]string{"orders"})
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
	{Name: "leapgate/by name, 1", Floor: FloorByName, Make: byName(1)},
	{Name: "leapgate/by name, 1,000", Floor: FloorByName, Make: byName(1000)},
	{Name: "leapgate/by name, 5,000", Floor: FloorByName, Make: byName(5000)},
	{Name: "leapgate/by name, 10,000, random order", Floor: FloorByName, Make: inRandomOrder(10_000, flow.Rule{Threshold: unreachable})},
	{Name: "leapgate/by name, 1,000, exact rule", Floor: FloorByName, Make: byName(1000, flow.Rule{Threshold: unreachable})},
	{Name: "leapgate/QPS", Floor: FloorClock, Make: func() func() func(int) {
		r := gateWith([]string{"orders"}).Resource("orders")
		enter(r)
		return shared(func(n int) {
			var sum float64
			for i := range n {
				if i%1000 == 0 {
					enter(r) // so that there is something to read
				}
				sum += r.QPS(metric.Pass)
			}
			sink.Store(int64(sum))
		})()
	}},
	{Name: "leapgate/Snapshot", Floor: FloorClock, Make: func() func() func(int) {
		r := gateWith([]string{"orders"}).Resource("orders")
		enter(r)
		return shared(func(n int) {
			var sum float64
			for range n {
				sum += r.Snapshot().PassQPS
			}
			sink.Store(int64(sum))
		})()
	}},
}

func enter(r *resource.Resource) {
	e, err := r.Entry()
	if err != nil {
		panic(err)
	}
	e.Exit()
}

// Rules makes a list of n rules, one each for as many resources.
func Rules(n int) []flow.Rule {
	rules := make([]flow.Rule, n)
	for i := range rules {
		rules[i] = flow.Rule{Resource: fmt.Sprintf("GET /orders/%d", i), Threshold: 100}
	}
	return rules
}
