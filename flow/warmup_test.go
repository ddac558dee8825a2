package flow_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rule"
)

// warming is the rule of the cases: 100 per second after 10 s, a third of it before.
var warming = flow.Rule{ID: "w", Resource: "a", Threshold: 100, Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second, ColdFactor: 3}

// bursts makes a burst of k calls at the beginning of each second, and tells how many
// of each were admitted.
func (g *gate) bursts(t testing.TB, k, seconds int) (admitted []int) {
	t.Helper()
	for range seconds {
		admitted = append(admitted, g.try(t, "a", k))
		g.clock.Add(int64(time.Second))
	}
	return admitted
}

func TestWarmUp_BurstEverySecond(t *testing.T) {
	t.Parallel()
	g := newGate(t, warming)
	require.Equal(t, []int{33, 34, 36, 38, 41, 44, 47, 52, 58, 68, 83, 100, 100, 100, 100, 100}, g.bursts(t, 200, 16))
}

func TestWarmUp_TrickleStaysCold(t *testing.T) {
	t.Parallel()
	g := newGate(t, warming)
	for range 10 {
		require.Equal(t, 20, g.try(t, "a", 20))
		g.clock.Add(int64(time.Second))
	}
	require.Equal(t, 34, g.try(t, "a", 200))
}

func TestWarmUp_Pace(t *testing.T) {
	t.Parallel()
	rule := warming
	rule.Behavior, rule.MaxWait = flow.Pace, 100*ms
	g, q := newQueue(t, rule)
	require.Equal(t, 4, g.try(t, "a", 10))
	waits := q.taken()
	require.Len(t, waits, 3)
	for i, want := range list(30, 60, 90) {
		require.InDelta(t, want, waits[i], float64(time.Microsecond))
	}
}

// Under full use it gets warm in about the period, whatever the numbers: also if a
// whole number of calls is less than the coldest threshold, if less than one call is,
// or if a window is longer than a second.
func TestWarmUp_FullUseWarms(t *testing.T) {
	t.Parallel()
	combination := 0
	for _, behavior := range []flow.Behavior{flow.Reject, flow.Pace} {
		for _, threshold := range []float64{1, 1.5, 2, 4, 10, 50, 101} {
			for _, cold := range []float64{1.1, 3, 7.5} {
				for _, interval := range list(100, 300, 1000, 1500, 3000) {
					for _, begin := range list(0, 900) {
						if combination++; gatetest.Race && combination%11 > 0 {
							continue // each value is there still
						}
						rule := flow.Rule{
							Resource: "a", Threshold: threshold, Interval: interval, Behavior: behavior,
							Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second, ColdFactor: cold,
						}
						if behavior == flow.Pace {
							rule.MaxWait = max(time.Second, interval)
						}
						g, _ := newQueue(t, rule)
						g.at(begin)
						require.InDelta(t, max(threshold/cold, 1), g.snapshot(t, "a").Effective, 1e-9)
						var passed time.Duration
						for ; g.snapshot(t, "a").Effective < threshold && passed < time.Minute; passed += 25 * ms {
							for g.try(t, "a", 1) == 1 {
							}
							g.clock.Add(int64(25 * ms))
						}
						assert.Less(t, passed, 35*time.Second, "%+v from %v is not warm", rule, begin)
					}
				}
			}
		}
	}
}

// With a threshold below the cold factor the coldest still lets calls in, one by one.
func TestWarmUp_LessThanOneCallWhenCold(t *testing.T) {
	t.Parallel()
	rule := warming
	rule.Threshold = 2
	g := newGate(t, rule)
	got := g.bursts(t, 5, 30)
	require.Equal(t, 1, got[0])
	require.Equal(t, 2, got[29])
	require.True(t, slices.IsSorted(got), got)

	rule.Behavior, rule.MaxWait = flow.Pace, time.Second
	q, _ := newQueue(t, rule)
	for range 30 {
		q.try(t, "a", 5)
		q.clock.Add(int64(time.Second))
	}
	require.Equal(t, 2.0, q.snapshot(t, "a").Effective)
}

// After the period without calls it is as cold as ever; after an hour, not more so.
func TestWarmUp_CoolsWhenIdle(t *testing.T) {
	t.Parallel()
	warmest := 101
	for _, idle := range list(0, 1000, 2000, 3000, 4000, 5000, 6000) {
		got := afterIdling(t, idle)
		require.Less(t, got, warmest, "after %v", idle)
		warmest = got
	}
	for _, idle := range list(7000, 10_000, 3_600_000, 365*24*3_600_000) {
		require.Equal(t, 33, afterIdling(t, idle), "after %v", idle)
	}
}

// afterIdling is how much of a burst is admitted after so long without calls, once
// it was warm.
func afterIdling(t *testing.T, idle time.Duration) int {
	t.Helper()
	g := newGate(t, warming)
	g.bursts(t, 200, 40)
	require.Equal(t, 100.0, g.snapshot(t, "a").Effective)
	g.clock.Add(int64(idle))
	return g.try(t, "a", 200)
}

// What is given back has not warmed anything.
func TestWarmUp_RefundsDoNotWarm(t *testing.T) {
	t.Parallel()
	g := newGate(t, warming, flow.Rule{ID: "none", Resource: "a", Threshold: 0})
	for range 20 {
		require.Zero(t, g.try(t, "a", 200))
		g.clock.Add(int64(time.Second))
	}
	require.InDelta(t, 100.0/3, g.snapshot(t, "a").Effective, 1e-9)
	require.Zero(t, g.snapshot(t, "a").Admitted)
}

// A clock that goes back finds the warmth as it was, and one that jumps is idle time.
func TestWarmUp_ClockJumps(t *testing.T) {
	t.Parallel()
	g := newGate(t, warming)
	g.bursts(t, 200, 20)
	warm := g.clock.Load()
	g.clock.Store(warm - int64(time.Hour))
	require.Equal(t, 100.0, g.snapshot(t, "a").Effective)
	require.Zero(t, g.try(t, "a", 1), "the window stays")
	g.clock.Store(warm + int64(time.Hour))
	require.Equal(t, 33, g.try(t, "a", 200))
	g.clock.Store(warm)
	require.InDelta(t, 100.0/3, g.snapshot(t, "a").Effective, 1e-9)
}

// The threshold, the mode and the origin may change, and it stays as warm as it is;
// with another period or factor it is cold again.
func TestWarmUp_Reload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *flow.Rule)
		want   float64
	}{
		"threshold": {func(r *flow.Rule) { r.Threshold = 60 }, 60},
		"mode":      {func(r *flow.Rule) { r.Mode = rule.Shadow }, 100},
		"candidate": {func(r *flow.Rule) { r.Candidate = 7 }, 100},
		"period":    {func(r *flow.Rule) { r.WarmUpPeriod = 20 * time.Second }, 100.0 / 3},
		"factor":    {func(r *flow.Rule) { r.ColdFactor = 2 }, 50},
		"interval":  {func(r *flow.Rule) { r.Interval = 2 * time.Second }, 100.0 / 3},
		"behavior":  {func(r *flow.Rule) { r.Behavior = flow.Pace }, 100.0 / 3},
		"ID":        {func(r *flow.Rule) { r.ID = "x" }, 100.0 / 3},
	} {
		g := newGate(t, warming)
		g.bursts(t, 200, 30)
		rule := warming
		c.change(&rule)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
		require.InDelta(t, c.want, g.snapshot(t, "a").Effective, 1e-9, name)
	}
	// It takes no calls at all, and is half warm then.
	g := newGate(t, warming)
	g.bursts(t, 200, 6)
	half := g.snapshot(t, "a").Effective
	rule := warming
	rule.Threshold = 0
	require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
	require.Zero(t, g.snapshot(t, "a").Effective)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{warming}))
	require.Equal(t, half, g.snapshot(t, "a").Effective)
}

// No numbers that are let through make a threshold that is none.
func TestWarmUp_ExtremeNumbers(t *testing.T) {
	t.Parallel()
	for _, behavior := range []flow.Behavior{flow.Reject, flow.Pace} {
		for _, threshold := range []float64{0, math.SmallestNonzeroFloat64, 0.1, 1, 1e18, math.MaxFloat64} {
			for _, cold := range []float64{math.Nextafter(1, 2), 1.5, 1000} {
				for _, period := range []time.Duration{time.Second, 24 * time.Hour} {
					for _, interval := range []time.Duration{ms, time.Second, flow.MaxInterval} {
						rule := flow.Rule{
							Resource: "a", Threshold: threshold, Interval: interval, Buckets: 1, Behavior: behavior,
							Strategy: flow.WarmUp, WarmUpPeriod: period, ColdFactor: cold,
						}
						g := newGate(t, rule)
						for _, step := range []time.Duration{0, 1, ms, time.Second, time.Second, time.Hour, 1000 * time.Hour} {
							g.clock.Add(int64(step))
							g.try(t, "a", 3)
							s := g.snapshot(t, "a")
							require.GreaterOrEqual(t, s.Effective, threshold/cold*(1-1e-9), "%+v", rule)
							require.LessOrEqual(t, s.Effective, threshold, "%+v", rule) // NaN is neither
							_, err := json.Marshal(s)
							require.NoError(t, err, "%+v", rule)
						}
					}
				}
			}
		}
	}
}

// naiveWarmth goes step by step, as the book says, for a rule whose coldest threshold
// is a whole number. A step is a second, or the interval of the rule if that is more.
type naiveWarmth struct {
	perSecond, cold, warning, most, stored float64
	coldest                                float64
	length, step                           int64
	admitted                               float64
	edge                                   bool // it was at the warning once, give or take a rounding
}

func newNaiveWarmth(r *flow.Rule, now int64) *naiveWarmth {
	length := int64(max(time.Second, r.Interval))
	p, perSecond, c := r.WarmUpPeriod.Seconds(), r.Threshold/time.Duration(length).Seconds(), r.ColdFactor
	m := &naiveWarmth{perSecond: perSecond, cold: c, coldest: r.Threshold / c, length: length, step: now / length}
	m.warning = p * perSecond / (c - 1)
	m.most = m.warning + 2*p*perSecond/(1+c)
	m.stored = m.most
	return m
}

// allowed is the threshold that holds at now.
func (m *naiveWarmth) allowed(now int64) float64 {
	seconds := time.Duration(m.length).Seconds()
	for ; m.step < now/m.length; m.step++ {
		if m.stored < m.warning || m.admitted < m.coldest {
			m.stored = min(m.most, m.stored+m.perSecond*seconds)
		}
		m.stored, m.admitted = max(0, m.stored-m.admitted), 0
		m.edge = m.edge || math.Abs(m.stored-m.warning) < 1e-9*m.warning
	}
	if m.stored < m.warning {
		return m.perSecond * seconds
	}
	slope := (m.cold - 1) / m.perSecond / (m.most - m.warning)
	return seconds / ((m.stored-m.warning)*slope + 1/m.perSecond)
}

// Any traffic: what holds is what the formulas say second by second, and it does not
// matter how often anybody looks meanwhile.
func TestWarmUp_AgreesWithTheFormulasAndNoMatterWhoLooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cold := rapid.SampledFrom([]float64{1.5, 2, 3, 5}).Draw(t, "cold factor")
		rule := flow.Rule{
			Resource: "a", Threshold: cold * float64(rapid.IntRange(1, 40).Draw(t, "coldest")), Buckets: 1,
			Interval: time.Duration(rapid.SampledFrom([]int{1, 1, 3}).Draw(t, "interval")) * time.Second,
			Strategy: flow.WarmUp, WarmUpPeriod: time.Duration(rapid.IntRange(1, 30).Draw(t, "period")) * time.Second, ColdFactor: cold,
		}
		seldom, often := newRapidGate(t, rule), newRapidGate(t, rule)
		model := newNaiveWarmth(&rule, minute)
		now := minute
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += int64(rapid.SampledFrom([]time.Duration{100 * ms, 999 * ms, time.Second, time.Second, 2 * time.Second, 7 * time.Second, time.Minute}).Draw(t, "step"))
			for often.clock.Load() < now {
				often.clock.Store(min(now, often.clock.Load()+int64(300*ms)))
				often.Resource("a").Snapshot()
				if rapid.IntRange(0, 9).Draw(t, "ask") == 0 {
					_, err := often.EntryContext(t.Context(), "a", leapgate.WithCount(1<<20)) // is refused
					if !errors.Is(err, leapgate.ErrBlocked) {
						t.Fatal(err)
					}
				}
			}
			seldom.clock.Store(now)
			want := model.allowed(now)
			if model.edge {
				return // the last bit decides whether it is refilled
			}
			for range rapid.IntRange(0, int(2*rule.Threshold)).Draw(t, "calls") {
				a, b := seldom.admits(t), often.admits(t)
				if a != b {
					t.Fatalf("one admits %v, the other %v", a, b)
				}
				if a {
					model.admitted++
				}
			}
			for _, g := range []*gate{seldom, often} {
				if got := g.Resource("a").Snapshot().Rules[0].Effective; math.Abs(got-want) > 1e-6*want {
					t.Fatalf("%v holds, want %v", got, want)
				}
			}
		}
	})
}

func newRapidGate(t *rapid.T, rules ...flow.Rule) *gate {
	g := &gate{}
	g.clock.Store(minute)
	g.Gate = leapgate.Must(leapgate.Config{Now: g.clock.Load})
	if err := g.LoadFlowRules(rules); err != nil {
		t.Fatal(err)
	}
	return g
}

// admits reports whether a call is admitted, and ends it.
func (g *gate) admits(t *rapid.T) bool {
	e, err := g.Entry("a")
	e.Exit()
	if err != nil && !errors.Is(err, leapgate.ErrBlocked) {
		t.Fatal(err)
	}
	return err == nil
}

// A backlog of waiting calls warms a resource up just as one goroutine does that makes the same calls one by one.
func TestWarmUp_PacedBacklogWarmsAsASingleDispatcher(t *testing.T) {
	t.Parallel()
	const calls = 600
	starts := func(goroutines int) (at []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			g := leapgate.Must(leapgate.Config{})
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{
				Resource: "a", Threshold: 50, Behavior: flow.Pace, MaxWait: time.Minute, Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second,
			}}))
			var mu sync.Mutex // guards at
			began := time.Now()
			gatetest.AtOnce(goroutines, func(int) {
				for range calls / goroutines {
					e, err := g.Entry("a")
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					at = append(at, time.Since(began))
					mu.Unlock()
					e.Exit()
				}
			})
		})
		require.Len(t, at, calls)
		return at
	}
	single, backlog := starts(1), starts(calls)
	for i := range single {
		require.InDelta(t, single[i], backlog[i], float64(60*ms), "call %d of %v", i, calls)
	}
	t.Log(single[calls-1], backlog[calls-1])
}
