package resource_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

func names(g *leapgate.Gate) (names []string) {
	for _, s := range g.Snapshot() {
		names = append(names, s.Resource)
	}
	return names
}

func TestEviction_OtherServesNewNamesWhileAllPlacesAreInUse(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 2)
	for _, name := range []string{"a", "b", "c", "d", "c"} {
		require.True(t, gates.Enter(t, g, name))
	}
	require.Equal(t, []string{"a", "b", resource.Other}, names(g))
	require.Equal(t, int64(3), gates.Snapshot(t, g, resource.Other).Pass)
}

func TestEviction_IdleResourcesGiveWay(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 2)
	for _, name := range []string{"a", "a", "b"} {
		require.True(t, gates.Enter(t, g, name))
	}
	c.Advance(gatetest.Idle - 1)
	require.True(t, gates.Enter(t, g, "too early"))
	require.Equal(t, []string{"a", "b", resource.Other}, names(g))
	c.Advance(1)
	require.True(t, gates.Enter(t, g, "c"))
	require.True(t, gates.Enter(t, g, "d"))
	require.Equal(t, []string{"c", "d", resource.Other}, names(g))
	s := gates.Snapshot(t, g, resource.Other)
	require.Equal(t, []int64{1, 1, 0}, []int64{s.Pass, s.Success, s.Concurrency}, "too early")
	require.EqualValues(t, 1, gates.Snapshot(t, g, "c").Pass)
}

func TestEviction_NotWhileACallIsInFlight(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1)
	e, err := g.Entry("a")
	require.NoError(t, err)
	c.Advance(time.Hour)
	require.True(t, gates.Enter(t, g, "b"))
	require.Equal(t, []string{"a", resource.Other}, names(g))
	e.Exit()
	c.Advance(gatetest.Idle)
	require.True(t, gates.Enter(t, g, "b"))
	require.Equal(t, []string{"b", resource.Other}, names(g))
}

func TestEviction_NeverOfResourcesThatARuleNames(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1, flow.Rule{Resource: "guarded", Threshold: 1}, flow.Rule{Resource: "off", Threshold: 1, Mode: rule.Off})
	for i := range 100 {
		require.True(t, gates.Enter(t, g, strconv.Itoa(i)))
		c.Advance(time.Hour)
	}
	require.Equal(t, []string{"99", "guarded", "off"}, names(g))
	require.True(t, gates.Enter(t, g, "guarded"))
	require.False(t, gates.Enter(t, g, "guarded"))

	// Without its rule, a resource takes a place like any other, and may be evicted.
	require.NoError(t, g.LoadFlowRules(nil))
	c.Advance(time.Hour)
	for i := range 4 {
		require.True(t, gates.Enter(t, g, "new"+strconv.Itoa(i)))
		c.Advance(time.Hour)
	}
	require.Equal(t, []string{"new3"}, names(g))
}

func TestEviction_RuleLoadedBeforeTheFirstCallFindsAPlaceWhenAllAreTaken(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 1)
	require.True(t, gates.Enter(t, g, "a"))
	require.True(t, gates.Enter(t, g, "b"))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "b", Threshold: 1}}))
	require.True(t, gates.Enter(t, g, "b"))
	require.False(t, gates.Enter(t, g, "b"))
	require.Equal(t, int64(1), gates.Snapshot(t, g, "b").Pass)
}

// Rules whose names change at every load do not make places without bound.
func TestEviction_OfResourcesThatNoRuleNamesAnyMore(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{0, gatetest.Idle} {
		c := gatetest.NewClock()
		g := gates.Small(t, c, 10)
		for i := range 1000 {
			name := "tenant " + strconv.Itoa(i)
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: name, Threshold: 1}}))
			require.True(t, gates.Enter(t, g, name))
			c.Advance(step)
		}
		if step == 0 { // none was idle, so none could be evicted
			require.Len(t, g.Snapshot(), 1000)
			c.Advance(gatetest.Idle)
			for range 1000 / 8 {
				require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "tenant 0", Threshold: 1}}))
				require.NoError(t, g.LoadFlowRules(nil))
			}
		}
		require.LessOrEqual(t, len(g.Snapshot()), 10+2)
	}
}

func TestEviction_OfTheVeryResourceWhoseRuleIsRemoved(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1, flow.Rule{Resource: "b", Threshold: 1}, flow.Rule{Resource: "c", Threshold: 1})
	e, err := g.Entry("a")
	require.NoError(t, err)
	defer e.Exit()
	require.True(t, gates.Enter(t, g, "b"))
	c.Advance(gatetest.Idle)
	require.NoError(t, g.LoadFlowRules(nil))
	require.Equal(t, []string{"a"}, names(g))
	for range 2 {
		require.True(t, gates.Enter(t, g, "b"))
		require.True(t, gates.Enter(t, g, "c"))
	}
	require.EqualValues(t, 4, gates.Snapshot(t, g, resource.Other).Pass)
}

func TestEviction_HandleAttachesAgain(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1)
	a := g.Resource("a")
	e, err := a.Entry()
	require.NoError(t, err)
	e.Exit()

	c.Advance(gatetest.Idle)
	require.True(t, gates.Enter(t, g, "b"))
	require.Zero(t, a.QPS(metric.Pass))
	require.Equal(t, stat.Snapshot{Resource: "a", At: time.Unix(0, c.Now())}, a.Snapshot())
	require.Nil(t, a.History())

	c.Advance(gatetest.Idle)
	e, err = a.Entry() // takes the place of b
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, 1.0, a.QPS(metric.Pass))
	require.Equal(t, []string{"a"}, names(g))

	// While another resource has the name, the old handle works on that one.
	c.Advance(gatetest.Idle)
	require.True(t, gates.Enter(t, g, "b"))
	c.Advance(gatetest.Idle)
	require.True(t, gates.Enter(t, g, "a")) // registers a second resource of this name
	for range 3 {
		e, err = a.Entry()
		require.NoError(t, err)
		e.Exit()
	}
	require.Equal(t, int64(4), gates.Snapshot(t, g, "a").Pass)
	require.Equal(t, int64(4), a.Snapshot().Pass)
	require.Equal(t, 4.0, a.QPS(metric.Pass))
	require.Equal(t, int64(4), a.Recent().Count())
	require.Equal(t, int64(4), a.Minute().Count())
	require.Equal(t, int64(4), a.History()[60].Pass)

	// Rules that are loaded for the name bind the old handle too.
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 0}}))
	_, err = a.Entry()
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}

func TestEviction_HandleOfANameWithoutAPlaceIsServedByOther(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 1)
	require.True(t, gates.Enter(t, g, "a"))
	b := g.Resource("b")
	require.Equal(t, "b", b.Name())
	e, err := b.Entry()
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, int64(1), gates.Snapshot(t, g, resource.Other).Pass)
	c.Advance(gatetest.Idle)
	e, err = b.Entry()
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, int64(1), gates.Snapshot(t, g, "b").Pass)
}

// A resource that is evicted because it is idle is no colder than one that keeps its place.
func TestEviction_ForgetsNoWarmth(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given flow.Rule
		idle  time.Duration
	}{
		"slow to cool": {flow.Rule{Threshold: 1000, Interval: 20 * time.Second, WarmUpPeriod: time.Minute, ColdFactor: 1.1}, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := test.given
			given.Resource, given.Match, given.Strategy = "*", rule.Glob, flow.WarmUp
			var passed []int
			for _, places := range []int{1, 2} {
				c := gatetest.NewClock()
				g := gates.Small(t, c, places, given)
				for range 50 {
					pass(t, g, "a", int(given.Threshold))
					c.Advance(given.Interval)
				}
				c.Advance(test.idle - given.Interval)
				require.True(t, gates.Enter(t, g, "b"))
				passed = append(passed, pass(t, g, "a", int(given.Threshold)))
			}
			require.Equal(t, passed[1], passed[0])
		})
	}
}

// A flood of names neither takes memory without bound nor costs a scan per call,
// lifts no rule. Not parallel: see gatetest.LiveHeap.
func TestEviction_AMillionNames(t *testing.T) {
	const places = 10_000
	calls := gatetest.Rounds(1_000_000)
	c := gatetest.NewClock()
	g := gates.Small(t, c, places, flow.Rule{Resource: "guarded", Threshold: 1, Interval: 24 * time.Hour})
	require.True(t, gates.Enter(t, g, "guarded"))
	guarded := g.Resource("guarded")
	before := gatetest.LiveHeap()
	for i := range calls {
		if i%100 == 0 {
			c.Advance(time.Second) // so that 6,000 names are not idle yet
		}
		e, err := g.Entry("name " + strconv.Itoa(i))
		require.NoError(t, err)
		e.Exit()
		if i%50_000 == 0 {
			_, err := guarded.Entry()
			require.ErrorIs(t, err, leapgate.ErrBlocked)
		}
	}
	gatetest.RequireHeap(t, before+places*4096)
	snapshots := g.Snapshot()
	require.LessOrEqual(t, len(snapshots), places+2)
	for _, s := range snapshots {
		require.Equal(t, []int64{s.Pass, 0}, []int64{s.Success, s.Concurrency})
	}
	require.Greater(t, g.Evictions().Evicted, int64(calls-2*places))
}

// Entries that race with the eviction of their resource are counted at most once, and no count of a
// registration goes down. Handles and names are mixed, calls fail and are blocked.
func TestEviction_RacingWithEntries(t *testing.T) {
	t.Parallel()
	const workers = 8
	each := gatetest.Rounds(5_000)
	c := gatetest.NewClock()
	g := gates.Small(t, c, 4, flow.Rule{Resource: "guarded", Threshold: 0})
	handles := make([]*resource.Resource, 12)
	for i := range handles {
		handles[i] = g.Resource(fmt.Sprint("name ", i))
	}
	calls, wg := atomic.Int64{}, sync.WaitGroup{}
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range each {
				k := rng.IntN(len(handles))
				var e resource.Entry
				var err error
				if rng.IntN(2) == 0 {
					e, err = handles[k].Entry()
				} else {
					e, err = g.Entry(handles[k].Name())
				}
				assert.NoError(t, err)
				calls.Add(1)
				e.SetError(assert.AnError)
				e.Exit()
				if rng.IntN(8) == 0 {
					c.Advance(gatetest.Idle)
				}
				if rng.IntN(8) == 0 {
					_, err := g.Entry("guarded")
					assert.ErrorIs(t, err, leapgate.ErrBlocked)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := map[int64]stat.Snapshot{}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for _, now := range g.Snapshot() {
			last := seen[now.Serial]
			require.GreaterOrEqual(t, now.Pass, last.Pass)
			require.GreaterOrEqual(t, now.Success, last.Success)
			require.GreaterOrEqual(t, now.Block, last.Block)
			seen[now.Serial] = now
		}
	}
	sum := int64(0)
	for _, s := range seen {
		sum += s.Success
	}
	require.LessOrEqual(t, sum, calls.Load())
	for _, s := range g.Snapshot() {
		require.Equal(t, s.Pass, s.Success)
		require.Equal(t, s.Success, s.Exception)
		require.Zero(t, s.Concurrency)
	}
	require.LessOrEqual(t, len(g.Snapshot()), 4+2)
	require.Contains(t, names(g), resource.Other)
}

// Rules come and go while all places are taken: no rule stays behind and none is missing.
func TestEviction_RacingWithReloads(t *testing.T) {
	t.Parallel()
	const workers = 6
	each := gatetest.Rounds(4000)
	c := gatetest.NewClock()
	g := gates.Small(t, c, 5)
	name := func(rng *rand.Rand) string { return "name " + strconv.Itoa(rng.IntN(20)) }
	stop := make(chan struct{})
	var loader, wg sync.WaitGroup
	loader.Go(func() {
		rng := rand.New(rand.NewPCG(0, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			var rules []flow.Rule
			for range rng.IntN(6) {
				rules = append(rules, flow.Rule{Resource: name(rng), Threshold: float64(rng.IntN(3))})
			}
			assert.NoError(t, g.LoadFlowRules(rules))
		}
	})
	var passed, blocked atomic.Int64
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for range each {
				e, err := g.Entry(name(rng))
				if err == nil {
					passed.Add(1)
				} else {
					assert.ErrorIs(t, err, leapgate.ErrBlocked)
					blocked.Add(1)
				}
				e.Exit()
				if rng.IntN(20) == 0 {
					c.Advance(gatetest.Idle)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	loader.Wait()
	var pass, success, block int64
	for _, s := range g.Snapshot() {
		pass, success, block = pass+s.Pass, success+s.Success, block+s.Block
	}
	require.Equal(t, pass, success)
	require.LessOrEqual(t, pass, passed.Load())
	require.LessOrEqual(t, block, blocked.Load())

	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "name 7", Threshold: 0}}))
	for i := range 20 {
		require.Equal(t, i != 7, gates.Enter(t, g, "name "+strconv.Itoa(i)))
	}
}
