package leapprom_test

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rule"
)

// The series of a rule stay when it is removed: would other show its blocks instead, they
// would look as if they had all come at once.
func TestSeries_RulesThatAreRemoved(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	registry := registryOf(t, g, leapprom.Config{})
	rules := []flow.Rule{
		{ID: "r", Resource: "a", Threshold: 0},
		{ID: "idle", Resource: "a", Threshold: 9},
		{ID: "other", Resource: "other", Threshold: 0}, // a name that is ours
	}
	blocks := func() reading { return scrape(t, registry).only("blocks_total", "rule_threshold") }
	require.NoError(t, g.LoadFlowRules(rules))
	call(g, "a")
	call(g, "a")
	call(g, "other")
	const r, other = `blocks_total{guard="flow",resource="a",rule="r"}`, `blocks_total{guard="flow",resource="other",rule="other"}`
	shown := reading{
		r: 2, other: 1,
		`blocks_total{guard="flow",resource="a",rule="idle"}`:   0,
		`rule_threshold{guard="flow",resource="a",rule="r"}`:    0,
		`rule_threshold{guard="flow",resource="a",rule="idle"}`: 9,
	}
	require.Equal(t, shown, blocks())
	require.NoError(t, g.LoadFlowRules(nil))
	for range 2 {
		require.Equal(t, reading{r: 2, other: 1}, blocks(), "one that blocked nothing is gone")
	}
	require.NoError(t, g.LoadFlowRules(rules))
	for range 3 {
		call(g, "a")
	}
	shown[r] = 5
	require.Equal(t, shown, blocks(), "it goes on")

	// Removed and loaded again between two readings.
	require.NoError(t, g.LoadFlowRules(nil))
	require.NoError(t, g.LoadFlowRules(rules))
	require.Equal(t, shown, blocks())
	call(g, "a")
	shown[r]++
	require.Equal(t, shown, blocks())
}

// Of the rules that a resource had, the last few keep their series.
func TestSeries_RulesThatComeAndGoAreBounded(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	registry := registryOf(t, g, leapprom.Config{})
	const loads = 50
	before := scrape(t, registry)
	for i := range loads {
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r" + strconv.Itoa(i), Resource: "a", Threshold: 0}}))
		call(g, "a")
		now := scrape(t, registry)
		require.Empty(t, checkNoneWentBack(before, now, 3))
		require.EqualValues(t, i+1, now.sum("blocks_total"))
		before = now
	}
	require.Len(t, before.only("blocks_total"), 5+1+1, "of those that are gone, of the one that is there, of other")
	require.Contains(t, before, `leapgate_blocks_total{guard="flow",resource="a",rule="r44"}`)
	require.EqualValues(t, loads-6, before[`leapgate_blocks_total{guard="flow",resource="other",rule="other"}`])
}

// Resources that a rule has named once, and none names any more, have a bound as well.
func TestSeries_ResourcesThatWereNamedAreBounded(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 2)
	registry := registryOf(t, g, leapprom.Config{MaxResources: 3})
	call(g, "first")
	before := scrape(t, registry)
	for i := range 50 {
		name := "r" + strconv.Itoa(i)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: name, Threshold: 0}}))
		c.Advance(gatetest.Idle)
		call(g, "first")
		call(g, name)
		now := scrape(t, registry)
		require.EqualValues(t, i+2, now.sum("entries_total", "pass"))
		require.EqualValues(t, i+1, now.sum("entries_total", "block"))
		require.EqualValues(t, i+1, now.sum("blocks_total"))
		other := `leapgate_entries_total{resource="other",result="block"}`
		require.GreaterOrEqual(t, now[other], before[other])
		require.LessOrEqual(t, len(now.only(`entries_total`))/2, 1+1+3+2, "first, that which is named, three that were, those in the gate, other")
		before = now
	}
	require.EqualValues(t, 51, before[`leapgate_entries_total{resource="first",result="pass"}`])
	require.EqualValues(t, 1, before[`leapgate_entries_total{resource="r48",result="block"}`])
	require.NotContains(t, before, `leapgate_entries_total{resource="r40",result="block"}`)

	// One that has lost its series and comes again begins anew.
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "r0", Threshold: 0}}))
	call(g, "r0")
	now := scrape(t, registry)
	require.EqualValues(t, 1, now[`leapgate_entries_total{resource="r0",result="block"}`])
	require.EqualValues(t, 51, now.sum("entries_total", "block"))
}

// checkNoneWentBack tells which counters went back from one reading to the next, or ended.
// Only the series of rules may end; and those of resources, if so many stay.
func checkNoneWentBack(before, now reading, stay int) (fault string) {
	mayEnd := len(now.only("exceptions_total")) >= stay
	for name, value := range before.only("entries_total", "exceptions", "occupied", "blocks", "would", "candidate", "response", "limiter_decisions") {
		next, there := now["leapgate_"+name]
		switch {
		case next < value && there:
			fault += name + " went back from " + strconv.FormatFloat(value, 'g', -1, 64) + " to " + strconv.FormatFloat(next, 'g', -1, 64) + "; "
		case !there && !mayEnd && !strings.Contains(name, "rule="):
			fault += name + " ended; "
		}
	}
	return fault
}

// refusedOnPaper is what rules in mode shadow and candidates have counted.
func refusedOnPaper(g *leapgate.Gate) (would, candidates float64) {
	for _, t := range g.Totals() {
		for i := range t.Rules {
			would += float64(t.Rules[i].WouldBlock)
			candidates += float64(t.Rules[i].CandidateWouldBlock)
		}
		for _, past := range t.FormerRules {
			would += float64(past.WouldBlock)
			candidates += float64(past.CandidateWouldBlock)
		}
	}
	return would, candidates
}

func TestSeries_NeverGoBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := gatetest.NewClock()
		g := gates.Small(t, c, rapid.IntRange(1, 4).Draw(t, "places"))
		cfg := leapprom.Config{MaxResources: rapid.IntRange(1, 4).Draw(t, "series")}
		registry := registryOf(t, g, cfg)
		long := strings.Repeat("x", 300)
		name := rapid.SampledFrom([]string{"a", "b", "c", "\xff", "\xfe", long, long + "y", "other"})
		var pass, block, completed float64
		before := scrape(t, registry)
		check := func(t *rapid.T) {
			now := scrape(t, registry)
			if fault := checkNoneWentBack(before, now, cfg.MaxResources+1); fault != "" {
				t.Fatal(fault)
			}
			would, candidates := refusedOnPaper(g)
			for what, pair := range map[string][2]float64{
				"passes":              {now.sum("entries_total", "pass"), pass},
				"blocks":              {now.sum("entries_total", "block"), block},
				"blocks of rules":     {now.sum("blocks_total"), block},
				"would-blocks":        {now.sum("would_blocks_total"), would},
				"candidates":          {now.sum("candidate_would_blocks_total"), candidates},
				"completed":           {now.sum("response_time_seconds_count"), completed},
				"completed, natively": {now.sum("response_time_seconds_native"), completed},
				"in flight":           {now.sum("entries_in_flight"), pass - completed},
			} {
				if pair[0] != pair[1] {
					t.Fatalf("%s: %v, want %v", what, pair[0], pair[1])
				}
			}
			for name, value := range now {
				if value < 0 {
					t.Fatalf("%s is %v", name, value)
				}
			}
			before = now
		}
		var open []interface{ Exit() }
		var weights []float64
		t.Repeat(map[string]func(*rapid.T){
			"scrape": check,
			"call": func(t *rapid.T) {
				n := rapid.Int64Range(1, 3).Draw(t, "n")
				e, err := g.EntryContext(t.Context(), name.Draw(t, "name"), leapgate.WithCount(n))
				if err != nil {
					block += float64(n)
					return
				}
				pass += float64(n)
				if rapid.Bool().Draw(t, "stays") {
					open, weights = append(open, &e), append(weights, float64(n))
					return
				}
				c.Advance(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "rt")))
				e.Exit()
				completed += float64(n)
			},
			"exit": func(*rapid.T) {
				for i := range open {
					open[i].Exit()
					completed += weights[i]
				}
				open, weights = nil, nil
			},
			"rules": func(t *rapid.T) {
				var rules []flow.Rule
				for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
					r := flow.Rule{
						ID: strconv.Itoa(i), Resource: name.Draw(t, "name"),
						Threshold: float64(rapid.IntRange(0, 2).Draw(t, "threshold")),
						Mode:      rapid.SampledFrom([]rule.Mode{rule.Enforce, rule.Shadow, rule.Off}).Draw(t, "mode"),
						Candidate: float64(rapid.IntRange(0, 1).Draw(t, "candidate")),
						Match:     rapid.SampledFrom([]rule.Match{rule.Exact, rule.Glob}).Draw(t, "match"),
					}
					if r.Match == rule.Glob {
						r.Resource = "*"
					}
					rules = append(rules, r)
				}
				if err := g.LoadFlowRules(rules); err != nil {
					t.Fatal(err)
				}
			},
			"isolation rules": func(t *rapid.T) {
				var rules []isolation.Rule
				for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
					r := isolation.Rule{
						ID: strconv.Itoa(i), Resource: name.Draw(t, "name"), MaxInFlight: rapid.Int64Range(1, 2).Draw(t, "places"),
						Mode: rapid.SampledFrom([]rule.Mode{rule.Enforce, rule.Shadow, rule.Off}).Draw(t, "mode"),
					}
					if rapid.Bool().Draw(t, "all") {
						r.Resource, r.Match = "*", rule.Glob
					}
					rules = append(rules, r)
				}
				if err := g.EditRules(func(all *leapgate.Rules) error {
					all.Isolation = rules
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			},
			"time": func(*rapid.T) { c.Advance(gatetest.Idle) },
			"collect": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "now") == 0 { // it takes its time
					runtime.GC()
				}
			},
		})
		check(t)
	})
}

// Readings while calls come, rules are loaded and resources come and go.
func TestSeries_HammerScrapesUnderLoad(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 4)
	registry := registryOf(t, g, leapprom.Config{MaxResources: 5})
	var passed, blocked atomic.Int64
	var calls, others sync.WaitGroup
	var over atomic.Bool
	for id := range 4 {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(id)))
			for !over.Load() {
				if call(g, strconv.Itoa(random.IntN(12))) {
					passed.Add(1)
				} else {
					blocked.Add(1)
				}
			}
		})
	}
	for range 2 {
		others.Go(func() {
			before := scrape(t, registry)
			for range 40 {
				now := scrape(t, registry)
				if !assert.Empty(t, checkNoneWentBack(before, now, 5+1)) {
					return
				}
				before = now
			}
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
	end := scrape(t, registry)
	require.EqualValues(t, passed.Load(), end.sum("entries_total", "pass"))
	require.EqualValues(t, blocked.Load(), end.sum("entries_total", "block"))
	require.EqualValues(t, blocked.Load(), end.sum("blocks_total"))
	require.EqualValues(t, passed.Load(), end.sum("response_time_seconds_count"))
}
