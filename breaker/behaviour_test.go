package breaker_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

func TestClosed_OpensWithTheResultThatReachesTheRatio(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	w.calls(fails, fails, fails, ok)
	w.in("closed")
	w.calls(ok)
	w.in("open")
	require.Equal(t, "3 of 5 calls failed in 20s", w.why())
	require.EqualError(t, w.refused(), `breaker rule "b" on "a": 3 of 5 calls failed in 20s; retry in 5s`)
}

func TestClosed_RatioIsComparedAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ratio float64
		bad   int
		of    int
		opens bool
	}{
		{0.07, 7, 100, true},
		{0.07, 6, 100, false},
		{0.29, 29, 100, true},
		{0.1, 3, 30, true},
		{1.0 / 3, 1, 3, true},
		{0.34, 1, 3, false},
		{1, 5, 5, true},
		{1, 4, 5, false},
		{1e-9, 1, 1000, true},
	} {
		w := newWorld(t, usual(func(r *breaker.Rule) { r.ErrorRatio, r.MinCalls = tt.ratio, int64(tt.of) }))
		for i := range tt.of {
			o := ok
			if i < tt.bad {
				o = fails
			}
			w.calls(o)
		}
		require.Equal(t, tt.opens, w.rule("b").State == "open", "%+v", tt)
	}
}

func TestClosed_NeedsMinCalls(t *testing.T) {
	t.Parallel()
	for _, figure := range []func(*breaker.Rule){
		func(r *breaker.Rule) { r.ErrorRatio = 0.5 },
		func(r *breaker.Rule) { r.ErrorRatio, r.ErrorCount = 0, 2 },
		func(r *breaker.Rule) { r.ErrorRatio, r.Consecutive = 0, 2 },
	} {
		script(t, usual(figure, func(r *breaker.Rule) { r.MinCalls = 0 }), "err err err err err err err err err ignored ignored err blocked")
	}
}

func TestClosed_FiguresBesideTheRatio(t *testing.T) {
	t.Parallel()
	count := usual(func(r *breaker.Rule) { r.ErrorRatio, r.ErrorCount, r.MinCalls, r.Interval = 0, 3, 1, 10*sec })
	w := newWorld(t, count)
	w.calls(fails, ok, ok, ok, ok, ok, fails, ok)
	w.in("closed")
	w.at(9999 * ms)
	w.calls(fails)
	w.in("open")
	require.Equal(t, "3 of 3 failures in 10s", w.why())

	w = newWorld(t, count)
	w.calls(fails, fails)
	w.at(10 * sec) // they have left the window
	w.calls(fails, fails)
	w.in("closed")

	inARow := usual(func(r *breaker.Rule) { r.ErrorRatio, r.Consecutive, r.MinCalls = 0, 3, 1 })
	w = newWorld(t, inARow)
	w.calls(fails, fails, ok, fails, ignored, fails)
	w.in("closed")
	w.at(time.Hour) // a row has no window
	w.calls(ignored, fails)
	w.in("open")
	require.Equal(t, "3 of 3 failures in a row", w.why())
}

func TestClosed_IgnoredCallsCountNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	for range 100 {
		w.calls(ignored)
	}
	w.calls(fails, fails, fails, fails)
	w.in("closed")
	w.calls(fails)
	w.in("open")
	require.Equal(t, "5 of 5 calls failed in 20s", w.why())
}

func TestClosed_ResultsLeaveTheWindow(t *testing.T) {
	t.Parallel()
	script(t, usual(), "err err err err @19.999s ok blocked") // buckets of 2 s
	script(t, usual(), "err err err err @20s ok ok")

	// Good ones that leave make the rest worse, as is seen at the next end.
	w := newWorld(t, usual())
	w.calls(ok, ok, ok, ok, ok, ok)
	w.at(2 * sec)
	w.calls(fails, fails, fails, fails)
	w.in("closed")
	w.at(20 * sec)
	w.calls(ok)
	w.in("open")
	require.Equal(t, "4 of 5 calls failed in 20s", w.why())
}

func TestClosed_SlowCallsCountWhateverTheirOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter, r.ErrorRatio = 0.5, 4*sec, 0.9 }))
	w.takes(5*sec, fails)
	w.takes(5*sec, ok)
	w.takes(100*ms, fails)
	w.takes(100*ms, fails)
	w.in("closed")
	w.takes(5*sec, ok)
	w.in("open")
	require.Equal(t, "3 of 5 calls took longer than 4s", w.why())

	slow := usual(func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter, r.ErrorRatio, r.MinCalls = 0.5, sec, 0, 2 })
	w = newWorld(t, slow)
	w.takes(sec, fails) // equal is not slow
	w.takes(sec, ok)
	w.takes(sec, ignored) // and this counts nowhere
	w.in("closed")
	w.takes(sec+1, ignored)
	w.in("closed") // 1 of 3
	w.takes(sec+1, ignored)
	w.in("open")
	require.Equal(t, "2 of 4 calls took longer than 1s", w.why())
}

func TestOpen_LastsExactlyAsLongAsItShould(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	w.opens()
	w.at(4999 * ms)
	require.Equal(t, ms, w.refused().RetryAfter)
	w.at(5*sec - 1)
	require.EqualValues(t, 1, w.refused().RetryAfter)
	w.at(5 * sec)
	require.Len(t, w.hold(10), 1)
	w.in("half-open")
	require.Zero(t, w.refused().RetryAfter)
	require.EqualError(t, w.refused(), `breaker rule "b" on "a": 2 of 1 probes while half-open`)
	require.EqualValues(t, 13, w.rule("b").Blocked)
}

func TestOpen_TakesNoResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(), usual(func(r *breaker.Rule) { r.ID, r.Mode = "off", rule.Off }))
	held := w.beginMany(20)
	w.opens()
	for _, f := range held {
		f.end(ok)
	}
	w.in("open")
	w.at(5 * sec)
	w.calls(ok)
	w.in("closed")
	w.calls(fails, fails, fails, fails)
	w.in("closed")
	w.calls(fails)
	w.in("open")
}

func TestHalfOpen_DecidesAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*breaker.Rule)
		ends   []leapgate.Outcome
		state  string
	}{
		{"two of four reach half", func(r *breaker.Rule) { r.Probes = 4 }, []leapgate.Outcome{fails, fails}, "open"},
		{"one of four does not", func(r *breaker.Rule) { r.Probes = 4 }, []leapgate.Outcome{fails, ok, ok}, "half-open"},
		{"three good ones leave no half", func(r *breaker.Rule) { r.Probes = 4 }, []leapgate.Outcome{ok, ok, ok}, "closed"},
		{"also with a bad one", func(r *breaker.Rule) { r.Probes = 4 }, []leapgate.Outcome{ok, fails, ok, ok}, "closed"},
		{"two good ones of four do", func(r *breaker.Rule) { r.Probes = 4 }, []leapgate.Outcome{ok, ok}, "half-open"},
		{"two of three", func(r *breaker.Rule) { r.Probes = 3 }, []leapgate.Outcome{fails, ok}, "half-open"},
		{"the third decides", func(r *breaker.Rule) { r.Probes = 3 }, []leapgate.Outcome{fails, ok, fails}, "open"},
		{"seven of a hundred", func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 100, 0.07 }, many(7, fails), "open"},
		{"six of a hundred", func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 100, 0.07 }, append(many(93, ok), many(6, fails)...), "half-open"},
		{"94 good of a hundred", func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 100, 0.07 }, append(many(6, fails), many(94, ok)...), "closed"},
		{"a tiny ratio needs one", func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 10, 1e-9 }, []leapgate.Outcome{fails}, "open"},
		{"all", func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 3, 1 }, []leapgate.Outcome{fails, fails}, "half-open"},
		{"not all", func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 3, 1 }, []leapgate.Outcome{fails, fails, ok}, "closed"},
		{"one good closes then", func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 3, 1 }, []leapgate.Outcome{ok}, "closed"},
		{"the smaller ratio holds", func(r *breaker.Rule) {
			r.Probes, r.ErrorRatio, r.SlowRatio, r.SlowAfter = 10, 0.9, 0.2, sec
		}, []leapgate.Outcome{fails, fails}, "open"},
		{"a count needs one", func(r *breaker.Rule) { r.Probes, r.ErrorCount = 10, 5 }, []leapgate.Outcome{ok, fails}, "open"},
		{"and so does a row", func(r *breaker.Rule) { r.Probes, r.Consecutive = 10, 5 }, []leapgate.Outcome{ok, fails}, "open"},
		{"then all must be good", func(r *breaker.Rule) { r.Probes, r.Consecutive = 10, 5 }, many(9, ok), "half-open"},
		{"all are", func(r *breaker.Rule) { r.Probes, r.Consecutive = 10, 5 }, many(10, ok), "closed"},
		{"three by default", func(r *breaker.Rule) { r.Probes = 0 }, []leapgate.Outcome{ok}, "half-open"},
		{"of which two", func(r *breaker.Rule) { r.Probes = 0 }, []leapgate.Outcome{ok, ok}, "closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, usual(tt.change))
			w.opens()
			w.at(5 * sec)
			probes := w.beginMany(len(tt.ends)) // all at once, so that none is decided before all are in
			for i, f := range probes {
				f.end(tt.ends[i])
			}
			w.in(tt.state)
		})
	}
}

func many(n int, o leapgate.Outcome) (all []leapgate.Outcome) {
	for range n {
		all = append(all, o)
	}
	return all
}

func TestHalfOpen_NeverMoreThanProbesAreUndecidedOrDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.Probes = 4 }))
	w.opens()
	w.at(5 * sec)
	held := w.hold(10)
	require.Len(t, held, 4)
	held[0].end(ok)
	held[1].end(fails)
	require.Empty(t, w.hold(10), "those that are decided keep their places")
	held[2].end(ignored)
	require.Len(t, w.hold(10), 1)
}

func TestHalfOpen_IgnoredProbeFreesItsPlace(t *testing.T) {
	t.Parallel()
	script(t, usual(), "err err err err err @5s ignored ok ok")
}

func TestHalfOpen_SlowProbeIsBadWhateverItsOutcome(t *testing.T) {
	t.Parallel()
	for _, o := range []leapgate.Outcome{ok, fails, ignored} {
		w := newWorld(t, usual(func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = 1, 10*ms }))
		w.opens()
		w.at(5 * sec)
		w.takes(10*ms+1, o)
		w.in("open")
	}
	// A failure that no figure counts is as good as any.
	w := newWorld(t, usual(func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter, r.ErrorRatio = 1, 10*ms, 0 }))
	for range 5 {
		w.takes(11*ms, ok)
	}
	w.in("open")
	w.clock.Advance(5 * sec)
	w.takes(10*ms, fails)
	w.in("closed")
}

func TestHalfOpen_ProbeThatNeverEndsIsBadWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	timeout := usual(func(r *breaker.Rule) { r.ProbeTimeout = 2 * sec })
	w := newWorld(t, timeout)
	w.opens()
	w.at(5 * sec)
	probe := w.begin()
	w.at(6999 * ms)
	w.refused()
	w.in("half-open")
	w.at(7 * sec)
	require.Equal(t, 5*sec, w.refused().RetryAfter)
	require.Equal(t, "1 of 1 probes failed, 1 of them without an end in 2s", w.why())
	w.at(7500 * ms)
	probe.end(ok)
	w.in("open")
	w.at(12*sec - 1)
	w.refused()
	w.at(12 * sec)
	w.calls(ok)
	w.in("closed")

	// Nobody looked when it was due.
	w = newWorld(t, timeout)
	w.opens()
	w.at(5 * sec)
	w.begin()
	w.at(11 * sec)
	require.Equal(t, sec, w.refused().RetryAfter)
	require.Equal(t, []string{"open@0s", "half-open@5s", "open@7s"}, w.trace())

	// It ends late, and nobody has looked: it was over, all the same.
	w = newWorld(t, timeout)
	w.opens()
	w.at(5 * sec)
	probe = w.begin()
	w.at(7 * sec)
	probe.end(ok)
	require.Equal(t, []string{"open@0s", "half-open@5s", "open@7s"}, w.trace())

	// A nanosecond earlier it counts.
	w = newWorld(t, timeout)
	w.opens()
	w.at(5 * sec)
	probe = w.begin()
	w.at(7*sec - 1)
	probe.end(ok)
	w.in("closed")
}

func TestSnapshot_ABreakerUsesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	w.try(3)
	require.EqualValues(t, -1, w.rule(usual().ID).Used)
}

// A snapshot looks as a call would; but it tells nobody.
func TestHalfOpen_SnapshotFindsProbesThatAreOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.ProbeTimeout = 2 * sec }))
	w.opens()
	w.at(5 * sec)
	w.begin()
	w.at(9 * sec)
	w.in("open")
	require.Equal(t, []string{"open@0s", "half-open@5s"}, w.trace())
	w.refused()
	require.Equal(t, []string{"open@0s", "half-open@5s", "open@7s"}, w.trace())
}

func TestHalfOpen_ProbesTimeOutInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.Probes, r.ProbeTimeout = 4, sec }))
	w.opens()
	w.at(5 * sec)
	first := w.begin()
	w.at(5400 * ms)
	second := w.begin()
	third := w.begin()
	w.at(6 * sec)
	w.in("half-open") // one bad of the two that are needed
	first.end(ok)     // too late
	third.end(ok)
	w.in("half-open")
	w.at(6500 * ms)
	second.end(ok) // too late as well
	require.Equal(t, []string{"open@0s", "half-open@5s", "open@6.4s"}, w.trace())
}

func TestHalfOpen_CallsOfEarlierTimesDecideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.OpenFor = sec }))
	a, b := w.begin(), w.begin()
	w.at(100 * ms)
	w.opens()
	w.at(1100 * ms)
	probe := w.begin()
	w.at(1200 * ms)
	a.end(ok)
	w.in("half-open")
	b.end(fails)
	w.in("half-open")
	w.refused()
	probe.end(ok)
	w.in("closed")
}

func TestClosed_ResultsOfCallsThatBeganBeforeItClosedDoNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	old := w.beginMany(10)
	w.opens()
	w.at(5 * sec)
	w.calls(ok)
	w.in("closed")
	for _, f := range old {
		f.end(fails)
	}
	w.in("closed")
	w.calls(fails, fails, fails, fails, fails)
	w.in("open")
}

func TestClosed_IntervalShorterThanACallLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.Interval, r.MinCalls = sec, 3 }))
	held := w.beginMany(3)
	w.at(5 * sec)
	for _, f := range held {
		w.in("closed")
		f.end(fails)
	}
	require.Equal(t, []string{"open@5s"}, w.trace())
}

func TestBackOff_DoublesUpToTheLongest(t *testing.T) {
	t.Parallel()
	script(t, usual(func(r *breaker.Rule) { r.OpenFor, r.MaxOpenFor = sec, 8*sec }), `err err err err err
		@0.999999999s blocked @1s err   @2.999999999s blocked @3s err   @6.999999999s blocked @7s err
		@14.999999999s blocked @15s err @22.999999999s blocked @23s err @30.999999999s blocked @31s err blocked`)
	script(t, usual(func(r *breaker.Rule) { r.OpenFor, r.MaxOpenFor = sec, 2500*ms }), `err err err err err
		@0.999999999s blocked @1s err @2.999999999s blocked @3s err @5.499999999s blocked @5.5s err @7.999999999s blocked @8s err`)
}

func TestBackOff_IsForgottenWhenItHasStayedClosed(t *testing.T) {
	t.Parallel()
	for _, ramp := range []time.Duration{0, 500 * ms, 10 * sec} {
		for _, tt := range []struct {
			closedFor, opensFor time.Duration
		}{{4*sec - 1, 8 * sec}, {4 * sec, sec}} {
			w := newWorld(t, usual(func(r *breaker.Rule) { r.OpenFor, r.MaxOpenFor, r.Ramp = sec, time.Minute, ramp }))
			w.opens()
			w.at(sec)
			w.calls(fails)
			w.at(3 * sec)
			w.calls(fails) // now for 4 s
			w.at(7 * sec)
			w.calls(ok)
			w.at(7*sec + tt.closedFor)
			for w.rule("b").State != "open" {
				for _, f := range w.hold(1) {
					f.end(fails)
				}
			}
			require.Equal(t, tt.opensFor, w.refused().RetryAfter, "%v %v", ramp, tt)
		}
	}
}

func TestOutcomes_WhatCountsAsFailure(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(w *world){
		"deadline": func(w *world) {
			_ = w.gate.Do(context.Background(), "a", func(context.Context) error { return fmt.Errorf("call: %w", context.DeadlineExceeded) })
		},
		"error": func(w *world) {
			_ = w.gate.Do(context.Background(), "a", func(context.Context) error { return errBackend })
		},
		"panic": func(w *world) {
			defer func() { _ = recover() }()
			_ = w.gate.Do(context.Background(), "a", func(context.Context) error { panic("at the disco") })
		},
		"Goexit": func(w *world) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = w.gate.Do(context.Background(), "a", func(context.Context) error { runtime.Goexit(); return nil })
			}()
			<-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, usual())
			for range 5 {
				w.in("closed")
				do(w)
			}
			w.in("open")
			w.at(5 * sec)
			do(w) // the probe
			w.in("open")
			w.at(10 * sec)
			w.calls(ok)
			w.in("closed")
		})
	}
}

func TestHalfOpen_CallerThatGivesUpFreesThePlaceOfItsProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	w.opens()
	w.at(5 * sec)
	ctx, cancel := context.WithCancel(context.Background())
	_ = w.gate.Do(ctx, "a", func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	})
	w.in("half-open")
	w.calls(ok)
	w.in("closed")
}

func TestTwoRules_OneThatRefusesFreesThePlaceOfTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		usual(func(r *breaker.Rule) { r.OpenFor = 2 * sec }),
		usual(func(r *breaker.Rule) { r.ID, r.OpenFor = "c", 4*sec }))
	w.opens()
	require.Equal(t, "open", w.rule("c").State)
	w.at(3 * sec)
	for range 3 {
		require.Equal(t, "c", w.refused().RuleID)
	}
	w.in("half-open")
	require.EqualValues(t, 5, w.rule("b").Admitted)
	w.at(4 * sec)
	w.calls(ok)
	require.Equal(t, []string{"closed", "closed"}, []string{w.rule("b").State, w.rule("c").State})
}

func TestFlowRule_ThatRefusesTakesNoProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	w.opens()
	w.at(5 * sec)
	flows := func(rules ...flow.Rule) { require.NoError(t, w.gate.LoadFlowRules(rules)) }
	flows(flow.Rule{Resource: "a", Threshold: 0})
	for range 100 {
		require.Equal(t, "flow", w.refused().Kind)
	}
	flows()
	require.Len(t, w.hold(5), 1)
	w.in("half-open")
}

// What is open refuses before other rules have taken anything, and is counted once.
func TestLook_OpenBreakerRefusesBeforeOtherRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	require.NoError(t, w.gate.LoadFlowRules([]flow.Rule{{ID: "f", Resource: "a", Threshold: 7, Interval: time.Hour}}))
	w.opens()
	for range 10 {
		require.Equal(t, "breaker", w.refused().Kind)
	}
	require.Equal(t, []int64{5, 10}, []int64{w.rule("f").Admitted, w.rule("b").Blocked})
	w.at(5 * sec)
	probe := w.begin()
	w.refused() // half-open, and no place is free
	require.Equal(t, []int64{6, 11}, []int64{w.rule("f").Admitted, w.rule("b").Blocked})
	probe.end(ok)
	w.calls(ok)
	require.Equal(t, "flow", w.refused().Kind)
	require.EqualValues(t, 11, w.rule("b").Blocked)
}

func TestLook_FindsProbesThatAreOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.ProbeTimeout = sec }))
	require.NoError(t, w.gate.LoadFlowRules([]flow.Rule{{ID: "f", Resource: "a", Threshold: 100, Interval: time.Hour}}))
	w.opens()
	w.at(5 * sec)
	w.begin()
	w.at(6 * sec)
	require.Equal(t, 5*sec, w.refused().RetryAfter)
	require.EqualValues(t, 6, w.rule("f").Admitted)
}

func TestLook_FindsCallsThatHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hangs())
	require.NoError(t, w.gate.LoadFlowRules([]flow.Rule{{ID: "f", Resource: "a", Threshold: 100, Interval: time.Hour}}))
	w.beginMany(10)
	w.at(110 * ms)
	require.Equal(t, "breaker", w.refused().Kind)
	require.EqualValues(t, 10, w.rule("f").Admitted)
}

// A refusal of another rule says when the breaker would admit as well.
func TestWait_RetryAfterIsTheLongestOfAllRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	require.NoError(t, w.gate.LoadFlowRules([]flow.Rule{{ID: "f", Resource: "a", Threshold: 5, Interval: 8 * sec, Buckets: 1}}))
	w.opens()
	w.at(sec)
	require.Equal(t, 7*sec, w.refused().RetryAfter, "4 s for the breaker, 7 for the window")
}

func TestPace_CallThatQueuedBeforeItOpenedIsRefusedAtItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadRules(leapgate.Rules{
			Flow:    []flow.Rule{{ID: "f", Resource: "a", Threshold: 1, Interval: 3 * sec, Behavior: flow.Pace, MaxWait: 10 * sec}},
			Breaker: []breaker.Rule{usual(func(r *breaker.Rule) { r.MinCalls = 1 })},
		}))
		begin := time.Now()
		first, err := gate.Entry("a")
		require.NoError(t, err)
		refused := make(chan time.Duration)
		go func() {
			if _, err := gate.Entry("a"); err != nil {
				refused <- time.Since(begin)
			}
		}()
		time.Sleep(sec)
		first.SetError(errBackend)
		first.Exit() // the breaker opens
		time.Sleep(500 * ms)
		_, err = gate.Entry("a")
		require.ErrorContains(t, err, "breaker rule")
		require.Equal(t, 1500*ms, time.Since(begin), "at once")
		require.Equal(t, 3*sec, <-refused)
		for _, r := range gate.Resource("a").Snapshot().Rules {
			require.EqualValues(t, 1, r.Admitted, r.Kind)
		}
		time.Sleep(3 * sec)
		probe, err := gate.Entry("a") // at 6 s: the turn at 3 s was given back
		require.NoError(t, err)
		require.Equal(t, 6*sec, time.Since(begin))
		probe.Exit()
	})
}

func TestCount_IsOneCallAndOneResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.Probes = 3 }))
	batch := func(n int64, o leapgate.Outcome) bool {
		e, err := w.gate.EntryContext(context.Background(), "a", leapgate.WithCount(n))
		e.SetOutcome(o)
		e.Exit()
		return err == nil
	}
	require.True(t, batch(100, fails))
	w.calls(ok, fails, ok)
	w.in("closed")
	require.True(t, batch(1000, fails))
	w.in("open")
	require.Equal(t, "3 of 5 calls failed in 20s", w.why())
	require.False(t, batch(7, ok))
	s := w.rule("b")
	require.Equal(t, []int64{1103, 7}, []int64{s.Admitted, s.Blocked})
	w.at(5 * sec)
	require.True(t, batch(50, ok))
	w.in("half-open")
	require.True(t, batch(50, ok))
	w.in("closed")
}

func TestForce_OpenRefusesAllAndClosedNone(t *testing.T) {
	t.Parallel()
	force := func(f breaker.Force) breaker.Rule { return usual(func(r *breaker.Rule) { r.Force = f }) }
	w := newWorld(t, force(breaker.Open))
	w.in("open")
	blocked := w.refused()
	require.Zero(t, blocked.RetryAfter)
	require.EqualError(t, blocked, `breaker rule "b" on "a": 1 of 0, forced open`)
	w.at(time.Hour)
	w.refused() // there is no end to it
	w.load(force(breaker.None))
	w.in("open")
	require.Len(t, w.hold(5), 1, "it is due at once")
	w.in("half-open")

	w = newWorld(t, force(breaker.Closed))
	for range 20 {
		w.calls(fails)
	}
	w.in("closed")
	w.load(force(breaker.None))
	w.in("open")
	require.Equal(t, "20 of 20 calls failed in 20s", w.why())

	w = newWorld(t, force(breaker.Closed))
	w.calls(fails, fails, fails, ok)
	w.load(force(breaker.None))
	w.in("closed")
	w.calls(ok)
	w.in("open")
}

// Calls that hang by the time at which the operator lets go are seen without a further call.
func TestForce_OfCallsThatHangByTheEnd(t *testing.T) {
	t.Parallel()
	force := func(f breaker.Force) breaker.Rule { return hangs(func(r *breaker.Rule) { r.Force = f }) }
	w := newWorld(t, force(breaker.Closed))
	w.beginMany(5)
	w.at(111 * ms)
	w.load(force(breaker.None))
	w.in("open")
	require.Equal(t, "5 of 5 calls took longer than 100ms, 5 of them in flight", w.why())
}

func TestForce_FromEveryState(t *testing.T) {
	t.Parallel()
	force := func(f breaker.Force) breaker.Rule {
		return usual(func(r *breaker.Rule) { r.Force, r.Ramp = f, 10*sec })
	}
	for _, from := range []string{"closed", "open", "half-open", "ramping"} {
		for _, f := range []breaker.Force{breaker.Open, breaker.Closed} {
			w := newWorld(t, force(breaker.None))
			old := w.begin()
			if from != "closed" {
				w.opens()
			}
			var probe *flight
			if from == "half-open" || from == "ramping" {
				w.at(5 * sec)
				probe = w.begin()
			}
			if from == "ramping" {
				probe.end(ok)
			}
			w.in(from)
			w.load(force(f))
			if f == breaker.Open {
				w.in("open")
				require.Zero(t, w.refused().RetryAfter)
				old.end(ok)
				if probe != nil {
					probe.end(ok)
				}
				w.in("open")
				w.load(force(breaker.None))
				w.calls(ok)
				w.in("ramping")
				continue
			}
			w.in("closed")
			for range 10 {
				w.calls(fails)
			}
			w.in("closed")
			w.load(force(breaker.None))
			w.in("open")
		}
	}
}

func TestForce_OpenDoesNotLengthenTheBackOff(t *testing.T) {
	t.Parallel()
	r := usual(func(r *breaker.Rule) { r.OpenFor, r.MaxOpenFor = sec, time.Minute })
	forced := r
	forced.Force = breaker.Open
	w := newWorld(t, r)
	w.load(forced)
	w.load(r)
	w.calls(fails)
	require.Equal(t, sec, w.refused().RetryAfter)
}

func TestShadow_GoesThroughItsStatesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.Mode = rule.Shadow }))
	w.opens()
	for range 10 {
		w.calls(fails)
	}
	s := w.rule("b")
	require.Equal(t, []any{int64(5), int64(0), int64(10)}, []any{s.Admitted, s.Blocked, s.WouldBlock})
	w.in("open")
	require.EqualValues(t, 10, w.gate.Resource("a").Snapshot().WouldBlock)
	w.at(5 * sec)
	probe := w.begin()
	w.in("half-open")
	w.calls(fails, fails, fails) // would have been refused, so they say nothing
	w.in("half-open")
	probe.end(ok)
	w.in("closed")
	require.EqualValues(t, 13, w.rule("b").WouldBlock)
}

func TestMode_ChangesKeepTheState(t *testing.T) {
	t.Parallel()
	mode := func(m rule.Mode) breaker.Rule { return usual(func(r *breaker.Rule) { r.Mode = m }) }
	w := newWorld(t, mode(rule.Shadow))
	w.opens()
	w.load(mode(rule.Enforce))
	w.refused()
	w.load(mode(rule.Off))
	w.calls(ok, fails)
	w.in("open")
	w.at(4 * sec)
	w.load(mode(rule.Enforce))
	require.Equal(t, sec, w.refused().RetryAfter)
}
