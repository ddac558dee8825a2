package bench

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// BenchmarkCases runs every case with one worker per processor.
func BenchmarkCases(b *testing.B) { benchmarkCases(b, 1) }

// BenchmarkCases64 runs every case with 64 workers, whatever the number of processors.
func BenchmarkCases64(b *testing.B) {
	procs := runtime.GOMAXPROCS(0)
	benchmarkCases(b, (64+procs-1)/procs)
}

func benchmarkCases(b *testing.B, perProcessor int) {
	for _, c := range Cases {
		b.Run(c.Name, func(b *testing.B) {
			worker := c.Make()
			var making sync.Mutex // workers are made one after the other
			b.SetParallelism(perProcessor)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				making.Lock()
				run := worker()
				making.Unlock()
				// Many at a time, since a case is measured in a loop of its own: a call
				// per operation would cost more than the cheapest of them.
				n := 0
				for pb.Next() {
					if n++; n == 256 {
						run(n)
						n = 0
					}
				}
				run(n)
			})
		})
	}
}

// BenchmarkLoad loads 10,000 rules, one each for as many resources. min-ms is the fastest
// load of all, which other work on the machine disturbs least.
func BenchmarkLoad(b *testing.B) {
	const size = 10_000
	b.Run("first", func(b *testing.B) {
		rules := Rules(size)
		benchmarkLoads(b, func() func() error {
			g := leapgate.Must(leapgate.Config{})
			runtime.GC() // the gates before this one are not its price
			return func() error { return g.LoadFlowRules(rules) }
		})
	})

	// The others load two lists by turns. Both were made apart, so that none is
	// equal to the other only because it is the same memory.
	for _, bench := range []struct {
		name   string
		change func(rules []flow.Rule) []flow.Rule
	}{
		{"all changed", func(rules []flow.Rule) []flow.Rule {
			for i := range rules {
				rules[i].Threshold++
			}
			return rules
		}},
		{"none changed", func(rules []flow.Rule) []flow.Rule { return rules }},
		{"one changed", func(rules []flow.Rule) []flow.Rule {
			rules[len(rules)/2].Threshold++
			return rules
		}},
		// The rules after it are at other places than before.
		{"one removed or added", func(rules []flow.Rule) []flow.Rule {
			return slices.Delete(rules, len(rules)/2, len(rules)/2+1)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			lists := [2][]flow.Rule{Rules(size), bench.change(Rules(size))}
			g := leapgate.Must(leapgate.Config{})
			if err := g.LoadFlowRules(lists[0]); err != nil {
				b.Fatal(err)
			}
			i := 0
			benchmarkLoads(b, func() func() error {
				i++
				return func() error { return g.LoadFlowRules(lists[i%2]) }
			})
		})
	}

	// 100 patterns, of which each resource matches one, are loaded into a gate with 10,000
	// resources.
	b.Run("100 patterns", func(b *testing.B) {
		g := leapgate.Must(leapgate.Config{MaxResources: 2 * size})
		for i := range size {
			g.Resource(fmt.Sprintf("GET /%d/orders/%d", i%100, i))
		}
		i := 0
		benchmarkLoads(b, func() func() error {
			i++
			rules := make([]flow.Rule, 100)
			for k := range rules {
				rules[k] = flow.Rule{Resource: fmt.Sprintf("GET /%d/*", k), Match: rule.Glob, Threshold: float64(100 + i%2)}
			}
			return func() error { return g.LoadFlowRules(rules) }
		})
	})
}

// benchmarkLoads measures the loads that prepare makes ready.
func benchmarkLoads(b *testing.B, prepare func() (load func() error)) {
	b.ReportAllocs()
	fastest := time.Duration(math.MaxInt64)
	for b.Loop() {
		b.StopTimer()
		load := prepare()
		b.StartTimer()
		start := time.Now()
		err := load()
		fastest = min(fastest, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(fastest.Microseconds())/1000, "min-ms")
}

// BenchmarkNewNames opens many distinct names with places for 10,000. ns/op is
// what a new name costs on average; the other figures tell how it goes on.
func BenchmarkNewNames(b *testing.B) {
	const flood = 1_000_000
	// All in one second: when the places are taken, nothing is idle, and other
	// serves the rest.
	b.Run("none idle", func(b *testing.B) { benchmarkNewNames(b, flood, 0) })
	// In so long a time that every place is idle when the hand comes round to it.
	b.Run("all idle", func(b *testing.B) { benchmarkNewNames(b, flood, 10*time.Millisecond) })
}

func benchmarkNewNames(b *testing.B, flood int, between time.Duration) {
	const (
		places = 10_000
		early  = 100_000
	)
	var first, next, rest time.Duration // up to places, early and flood names
	names := make([]string, places)
	floods := 0
	for b.Loop() {
		b.StopTimer()
		now := givenStart
		g := leapgate.Must(leapgate.Config{MaxResources: places, Now: func() int64 { return now }})
		for opened := 0; opened < flood; opened += len(names) {
			for i := range names {
				names[i] = "GET /orders/" + strconv.Itoa(opened+i)
			}
			b.StartTimer()
			begin := time.Now()
			for _, name := range names {
				now += int64(between)
				e, err := g.Entry(name)
				if err != nil {
					b.Fatal(err)
				}
				e.Exit()
			}
			took := time.Since(begin)
			b.StopTimer()
			switch {
			case opened < places:
				first += took
			case opened < early:
				next += took
			default:
				rest += took
			}
		}
		floods++
		b.StartTimer()
	}
	perName := func(d time.Duration, names int) float64 {
		return float64(d.Nanoseconds()) / float64(names*floods)
	}
	b.ReportMetric(perName(first+next+rest, flood), "ns/op")
	b.ReportMetric(perName(first, places), "1st-10k-ns/name")
	b.ReportMetric(perName(next, early-places), "2nd-90k-ns/name")
	b.ReportMetric(perName(rest, flood-early), "last-900k-ns/name")
}

// givenStart is where given clocks begin.
const givenStart = int64(1_800_000_000 * time.Second)

// BenchmarkSnapshot takes the figures of 1,000 resources that were all called in
// the last second.
func BenchmarkSnapshot(b *testing.B) {
	now := givenStart
	g := leapgate.Must(leapgate.Config{Now: func() int64 { return now }})
	names := resourceNames(1000)
	for _, name := range names {
		for call := range 20 {
			e, err := g.Entry(name)
			if err != nil {
				b.Fatal(err)
			}
			now += int64(time.Duration(call) * time.Microsecond)
			e.Exit()
		}
	}
	var snapshots []stat.Snapshot
	b.ReportAllocs()
	for b.Loop() {
		snapshots = g.Snapshot()
	}
	if len(snapshots) != len(names) {
		b.Fatalf("%d snapshots of %d resources", len(snapshots), len(names))
	}
}
