package leapprom_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rule"
)

// scraper adds up what the counters of resources increase by, as Prometheus does.
type scraper struct {
	registry  *prometheus.Registry
	last      map[string]sample
	increase  map[string]float64 // of each series, by values alone: a value below the one before is a reset
	byCreated float64            // of all, by created timestamps
}

type sample struct {
	value   float64
	created time.Time
}

func newScraper(registry *prometheus.Registry) *scraper {
	return &scraper{registry: registry, increase: map[string]float64{}}
}

// scrape returns what is wrong, if anything.
func (s *scraper) scrape() (fault string) {
	families, err := s.registry.Gather()
	if err != nil {
		return err.Error()
	}
	now := make(map[string]sample)
	for _, f := range families {
		if f.GetName() != "leapgate_entries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			name := fmt.Sprint(m.GetLabel())
			is := sample{m.GetCounter().GetValue(), m.GetCounter().GetCreatedTimestamp().AsTime()}
			before, there := s.last[name]
			switch {
			case there && is.created.Equal(before.created) && is.value < before.value:
				fault += fmt.Sprintf("%s went back from %v to %v; ", name, before.value, is.value)
			case there && is.value >= before.value:
				s.increase[name] += is.value - before.value
			default:
				s.increase[name] += is.value
			}
			if !is.created.Equal(before.created) {
				before.value = 0
			}
			s.byCreated += is.value - before.value
			now[name] = is
		}
	}
	s.last = now
	return fault
}

// Resources come and go. What a scraper adds up is never more than the calls, per series, if it knows
// resets by values alone. If it reads created timestamps, and often enough, it sees all calls.
func TestSeries_ScraperSeesEveryCallAndNoOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := gatetest.NewClock()
		g := gates.Small(t, c, rapid.IntRange(1, 4).Draw(t, "places"), flow.Rule{Resource: "named", Threshold: 1e6},
			flow.Rule{Resource: "*", Match: rule.Glob, Threshold: 3, Interval: time.Minute})
		s := newScraper(registryOf(t, g, leapprom.Config{}))
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "named", "other"})
		calls := 0.0
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				for range rapid.IntRange(1, 9).Draw(t, "calls") {
					call(g, name.Draw(t, "name"))
					calls++
				}
			},
			"time": func(t *rapid.T) {
				c.Advance(time.Duration(rapid.IntRange(1, 50).Draw(t, "seconds")) * time.Second)
				if fault := s.scrape(); fault != "" {
					t.Fatal(fault)
				}
				sum := 0.0
				for _, increase := range s.increase {
					sum += increase
				}
				if s.byCreated != calls || sum > calls {
					t.Fatalf("the scraper has seen %v calls, or %v by values alone; want %v", s.byCreated, sum, calls)
				}
			},
		})
	})
}

// The same with fewer series than resources, and with names that have the same label value.
func TestSeries_ScraperSeesNoCallsThatWereNotMade(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := gatetest.NewClock()
		g := gates.Small(t, c, rapid.IntRange(1, 4).Draw(t, "places"))
		s := newScraper(registryOf(t, g, leapprom.Config{MaxResources: rapid.IntRange(1, 3).Draw(t, "series")}))
		name := rapid.SampledFrom([]string{"a", "b", "c", "\xff", "\xfe", "\xfd"})
		calls := map[bool]float64{} // by whether the label value is that of several names
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				name := name.Draw(t, "name")
				for range rapid.IntRange(1, 9).Draw(t, "calls") {
					call(g, name)
					calls[name > "c"]++
				}
			},
			"rules": func(t *rapid.T) {
				if err := g.LoadFlowRules([]flow.Rule{{Resource: name.Draw(t, "name"), Threshold: 1e6}}); err != nil {
					t.Fatal(err)
				}
			},
			"scrape": func(t *rapid.T) {
				if fault := s.scrape(); fault != "" {
					t.Fatal(fault)
				}
				sum, several := 0.0, 0.0
				for name, increase := range s.increase {
					if sum += increase; strings.Contains(name, "\uFFFD") {
						several += increase
					}
				}
				if sum > calls[true]+calls[false] || several > calls[true] {
					t.Fatalf("the scraper has seen %v and %v calls of %v", sum, several, calls)
				}
			},
			"time": func(*rapid.T) { c.Advance(gatetest.Idle) },
		})
	})
}

// The series of a rule are what it has counted on the resource.
func TestSeries_RulesThatAreRemoved(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	registry := registryOf(t, g, leapprom.Config{})
	rules := []flow.Rule{{ID: "r", Resource: "a", Threshold: 0}, {ID: "idle", Resource: "a", Threshold: 9}}
	const r, idle = `blocks_total{guard="flow",resource="a",rule="r"}`, `blocks_total{guard="flow",resource="a",rule="idle"}`
	for range 2 {
		require.NoError(t, g.LoadFlowRules(rules))
		require.Equal(t, reading{r: 0, idle: 0}, scrape(t, registry).only("blocks_total"))
		call(g, "a")
		rules[0].Threshold = 0.5
		require.NoError(t, g.LoadFlowRules(rules))
		call(g, "a")
		require.Equal(t, reading{r: 2, idle: 0}, scrape(t, registry).only("blocks_total"))
		require.NoError(t, g.LoadFlowRules(nil))
		require.Empty(t, scrape(t, registry).only("blocks_total"))
	}
}

// A rule that no longer counts what is used has no such series.
func TestSeries_RuleThatStopsCountingWhatIsUsed(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10, flow.Rule{ID: "r", Resource: "a", Threshold: 9})
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	require.Equal(t, reading{`rule_used{guard="flow",resource="a",rule="r"}`: 1}, scrape(t, registry).only("rule_used"))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "a", Threshold: 9, Behavior: flow.Pace}}))
	require.Empty(t, scrape(t, registry).only("rule_used"))
}

// Beyond the cap, and unless a rule names them, resources have no series.
func TestSeries_ResourcesBeyondTheCap(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 3, flow.Rule{ID: "r", Resource: "named", Threshold: 9})
	registry := registryOf(t, g, leapprom.Config{MaxResources: 2})
	passes := func() reading {
		r := scrape(t, registry)
		some := r.only("resources", "evicted", "forgotten")
		for name, n := range r.only("entries_total") {
			if strings.Contains(name, "pass") {
				some[name] = n
			}
		}
		return some
	}
	for i, name := range []string{"z", "y", "a", "has no place", "named"} {
		for range i + 1 {
			call(g, name)
		}
		if name == "y" {
			scrape(t, registry)
		}
	}
	want := reading{
		`entries_total{resource="z",result="pass"}`:     1,
		`entries_total{resource="y",result="pass"}`:     2,
		`entries_total{resource="named",result="pass"}`: 5,
		`entries_total{resource="other",result="pass"}`: 4,
		`resources{}`:                 5,
		`resources_without_series{}`:  1,
		`evicted_resources_total{}`:   0,
		`forgotten_resources_total{}`: 0,
	}
	require.Equal(t, want, passes())

	// A rule that names one makes it visible, with all its calls.
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "a", Threshold: 9}}))
	want[`entries_total{resource="a",result="pass"}`] = 3
	want[`resources_without_series{}`] = 0
	require.Equal(t, want, passes())
}

// Readings while calls come, rules are loaded and resources come and go.
func TestSeries_HammerScrapesUnderLoad(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 4)
	var began atomic.Int64
	var calls, others sync.WaitGroup
	var over atomic.Bool
	for id := range 4 {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(id)))
			for !over.Load() {
				began.Add(1)
				call(g, strconv.Itoa(random.IntN(12)))
			}
		})
	}
	for range 2 {
		others.Go(func() {
			s := newScraper(registryOf(t, g, leapprom.Config{MaxResources: 5}))
			for range 40 {
				assert.Empty(t, s.scrape())
			}
			sum := 0.0
			for _, increase := range s.increase {
				sum += increase
			}
			assert.LessOrEqual(t, sum, float64(began.Load()))
		})
	}
	others.Go(func() {
		for i := range 100 {
			rules := []flow.Rule{
				{ID: "all", Resource: "*", Match: rule.Glob, Threshold: float64(i % 3)},
				{ID: strconv.Itoa(i % 5), Resource: strconv.Itoa(i % 12), Threshold: 1},
			}
			assert.NoError(t, g.LoadFlowRules(rules[:1+i%2]))
			c.Advance(gatetest.Idle)
			runtime.Gosched()
		}
	})
	others.Wait()
	over.Store(true)
	calls.Wait()
}
