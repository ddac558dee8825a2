package breaker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

func ramps(change ...func(*breaker.Rule)) breaker.Rule {
	r := usual(func(r *breaker.Rule) { r.Ramp, r.MinCalls, r.OpenFor = 10*sec, 20, sec })
	for _, c := range change {
		c(&r)
	}
	return r
}

// ramping returns a world whose breaker has just begun to ramp up, at 1 s.
func ramping(t *testing.T, change ...func(*breaker.Rule)) *world {
	t.Helper()
	w := newWorld(t, ramps(change...))
	w.calls(many(20, fails)...)
	w.at(sec)
	w.calls(ok)
	w.in("ramping")
	return w
}

func TestRamp_LetsInATenthAndThenMoreUpToAll(t *testing.T) {
	t.Parallel()
	w := ramping(t)
	require.Equal(t, "RRRRRRRRRARRRRRRRRRA", w.try(20))
	w.at(sec + 999*ms)
	require.Equal(t, "RRRRRRRRRA", w.try(10))
	w.at(3 * sec)
	require.Equal(t, "RRRRARRRRA", w.try(10))
	w.at(6 * sec)
	require.Equal(t, "RARARA", w.try(6))
	w.at(11*sec - 1)
	require.GreaterOrEqual(t, strings.Count(w.try(100), "A"), 99)
	w.in("ramping")
	w.at(11 * sec)
	require.Equal(t, "AAAAA", w.try(5))
	w.in("closed")
	require.Equal(t, []string{"open@0s", "half-open@1s", "ramping@1s", "closed@11s"}, w.trace())
}

// It was closed when the ramp ended, whenever that is read.
func TestRamp_EndsWhenItShould(t *testing.T) {
	t.Parallel()
	w := ramping(t)
	w.at(time.Hour)
	w.in("closed")
	w.calls(ok)
	require.Equal(t, []string{"open@0s", "half-open@1s", "ramping@1s", "closed@11s"}, w.trace())

	w = ramping(t)
	w.at(10_500 * ms)
	held := w.hold(20)
	require.Greater(t, len(held), 15)
	w.at(11 * sec)
	for _, f := range held {
		f.end(fails) // of calls that began before
	}
	w.in("closed")
	w.calls(many(19, fails)...)
	w.in("closed")
	w.calls(fails)
	w.in("open")
}

func TestRamp_NeedsItsShareOfMinCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		at    time.Duration
		least int
	}{{sec, 2}, {2 * sec, 2}, {3*sec + 1, 5}, {6 * sec, 10}, {10 * sec, 18}} {
		w := ramping(t)
		w.at(tt.at)
		for i := range tt.least {
			require.Equal(t, "ramping", w.rule("b").State, "%v, %d", tt.at, i)
			for held := w.hold(1); ; held = w.hold(1) {
				if len(held) > 0 {
					held[0].end(fails)
					break
				}
			}
		}
		w.in("open")
	}
}

func TestRamp_RefundedCallLeavesItsTurnToTheNext(t *testing.T) {
	t.Parallel()
	w := ramping(t)
	require.NoError(t, w.gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		ramps(), usual(func(r *breaker.Rule) { r.ID, r.Force = "c", breaker.Open }),
	}}))
	for i := range 30 {
		want := "b"
		if i >= 9 {
			want = "c" // b admits, and is given it back
		}
		require.Equal(t, want, w.refused().RuleID, i)
	}
	w.load(ramps())
	require.Equal(t, "ARRRRRRRRRA", w.try(11))
}

func TestRamp_FiguresAndErrors(t *testing.T) {
	t.Parallel()
	w := ramping(t)
	w.at(4500 * ms)
	require.Equal(t, 0.35, w.rule("b").Effective)
	blocked := w.refused()
	require.EqualError(t, blocked, `breaker rule "b" on "a": 0.35 of 1, the share that is admitted while it ramps up`)
	require.Zero(t, blocked.RetryAfter)
	w.at(time.Hour)
	require.Equal(t, 0.5, w.rule("b").Effective)
}

func TestRamp_CallsThatHangOpenItAgain(t *testing.T) {
	t.Parallel()
	w := ramping(t, func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = 0.5, 100*ms })
	w.at(6 * sec)
	require.Len(t, w.hold(30), 15)
	w.at(6*sec + 110*ms)
	w.refused()
	w.in("open")
}

func TestReload_OfARamp(t *testing.T) {
	t.Parallel()
	w := ramping(t)
	w.at(6 * sec)
	w.load(ramps(func(r *breaker.Rule) { r.Ramp = 50 * sec }))
	require.Equal(t, 0.1, w.rule("b").Effective)
	w.load(ramps(func(r *breaker.Rule) { r.Ramp = 4 * sec }))
	w.in("closed")
	w = ramping(t)
	w.load(ramps(func(r *breaker.Rule) { r.Ramp = 0 }))
	w.in("closed")
	require.Equal(t, "AAAAA", w.try(5))
}

// throttles is a rule by which more than two calls for each success are refused in part.
func throttles(change ...func(*breaker.Rule)) breaker.Rule {
	r := usual(func(r *breaker.Rule) { r.Behavior, r.MinCalls = breaker.Throttle, 1 })
	for _, c := range change {
		c(&r)
	}
	return r
}

// throttling returns a world in which so many calls have ended before any was refused.
func throttling(t *testing.T, r breaker.Rule, accepts, failures int) *world {
	t.Helper()
	forced := r
	forced.Force = breaker.Closed
	w := newWorld(t, forced)
	w.calls(many(accepts, ok)...)
	w.calls(many(failures, fails)...)
	w.load(r)
	w.in("throttling")
	return w
}

func TestThrottle_RefusesAShareByItsOwnRefusalsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, throttles())
	w.in("throttling")
	w.calls(many(40, ok)...)
	require.Zero(t, w.rule("b").Effective)
	w.calls(many(40, fails)...)
	require.Zero(t, w.rule("b").Effective, "half of all")
	held := w.beginMany(20) // in flight, which says nothing
	require.Zero(t, w.rule("b").Effective)
	for _, f := range held {
		f.end(fails)
	}
	require.InDelta(t, 20.0/101, w.rule("b").Effective, 1e-9)
	w.hold(5)
	require.InDelta(t, 20.0/101, w.rule("b").Effective, 1e-9)
	require.InDelta(t, 20.0/101, w.refused().Observed, 1e-9, "the sixth, since 0.198 is less than a fifth")
	require.InDelta(t, 21.0/102, w.rule("b").Effective, 1e-9)
	require.EqualValues(t, 1, w.rule("b").Blocked)
	require.Empty(t, w.trace(), "it has no other states")
}

func TestThrottle_StrideFollowsTheShare(t *testing.T) {
	t.Parallel()
	for want, most := range map[string]float64{"AAARAAAR": 0.25, "AARARAARAR": 0.4, "ARARAR": 0.5} {
		w := throttling(t, throttles(func(r *breaker.Rule) { r.MaxReject = most }), 0, 1000)
		got := ""
		for range want {
			if f := w.hold(1); len(f) > 0 {
				got += "A"
			} else {
				got += "R"
			}
		}
		require.Equal(t, want, got)
	}
}

func TestThrottle_IgnoredCallsCountNowhereAndFewDoNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, throttles(func(r *breaker.Rule) { r.MinCalls = 0 }))
	w.calls(many(9, fails)...)
	w.calls(many(50, ignored)...)
	require.Zero(t, w.rule("b").Effective)
	w.calls(fails)
	require.InDelta(t, 0.9, w.rule("b").Effective, 1e-9)
	w.at(20 * sec)
	require.Zero(t, w.rule("b").Effective, "they have left the window")
}

func TestThrottle_OneCallASecondAlwaysPasses(t *testing.T) {
	t.Parallel()
	w := throttling(t, throttles(func(r *breaker.Rule) { r.MaxReject = 1 }), 0, 100_000)
	admitted := 0
	for i := range 100 {
		w.at(time.Duration(i) * 100 * ms)
		for _, f := range w.hold(3) {
			admitted++
			f.end(fails)
		}
	}
	require.GreaterOrEqual(t, admitted, 10)
	require.LessOrEqual(t, admitted, 14)
}

func TestThrottle_RefundedCallIsTheOneThatAlwaysPassesNoMore(t *testing.T) {
	t.Parallel()
	all := throttles(func(r *breaker.Rule) { r.MaxReject = 1 })
	w := throttling(t, all, 0, 100_000)
	w.at(10 * sec)
	w.load(all, usual(func(r *breaker.Rule) { r.ID, r.Force = "c", breaker.Open }))
	for range 5 {
		require.Equal(t, "c", w.refused().RuleID)
	}
	w.load(all)
	require.Contains(t, w.try(3), "A")
}

func TestThrottle_RecoversWhenItsCallsSucceed(t *testing.T) {
	t.Parallel()
	w := throttling(t, throttles(), 0, 500)
	for i := range 200 {
		w.at(time.Duration(i) * 500 * ms)
		w.try(20)
	}
	require.Zero(t, w.rule("b").Effective)
	require.Equal(t, "AAAAAAAAAA", w.try(10))
}

func TestThrottle_Forced(t *testing.T) {
	t.Parallel()
	force := func(f breaker.Force) breaker.Rule {
		return throttles(func(r *breaker.Rule) { r.Force, r.MaxReject = f, 0.5 })
	}
	w := newWorld(t, force(breaker.Open))
	w.in("open")
	require.Zero(t, w.refused().RetryAfter)
	w.load(force(breaker.Closed))
	w.in("closed")
	w.calls(many(20, fails)...)
	w.load(force(breaker.None))
	w.in("throttling")
	require.Equal(t, 0.5, w.rule("b").Effective, "it has taken the results")
	w.load(force(breaker.Closed))
	require.Equal(t, "AAAA", w.try(4))
}

func TestThrottle_ShadowRefusesNobodyAndCountsWhatItWouldHaveRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, throttles(func(r *breaker.Rule) { r.Mode, r.MaxReject = rule.Shadow, 0.5 }))
	w.calls(many(20, fails)...)
	was := w.rule("b")
	w.calls(many(10, fails)...)
	s := w.rule("b")
	require.EqualValues(t, 10, s.WouldBlock-was.WouldBlock+s.Admitted-was.Admitted)
	require.Positive(t, s.WouldBlock)
	require.Zero(t, s.Blocked)
}

func TestThrottle_OtherRulesThatRefuseAreNoRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, throttles())
	require.NoError(t, w.gate.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 10, Interval: time.Hour}}))
	w.calls(many(10, ok)...)
	for range 100 {
		require.Equal(t, "flow", w.refused().Kind)
	}
	require.Zero(t, w.rule("b").Effective)
}

func TestReload_BetweenBreakAndThrottle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	w.opens()
	w.load(throttles())
	w.in("throttling")
	require.Equal(t, "AAA", w.try(3))
	w.load(usual())
	w.in("closed")
	w.opens()
	require.Equal(t, []string{"open@0s", "throttling@0s", "closed@0s", "open@0s"}, w.trace())
}
