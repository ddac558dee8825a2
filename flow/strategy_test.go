package flow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// adaptive is the rule of the cases.
func adaptive(low, high float64) flow.Rule {
	return flow.Rule{
		ID: "m", Resource: "a", Threshold: low, Strategy: flow.MemoryAdaptive,
		HighMemoryThreshold: high, LowMemory: 1024, HighMemory: 2048,
	}
}

func TestMemoryAdaptive_ThresholdFallsAsMemoryGrows(t *testing.T) {
	t.Parallel()
	h := &heap{}
	g := newGateWith(t, leapgate.Config{Memory: h}, adaptive(1000, 100))
	for _, c := range []struct {
		used int64
		want float64
	}{{0, 1000}, {100, 1000}, {1024, 1000}, {1025, 1000 - 900.0/1024}, {1536, 550}, {2047, 100 + 900.0/1024}, {2048, 100}, {3072, 100}, {1 << 62, 100}, {-5, 1000}} {
		h.used.Store(c.used)
		require.InDelta(t, c.want, g.snapshot(t, "a").Effective, 1e-9, "%d bytes", c.used)
		require.Equal(t, 1000.0, g.snapshot(t, "a").Threshold)
		g.clock.Add(int64(time.Second))
		require.Equal(t, int(c.want), g.try(t, "a", 1010), "%d bytes", c.used)
	}
}

// A memory that is not known holds nobody back.
func TestMemoryAdaptive_Bursts(t *testing.T) {
	t.Parallel()
	h := &heap{}
	g := newGateWith(t, leapgate.Config{Memory: h}, adaptive(5, 1))
	for _, c := range []struct {
		used    int64
		unknown bool
		want    int
	}{{100, false, 5}, {1536, false, 3}, {4096, false, 1}, {4096, true, 5}} {
		h.used.Store(c.used)
		h.unknown.Store(c.unknown)
		g.clock.Add(int64(time.Second))
		require.Equal(t, c.want, g.try(t, "a", 20))
	}
	without := newGate(t, adaptive(5, 1))
	require.Equal(t, 5, without.try(t, "a", 20))
	require.Equal(t, 5.0, without.snapshot(t, "a").Effective)
}

func TestMemoryAdaptive_Pace(t *testing.T) {
	t.Parallel()
	h := &heap{}
	q := &queue{}
	rule := adaptive(10, 2)
	rule.Behavior, rule.MaxWait = flow.Pace, time.Second
	g := newGateWith(t, leapgate.Config{Memory: h, Sleep: q.sleep}, rule)
	require.Equal(t, 3, g.try(t, "a", 3))
	h.used.Store(2048)
	require.Equal(t, 1, g.try(t, "a", 3))
	require.Equal(t, list(100, 200, 700), q.taken())
	h.used.Store(0)
	require.Equal(t, 3, g.try(t, "a", 9))
	require.Equal(t, list(800, 900, 1000), q.taken())
}

// The refusal tells the threshold that it was decided by, also if the memory in use
// is another a moment later.
func TestMemoryAdaptive_MemoryIsReadOncePerDecision(t *testing.T) {
	t.Parallel()
	h := &flicker{}
	g := newGateWith(t, leapgate.Config{Memory: h}, adaptive(1000, 1))
	h.next = 4096
	require.Equal(t, 1, g.try(t, "a", 1))
	h.next = 4096
	b := g.blocked(t, "a", 1)
	require.Equal(t, []float64{2, 1}, []float64{b.Observed, b.Threshold})
}

// flicker tells of much memory once, and then of little.
type flicker struct{ next int64 }

func (f *flicker) Used() (bytes int64, known bool) {
	bytes, f.next = f.next, 0
	return bytes, true
}

func TestAssociated_BlocksByWhatTheOtherPasses(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 5, Associated: "b"})
	require.Equal(t, 100, g.try(t, "a", 100))
	require.Equal(t, 4, g.try(t, "b", 4))
	require.Equal(t, 3, g.try(t, "a", 3))
	require.Zero(t, g.try(t, "a", 1, leapgate.WithCount(2)), "a batch is held against it as a whole")
	require.Equal(t, 1, g.try(t, "b", 1))
	require.Zero(t, g.try(t, "a", 3))
	require.Equal(t, figuresOf{"a/1", 103, 5, 0}, g.rule(t, "a", "a/1"))
	require.Equal(t, 3, g.at(time.Second).try(t, "a", 3))
}

// The other resource is there from the beginning, and stays as long as a rule reads it.
func TestAssociated_TheOtherIsNotEvicted(t *testing.T) {
	t.Parallel()
	rules := []flow.Rule{{Resource: "a", Threshold: 1, Associated: "b"}, {Resource: "c", Threshold: 1, Associated: "b"}}
	g := newGateWith(t, leapgate.Config{MaxResources: 1}, rules...)
	names := func() (all []string) {
		for _, s := range g.Snapshot() {
			all = append(all, s.Resource)
		}
		return all
	}
	require.Equal(t, []string{"a", "b", "c"}, names())
	require.Equal(t, 1, g.try(t, "b", 1))
	g.clock.Add(int64(time.Hour))
	for i := range 20 {
		g.try(t, fmt.Sprint("x", i), 1)
	}
	require.Contains(t, names(), "b")
	require.NoError(t, g.LoadFlowRules(rules[:1]))
	g.try(t, "b", 1)
	require.Zero(t, g.try(t, "a", 1))
	require.NoError(t, g.LoadFlowRules(nil))
	g.clock.Add(int64(time.Hour))
	g.try(t, "x", 1)
	g.try(t, "y", 1)
	require.NotContains(t, names(), "b")
}

func TestOrigin_NamedOthersAndEveryone(t *testing.T) {
	t.Parallel()
	g := newGate(t,
		flow.Rule{ID: "two", Resource: "a", Origin: "app2", Threshold: 1},
		flow.Rule{ID: "others", Resource: "a", Origin: flow.OtherOrigins, Threshold: 0})
	from := leapgate.WithOrigin
	require.Zero(t, g.try(t, "a", 2, from("app1")))
	require.Zero(t, g.try(t, "a", 2), "a caller without a name is another")
	require.Zero(t, g.try(t, "a", 2, from(flow.OtherOrigins)), "the word names nobody")
	require.Equal(t, 1, g.try(t, "a", 2, from("app2")))
	require.Equal(t, figuresOf{"others", 0, 6, 0}, g.rule(t, "a", "others"))
	require.Equal(t, figuresOf{"two", 1, 1, 0}, g.rule(t, "a", "two"))

	g = newGate(t,
		flow.Rule{ID: "A", Resource: "a", Origin: "appA", Threshold: 5},
		flow.Rule{ID: "B", Resource: "a", Origin: flow.OtherOrigins, Threshold: 2},
		flow.Rule{ID: "all", Resource: "a", Threshold: 6})
	require.Equal(t, 2, g.try(t, "a", 9, from("appB")))
	require.Equal(t, 4, g.try(t, "a", 9, from("appA")), "of 5, since everyone together has 6")
	require.Equal(t, []figuresOf{{"A", 4, 0, 0}, {"B", 2, 7, 0}, {"all", 6, 5, 0}}, g.rules("a"))
}

// Which callers are others follows the rules that are loaded, though the rule for the others
// does not change.
func TestOrigin_OthersFollowTheRules(t *testing.T) {
	t.Parallel()
	others := flow.Rule{ID: "others", Resource: "a", Origin: flow.OtherOrigins, Threshold: 0}
	one := flow.Rule{ID: "one", Resource: "a", Origin: "one", Threshold: 100}
	g := newGate(t, others)
	from := leapgate.WithOrigin
	for range 3 {
		require.Zero(t, g.try(t, "a", 1, from("one")))
		require.NoError(t, g.LoadFlowRules([]flow.Rule{others, one}))
		require.Equal(t, 1, g.try(t, "a", 1, from("one")))
		require.Zero(t, g.try(t, "a", 1, from("two")))
		two := one
		two.Origin = "two"
		require.NoError(t, g.LoadFlowRules([]flow.Rule{others, two}))
		require.Zero(t, g.try(t, "a", 1, from("one")))
		require.Equal(t, 1, g.try(t, "a", 1, from("two")))
		require.NoError(t, g.LoadFlowRules([]flow.Rule{others}))
	}
	elsewhere := one
	elsewhere.Resource = "b"
	require.NoError(t, g.LoadFlowRules([]flow.Rule{others, elsewhere}))
	require.Zero(t, g.try(t, "a", 1, from("one")), "it is named for b only")
}

// A rule that is not for a caller takes nothing, and so gets nothing back.
func TestOrigin_RefundOfWhoWasNotConcerned(t *testing.T) {
	t.Parallel()
	for _, rule := range []flow.Rule{
		{},
		{Candidate: 1},
		{Behavior: flow.Pace, MaxWait: time.Second},
		{Associated: "b"},
		{Mode: rule.Shadow},
	} {
		rule.ID, rule.Resource, rule.Origin, rule.Threshold = "one", "a", "one", 2
		g, _ := newQueue(t, rule, flow.Rule{ID: "none", Resource: "a", Origin: "two", Threshold: 0})
		require.Equal(t, 1, g.try(t, "a", 1, leapgate.WithOrigin("one")))
		require.Zero(t, g.try(t, "a", 5, leapgate.WithOrigin("two")))
		require.Equal(t, figuresOf{"one", 1, 0, 0}, g.rule(t, "a", "one"), "%+v", rule)
	}
}

func TestOrigin_TooLong(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Origin: "x", Threshold: 0})
	_, err := g.EntryContext(t.Context(), "a", leapgate.WithOrigin(string(make([]byte, 1025))))
	require.ErrorIs(t, err, leapgate.ErrOrigin)
	require.NotErrorIs(t, err, leapgate.ErrBlocked)
	require.Zero(t, g.Resource("a").Snapshot().Block)
}
