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

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// Beyond the cap, and unless a rule names them, resources are in other.
func TestOther_ResourcesBeyondTheCap(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(t, c, 10, flow.Rule{ID: "r", Resource: "named", Threshold: 1, Interval: time.Minute})
	registry := registryOf(t, g, leapprom.Config{MaxResources: 2})
	for _, name := range []string{"a", "b"} {
		call(g, name)
	}
	scrape(t, registry)
	for _, name := range []string{"c", "a", "d", "d", "named", "named"} {
		call(g, name)
	}
	want := reading{
		`entries_total{resource="a",result="pass"}`:     2,
		`entries_total{resource="b",result="pass"}`:     1,
		`entries_total{resource="named",result="pass"}`: 1,
		`entries_total{resource="other",result="pass"}`: 3,
	}
	passes := func() reading {
		some := scrape(t, registry).only("entries_total")
		for name := range some {
			if !strings.Contains(name, "pass") {
				delete(some, name)
			}
		}
		return some
	}
	require.Equal(t, want, passes())

	// A rule that names one makes it visible, from then on.
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "d", Threshold: 1, Interval: time.Minute}}))
	want[`entries_total{resource="d",result="pass"}`] = 0
	require.Equal(t, want, passes())
	call(g, "d")
	call(g, "c")
	want[`entries_total{resource="d",result="pass"}`]++
	want[`entries_total{resource="other",result="pass"}`]++
	require.Equal(t, want, passes())
	r := scrape(t, registry)
	require.EqualValues(t, 1, r[`leapgate_response_time_seconds_count{resource="d"}`])
	require.EqualValues(t, 4, r[`leapgate_response_time_seconds_count{resource="other"}`])
}

// A resource that is evicted keeps its series; they go on when it comes again.
func TestOther_EvictedResources(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(t, c, 1, flow.Rule{ID: "all", Resource: "*", Match: flow.Glob, Threshold: 2, Interval: time.Minute})
	registry := registryOf(t, g, leapprom.Config{})
	two := func(name string) {
		for range 3 {
			call(g, name)
		}
	}
	two("a")
	scrape(t, registry)
	require.False(t, call(g, "a")) // a block that nobody reads before a is gone
	c.advance(idle)
	two("b")
	c.advance(idle)
	two("a")
	require.Equal(t, reading{
		`entries_total{resource="a",result="pass"}`:                4,
		`entries_total{resource="a",result="block"}`:               2,
		`entries_total{resource="other",result="pass"}`:            2,
		`entries_total{resource="other",result="block"}`:           2,
		`blocks_total{guard="flow",resource="a",rule="all"}`:       2,
		`blocks_total{guard="flow",resource="other",rule="all"}`:   0,
		`blocks_total{guard="flow",resource="other",rule="other"}`: 2,
		`response_time_seconds_count{resource="a"}`:                4,
		`response_time_seconds_native{resource="a",i=zero}`:        4,
		`response_time_seconds_native{resource="other",i=zero}`:    2,
		`response_time_seconds_count{resource="other"}`:            2,
		`entries_in_flight{resource="a"}`:                          0,
		`entries_in_flight{resource="other"}`:                      0,
	}, without(scrape(t, registry).only("entries", "blocks", "response_time_seconds_count", "response_time_seconds_native")))
}

// without gives those that are shown whatever happens.
func without(r reading) reading {
	for name := range r {
		if strings.HasPrefix(name, "would") || strings.HasPrefix(name, "candidate") {
			delete(r, name)
		}
	}
	return r
}

// The series of a rule stay when it is removed: would other show its blocks instead, they
// would look as if they had all come at once.
func TestSeries_RulesThatAreRemoved(t *testing.T) {
	t.Parallel()
	g := newGate(t, newClock(), 10)
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
	g := newGate(t, newClock(), 10)
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
	c := newClock()
	g := newGate(t, c, 2)
	registry := registryOf(t, g, leapprom.Config{MaxResources: 3})
	call(g, "first")
	before := scrape(t, registry)
	for i := range 50 {
		name := "r" + strconv.Itoa(i)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: name, Threshold: 0}}))
		c.advance(idle)
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

// Names of all kinds, and those that look alike as labels.
func TestLabels_HostileNames(t *testing.T) {
	t.Parallel()
	g := newGate(t, newClock(), 100)
	registry := registryOf(t, g, leapprom.Config{})
	long := strings.Repeat("ab", 512)
	names := []string{
		`<script>alert("1")</script>`, "two\nlines", `back\slash"quote`, "tab\tand\x00nul", "\xff\xfe", "\xff", "a\x80b",
		long, long[:1023] + "z", strings.Repeat("é", 512), strings.Repeat("\xff", 1024), strings.Repeat("é", 127) + "ab", "other…",
	}
	var rules []flow.Rule
	for _, name := range names {
		rules = append(rules, flow.Rule{Resource: name, Threshold: 1, Interval: time.Minute})
	}
	require.NoError(t, g.LoadFlowRules(rules))
	for _, name := range names {
		require.True(t, call(g, name))
		require.False(t, call(g, name))
	}
	require.Error(t, func() error { _, err := g.Entry(strings.Repeat("x", 10<<10)); return err }())

	text, err := testutil.GatherAndFormat(registry, expfmt.TypeTextPlain)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		require.Less(t, len(line), 2_000)
	}
	r := scrape(t, registry)
	require.EqualValues(t, len(names), r.sum("entries_total", "pass"))
	require.EqualValues(t, len(names), r.sum("blocks_total"))
	// \xff\xfe and \xff are one label, and so are the two that begin with long, and the
	// two that begin with é: the second of each is in other.
	require.EqualValues(t, 3, r[`leapgate_entries_total{resource="other",result="pass"}`])
	require.EqualValues(t, 3, r[`leapgate_blocks_total{guard="flow",resource="other",rule="other"}`])
	for name := range r.only("entries_total") {
		require.LessOrEqual(t, len(name), len(`entries_total{resource="",result="block"}`)+255+40)
	}
	require.Contains(t, r, `leapgate_entries_total{resource="`+long[:252]+`…",result="pass"}`)
	require.Contains(t, r, `leapgate_entries_total{resource="a�b",result="pass"}`)
}

// Rules of one resource whose IDs look alike as labels.
func TestLabels_RulesThatLookAlike(t *testing.T) {
	t.Parallel()
	g := newGate(t, newClock(), 10)
	registry := registryOf(t, g, leapprom.Config{})
	rules := []flow.Rule{
		{ID: "r\xff", Resource: "a", Threshold: 5, Interval: time.Minute, Mode: flow.Shadow},
		{ID: "r\xfe", Resource: "a", Threshold: 3, Interval: time.Minute},
	}
	for i := range 3 {
		require.NoError(t, g.LoadFlowRules(rules))
		for range 4 {
			call(g, "a")
		}
		r := scrape(t, registry)
		require.EqualValues(t, i*4+1, r.sum("blocks_total"), "%v", r.only("blocks"))
		require.Len(t, r.only("rule_threshold"), 1)
	}
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
		for _, past := range t.Past {
			would += float64(past.WouldBlock)
			candidates += float64(past.CandidateWouldBlock)
		}
	}
	return would, candidates
}

func TestSeries_NeverGoBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		g := newGate(t, c, rapid.IntRange(1, 4).Draw(t, "places"))
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
				c.advance(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "rt")))
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
						Mode:      rapid.SampledFrom([]flow.Mode{flow.Enforce, flow.Shadow, flow.Off}).Draw(t, "mode"),
						Candidate: float64(rapid.IntRange(0, 1).Draw(t, "candidate")),
						Match:     rapid.SampledFrom([]flow.Match{flow.Exact, flow.Glob}).Draw(t, "match"),
					}
					if r.Match == flow.Glob {
						r.Resource = "*"
					}
					rules = append(rules, r)
				}
				if err := g.LoadFlowRules(rules); err != nil {
					t.Fatal(err)
				}
			},
			"time": func(*rapid.T) { c.advance(idle) },
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
	c := newClock()
	g := newGate(t, c, 4)
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
				{ID: "all", Resource: "*", Match: flow.Glob, Threshold: float64(i % 3)},
				{ID: strconv.Itoa(i % 5), Resource: strconv.Itoa(i % 12), Threshold: 1},
			}
			assert.NoError(t, g.LoadFlowRules(rules[:1+i%2]))
			c.advance(idle)
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

// What its rules blocked before it got series stays in other.
func TestOther_RulesOfAResourceThatGetsSeries(t *testing.T) {
	t.Parallel()
	rules := []flow.Rule{{ID: "all", Resource: "*", Match: flow.Glob, Threshold: 0}}
	g := newGate(t, newClock(), 10, rules...)
	registry := registryOf(t, g, leapprom.Config{MaxResources: 1})
	call(g, "a")
	call(g, "b")
	want := reading{
		`blocks_total{guard="flow",resource="a",rule="all"}`:       1,
		`blocks_total{guard="flow",resource="other",rule="all"}`:   0,
		`blocks_total{guard="flow",resource="other",rule="other"}`: 1,
	}
	require.Equal(t, want, scrape(t, registry).only("blocks"))
	require.NoError(t, g.LoadFlowRules(append(rules, flow.Rule{ID: "b", Resource: "b", Threshold: 9})))
	want[`blocks_total{guard="flow",resource="b",rule="all"}`] = 0
	want[`blocks_total{guard="flow",resource="b",rule="b"}`] = 0
	require.Equal(t, want, scrape(t, registry).only("blocks"))
	call(g, "b")
	want[`blocks_total{guard="flow",resource="b",rule="all"}`]++
	require.Equal(t, want, scrape(t, registry).only("blocks"))
}

// twins is a guard whose checks all have one ID, which it should not.
type twins struct{ blocked *[2]int64 }

func (twins) Kind() string { return "twins" }

func (w twins) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	cause := &resource.Cause{Resource: name, Kind: "twins", RuleID: "t"}
	return []resource.Check{twin{cause: cause, blocked: &w.blocked[0]}, twin{cause: cause, blocked: &w.blocked[1]}}, false
}

type twin struct {
	resource.Check
	cause   *resource.Cause
	blocked *int64
}

func (t twin) Cause() *resource.Cause           { return t.cause }
func (twin) Mode() stat.Mode                    { return stat.Off }
func (twin) Waits() bool                        { return false }
func (twin) Interval() time.Duration            { return 0 }
func (t twin) Snapshot(int64) stat.RuleSnapshot { return stat.RuleSnapshot{Blocked: *t.blocked} }

func TestOther_RulesOfOneID(t *testing.T) {
	t.Parallel()
	blocked := &[2]int64{5, 3}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{twins{blocked}}})
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	for range 3 {
		require.Equal(t, reading{
			`blocks_total{guard="twins",resource="a",rule="t"}`:         float64(blocked[0]),
			`blocks_total{guard="twins",resource="other",rule="other"}`: float64(blocked[1]),
		}, scrape(t, registry).only("blocks"))
		blocked[0]++
		blocked[1] += 4
	}
}
