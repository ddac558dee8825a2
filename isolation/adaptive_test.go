package isolation

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

const ms = time.Millisecond

// adaptiveOn returns the check of an adaptive rule, as a call meets it.
func adaptiveOn(env *ruleset.Env, r *Rule) *controller {
	r.ID, r.Resource, r.Strategy = "r", "a", Adaptive
	return compile(env, r, "a", nil).(*controller)
}

// windowOf is n calls one after the other, from now on, that take rt each while most are in flight.
func windowOf(t testing.TB, c *controller, now *int64, n int, rt time.Duration, most int64) {
	t.Helper()
	var held int64
	for ; held < most; held++ {
		require.Nil(t, c.Reserve(*now, 1, resource.Caller{}).Refused)
	}
	c.Reserve(*now, MaxInFlight, resource.Caller{}) // one is kept out
	for range n {
		*now += int64(rt)
		c.Finish(*now, 1, rt-1, resource.Success)
		require.Nil(t, c.Reserve(*now, 1, resource.Caller{}).Refused)
	}
	for range held {
		c.Finish(*now, 1, 0, resource.Failure)
	}
}

// An incident: with MaxRT the limit falls by a tenth in each window, and is at the floor after 37.
func TestSearch_MaxRTLeadsToTheFloor(t *testing.T) {
	t.Parallel()
	r := &Rule{Strategy: Adaptive, InitialInFlight: 200, MaxInFlight: 200, MaxRT: 100 * ms}
	s := newSearch(r)
	s.judge(&window{mean: float64(10 * ms), most: 200})
	windows := 0
	for s.limit > 4 {
		s.judge(&window{mean: float64(500 * ms), most: 200, kept: 0.5})
		windows++
	}
	require.LessOrEqual(t, windows, 40)
	for range 36_000 {
		require.Empty(t, s.judge(&window{now: int64(time.Hour), mean: float64(500 * ms), most: 4, kept: 0.5}))
	}
	require.Equal(t, 4.0, s.limit)
	require.Equal(t, tooSlow, s.state)
	require.Equal(t, float64(10*ms), s.base, "it is not measured meanwhile")
}

// One window moves the limit by a tenth at most, and not at all if less than half of it is used.
func TestSearch_MovesByATenthAndOnlyWhatIsUsed(t *testing.T) {
	t.Parallel()
	search := func() *search {
		s := newSearch(&Rule{Strategy: Adaptive, MaxInFlight: 200})
		s.base, s.due, s.hurry = float64(10*ms), math.MaxInt64, false
		return s
	}
	for _, c := range []struct {
		mean        time.Duration
		most        int64
		kept        float64
		limit, base float64 // after it, base in milliseconds
	}{
		{10 * ms, 20, 0.5, 22, 10},
		{100 * ms, 20, 0.5, 18, 10},
		{13 * ms, 20, 0.5, 20*1.25*10/13 + math.Sqrt(20)/2, 10},
		{100 * ms, 20, 0.09, 20, 10}, // few are kept out
		{100 * ms, 9, 0.5, 20, 10},
		{2 * ms, 9, 0, 20, 9.6}, // a twentieth of the way
		{2 * ms, 10, 0, 22, 10},
	} {
		s := search()
		s.judge(&window{now: 1, mean: float64(c.mean), most: c.most, kept: c.kept})
		require.InDelta(t, c.limit, s.limit, 1e-9, "%+v", c)
		require.InDelta(t, c.base, s.base/float64(ms), 1e-9, "%+v", c)
	}
}

// How long calls take without a queue is measured after 30 s in which calls were kept out: at half of the limit, by calls that
// begin when those of before have gone. What is still as slow is no queue.
func TestSearch_MeasuresAtHalfOfTheLimit(t *testing.T) {
	t.Parallel()
	s := newSearch(&Rule{Strategy: Adaptive, MaxInFlight: 200})
	s.hurry = false
	slow := window{now: int64(time.Hour), mean: float64(12 * ms), most: 20, kept: 0.5}
	s.judge(&slow)
	s.due = slow.now + int64(measureEvery)
	settle, span := s.span()
	require.Equal(t, []time.Duration{0, 100 * ms}, []time.Duration{settle, span})
	slow.now, slow.kept = s.due, 0
	s.judge(&slow)
	require.NotEqual(t, measuring, s.state, "none is kept out")
	slow.kept = 0.5
	before := s.limit
	require.NotEmpty(t, s.judge(&slow))
	require.Equal(t, measuring, s.state)
	require.Equal(t, before/2, s.limit)
	settle, span = s.span()
	require.Equal(t, []time.Duration{12 * ms, 512 * ms}, []time.Duration{settle, span})
	s.base = float64(time.Second)
	settle, span = s.span()
	require.Equal(t, []time.Duration{time.Second, 4 * time.Second}, []time.Duration{settle, span})
	s.base = float64(12 * ms)
	slow.now, slow.mean = slow.now+int64(time.Second), float64(11*ms)
	s.judge(&slow)
	require.Equal(t, []float64{before, float64(11 * ms)}, []float64{s.limit, s.base})
	require.Equal(t, slow.now+int64(measureEvery), s.due)
}

// At the largest limit that there may be it says so, and at the smallest.
func TestSearch_SaysThatTheLimitCannotMove(t *testing.T) {
	t.Parallel()
	s := newSearch(&Rule{Strategy: Adaptive, MaxInFlight: 25})
	for range 10 {
		s.judge(&window{mean: float64(10 * ms), most: 25, kept: 0.5})
	}
	require.Equal(t, atCeiling, s.state)
	require.Equal(t, 25.0, s.limit)
	require.Equal(t, "limit 25; calls took 10ms on average, 10ms without a queue", s.why(&window{mean: float64(10 * ms)}))
	for range 30 {
		s.judge(&window{mean: float64(19 * ms), most: 4, kept: 0.5})
		s.judge(&window{mean: float64(19 * ms), most: 25, kept: 0.5})
	}
	require.Equal(t, atFloor, s.state)
	require.Equal(t, 4.0, s.limit)
}

// A window in which calls end that began before it, at the same time as it, or badly, has fewer.
func TestAdaptive_CountsCallsThatBeganInTheWindowAndEndedWell(t *testing.T) {
	t.Parallel()
	now := int64(time.Hour)
	c := adaptiveOn(&ruleset.Env{Now: func() int64 { return now }}, &Rule{MaxInFlight: 200})
	opened := c.state.adaptive.Load().running.Load()
	for range 150 {
		c.Reserve(now, 1, resource.Caller{})
		c.Finish(now+int64(time.Second), 1, time.Second, resource.Success)
		c.Finish(now+int64(time.Second), 1, time.Second+1, resource.Success)
		c.Finish(now+int64(time.Second), 1, time.Second-1, resource.Failure)
		c.Finish(now+int64(time.Second), 1, time.Second-1, resource.Ignored)
	}
	require.Zero(t, opened.calls.Load())
	for i := range int64(100) {
		require.Same(t, opened, c.state.adaptive.Load().running.Load())
		require.Equal(t, i, opened.calls.Load())
		c.Finish(now+int64(time.Second), 1, time.Second-1, resource.Success)
	}
	require.NotSame(t, opened, c.state.adaptive.Load().running.Load())
}

// The quota of the container ran out.
func TestAdaptive_ThrottledWindowsAreLeftOut(t *testing.T) {
	t.Parallel()
	now, load := int64(time.Hour), new(stat.Signals)
	c := adaptiveOn(&ruleset.Env{
		Now:  func() int64 { return now },
		Load: func() *stat.Signals { return load },
	}, &Rule{MaxInFlight: 200, MaxRT: 15 * ms})
	limits := map[int64]bool{}
	for range 2 * (maxSkipped + 1) {
		load = &stat.Signals{Throttled: stat.Signal{Known: true, Raw: 0.1}}
		windowOf(t, c, &now, 101, 20*ms, 5)
		limit, _ := c.limit()
		limits[limit] = true
	}
	require.Equal(t, map[int64]bool{20: true, 18: true, 16: true}, limits, "but it does not go on for ever")
	load = new(stat.Signals)
	windowOf(t, c, &now, 101, 20*ms, 5)
	limit, _ := c.limit()
	require.Equal(t, int64(14), limit)
}

// What was found out belongs to the ID of the rule: it stays when the rule is changed, as far as it
// fits.
func TestAdaptive_LimitGoesOnWhenTheRuleIsChanged(t *testing.T) {
	t.Parallel()
	now := int64(time.Hour)
	env := &ruleset.Env{Now: func() int64 { return now }}
	r := Rule{MaxInFlight: 200, MaxRT: 15 * ms}
	c := adaptiveOn(env, &r)
	for range 6 {
		windowOf(t, c, &now, 101, 20*ms, 9)
	}
	limit := func() int64 { n, _ := c.limit(); return n }
	found := limit()
	require.Less(t, found, int64(15))
	change := func(edit func(*Rule)) {
		changed := r
		edit(&changed)
		r = changed
		c = compile(env, &changed, "a", c).(*controller)
	}
	change(func(r *Rule) { r.MaxRT = 0 })
	require.Equal(t, found, limit())
	change(func(r *Rule) { r.MinInFlight = 30 })
	require.Equal(t, int64(30), limit())
	change(func(r *Rule) { r.MinInFlight, r.MaxInFlight = 0, 7 })
	require.Equal(t, int64(7), limit())
	require.Equal(t, 7.0, c.Snapshot(0).Effective)

	old := c
	change(func(r *Rule) { r.Strategy, r.MaxInFlight = Fixed, 100 })
	require.Equal(t, int64(100), limit())
	require.Equal(t, "fixed", c.Cause().State.Current())
	windowOf(t, old, &now, 500, 20*ms, 7) // entries from before the change
	require.Equal(t, int64(100), limit())
	change(func(r *Rule) { r.Strategy = Adaptive })
	require.Equal(t, int64(20), limit(), "it begins anew")
	require.Equal(t, "steady", c.Cause().State.Current())
}

// In mode shadow the limit moves by the calls that it would let in, and no more.
func TestAdaptive_ShadowMovesTheLimitAndRefusesNobody(t *testing.T) {
	t.Parallel()
	g := newGate(t, true, Rule{ID: "r", Resource: "a", Strategy: Adaptive, MaxInFlight: 200, Mode: rule.Shadow})
	rounds := func(n, calls int, rt time.Duration) float64 {
		for range n {
			held := g.hold(t, "a", calls)
			require.Len(t, held, calls)
			g.now.Add(int64(rt))
			exit(held...)
			g.now.Add(int64(ms))
		}
		return g.rule(t, "a", "r").Effective
	}
	risen := rounds(20, 40, 10*ms)
	require.Greater(t, risen, 20.0)
	require.Less(t, rounds(60, 100, 30*ms), risen/2)
	s := g.rule(t, "a", "r")
	require.Zero(t, s.Blocked)
	require.NotZero(t, s.WouldBlock)
}

func TestAdaptive_PassingAllocatesNothing(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	g := newGate(t, true, Rule{ID: "r", Resource: "a", Strategy: Adaptive, MaxInFlight: 200})
	r := g.Resource("a")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		e, err := r.Entry()
		if err != nil {
			t.Fatal(err)
		}
		e.Exit()
	}))
}

// The race: calls come and go, in a queue too, while the limit moves at every hundredth and rules are
// loaded. No place is lost or invented, and no more are in flight than the largest limit.
func TestAdaptive_HammerWhileTheLimitMoves(t *testing.T) {
	t.Parallel()
	const goroutines, most = 64, 30
	r := Rule{ID: "r", Resource: "a", Strategy: Adaptive, MinInFlight: 2, MaxInFlight: most, MaxRT: 5 * ms}
	g := newGate(t, true, r)
	var inside, over, passed, refused atomic.Int64
	var all sync.WaitGroup
	for id := range goroutines {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(id), 5))
			for i := range gatetest.Rounds(20_000) {
				e, err := g.Resource("a").Entry()
				if err != nil {
					refused.Add(1)
					runtime.Gosched()
					continue
				}
				passed.Add(1)
				if inside.Add(1) > most {
					over.Add(1)
				}
				if rng.IntN(4) == 0 {
					g.now.Add(rng.Int64N(int64(ms)))
					runtime.Gosched()
				}
				inside.Add(-1)
				e.Exit()
				if id == 0 && i%500 == 499 {
					r.MaxRT = time.Duration(i) * time.Microsecond
					g.load(t, r)
				}
			}
		})
	}
	all.Wait()
	assert.Zero(t, over.Load())
	require.Zero(t, g.taken(t, "a", "r"))
	s := g.rule(t, "a", "r")
	require.Equal(t, []int64{passed.Load(), refused.Load()}, []int64{s.Admitted, s.Blocked})
	require.NotZero(t, refused.Load())
	require.GreaterOrEqual(t, s.Effective, 2.0)
	require.LessOrEqual(t, s.Effective, float64(most))
}

// All faults at once, each with what would be right.
func TestRule_FaultsOfAdaptiveRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule Rule
		want []string
	}{
		{Rule{Strategy: Adaptive, MaxInFlight: 3}, nil},
		{Rule{Strategy: Adaptive, MinInFlight: 1, MaxInFlight: 1, InitialInFlight: 1, Tolerance: 10, MaxRT: 24 * time.Hour, MaxWait: ms}, nil},
		{Rule{Strategy: 2, MaxInFlight: 1}, []string{"Strategy is 2; want Fixed (0) or Adaptive (1)"}},
		{Rule{Strategy: Adaptive}, []string{"MaxInFlight is 0; want 1 to 1000000000"}},
		{
			Rule{Strategy: Adaptive, MaxInFlight: 10, MinInFlight: 11, Tolerance: math.NaN(), MaxRT: -1},
			[]string{"MinInFlight is 11; want 1 to MaxInFlight, which is 10, or 0 for 4", "Tolerance is NaN; want more than 0 and at most 10, or 0 for 0.25", "MaxRT is -1ns; want more than 0 and at most 24h0m0s, or 0 for none"},
		},
		{Rule{Strategy: Adaptive, MaxInFlight: 10, InitialInFlight: 3}, []string{"InitialInFlight is 3; want MinInFlight, which is 4, to MaxInFlight, which is 10, or 0 for 20"}},
		{
			Rule{Strategy: Adaptive, MaxInFlight: 10, MinInFlight: 11, InitialInFlight: 12},
			[]string{"MinInFlight is 11; want 1 to MaxInFlight, which is 10, or 0 for 4", "InitialInFlight is 12; want 1 to MaxInFlight, which is 10, or 0 for 20"},
		},
		{Rule{Strategy: Adaptive, MaxInFlight: 10, InitialInFlight: 11}, []string{"InitialInFlight is 11; want MinInFlight, which is 4, to MaxInFlight, which is 10, or 0 for 20"}},
		{
			Rule{MaxInFlight: 10, MinInFlight: 1, InitialInFlight: 2, Tolerance: 0.5, MaxRT: 1},
			[]string{"MinInFlight is 1; want 0, since it is for Strategy Adaptive", "InitialInFlight is 2; want", "Tolerance is 0.5; want", "MaxRT is 1ns; want"},
		},
	} {
		tt.rule.Resource = "a"
		err := validate([]Rule{tt.rule})
		if tt.want == nil {
			require.NoError(t, err)
			continue
		}
		require.Len(t, err, len(tt.want))
		for _, want := range tt.want {
			require.ErrorContains(t, err, want)
		}
	}
	require.Equal(t, "at most 3 to 3 in flight, by how long calls take; blocks", describe(&Rule{Strategy: Adaptive, MaxInFlight: 3}))
	require.Equal(t, "at most 4 to 200 in flight, by how long calls take; waits up to 1s, then blocks",
		describe(&Rule{Strategy: Adaptive, MaxInFlight: 200, MaxWait: time.Second}))
}
