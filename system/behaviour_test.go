package system_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
	"github.com/leapgate-go/leapgate/system"
)

func TestRule_CountsAllResourcesThatItBindsTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, system.Rule{ID: "in", Resource: "GET *", Match: rule.Glob, MaxInFlight: 10})
	a, _ := w.try("GET /a", 6)
	b, blocked := w.try("GET /b", 6)
	require.Equal(t, []int{6, 4}, []int{len(a), len(b)})
	require.ErrorContains(t, blocked, `system rule "in" on "GET /b": 11 of 10 in flight`)
	other, _ := w.try("POST /a", 20)
	require.Len(t, other, 20, "it is not bound")
	exit(a[:1])
	b2, _ := w.try("GET /b", 2)
	require.Len(t, b2, 1)
	require.Equal(t, []int64{6, 0}, []int64{w.rule("GET /a").Admitted, w.rule("GET /a").Blocked})
	require.Equal(t, []int64{5, 3}, []int64{w.rule("GET /b").Admitted, w.rule("GET /b").Blocked})
}

func TestRule_BindsEverythingBesideOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, system.Rule{MaxInFlight: 3, Match: rule.All}, system.Rule{Resource: "a", MaxInFlight: 2})
	a, blocked := w.try("a", 3)
	require.Len(t, a, 2)
	require.Equal(t, "a/1", blocked.RuleID)
	b, blocked := w.try("b", 3)
	require.Len(t, b, 1)
	require.Equal(t, "*/1", blocked.RuleID)
}

func TestRule_MaxQPSIsOverAllResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxQPS: 10}))
	total := 0
	for i := range 20 {
		passed, blocked := w.try(fmt.Sprint("r", i%4), 1)
		exit(passed)
		if total += len(passed); i >= 10 {
			require.ErrorContains(t, blocked, ": 11 of 10 in 1s; retry in ")
		}
	}
	require.Equal(t, 10, total)
	w.clock.Advance(999 * ms)
	passed, _ := w.try("a", 1)
	require.Empty(t, passed)
	w.clock.Advance(2 * sec)
	passed, _ = w.try("a", 20)
	require.Len(t, passed, 10)
}

func TestRefusal_TellsTheWaitOfTheWindowAndUpToAQuarterMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxQPS: 1}))
	passed, _ := w.try("a", 1)
	exit(passed)
	w.clock.Advance(200 * ms)
	waits := map[time.Duration]bool{}
	for range 100 {
		_, blocked := w.try("a", 1)
		require.Equal(t, 503, blocked.Status)
		require.GreaterOrEqual(t, blocked.RetryAfter, 800*ms)
		require.LessOrEqual(t, blocked.RetryAfter, 1000*ms)
		waits[blocked.RetryAfter] = true
	}
	require.Greater(t, len(waits), 90)
	_, blocked := w.try("b", 1, leapgate.WithCount(2))
	require.Zero(t, blocked.RetryAfter, "there is never room for two")
}

func TestRefusal_IsSilentAboutTheEndOfCallsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxInFlight: 1, MaxQPS: 10}))
	w.try("a", 1)
	_, blocked := w.try("a", 1)
	require.Zero(t, blocked.RetryAfter)
}

func TestSnapshot_UsedIsTrueOrNegative(t *testing.T) {
	t.Parallel()
	for want, r := range map[int64]system.Rule{
		2: {MaxInFlight: 9, MaxQPS: 9}, 3: {MaxQPS: 9}, -1: {MaxCPU: 0.9},
	} {
		w := newWorld(t, all(r))
		passed, _ := w.try("a", 3)
		exit(passed[:1])
		require.Equal(t, want, w.rule("a").Used)
	}
}

func TestRule_UnknownSignalsPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9, MaxThrottled: 0.1, MaxPressure: 0.1, MaxSchedLatency: ms, MaxRT: ms, Strategy: system.Refuse}))
	passed, _ := w.try("a", 100)
	require.Len(t, passed, 100)
	w.load.Set(load.Signals{CPU: load.Known(math.NaN())})
	w.clock.Advance(sec)
	passed, _ = w.try("a", 100)
	require.Len(t, passed, 100)
}

func TestRefuse_AValueEqualToItsBoundPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9, Strategy: system.Refuse}))
	w.cpu(0.9)
	passed, _ := w.try("a", 10)
	require.Len(t, passed, 10)
	w.cpu(0.94)
	w.clock.Advance(100 * ms)
	passed, blocked := w.try("a", 10)
	require.Empty(t, passed)
	require.ErrorContains(t, blocked, `system rule "s" on "a": cpu 0.94 of 0.90, 11 of 0 in flight`)
}

func TestRefuse_GoesOnForASecondAfterTheSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxThrottled: 0.2, Strategy: system.Refuse}))
	w.load.Set(load.Signals{Throttled: load.Known(0.5)})
	passed, _ := w.try("a", 1)
	require.Empty(t, passed)
	require.Equal(t, "refusing", w.rule("a").State)
	w.load.Set(load.Signals{Throttled: load.Known(0)})
	w.clock.Advance(999 * ms)
	passed, _ = w.try("a", 1)
	require.Empty(t, passed)
	w.clock.Advance(100 * ms)
	passed, _ = w.try("a", 1)
	require.Len(t, passed, 1)
	require.Equal(t, "calm", w.rule("a").State)
	require.Equal(t, "no signal above its bound for 1s", w.changes[1].Reason, "calls were refused until now")
}

func TestSignals_EachHasItsBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule   system.Rule
		set    load.Signals
		reason string
	}{
		{system.Rule{MaxCPU: 0.9}, load.Signals{CPU: load.Known(0.94)}, "cpu 0.94 of 0.90"},
		{system.Rule{MaxThrottled: 0.1}, load.Signals{Throttled: load.Known(0.2)}, "throttled 0.20 of 0.10"},
		{system.Rule{MaxPressure: 0.1}, load.Signals{Pressure: load.Known(0.2)}, "pressure 0.20 of 0.10"},
		{system.Rule{MaxSchedLatency: 10 * ms}, load.Signals{SchedLatency: load.Known(0.025)}, "scheduling latency 25ms of 10ms"},
	} {
		c.rule.Strategy = system.Refuse
		w := newWorld(t, all(c.rule))
		w.load.Set(c.set)
		_, blocked := w.try("a", 1)
		require.NotNil(t, blocked, c.reason)
		require.Equal(t, c.reason, blocked.Because)
	}
}

func TestMaxRT_IsTheMeanOfTheCallsThatSucceedLately(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxRT: 50 * ms, Strategy: system.Refuse}))
	w.run("a", 20, 50*ms)
	require.Equal(t, "calm", w.rule("a").State)
	w.run("a", 12, 60*ms)
	_, blocked := w.try("a", 1)
	require.NotNil(t, blocked)
	require.Equal(t, "response time 60ms of 50ms", blocked.Because)
	w.clock.Advance(2100 * ms)
	passed, _ := w.try("a", 1)
	require.Len(t, passed, 1, "what nobody measures any more is not known")
}

func TestLimit_BeginsWithTheBestRateAndTheLeastResponseTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9}))
	// 200 a second that take 100 ms: 20 are in flight.
	for range 40 {
		passed, _ := w.try("a", 20)
		w.clock.Advance(100 * ms)
		exit(passed)
	}
	w.load.Set(load.Signals{CPU: stat.Signal{Value: 0.94, Raw: 0.95, Known: true}})
	passed, blocked := w.try("a", 50)
	require.Len(t, passed, 30)
	require.ErrorContains(t, blocked, `system rule "s" on "a": cpu 0.94 of 0.90, 31 of 30 in flight`)
	s := w.rule("a")
	require.Equal(t, []any{"limiting", 30.0, 0.9}, []any{s.State, s.Effective, s.Threshold})
	require.Len(t, w.changes, 1)
	require.Equal(t, "cpu 0.94 of 0.90: at most 30 in flight, 1.5 × 200 a second × 100ms", w.changes[0].Reason)
	require.Equal(t, "*", w.changes[0].Resource)
	// It does not fall while the CPU was not above 0.97 in the sample itself.
	w.clock.Advance(250 * ms)
	w.load.Set(load.Signals{CPU: stat.Signal{Value: 0.95, Raw: 0.96, Known: true}})
	require.Equal(t, 30.0, w.rule("a").Effective)
	// It falls by a tenth at most, and not below a third.
	want := 30.0
	for range 20 {
		w.clock.Advance(250 * ms)
		w.cpu(1)
		w.try("a", 5)
		want = math.Max(10, want*0.9)
		require.Equal(t, math.Ceil(want), w.rule("a").Effective)
	}
	// It rises if anything was refused, and the signal is not above its bound.
	w.clock.Advance(250 * ms)
	w.cpu(0.9)
	w.try("a", 1)
	require.Equal(t, math.Ceil(10*1.05+0.25), w.rule("a").Effective)
	w.clock.Advance(250 * ms)
	w.cpu(0.5)
	require.Equal(t, math.Ceil((10*1.05+0.25)*1.05+0.25), w.rule("a").Effective)
	exit(passed)
	w.clock.Advance(250 * ms)
	w.cpu(0.5)
	require.Equal(t, math.Ceil((10*1.05+0.25)*1.05+0.25), w.rule("a").Effective, "nothing was refused")
	w.clock.Advance(11 * sec)
	require.Equal(t, "calm", w.rule("a").State)
	require.Equal(t, 0.9, w.rule("a").Effective)
}

func TestLimit_OfThreeRises(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9}))
	w.run("a", 400, 10*ms)
	w.cpu(1)
	w.try("a", 3)
	require.Equal(t, 2.0, w.rule("a").Effective)
	for range 20 {
		w.clock.Advance(250 * ms)
		w.cpu(0.2)
		w.try("a", 10)
	}
	require.Greater(t, w.rule("a").Effective, 5.0)
}

func TestLimit_IsUnknownWithFewCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9, MaxInFlight: 20}))
	w.run("a", 100, 25*ms) // 40 a second
	w.cpu(1)
	passed, _ := w.try("a", 20)
	require.Len(t, passed, 20)
	w.clock.Advance(100 * ms)
	require.Equal(t, "unknown", w.rule("a").State)
	require.Contains(t, w.rule("a").LastChanges[0].Reason, "cpu 1.00 of 0.90: fewer than 50 calls a second succeed, so no limit is known")
	_, blocked := w.try("a", 1)
	require.NotNil(t, blocked)
	require.Equal(t, 20.0, blocked.Threshold)
}

func TestLimit_FailuresSayNothingAboutWhatTheServiceCanDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9}))
	for range 400 {
		passed, _ := w.try("a", 1)
		passed[0].SetOutcome(leapgate.Failure)
		w.clock.Advance(10 * ms)
		exit(passed)
	}
	w.cpu(1)
	require.Equal(t, "unknown", w.rule("a").State)
}

func TestShadow_FindsALimitAndRefusesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9, Mode: rule.Shadow}))
	w.busy("a", 3)
	w.cpu(1)
	passed, _ := w.try("a", 10)
	require.Len(t, passed, 10)
	require.EqualValues(t, 8, w.rule("a").WouldBlock)
	for range 10 {
		w.clock.Advance(250 * ms)
		w.cpu(1)
		require.Equal(t, 2.0, w.rule("a").Effective, "it stays where it began")
	}
	require.Zero(t, w.rule("a").Blocked)
}

func TestReload_KeepsCallsInFlightAndTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxInFlight: 5, MaxCPU: 0.9}))
	a, _ := w.try("a", 5)
	w.loadRules(all(system.Rule{MaxInFlight: 7, MaxCPU: 0.9}))
	b, _ := w.try("b", 5)
	require.Len(t, b, 2)
	exit(a)
	b, _ = w.try("b", 10)
	require.Len(t, b, 5)
	require.EqualValues(t, 5, w.rule("a").Admitted)
	w.loadRules()
	w.loadRules(all(system.Rule{MaxInFlight: 1}))
	b, _ = w.try("b", 10)
	require.Len(t, b, 1, "a rule that was gone begins anew")
}

func TestOnChange_IsToldOnceForAllResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, system.Rule{ID: "s", Resource: "GET *", Match: rule.Glob, MaxInFlight: 1, CoolOff: 5 * sec})
	passed, _ := w.try("GET /a", 3)
	w.try("GET /b", 3)
	exit(passed)
	w.clock.Advance(5 * sec)
	for _, name := range []string{"GET /a", "GET /b"} {
		passed, _ := w.try(name, 1)
		exit(passed)
	}
	require.Len(t, w.changes, 2)
	require.Equal(t, []string{"GET *", "calm", "full", "1 of 1 in flight"}, []string{w.changes[0].Resource, w.changes[0].From, w.changes[0].To, w.changes[0].Reason})
	require.Equal(t, []string{"GET *", "full", "calm", "nothing refused for 5s"}, []string{w.changes[1].Resource, w.changes[1].From, w.changes[1].To, w.changes[1].Reason})
}

// Calls are refused already when a signal goes above its bound. What is found then is told all the same.
func TestOnChange_IsToldTheLimitOfARuleThatIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9, MaxInFlight: 5}))
	w.busy("a", 3)
	passed, _ := w.try("a", 6)
	require.Equal(t, "full", w.rule("a").State)
	w.clock.Advance(100 * ms)
	w.cpu(1)
	w.try("a", 1)
	exit(passed)
	require.Equal(t, 2.0, w.rule("a").Effective)
	w.clock.Advance(100 * ms)
	w.cpu(0.5)
	w.clock.Advance(11 * sec)
	w.try("a", 1)
	told := []string{}
	for _, c := range w.changes {
		told = append(told, c.To+": "+c.Reason)
	}
	require.Equal(t, []string{
		"full: 5 of 5 in flight",
		"limiting: cpu 1.00 of 0.90: at most 2 in flight, 1.5 × 100 a second × 10ms",
		"calm: nothing refused for 10s",
	}, told)
}

// That nobody knows a limit on the signal is told, whatever else refuses.
func TestOnChange_IsToldThatNoLimitIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9, MaxInFlight: 1}))
	w.try("a", 2)
	w.clock.Advance(100 * ms)
	w.cpu(1)
	w.try("a", 1)
	require.Equal(t, "unknown", w.rule("a").State)
}

func TestPanic_FreesThePlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxInFlight: 1}))
	require.Panics(t, func() {
		_ = w.gate.Do(t.Context(), "a", func(context.Context) error { panic("no") })
	})
	passed, _ := w.try("a", 1)
	require.Len(t, passed, 1)
}

// The sampler is closed, or its reading hangs, while the limit is far below what the service can do.
func TestLimit_EndsWhenTheSignalsAreNotKnownAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxCPU: 0.9}))
	w.busy("a", 3)
	w.cpu(1)
	passed, _ := w.try("a", 10)
	require.Len(t, passed, 2)
	w.load.Set(load.Signals{})
	w.clock.Advance(100 * ms)
	passed, _ = w.try("a", 100)
	require.Len(t, passed, 100)
	require.Equal(t, "calm", w.rule("a").State)
}

// Nobody succeeds, so nobody knows how long calls take: that is no reason to let more in.
func TestLimit_StaysWhenAllCallsHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxRT: 20 * ms}))
	w.busy("a", 3)
	w.run("a", 20, 50*ms)
	passed, _ := w.try("a", 10)
	n := len(passed)
	require.Less(t, n, 10)
	for range 5 {
		w.clock.Advance(sec)
		passed, _ = w.try("a", 10)
		require.Empty(t, passed)
	}
}

func TestCalm_LooksWithoutAllocation(t *testing.T) { //nolint:paralleltest // it counts allocations
	allocations := func(rules ...system.Rule) float64 {
		w := newWorld(t, rules...)
		w.cpu(0.5)
		a := w.gate.Resource("a")
		return testing.AllocsPerRun(100, func() {
			w.clock.Advance(100 * ms)
			if e, err := a.Entry(); err == nil {
				e.Exit()
			}
		})
	}
	require.Equal(t, allocations(), allocations(all(system.Rule{MaxCPU: 0.9, MaxInFlight: 100})), "as without a rule")
}
