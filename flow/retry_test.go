package flow_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// drawKinds draws rules of every kind that bind the resource a.
func drawKinds(t *rapid.T, associated bool) []flow.Rule {
	rules := make([]flow.Rule, rapid.IntRange(1, 4).Draw(t, "rules"))
	for i := range rules {
		buckets := rapid.SampledFrom([]int{1, 2, 10}).Draw(t, "buckets")
		r := flow.Rule{
			ID: "r" + strconv.Itoa(i), Resource: "a",
			Threshold: rapid.SampledFrom([]float64{0, 2, 3.5, 6, 20, 50}).Draw(t, "threshold"),
			Interval:  rapid.SampledFrom([]time.Duration{100 * ms, 300 * ms, time.Second, 3 * time.Second, time.Minute}).Draw(t, "interval"),
			Buckets:   buckets,
			Mode:      rapid.SampledFrom([]rule.Mode{rule.Enforce, rule.Enforce, rule.Enforce, rule.Shadow}).Draw(t, "mode"),
			Origin:    rapid.SampledFrom([]string{"", "", "", "us", flow.OtherOrigins}).Draw(t, "origin"),
			Strategy:  rapid.SampledFrom([]flow.Strategy{flow.Direct, flow.WarmUp, flow.MemoryAdaptive}).Draw(t, "strategy"),
		}
		switch rapid.IntRange(0, 3).Draw(t, "match") {
		case 0:
			r.Resource, r.Match = "*", rule.Glob
		case 1:
			r.Resource, r.Match = "[a-c]", rule.Regexp
		}
		switch r.Strategy {
		case flow.WarmUp:
			r.WarmUpPeriod = rapid.SampledFrom([]time.Duration{time.Second, 4 * time.Second, time.Minute}).Draw(t, "period")
			r.ColdFactor = rapid.SampledFrom([]float64{1.3, 3, 8}).Draw(t, "factor")
		case flow.MemoryAdaptive:
			r.Threshold += 2
			r.HighMemoryThreshold, r.LowMemory, r.HighMemory = rapid.SampledFrom([]float64{0, 1, 1.5}).Draw(t, "high memory"), 100, 200
		case flow.Direct:
			if associated && rapid.IntRange(0, 9).Draw(t, "associated") == 0 {
				r.Interval, r.Associated = time.Second, "b"
				rules[i] = r
				continue
			}
		}
		// One that waits at most: two may each let the other's turn pass.
		if i == 0 && rapid.Bool().Draw(t, "paces") {
			r.Behavior = flow.Pace
			r.MaxWait = rapid.SampledFrom([]time.Duration{0, 50 * ms, time.Second, 10 * time.Second}).Draw(t, "longest wait")
		} else {
			r.Strict = rapid.IntRange(0, 3).Draw(t, "strict") == 0
		}
		rules[i] = r
	}
	return rules
}

// newKindsGate makes a gate in which waiting moves the clock.
func newKindsGate(t *rapid.T, h *heap, rules []flow.Rule) *gate {
	g := &gate{}
	g.clock.Store(minute)
	g.Gate = leapgate.Must(leapgate.Config{Now: g.clock.Load, Memory: h, Sleep: func(_ context.Context, d time.Duration) error {
		g.clock.Add(int64(d))
		return nil
	}})
	if err := g.LoadFlowRules(rules); err != nil {
		t.Fatal(err)
	}
	return g
}

func drawOptions(t *rapid.T) []leapgate.EntryOption {
	return []leapgate.EntryOption{
		leapgate.WithCount(rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 5}).Draw(t, "n")),
		leapgate.WithOrigin(rapid.SampledFrom([]string{"", "us", "them"}).Draw(t, "origin")),
	}
}

// Any rules and traffic: a call that is told how long to wait, waits so long, and is alone,
// passes. No call is told nothing that could have been told.
func TestRetryAfter_IsTrue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := drawKinds(t, true)
		h := &heap{}
		g := newKindsGate(t, h, rules)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			h.used.Store(rapid.Int64Range(0, 300).Draw(t, "memory"))
			g.clock.Add(int64(rapid.SampledFrom([]time.Duration{0, 0, 0, 1, ms, 90 * ms, time.Second, time.Minute}).Draw(t, "step")))
			opts := drawOptions(t)
			err := g.call(t, opts)
			if err == nil {
				continue
			}
			var b *leapgate.BlockError
			errors.As(err, &b)
			if b.RetryAfter < 0 {
				t.Fatalf("%v", b.RetryAfter)
			}
			if b.RetryAfter > 0 {
				g.clock.Add(int64(b.RetryAfter))
				if again := g.call(t, opts); again != nil {
					t.Fatalf("%v; then %v", err, again)
				}
				continue
			}
			// It could not be told: so it does not help to wait.
			for range 20 {
				g.clock.Add(int64(30 * time.Second))
				g.Snapshot()
			}
			if again := g.call(t, opts); again == nil && !reads(rules) {
				t.Fatalf("%v, without a wait; but after ten minutes it passes", err)
			}
		}
	})
}

// reads reports whether any of the rules reads another resource.
func reads(rules []flow.Rule) bool {
	for _, r := range rules {
		if r.Associated != "" {
			return true
		}
	}
	return false
}

// warmUpFully makes bursts until the rule "w" of the resource is warm. It ends at the
// beginning of a second in which nothing was admitted yet.
func (g *gate) warmUpFully(t *testing.T) {
	t.Helper()
	for i := 0; i < 60 || g.clock.Load()%int64(3*time.Second) != 0; i++ {
		g.try(t, "a", 200)
		g.clock.Add(int64(time.Second))
	}
	require.Equal(t, g.snapshot(t, "a").Threshold, g.snapshot(t, "a").Effective)
}

// A threshold falls while the call waits: then it has to wait longer.
func TestRetryAfter_OfAThresholdThatFallsMeanwhile(t *testing.T) {
	t.Parallel()
	rule := flow.Rule{
		ID: "w", Resource: "a", Threshold: 4, Strategy: flow.WarmUp, WarmUpPeriod: time.Second, ColdFactor: 4,
		Behavior: flow.Pace, MaxWait: 900 * ms,
	}
	g, _ := newQueue(t, rule)
	g.warmUpFully(t)
	rule.MaxWait = 0
	require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
	g.clock.Add(int64(900 * ms))
	require.Equal(t, 1, g.try(t, "a", 1))
	g.clock.Add(int64(50 * ms))
	b := g.blocked(t, "a", 1)
	require.Equal(t, 4.0, b.Threshold)
	require.Greater(t, b.RetryAfter, 400*ms, "the gap of 250 ms is more than twice as long in the next second")
	g.clock.Add(int64(b.RetryAfter) - 1)
	require.Zero(t, g.try(t, "a", 1))
	g.clock.Add(1)
	require.Equal(t, 1, g.try(t, "a", 1))
}

// Or it falls so low that waiting is no use.
func TestRetryAfter_OfAThresholdThatFallsTooLow(t *testing.T) {
	t.Parallel()
	rule := flow.Rule{ID: "w", Resource: "a", Threshold: 60, Strategy: flow.WarmUp, WarmUpPeriod: 2 * time.Second}
	g := newGate(t, rule)
	g.warmUpFully(t)
	g.clock.Add(int64(900 * ms))
	require.Equal(t, 5, g.try(t, "a", 5))
	b := g.blocked(t, "a", 56)
	require.Equal(t, []float64{61, 60}, []float64{b.Observed, b.Threshold})
	require.Zero(t, b.RetryAfter)
	require.Positive(t, g.blocked(t, "a", 1<<10).Observed)
	g.clock.Add(int64(950 * ms))
	require.Zero(t, g.try(t, "a", 1, leapgate.WithCount(56)))
}

// So it is if it is the wait of the others that is too long for it.
func TestRetryAfter_OfARuleThatHasRoomNowAndNoneThen(t *testing.T) {
	t.Parallel()
	rule := flow.Rule{ID: "w", Resource: "a", Threshold: 60, Strategy: flow.WarmUp, WarmUpPeriod: 2 * time.Second}
	g := newGate(t, rule)
	g.warmUpFully(t)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{
		{ID: "short", Resource: "a", Threshold: 30, Interval: 100 * ms, Buckets: 1},
		{ID: "long", Resource: "a", Threshold: 30, Interval: 3 * time.Second, Buckets: 1},
		rule,
	}))
	require.Equal(t, 1, g.try(t, "a", 1, leapgate.WithCount(30)))
	b := g.blocked(t, "a", 30)
	require.Equal(t, "short", b.RuleID)
	require.Zero(t, b.RetryAfter)
	require.Equal(t, 3*time.Second, g.blocked(t, "a", 20).RetryAfter, "that many will fit")
	g.clock.Add(int64(3 * time.Second))
	require.Zero(t, g.try(t, "a", 1, leapgate.WithCount(30)))
	require.Equal(t, 1, g.try(t, "a", 1, leapgate.WithCount(20)))
}

// It cannot be told what would need another resource, a place, or a larger threshold.
func TestRetryAfter_CannotBeTold(t *testing.T) {
	t.Parallel()
	h := &heap{}
	h.used.Store(4096)
	for name, c := range map[string]struct {
		rule flow.Rule
		n    int64
	}{
		"threshold 0":       {flow.Rule{}, 1},
		"pace, threshold 0": {flow.Rule{Behavior: flow.Pace, MaxWait: time.Second}, 1},
		"less than one":     {flow.Rule{Threshold: 0.9}, 1},
		"too many":          {flow.Rule{Threshold: 5}, 6},
		"too many to pace":  {flow.Rule{Threshold: 5, Behavior: flow.Pace, MaxWait: time.Hour}, 6},
		"too many when cold": {
			flow.Rule{Threshold: 30, Strategy: flow.WarmUp, WarmUpPeriod: time.Minute}, 30,
		},
		"too many for the memory": {
			flow.Rule{Threshold: 30, Strategy: flow.MemoryAdaptive, HighMemoryThreshold: 3, LowMemory: 1, HighMemory: 2}, 4,
		},
		"associated": {flow.Rule{Threshold: 0, Associated: "b"}, 1},
	} {
		c.rule.Resource = "a"
		g := newGateWith(t, leapgate.Config{Memory: h}, c.rule)
		require.Zero(t, g.blocked(t, "a", c.n).RetryAfter, name)
		require.NotContains(t, g.blocked(t, "a", c.n).Error(), "retry", name)
	}
}

// With one rule, whatever it is, no shorter wait would do than the one that is told; and if none is,
// none would do.
func TestRetryAfter_IsTheShortestWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := drawKinds(t, false)[:1]
		h := &heap{}
		h.used.Store(rapid.Int64Range(0, 300).Draw(t, "memory"))
		g, twin := newKindsGate(t, h, rules), newKindsGate(t, h, rules)
		var opts []leapgate.EntryOption
		var err error
		for range rapid.IntRange(1, 80).Draw(t, "calls") {
			step := int64(rapid.SampledFrom([]time.Duration{0, 0, 0, 1, ms, 30 * ms, 330 * ms, time.Second, time.Minute}).Draw(t, "step"))
			opts = drawOptions(t)
			g.clock.Add(step)
			twin.clock.Add(step)
			err = g.call(t, opts)
			if again := twin.call(t, opts); (again == nil) != (err == nil) {
				t.Fatalf("%v; the twin: %v", err, again)
			}
		}
		if err == nil {
			return
		}
		var b *leapgate.BlockError
		errors.As(err, &b)
		longest := int64(b.RetryAfter)
		if longest == 0 {
			longest = int64(3 * time.Minute)
		}
		waited := rapid.OneOf(rapid.Just(longest-1), rapid.Int64Range(0, longest-1)).Draw(t, "waits")
		twin.clock.Add(waited)
		if twin.call(t, opts) == nil {
			t.Fatalf("%v; but it passes after %v", err, time.Duration(waited))
		}
	})
}

// A threshold rises while the call waits: then it passes sooner.
func TestRetryAfter_OfAThresholdThatRisesMeanwhile(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 100, Buckets: 40, Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second})
	g.clock.Add(int64(925 * ms))
	require.Equal(t, 33, g.try(t, "a", 40))
	b := g.blocked(t, "a", 1)
	require.Equal(t, 75*ms, b.RetryAfter, "one more fits into the next second")
	g.clock.Add(int64(75*ms) - 1)
	require.Zero(t, g.try(t, "a", 1))
	g.clock.Add(1)
	require.Equal(t, 1, g.try(t, "a", 40))
}

// It is too low for the call, and rises.
func TestRetryAfter_OfAThresholdThatRisesAboveTheCount(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 100, Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second})
	require.Equal(t, 33, g.try(t, "a", 40))
	b := g.blocked(t, "a", 34)
	require.Equal(t, time.Second, b.RetryAfter)
	g.clock.Add(int64(time.Second))
	require.Equal(t, 1, g.try(t, "a", 1, leapgate.WithCount(34)))
}
