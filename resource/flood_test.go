package resource_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// A name that is called during a flood keeps its limit, and all names without a place share one.
func TestFlood_LiftsNoLimit(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 100, daily(10))
	require.Equal(t, 10, pass(t, g, "user", 11))
	for range 20 {
		c.Advance(59 * time.Minute)
		flood(t, g, 300)
		require.Zero(t, pass(t, g, "user", 1))
	}
	require.EqualValues(t, 10, gates.Snapshot(t, g, resource.Other).Pass)
	require.Zero(t, gates.Snapshot(t, g, "user").Pass-10)
}

// A flood keeps new names from limits of their own for a minute, or for the interval of their rules, but
// for no more than an hour.
func TestFlood_LocksNewNamesOutForAnHourAtMost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		interval, locked time.Duration
		forgotten        int64
	}{
		{time.Second, time.Minute, 0},
		{time.Minute, time.Minute, 0},
		{time.Hour, time.Hour, 0},
		{24 * time.Hour, time.Hour, 1},
	} {
		c := gatetest.NewClock()
		rule := daily(1)
		rule.Interval, rule.Buckets = test.interval, 1
		g := gates.Small(t, c, 100, rule)
		flood(t, g, 200)
		c.Advance(test.locked - 1)
		require.Equal(t, test.interval < test.locked, gates.Enter(t, g, "user"))
		require.NotContains(t, names(g), "user")
		c.Advance(gatetest.Idle - time.Minute + 1)
		require.True(t, gates.Enter(t, g, "user"), test.interval)
		require.Contains(t, names(g), "user")
		require.Equal(t, resource.Evictions{Evicted: 1, Forgotten: test.forgotten}, g.Evictions())
	}
}

// A call that waits keeps the place of its resource, as one in flight does.
func TestFlood_CallsThatWaitKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{MaxResources: 1})
		require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{Match: rule.Default, MaxInFlight: 1, MaxWait: time.Hour}}))
		first, err := g.Entry("waits")
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			e, err := g.Entry("waits")
			assert.NoError(t, err)
			e.Exit()
		})
		time.Sleep(10 * time.Minute)
		flood(t, g, 20)
		require.Equal(t, []string{resource.Other, "waits"}, names(g))
		first.Exit()
		wg.Wait()
		s := gates.Snapshot(t, g, "waits")
		require.Equal(t, []int64{2, 2, 1}, []int64{s.Pass, s.Success, s.Waits})
		require.Equal(t, 10*time.Minute, s.WaitTime)
	})
}

// counting counts how often it is asked for the checks of a name.
type counting struct {
	*scripted
	bound *int
}

func (c counting) Bind(name string, old []resource.Check) ([]resource.Check, bool) {
	*c.bound++
	return c.scripted.Bind(name, old)
}

// Finding the rules of a name may take long, so it is not done for names that find no place.
func TestFlood_LooksForNoRulesOfNamesWithoutAPlace(t *testing.T) {
	t.Parallel()
	bound := 0
	guard := counting{&scripted{checks: []*scriptedCheck{{id: "a", mode: rule.Shadow}}}, &bound}
	g := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now, MaxResources: 10, Guards: []resource.Guard{guard}})
	flood(t, g, 100)
	require.Equal(t, 1+10, bound, "other, and each that has a place")
}

// Calls of more names than there are places, from many goroutines: no name passes more often than its
// rule admits, but for what other admits.
func TestFlood_Hammer(t *testing.T) {
	t.Parallel()
	const goroutines, places, resources, threshold = 8, 8, 40, 20
	calls := gatetest.Rounds(4000)
	g := gates.Small(t, gatetest.NewClock(), places, daily(threshold))
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
	total := int64(0)
	for k := range passed {
		total += passed[k].Load()
		if g.Lookup(strconv.Itoa(k)) != nil {
			require.EqualValues(t, threshold, passed[k].Load())
		}
	}
	require.EqualValues(t, (places+1)*threshold, total)
	require.Zero(t, g.Evictions())
}
