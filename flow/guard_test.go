package flow_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/rule"
)

const ms = time.Millisecond

// minute is a whole minute, as the cases want it: 2020-07-31 12:40 UTC.
const minute = 1596199200000 * int64(ms)

// gate is a gate whose clock is the test's.
type gate struct {
	*leapgate.Gate
	clock atomic.Int64
}

func newGate(t testing.TB, rules ...flow.Rule) *gate {
	t.Helper()
	return newGateWith(t, leapgate.Config{}, rules...)
}

// at sets the clock to a time after the whole minute.
func (g *gate) at(after time.Duration) *gate {
	g.clock.Store(minute + int64(after))
	return g
}

// try calls name k times, each call at an end at once when it is admitted, and
// tells how many were. What is not admitted must be blocked.
func (g *gate) try(t testing.TB, name string, k int, opts ...leapgate.EntryOption) (admitted int) {
	t.Helper()
	for range k {
		e, err := g.EntryContext(context.Background(), name, opts...)
		e.Exit()
		if err == nil {
			admitted++
		} else {
			require.ErrorIs(t, err, leapgate.ErrBlocked)
		}
	}
	return admitted
}

// blocked makes a call that must be blocked, and returns the error.
func (g *gate) blocked(t testing.TB, name string, n int64) *leapgate.BlockError {
	t.Helper()
	_, err := g.EntryContext(context.Background(), name, leapgate.WithCount(n))
	var b *leapgate.BlockError
	require.ErrorAs(t, err, &b)
	return b
}

// figuresOf are the counts of one rule.
type figuresOf struct {
	id                            string
	admitted, blocked, wouldBlock int64
}

// rules returns the figures of the rules of a resource, in their order.
func (g *gate) rules(name string) (all []figuresOf) {
	for _, r := range g.Resource(name).Snapshot().Rules {
		all = append(all, figuresOf{r.ID, r.Admitted, r.Blocked, r.WouldBlock})
	}
	return all
}

func (g *gate) rule(t testing.TB, name, id string) figuresOf {
	t.Helper()
	for _, r := range g.rules(name) {
		if r.id == id {
			return r
		}
	}
	require.FailNow(t, "no such rule", "%q on %q", id, name)
	return figuresOf{}
}

// two is a rule in the cases' window: one second in two buckets.
func two(name string, threshold float64) flow.Rule {
	return flow.Rule{Resource: name, Threshold: threshold, Buckets: 2}
}

func TestRule_Cases(t *testing.T) {
	t.Parallel()
	type step struct {
		at    time.Duration
		tries int
		want  int
	}
	for name, c := range map[string]struct {
		rules []flow.Rule
		from  time.Duration
		steps []step
		block int64
	}{
		"ten per second": {
			rules: []flow.Rule{two("a", 10)},
			steps: []step{{0, 20, 10}, {499 * ms, 5, 0}, {500 * ms, 5, 0}, {999 * ms, 5, 0}, {1000 * ms, 20, 10}},
			block: 10 + 5 + 5 + 5 + 10,
		},
		"zero blocks all":                  {rules: []flow.Rule{two("a", 0)}, steps: []step{{0, 5, 0}, {1000 * ms, 5, 0}}, block: 10},
		"0.9 blocks all":                   {rules: []flow.Rule{two("a", 0.9)}, steps: []step{{0, 5, 0}, {1000 * ms, 5, 0}}, block: 10},
		"1.5 admits one":                   {rules: []flow.Rule{two("a", 1.5)}, steps: []step{{0, 5, 1}, {999 * ms, 5, 0}, {1000 * ms, 5, 1}}, block: 13},
		"the largest threshold admits all": {rules: []flow.Rule{two("a", math.MaxFloat64)}, steps: []step{{0, 500, 500}}},
		"the smallest blocks all":          {rules: []flow.Rule{two("a", math.SmallestNonzeroFloat64)}, steps: []step{{0, 5, 0}}, block: 5},
		"almost two admits one":            {rules: []flow.Rule{two("a", math.Nextafter(2, 0))}, steps: []step{{0, 5, 1}}, block: 4},
		"one private bucket": {
			rules: []flow.Rule{{Resource: "a", Threshold: 2, Interval: 300 * ms, Buckets: 1}}, from: 100 * ms,
			steps: []step{{0, 5, 2}, {100 * ms, 1, 0}, {199 * ms, 1, 0}, {200 * ms, 5, 2}, {300 * ms, 1, 0}, {500 * ms, 5, 2}},
			block: 3 + 1 + 1 + 3 + 1 + 3,
		},
		"two rules": {
			rules: []flow.Rule{two("a", 10), two("a", 3)},
			steps: []step{{0, 10, 3}, {999 * ms, 5, 0}, {1000 * ms, 10, 3}}, block: 7 + 5 + 7,
		},
		"what is blocked consumes nothing": {
			rules: []flow.Rule{two("a", 5)},
			steps: []step{{0, 25, 5}, {1000 * ms, 25, 5}}, block: 40,
		},
		"the clock jumps one hour ahead": {
			rules: []flow.Rule{two("a", 10)},
			steps: []step{{0, 20, 10}, {time.Hour, 20, 10}, {time.Hour + 999*ms, 20, 0}, {time.Hour + time.Second, 20, 10}}, block: 50,
		},
		"the default window": {
			rules: []flow.Rule{{Resource: "a", Threshold: 4}},
			steps: []step{{0, 1, 1}, {99 * ms, 1, 1}, {100 * ms, 1, 1}, {950 * ms, 9, 1}, {999 * ms, 1, 0}, {1000 * ms, 9, 2}, {1099 * ms, 1, 0}, {1100 * ms, 9, 1}},
			block: 8 + 1 + 7 + 1 + 8,
		},
		"strict remembers one bucket longer": {
			rules: []flow.Rule{{Resource: "a", Threshold: 4, Buckets: 2, Strict: true}},
			steps: []step{{499 * ms, 5, 4}, {1000 * ms, 5, 0}, {1499 * ms, 5, 0}, {1500 * ms, 5, 4}}, block: 12,
		},
		"another resource has no rule": {
			rules: []flow.Rule{two("b", 0)},
			steps: []step{{0, 50, 50}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, c.rules...)
			pass := 0
			for _, s := range c.steps {
				require.Equal(t, s.want, g.at(c.from+s.at).try(t, "a", s.tries), "@%v try %d", s.at, s.tries)
				pass += s.want
			}
			figures := g.Resource("a").Snapshot()
			require.EqualValues(t, pass, figures.Pass)
			require.EqualValues(t, c.block, figures.Block)
			require.Zero(t, figures.Concurrency)
		})
	}
}

func TestRule_ThresholdBeyondAllNumbers(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 1e300})
	require.Equal(t, 1000, g.try(t, "a", 1000, leapgate.WithCount(1<<20)))
}

func TestRule_BatchPassesWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 10))
	require.Equal(t, 1, g.try(t, "a", 5, leapgate.WithCount(7)))
	require.Zero(t, g.try(t, "a", 1, leapgate.WithCount(4)))
	require.Equal(t, 3, g.try(t, "a", 5))
	require.Zero(t, g.at(time.Second).try(t, "a", 5, leapgate.WithCount(11)))
	require.Equal(t, 1, g.try(t, "a", 5, leapgate.WithCount(10)))
	figures := g.Resource("a").Snapshot()
	require.EqualValues(t, 7+3+10, figures.Pass)
	require.EqualValues(t, 4*7+4+2+5*11+4*10, figures.Block)
	require.Equal(t, figuresOf{"a/1", 20, figures.Block, 0}, g.rule(t, "a", "a/1"))
}

// What the first rule gave is given back when the second refuses, or the ten of
// the second would be gone at once.
func TestRule_RefusalOfTheSecondIsGivenBackToTheFirst(t *testing.T) {
	t.Parallel()
	g := newGate(t,
		flow.Rule{ID: "second", Resource: "a", Threshold: 10},
		flow.Rule{ID: "tenth", Resource: "a", Threshold: 3, Interval: 100 * ms, Buckets: 1})
	for i, want := range []int{3, 3, 3, 1, 0} {
		require.Equal(t, want, g.at(time.Duration(i)*100*ms).try(t, "a", 10))
	}
	require.Equal(t, []figuresOf{{"second", 10, 9 + 10, 0}, {"tenth", 10, 21, 0}}, g.rules("a"))
	require.Equal(t, 3, g.at(1000*ms).try(t, "a", 10))
}

func TestRule_ThreeRulesGiveBackExactly(t *testing.T) {
	t.Parallel()
	g := newGate(t,
		flow.Rule{ID: "wide", Resource: "a", Threshold: 9},
		flow.Rule{ID: "middle", Resource: "a", Threshold: 5, Interval: 500 * ms, Buckets: 5},
		flow.Rule{ID: "narrow", Resource: "a", Threshold: 2, Interval: 100 * ms, Buckets: 1})
	for i, c := range []struct {
		want int
		by   string
	}{
		{2, "narrow"},
		{2, "narrow"},
		{1, "middle"},
		{0, "middle"},
		{0, "middle"},
		{2, "middle"},
		{2, "wide"},
		{0, "wide"},
		{0, "wide"},
		{0, "wide"},
		{2, "wide"},
		{2, "wide"}, // 1000 ms: the first bucket of wide has left
	} {
		g.at(time.Duration(i) * 100 * ms)
		require.Equal(t, c.want, g.try(t, "a", 6), "@%d00", i)
		require.Equal(t, c.by, g.blocked(t, "a", 1).RuleID, "@%d00", i)
	}
	for _, id := range []string{"wide", "middle", "narrow"} {
		require.EqualValues(t, 13, g.rule(t, "a", id).admitted, id)
	}
}

func TestRule_ShadowCountsAndBlocksNothing(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 2, Mode: rule.Shadow})
	require.Equal(t, 5, g.try(t, "a", 5))
	require.Equal(t, 1, g.try(t, "a", 1, leapgate.WithCount(4)))
	figures := g.Resource("a").Snapshot()
	require.EqualValues(t, 9, figures.Pass)
	require.Zero(t, figures.Block)
	require.EqualValues(t, 7, figures.WouldBlock)
	require.Len(t, figures.Rules, 1)
	given := figures.Rules[0]
	require.Equal(t, "a/1", given.ID)
	require.Equal(t, "flow", given.Kind)
	require.Equal(t, rule.Shadow, given.Mode)
	require.Equal(t, 2.0, given.Threshold)
	require.EqualValues(t, 2, given.Admitted)
	require.Zero(t, given.Blocked)
	require.EqualValues(t, 7, given.WouldBlock)
}

// A rule in shadow mode sees what the other rules let through, and no more.
func TestRule_ShadowBesideEnforce(t *testing.T) {
	t.Parallel()
	g := newGate(t,
		flow.Rule{ID: "shadow", Resource: "a", Threshold: 1, Mode: rule.Shadow},
		flow.Rule{ID: "enforce", Resource: "a", Threshold: 3},
		flow.Rule{ID: "twin", Resource: "a", Threshold: 2, Mode: rule.Shadow},
		flow.Rule{ID: "off", Resource: "a", Threshold: 0, Mode: rule.Off})
	require.Equal(t, 3, g.try(t, "a", 5))
	require.Equal(t, "enforce", g.blocked(t, "a", 1).RuleID)
	figures := g.Resource("a").Snapshot()
	require.EqualValues(t, 3, figures.Block)
	require.EqualValues(t, 2, figures.WouldBlock, "each call once, however many rules would have blocked it")
	require.Equal(t, []figuresOf{{"shadow", 1, 0, 2}, {"enforce", 3, 3, 0}, {"twin", 2, 0, 1}, {"off", 0, 0, 0}}, g.rules("a"))
}

func TestRule_OffDoesNotLook(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 0, Mode: rule.Off})
	require.Equal(t, 50, g.try(t, "a", 50))
	figures := g.Resource("a").Snapshot()
	require.Zero(t, figures.Block)
	require.Zero(t, figures.WouldBlock)
	require.Equal(t, []figuresOf{{"a/1", 0, 0, 0}}, g.rules("a"))
}

// A clock that goes back finds the window where it was.
func TestRule_TimeGoesBack(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 10))
	require.Equal(t, 4, g.at(time.Hour).try(t, "a", 4))
	require.Equal(t, 6, g.at(0).try(t, "a", 20))
	require.Equal(t, time.Hour+time.Second, g.blocked(t, "a", 1).RetryAfter)
	require.Zero(t, g.at(time.Hour+999*ms).try(t, "a", 20))
	require.Equal(t, 10, g.at(time.Hour+time.Second).try(t, "a", 20))
}

func TestBlockError_FieldsAndText(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{ID: "orders-qps", Resource: "GET /orders", Threshold: 100})
	require.Equal(t, 100, g.try(t, "GET /orders", 100))
	g.at(770 * ms)
	_, err := g.Entry("GET /orders")
	require.EqualError(t, err, `flow rule "orders-qps" on "GET /orders": 101 of 100 in 1s; retry in 230ms`)
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	var b *leapgate.BlockError
	require.ErrorAs(t, err, &b)
	require.Equal(t, "GET /orders", b.Resource)
	require.Equal(t, "flow", b.Kind)
	require.Equal(t, "orders-qps", b.RuleID)
	require.Equal(t, 100.0, b.Threshold)
	require.Equal(t, 101.0, b.Observed)
	require.Equal(t, time.Second, b.Interval)
	require.Equal(t, 230*ms, b.RetryAfter)
}

func TestBlockError_TextOfOtherRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given flow.Rule
		first int // calls that are admitted before
		n     int64
		want  string
	}{
		{flow.Rule{Resource: "a", Threshold: 0}, 0, 1, `flow rule "a/1" on "a": 1 of 0 in 1s`},
		{flow.Rule{Resource: "a", Threshold: 0.9}, 0, 1, `flow rule "a/1" on "a": 1 of 0.9 in 1s`},
		{flow.Rule{Resource: "a", Threshold: 1.5}, 1, 1, `flow rule "a/1" on "a": 2 of 1.5 in 1s; retry in 1s`},
		{flow.Rule{Resource: "a", Threshold: 10}, 4, 7, `flow rule "a/1" on "a": 11 of 10 in 1s; retry in 1s`},
		{flow.Rule{Resource: "a", Threshold: 10}, 4, 11, `flow rule "a/1" on "a": 15 of 10 in 1s`},
		{flow.Rule{Resource: "a", Threshold: 1_000_000, Interval: time.Minute, Strict: true}, 1, 1_000_000, `flow rule "a/1" on "a": 1000001 of 1000000 in 1m0s; retry in 1m6s`},
		{flow.Rule{ID: "x\n\"y\"", Resource: "a", Threshold: 0}, 0, 1, `flow rule "x\n\"y\"" on "a": 1 of 0 in 1s`},
	} {
		g := newGate(t, c.given)
		require.Equal(t, c.first, g.try(t, "a", c.first))
		require.EqualError(t, g.blocked(t, "a", c.n), c.want)
	}
}

// The rule that refuses is named; the wait is the longest of all that bind.
func TestBlockError_RetryAfterOfSeveralRules(t *testing.T) {
	t.Parallel()
	g := newGate(t,
		flow.Rule{ID: "tenth", Resource: "a", Threshold: 2, Interval: 100 * ms, Buckets: 1},
		flow.Rule{ID: "second", Resource: "a", Threshold: 2},
		flow.Rule{ID: "shadow", Resource: "a", Threshold: 1, Interval: time.Hour, Mode: rule.Shadow},
		flow.Rule{ID: "off", Resource: "a", Threshold: 0, Mode: rule.Off})
	require.Equal(t, 2, g.try(t, "a", 2))
	b := g.blocked(t, "a", 1)
	require.Equal(t, "tenth", b.RuleID)
	require.Equal(t, time.Second, b.RetryAfter, "not the 100 ms of the rule that refused; shadow does not bind")
	require.Zero(t, g.blocked(t, "a", 3).RetryAfter, "can never pass")
	require.Equal(t, time.Nanosecond, g.at(time.Second-1).blocked(t, "a", 2).RetryAfter)
	require.Equal(t, 1, g.at(time.Second).try(t, "a", 1, leapgate.WithCount(2)))

	// One rule that can never admit it makes the wait unknown, wherever it stands.
	for _, rules := range [][]flow.Rule{{two("b", 1), two("b", 0)}, {two("b", 0), two("b", 1)}} {
		require.NoError(t, g.LoadFlowRules(rules))
		require.Zero(t, g.blocked(t, "b", 1).RetryAfter)
	}
}

// Not parallel: allocations are counted for the whole process.
func TestRule_AllocatesOnlyTheBlockError(t *testing.T) {
	g := newGate(t, two("pass", 1e9),
		two("three", 1e9), two("three", 1e9), flow.Rule{Resource: "three", Threshold: 1e9, Mode: rule.Shadow},
		two("block", 1), two("late", 1e9), two("late", 0), flow.Rule{Resource: "would", Threshold: 0, Mode: rule.Shadow})
	require.Equal(t, 1, g.try(t, "block", 1))
	ctx := context.Background()
	for name, want := range map[string]float64{"pass": 0, "three": 0, "would": 0, "block": 1, "late": 1} {
		call := func() {
			e, _ := g.Entry(name)
			e.Exit()
		}
		require.Equal(t, want, testing.AllocsPerRun(100, call), name)
		batch := func() {
			e, _ := g.EntryContext(ctx, name, leapgate.WithCount(2))
			e.Exit()
		}
		require.Equal(t, want, testing.AllocsPerRun(100, batch), name)
	}
}

// A rule's window, or the other resource that it reads, shows how much of the threshold is used. A rule that paces has
// no window.
func TestGuard_SnapshotTellsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c,
		flow.Rule{ID: "day", Resource: "a", Threshold: 1000, Interval: 24 * time.Hour},
		flow.Rule{ID: "second", Resource: "a", Threshold: 1000},
		flow.Rule{ID: "paced", Resource: "a", Threshold: 1000, Behavior: flow.Pace, MaxWait: time.Second},
		flow.Rule{ID: "reads", Resource: "a", Threshold: 1000, Associated: "b"},
	)
	for range 3 {
		gates.Enter(t, g, "a")
		c.Advance(600 * time.Millisecond)
	}
	gates.Enter(t, g, "b")
	used := make(map[string]int64)
	for _, r := range gates.Snapshot(t, g, "a").Rules {
		used[r.ID] = r.Used
	}
	require.Equal(t, map[string]int64{"day": 3, "second": 1, "paced": -1, "reads": 1}, used)
}
