package flow_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// tried are the figures of a candidate.
func (g *gate) tried(t *testing.T, name string) (threshold float64, wouldBlock int64) {
	t.Helper()
	s := g.snapshot(t, name)
	return s.Candidate, s.CandidateWouldBlock
}

// It has its own window, and judges what the live one lets pass and what that refuses.
func TestCandidate_JudgesEveryCallTheRuleIsAskedAbout(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 3, Candidate: 5})
	require.Equal(t, 3, g.try(t, "a", 4))
	threshold, would := g.tried(t, "a")
	require.Equal(t, 5.0, threshold)
	require.Zero(t, would, "four fit into it")
	require.Zero(t, g.try(t, "a", 4))
	_, would = g.tried(t, "a")
	require.EqualValues(t, 3, would)
	require.Equal(t, figuresOf{"a/1", 3, 5, 0}, g.rule(t, "a", "a/1"), "the live one does not notice")
	require.Equal(t, 1, g.at(time.Second).try(t, "a", 1, leapgate.WithCount(3)))
	require.Zero(t, g.try(t, "a", 1, leapgate.WithCount(3)))
	_, would = g.tried(t, "a")
	require.EqualValues(t, 6, would, "a batch counts as a whole")
}

func TestCandidate_LowerThanTheLiveOne(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 5, Candidate: 2})
	require.Equal(t, 5, g.try(t, "a", 9))
	_, would := g.tried(t, "a")
	require.EqualValues(t, 7, would)
	require.Zero(t, g.Resource("a").Snapshot().WouldBlock, "that is for rules in mode shadow")
}

// What a later rule refuses is taken back from both.
func TestCandidate_IsRefundedWithTheLiveOne(t *testing.T) {
	t.Parallel()
	for _, behavior := range []flow.Behavior{flow.Reject, flow.Pace} {
		rule := flow.Rule{ID: "first", Resource: "a", Threshold: 10, Candidate: 5, Behavior: behavior}
		none := flow.Rule{ID: "none", Resource: "a", Threshold: 0, Behavior: behavior}
		g := newGate(t, rule, none)
		require.Zero(t, g.try(t, "a", 50))
		_, would := g.tried(t, "a")
		require.Zero(t, would)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
		require.Equal(t, 1, g.try(t, "a", 1))
		_, would = g.tried(t, "a")
		require.Zero(t, would)
	}
}

// It goes the way of the rule: only its callers, its strategy, its behavior, its mode.
func TestCandidate_OfEveryKindOfRule(t *testing.T) {
	t.Parallel()
	h := &heap{}
	h.used.Store(4096)
	for name, c := range map[string]struct {
		rule flow.Rule
		want int64 // of ten calls
	}{
		"reject":    {flow.Rule{Threshold: 100, Candidate: 4}, 6},
		"pace":      {flow.Rule{Threshold: 100, Candidate: 10, Behavior: flow.Pace, MaxWait: 300 * ms}, 6},
		"warm-up":   {flow.Rule{Threshold: 100, Candidate: 12, Strategy: flow.WarmUp, WarmUpPeriod: time.Second}, 6},
		"memory":    {flow.Rule{Threshold: 100, Candidate: 9, Strategy: flow.MemoryAdaptive, HighMemoryThreshold: 8, LowMemory: 1, HighMemory: 2}, 2},
		"origin":    {flow.Rule{Threshold: 100, Candidate: 4, Origin: "us"}, 6},
		"not us":    {flow.Rule{Threshold: 100, Candidate: 4, Origin: "them"}, 0},
		"associate": {flow.Rule{Threshold: 100, Candidate: 0.5, Associated: "b"}, 10},
		"shadow":    {flow.Rule{Threshold: 100, Candidate: 4, Mode: rule.Shadow}, 6},
		"off":       {flow.Rule{Threshold: 100, Candidate: 4, Mode: rule.Off}, 0},
		"pattern":   {flow.Rule{Threshold: 100, Candidate: 4, Match: rule.Default}, 6},
	} {
		q := &queue{}
		if c.rule.Match == rule.Exact {
			c.rule.Resource = "a"
		}
		g := newGateWith(t, leapgate.Config{Memory: h, Sleep: q.sleep}, c.rule)
		want := 10
		if name == "memory" {
			want = 8
		}
		require.Equal(t, want, g.try(t, "a", 10, leapgate.WithOrigin("us")), name)
		_, would := g.tried(t, "a")
		require.Equal(t, c.want, would, name)
	}
}

// It keeps its window when it changes, and loses it when it goes.
func TestCandidate_Reload(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	load := func(candidate float64) {
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 100, Candidate: candidate}}))
	}
	load(3)
	require.Equal(t, 5, g.try(t, "a", 5))
	load(4)
	require.Equal(t, 2, g.try(t, "a", 2))
	_, would := g.tried(t, "a")
	require.EqualValues(t, 3, would, "3 of 5 were in the window, and the fourth fits")
	load(0)
	require.Equal(t, 2, g.try(t, "a", 2))
	load(4)
	require.Equal(t, 4, g.try(t, "a", 4))
	_, would = g.tried(t, "a")
	require.EqualValues(t, 3, would, "its window is new")
	require.EqualValues(t, 13, g.rule(t, "a", "a/1").admitted, "the live one's is not")
}

// Any rules and calls: with and without candidates the caller gets the same.
func TestCandidate_ChangesNoAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := drawKinds(t, false)
		tried := append([]flow.Rule(nil), rules...)
		for i := range tried {
			tried[i].Candidate = rapid.SampledFrom([]float64{0, 6, 9.5, 20, 1000}).Draw(t, "candidate")
		}
		h := &heap{}
		a, b := newKindsGate(t, h, rules), newKindsGate(t, h, tried)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			h.used.Store(rapid.Int64Range(0, 300).Draw(t, "memory"))
			step := int64(rapid.SampledFrom([]time.Duration{0, 0, 0, ms, 90 * ms, time.Second, time.Minute}).Draw(t, "step"))
			a.clock.Add(step)
			b.clock.Add(step)
			opts := drawOptions(t)
			errA, errB := a.call(t, opts), b.call(t, opts)
			if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() {
				t.Fatalf("%v without, %v with", errA, errB)
			}
		}
		if x, y := a.clock.Load(), b.clock.Load(); x != y {
			t.Fatalf("waits differ by %d", x-y)
		}
	})
}

func (g *gate) call(t *rapid.T, opts []leapgate.EntryOption) error {
	e, err := g.EntryContext(t.Context(), "a", opts...)
	e.Exit()
	if err != nil && !errors.Is(err, leapgate.ErrBlocked) {
		t.Fatal(err)
	}
	return err
}
