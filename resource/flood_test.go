package resource_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// daily admits so many calls a day of each name.
func daily(threshold float64) flow.Rule {
	return flow.Rule{ID: "daily", Resource: "*", Match: rule.Glob, Threshold: threshold, Interval: 24 * time.Hour}
}

// pass calls a name so often, and returns how often it passes.
func pass(t testing.TB, g *leapgate.Gate, name string, calls int) (passed int) {
	t.Helper()
	for range calls {
		if gates.Enter(t, g, name) {
			passed++
		}
	}
	return passed
}

// flood calls so many names that nobody has called before.
func flood(t testing.TB, g *leapgate.Gate, names int) {
	t.Helper()
	for range names {
		gates.Enter(t, g, "flood "+strconv.FormatInt(flooded.Add(1), 10))
	}
}

var flooded atomic.Int64

func TestFlood_DoesNotLockNewNamesOut(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 100, daily(10))
	for i := range gatetest.Rounds(50) {
		flood(t, g, 200)
		require.Equal(t, 10, pass(t, g, "user "+strconv.Itoa(i), 12))
	}
	require.Zero(t, gates.Snapshot(t, g, resource.Other).Block)
}

// Not even with names that no rule binds.
func TestFlood_OfNamesWithoutRulesDoesNotLockNewNamesOut(t *testing.T) {
	t.Parallel()
	rule := daily(10)
	rule.Resource = "user *"
	g := gates.Small(t, gatetest.NewClock(), 100, rule)
	for i := range gatetest.Rounds(50) {
		flood(t, g, 200)
		require.Equal(t, 10, pass(t, g, "user "+strconv.Itoa(i), 12))
	}
	require.Zero(t, gates.Snapshot(t, g, resource.Other).Block)
}

func TestFlood_ResetsNobodysLimit(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 100, daily(10))
	require.Equal(t, 10, pass(t, g, "user", 11))
	for range 20 {
		c.Advance(time.Hour)
		flood(t, g, gatetest.Rounds(1000))
		require.Zero(t, pass(t, g, "user", 1))
	}
	e := g.Evictions()
	require.Positive(t, e.Forgotten, "so many cannot be remembered")
	require.Equal(t, e.Forgotten, e.ForgottenCalls, "those that were called once went first")
	require.LessOrEqual(t, e.Remembered, 1000)
	c.Advance(24 * time.Hour)
	require.Equal(t, 10, pass(t, g, "user", 11))
}

// sleeps notes how long calls wait, on a clock that goes on meanwhile.
type sleeps struct {
	*gatetest.Clock
	slept []time.Duration
}

func (s *sleeps) sleep(_ context.Context, d time.Duration) error {
	s.slept = append(s.slept, d)
	s.Advance(d)
	return nil
}

// A gate with few places decides as one that has a place for every name, whatever the rules
// remember, and whatever is loaded meanwhile.
func TestFlood_FewPlacesDecideAsMany(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few, many := &sleeps{Clock: gatetest.NewClock()}, &sleeps{Clock: gatetest.NewClock()}
		newGate := func(s *sleeps, places int) *leapgate.Gate {
			return leapgate.Must(leapgate.Config{Now: s.Now, Sleep: s.sleep, MaxResources: places})
		}
		gates := []*leapgate.Gate{newGate(few, rapid.IntRange(1, 3).Draw(t, "places")), newGate(many, 1000)}
		loads := 0
		rule := func(t *rapid.T) flow.Rule {
			r := flow.Rule{
				ID: strconv.Itoa(loads), Resource: rapid.SampledFrom([]string{"*", "?", "[a-e]"}).Draw(t, "pattern"), Match: rule.Glob,
				Threshold: float64(rapid.IntRange(1, 6).Draw(t, "threshold")),
				Interval:  time.Duration(rapid.SampledFrom([]int{1, 60, 3600}).Draw(t, "s")) * time.Second,
				Strict:    rapid.Bool().Draw(t, "strict"),
			}
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				r.Behavior, r.Strict = flow.Pace, false
				r.MaxWait = r.Interval * time.Duration(rapid.IntRange(0, 2).Draw(t, "wait"))
			case 1:
				r.Candidate = 2
			}
			if rapid.IntRange(0, 2).Draw(t, "warms up") == 0 {
				r.Strategy, r.WarmUpPeriod = flow.WarmUp, time.Minute
				r.ColdFactor = rapid.SampledFrom([]float64{1.1, 2, 3, 20}).Draw(t, "cold factor")
			}
			return r
		}
		var rules []flow.Rule
		load := func(t *rapid.T) {
			if loads++; loads == 1 || rapid.Bool().Draw(t, "others") {
				rules = []flow.Rule{rule(t)}
				if rapid.Bool().Draw(t, "long") { // nothing is forgotten then because it is idle
					long := daily(1e6)
					long.ID = "long" + strconv.Itoa(loads)
					rules = append(rules, long)
				}
			} else { // the same with another threshold
				rules = slices.Clone(rules)
				rules[0].Threshold = float64(rapid.IntRange(1, 6).Draw(t, "another threshold"))
			}
			loaded := rules
			if rapid.Bool().Draw(t, "exact") {
				loaded = append(slices.Clone(rules), flow.Rule{ID: "exact" + strconv.Itoa(loads), Resource: "c", Threshold: 2, Interval: time.Minute})
			}
			for _, g := range gates {
				if err := g.LoadFlowRules(loaded); err != nil {
					t.Fatal(err)
				}
			}
		}
		load(t)
		call := func(t *rapid.T) {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "name")
			n := rapid.Int64Range(1, 2).Draw(t, "n")
			opts := []leapgate.EntryOption{leapgate.WithCount(n)}
			if rapid.IntRange(0, 4).Draw(t, "priority") == 0 {
				opts = append(opts, leapgate.WithPriority())
			}
			var said [2]string
			for i, g := range gates {
				e, err := g.EntryContext(t.Context(), name, opts...)
				e.Exit()
				said[i] = fmt.Sprint(err)
			}
			if said[0] != said[1] {
				t.Fatalf("%s: with few places %s, with many %s", name, said[0], said[1])
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"call": call, "call again": call, "call once more": call,
			"load": load,
			"time": func(t *rapid.T) {
				d := time.Duration(rapid.SampledFrom([]int64{1, 1e8, 1e9, 3e10, 18e11, 36e11}).Draw(t, "ns"))
				few.Advance(d)
				many.Advance(d)
			},
			"": func(t *rapid.T) {
				if fmt.Sprint(few.slept) != fmt.Sprint(many.slept) {
					t.Fatalf("with few places they slept %v, with many %v", few.slept, many.slept)
				}
			},
		})
	})
}

// The figures of a resource that comes again begin anew, but for those of rules that are
// remembered; and the sum over all is what was counted.
func TestFlood_FiguresOfAResourceThatComesAgain(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 1, daily(2))
	blocked := int64(0)
	var serial int64
	for i := range 5 {
		pass(t, g, "user", 3)
		blocked += 3
		if i == 0 {
			blocked -= 2
		}
		s := gates.Snapshot(t, g, "user")
		require.Equal(t, min(blocked, 3), s.Block)
		require.Equal(t, []int64{2, blocked}, []int64{s.Rules[0].Admitted, s.Rules[0].Blocked})
		require.Equal(t, blocked, sumsOf(g.Totals()).rules["flow"].Blocked)
		now := totalsOf(t, g, "user")
		require.Len(t, now.RuleSerials, 1)
		if i == 0 {
			serial = now.RuleSerials[0]
		}
		require.Equal(t, serial, now.RuleSerials[0])
		if i == 2 {
			require.NoError(t, g.LoadFlowRules([]flow.Rule{daily(1)}))
			require.Equal(t, blocked, sumsOf(g.Totals()).rules["flow"].Blocked)
		}
		flood(t, g, 1)
		require.NotContains(t, names(g), "user")
		collect(t, g)
		require.Equal(t, blocked, sumsOf(g.Totals()).rules["flow"].Blocked)
		require.Equal(t, blocked, totalsOf(t, g, resource.Other).FormerBySerial[serial].Blocked)
	}
	pass(t, g, "user", 3)
	require.NoError(t, g.LoadFlowRules(nil))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{daily(1)}))
	pass(t, g, "user", 3)
	now := totalsOf(t, g, "user")
	require.Greater(t, now.RuleSerials[0], serial, "it was removed and loaded again")
	require.EqualValues(t, 2, now.Rules[0].Blocked)
}

// What was loaded while a name had no place holds for it, and goes on where it left off.
func TestFlood_RulesAreLoadedMeanwhile(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 1, daily(2))
	require.Equal(t, 2, pass(t, g, "user", 3))
	flood(t, g, 1)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{daily(5)}))
	require.Equal(t, 3, pass(t, g, "user", 9))
	flood(t, g, 1)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{daily(6), {ID: "named", Resource: "user", Threshold: 100}}))
	require.Equal(t, 1, pass(t, g, "user", 9))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{daily(7)}))
	require.Equal(t, 1, pass(t, g, "user", 9))
	require.NoError(t, g.LoadFlowRules(nil))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "other", Resource: "u*", Match: rule.Glob, Threshold: 4}}))
	require.Equal(t, 4, pass(t, g, "user", 9))
}

// Handles find back as names do.
func TestFlood_HandleOfANameThatIsRemembered(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 1, daily(2))
	user := g.Resource("user")
	for i := range 4 {
		e, err := user.Entry()
		e.Exit()
		require.Equal(t, i < 2, err == nil)
		flood(t, g, 1)
	}
}

// A name with a call inside, or one that waits to be let in, keeps its place; new names are served by other
// then.
func TestFlood_CallsInFlightAndWaitingKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{MaxResources: 2})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{daily(9)}))
		require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{Match: rule.Default, MaxInFlight: 1, MaxWait: time.Hour}}))
		inside, err := g.Entry("inside")
		require.NoError(t, err)
		entered := make(chan resource.Entry, 1)
		first, err := g.Entry("waits")
		require.NoError(t, err)
		go func() {
			e, err := g.Entry("waits")
			if err == nil {
				e.Exit()
			}
			close(entered)
		}()
		synctest.Wait()
		flood(t, g, 20)
		require.Equal(t, []string{"inside", resource.Other, "waits"}, names(g))
		require.Equal(t, []int64{9, 11}, []int64{gates.Snapshot(t, g, resource.Other).Pass, gates.Snapshot(t, g, resource.Other).Block})
		first.Exit()
		inside.Exit()
		<-entered
		flood(t, g, 20)
		require.EqualValues(t, 11, gates.Snapshot(t, g, resource.Other).Block, "they all got a place")
	})
}

// slowly is a guard that takes its time to bind a new name.
type slowly struct {
	scripted
	clock *gatetest.Clock
	takes time.Duration
	bound int
}

func (s *slowly) Bind(name string, old []resource.Check) ([]resource.Check, bool) {
	s.clock.Advance(s.takes)
	s.bound++
	return s.scripted.Bind(name, old)
}

// However long it takes to find the rules of a new name, that takes no more than a quarter of
// a processor when all places are taken. Those that come too fast are served by other.
func TestFlood_OfNamesWhoseRulesAreHardToFind(t *testing.T) {
	t.Parallel()
	const takes, step = 10 * time.Millisecond, 100 * time.Microsecond
	c := gatetest.NewClock()
	guard := &slowly{scripted: scripted{checks: []*scriptedCheck{{id: "a", mode: rule.Shadow}}}, clock: c, takes: takes}
	g := leapgate.Must(leapgate.Config{Now: c.Now, MaxResources: 10, Guards: []resource.Guard{guard}})
	flood(t, g, 10)
	require.Equal(t, 11, guard.bound, "as long as there are free places, every name gets one")
	guard.bound = 0
	start := c.Now()
	for c.Now()-start < int64(10*time.Second) {
		flood(t, g, 1)
		c.Advance(step)
	}
	require.InDelta(t, 10*time.Second/4/takes, guard.bound, 12, "and ten at once")
	require.EqualValues(t, guard.bound, g.Evictions().Evicted)

	// A clock that goes back locks nobody out.
	c.Advance(-time.Hour)
	guard.bound = 0
	flood(t, g, 1)
	require.Equal(t, 1, guard.bound)
}

// Calls of more names than there are places, from many goroutines: no name gets more than
// its rule admits, but for what other admits, and all that it may.
func TestFlood_Hammer(t *testing.T) {
	t.Parallel()
	const goroutines, resources, threshold = 8, 40, 20
	calls := gatetest.Rounds(4000)
	g := gates.Small(t, gatetest.NewClock(), 8, daily(threshold))
	var passed [resources]atomic.Int64
	var wg sync.WaitGroup
	for id := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(id)))
			for range calls {
				k := random.IntN(resources)
				e, err := g.Entry(strconv.Itoa(k))
				if err == nil {
					passed[k].Add(1)
				}
				e.Exit()
			}
		})
	}
	wg.Wait()
	beyond := int64(0)
	for k := range passed {
		n := passed[k].Load()
		beyond += max(0, n-threshold)
		passed[k].Store(n + int64(pass(t, g, strconv.Itoa(k), 2*threshold)))
		require.GreaterOrEqual(t, passed[k].Load(), int64(threshold))
	}
	require.LessOrEqual(t, beyond, int64(threshold), "what other admits")
	require.Zero(t, g.Evictions().Forgotten)
	sum := sumsOf(g.Totals())
	total := int64(0)
	for k := range passed {
		total += passed[k].Load()
	}
	require.Equal(t, total, sum.counts[0])
	require.LessOrEqual(t, total, int64((resources+1)*threshold))
}
