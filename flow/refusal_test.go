package flow_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// What is read aloud of a refusal, by each kind of rule.
func TestBlockError_TextOfEveryBehavior(t *testing.T) {
	t.Parallel()
	h := &heap{}
	h.used.Store(1536)
	memory := adaptive(1000, 100)
	memory.Behavior = flow.Pace
	for _, c := range []struct {
		rule  flow.Rule
		first int // calls that are admitted before
		n     int64
		want  string
	}{
		{pacing, 6, 1, `flow rule "p" on "a": 11.67 of 10 in 1s, with a queue of 500ms; retry in 100ms`},
		{pacing, 6, 11, `flow rule "p" on "a": 11 of 10 in 1s, with a queue of 500ms`},
		{flow.Rule{Threshold: 10, Behavior: flow.Pace}, 1, 1, `flow rule "a/1" on "a": 20 of 10 in 1s, with a queue of 0s; retry in 100ms`},
		{flow.Rule{Threshold: 50_000, Behavior: flow.Pace}, 1, 1, `flow rule "a/1" on "a": 100000 of 50000 in 1s, with a queue of 0s; retry in 20µs`},
		{flow.Rule{Threshold: 0, Behavior: flow.Pace, MaxWait: time.Second}, 0, 1, `flow rule "a/1" on "a": 1 of 0 in 1s, with a queue of 1s`},
		{warming, 33, 1, `flow rule "w" on "a": 34 of 33.33 in 1s, warming up to 100; retry in 1s`},
		{warming, 0, 34, `flow rule "w" on "a": 34 of 33.33 in 1s, warming up to 100`},
		{
			flow.Rule{Threshold: 2, Strategy: flow.WarmUp, WarmUpPeriod: time.Second},
			1, 1,
			`flow rule "a/1" on "a": 2 of 1 in 1s, warming up to 2; retry in 1s`,
		},
		{adaptive(1000, 100), 550, 1, `flow rule "m" on "a": 551 of 550 in 1s, of 1000 with memory to spare; retry in 1s`},
		{memory, 1, 1, `flow rule "m" on "a": 1100 of 550 in 1s, with a queue of 0s, of 1000 with memory to spare; retry in 2ms`},
		{flow.Rule{Threshold: 0, Associated: "b"}, 0, 2, `flow rule "a/1" on "a": 2 of 0 in 1s on "b"`},
		{flow.Rule{Threshold: 1, Origin: "us"}, 1, 1, `flow rule "a/1" on "a": 2 of 1 in 1s; retry in 1s`},
		{flow.Rule{Match: rule.Default, Threshold: 1}, 1, 1, `flow rule "*/1" on "a": 2 of 1 in 1s; retry in 1s`},
		{flow.Rule{Resource: "[a-c]*", Match: rule.Glob, Threshold: 1}, 1, 1, `flow rule "[a-c]*/1" on "a": 2 of 1 in 1s; retry in 1s`},
	} {
		if c.rule.Resource == "" && c.rule.Match == rule.Exact {
			c.rule.Resource = "a"
		}
		q := &queue{}
		g := newGateWith(t, leapgate.Config{Memory: h, Sleep: q.sleep}, c.rule)
		us := leapgate.WithOrigin("us")
		require.Equal(t, c.first, g.try(t, "a", c.first, us), c.want)
		_, err := g.EntryContext(t.Context(), "a", us, leapgate.WithCount(c.n))
		require.EqualError(t, err, c.want)
	}
}

// The threshold in the error is that of the moment, though causes are shared.
func TestBlockError_ThresholdOfTheMoment(t *testing.T) {
	t.Parallel()
	h := &heap{}
	g := newGateWith(t, leapgate.Config{Memory: h}, adaptive(5, 1))
	require.Equal(t, 5, g.try(t, "a", 5))
	var all []*leapgate.BlockError
	for _, used := range []int64{0, 1536, 1536, 2048, 1536, 0} {
		h.used.Store(used)
		all = append(all, g.blocked(t, "a", 1))
	}
	for i, want := range []float64{5, 3, 3, 1, 3, 5} {
		require.Equal(t, want, all[i].Threshold, "an error does not change afterwards")
		require.Equal(t, 6.0, all[i].Observed)
		require.Equal(t, "m", all[i].RuleID)
	}
	require.Same(t, all[1].Cause, all[2].Cause)
}

// The wait is rounded up to what can be read, never down.
func TestBlockError_TextOfShortWaits(t *testing.T) {
	t.Parallel()
	g := newGate(t, two("a", 1))
	require.Equal(t, 1, g.try(t, "a", 1))
	for at, want := range map[time.Duration]string{
		time.Second - 1:                    "retry in 1µs",
		time.Second - ms:                   "retry in 1ms",
		time.Second - ms - 1:               "retry in 2ms",
		time.Second - 1500:                 "retry in 2µs",
		time.Second - 230*ms + 1:           "retry in 230ms",
		time.Second - 999*time.Microsecond: "retry in 999µs",
	} {
		require.Contains(t, g.at(at).blocked(t, "a", 1).Error(), "; "+want, "@%v", at)
	}
}

func TestLastRefusal_WhenWhoAndHowMuch(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{ID: "r", Resource: "a", Threshold: 2}, flow.Rule{ID: "other", Resource: "a", Threshold: 5})
	require.Zero(t, g.snapshot(t, "a").LastRefusal)
	require.Equal(t, 2, g.try(t, "a", 2))
	require.Zero(t, g.snapshot(t, "a").LastRefusal, "what passes is none")
	at := func(after time.Duration) time.Time { return time.Unix(0, minute+int64(after)) }

	g.at(300*ms).try(t, "a", 1, leapgate.WithOrigin("us"), leapgate.WithCount(2))
	g.at(600 * ms)
	require.Equal(t, stat.Refusal{At: at(300 * ms), Origin: "us", Observed: 4, Threshold: 2, RetryAfter: 700 * ms}, g.snapshot(t, "a").LastRefusal)
	g.try(t, "a", 1)
	require.Equal(t, stat.Refusal{At: at(600 * ms), Observed: 3, Threshold: 2, RetryAfter: 400 * ms}, g.snapshot(t, "a").LastRefusal)
	g.try(t, "a", 1, leapgate.WithCount(3))
	require.Equal(t, stat.Refusal{At: at(600 * ms), Observed: 5, Threshold: 2}, g.snapshot(t, "a").LastRefusal)
	require.Zero(t, g.Resource("a").Snapshot().Rules[1].LastRefusal, "of each rule its own")

	// It stays when the rule changes, as the counts do, and goes with the rule.
	last := g.snapshot(t, "a").LastRefusal
	for _, interval := range []time.Duration{0, time.Minute} {
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "a", Threshold: 3, Interval: interval}}))
		require.Equal(t, last, g.snapshot(t, "a").LastRefusal)
	}
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "s", Resource: "a", Threshold: 3}}))
	require.Zero(t, g.snapshot(t, "a").LastRefusal)
}

// It is that of the binding rules: shadow refuses nobody.
func TestLastRefusal_NotInShadow(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 0, Mode: rule.Shadow})
	require.Equal(t, 5, g.try(t, "a", 5))
	require.Zero(t, g.snapshot(t, "a").LastRefusal)
}

// A flood does not wait for one cache line: 64 in a millisecond are kept.
func TestLastRefusal_Flood(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 0})
	refuse := func(n int64) { g.try(t, "a", 1, leapgate.WithCount(n)) }
	observed := func() float64 { return g.snapshot(t, "a").LastRefusal.Observed }
	for n := range int64(200) {
		g.at(time.Duration(n) * ms / 200)
		refuse(n + 1)
		require.EqualValues(t, min(n+1, 64), observed())
	}
	g.at(ms)
	refuse(1000)
	require.Equal(t, 1000.0, observed(), "the next millisecond")
	g.at(0)
	refuse(2000)
	require.Equal(t, 2000.0, observed(), "a clock that goes back begins a new one")
}

// A call in the queue that gives up is the last refusal, too, at the time of that.
func TestLastRefusal_GivingUp(t *testing.T) {
	t.Parallel()
	g := &gate{}
	g.clock.Store(minute)
	g.Gate = leapgate.Must(leapgate.Config{Now: g.clock.Load, Sleep: func(context.Context, time.Duration) error {
		g.clock.Add(int64(30 * ms))
		return context.Canceled
	}})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{pacing}))
	require.Equal(t, 1, g.try(t, "a", 1))
	require.Zero(t, g.try(t, "a", 1, leapgate.WithOrigin("us")))
	last := g.snapshot(t, "a").LastRefusal
	require.Equal(t, time.Unix(0, minute+int64(30*ms)), last.At)
	require.Equal(t, "us", last.Origin)
}

// A call that gives up gets the threshold by which it was made to wait.
func TestBlockError_ThresholdOfThoseWhoGiveUp(t *testing.T) {
	t.Parallel()
	paced := adaptive(1000, 100)
	paced.Behavior, paced.MaxWait = flow.Pace, time.Second
	for _, c := range []struct {
		rule  flow.Rule
		first int // calls that are admitted before
		want  string
	}{
		{paced, 1, `flow rule "m" on "a": 1.996 of 550 in 1s, with a queue of 1s, of 1000 with memory to spare: context canceled`},
		{adaptive(10, 5), 7, `flow rule "m" on "a": 8 of 7.5 in 1s, of 10 with memory to spare: context canceled`},
	} {
		h := &heap{}
		h.used.Store(1536)
		sleep := func(context.Context, time.Duration) error {
			h.used.Store(0) // as it was when the wait began
			return context.Canceled
		}
		g := newGateWith(t, leapgate.Config{Memory: h, Sleep: sleep}, c.rule)
		require.Equal(t, c.first, g.try(t, "a", c.first))
		if c.rule.Behavior == flow.Reject {
			g.at(900 * ms) // room comes soon
		}
		_, err := g.EntryContext(t.Context(), "a", leapgate.WithPriority())
		require.EqualError(t, err, c.want)
	}
}
