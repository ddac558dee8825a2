package leapgate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNew_BadConfigurationIsToldAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := leapgate.New(leapgate.Config{MaxResources: -1, Guards: []resource.Guard{nil}})
	require.ErrorIs(t, err, leapgate.ErrConfig)
	require.EqualError(t, err, "leapgate: bad configuration: MaxResources is -1; want 1 to 10000000, or 0 for 10000\n"+
		"leapgate: bad configuration: Guards[0] is nil; want a guard")
	require.Panics(t, func() { leapgate.Must(leapgate.Config{MaxResources: -1}) })
}

func TestEntry_CountsFromEntryToExit(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c)
	e, err := g.Entry("orders")
	require.NoError(t, err)
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{1, 0, 1}, []int64{s.Pass, s.Success, s.Concurrency})

	c.Advance(30 * time.Millisecond)
	e.SetError(errors.New("it broke"))
	e.Exit()
	s = gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{1, 1, 1, 0}, []int64{s.Pass, s.Success, s.Exception, s.Concurrency})
	require.Equal(t, 30*time.Millisecond, s.AvgRT)
	require.Equal(t, 30*time.Millisecond, s.MinRT)
	require.InEpsilon(t, float64(30*time.Millisecond), float64(s.P99), 0.044)
	require.Equal(t, []float64{1, 1, 1, 0}, []float64{s.PassQPS, s.SuccessQPS, s.ExceptionQPS, s.BlockQPS})
	require.Equal(t, time.Unix(0, c.Now()), s.At)

	c.Advance(time.Second)
	s = gates.Snapshot(t, g, "orders")
	require.Zero(t, s.PassQPS)
	require.Zero(t, s.AvgRT)
	require.Equal(t, int64(1), s.Pass)
}

func TestEntry_ExitTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	e, err := g.Entry("orders")
	require.NoError(t, err)
	e.Exit()
	e.SetError(errors.New("too late"))
	e.Exit()
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{1, 1, 0, 0}, []int64{s.Pass, s.Success, s.Exception, s.Concurrency})
}

func TestEntry_ExitFromAnotherGoroutine(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	e, err := g.Entry("orders")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Exit()
	}()
	<-done
	e.Exit()
	require.Equal(t, int64(1), gates.Snapshot(t, g, "orders").Success)
}

func TestEntry_ZeroEntryDoesNothing(t *testing.T) {
	t.Parallel()
	var e resource.Entry
	e.SetError(errors.New("nobody is there"))
	e.Exit()
	e.Exit()
}

func TestEntry_IsFourWords(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(resource.Entry{}), uintptr(32)) // more does not come back in registers
}

func TestEntry_BadNamesAreErrorsAndCountNothing(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	for _, name := range []string{"", strings.Repeat("x", rule.MaxNameLength+1)} {
		e, err := g.Entry(name)
		require.ErrorIs(t, err, leapgate.ErrName)
		require.NotErrorIs(t, err, leapgate.ErrBlocked)
		require.Less(t, len(err.Error()), 200)
		e.Exit()
		_, err = g.Resource(name).Entry()
		require.ErrorIs(t, err, leapgate.ErrName)
		require.ErrorIs(t, g.Do(t.Context(), name, func(context.Context) error { panic("it ran") }), leapgate.ErrName)
		require.Zero(t, g.Resource(name).QPS(metric.Pass))
	}
	require.Empty(t, g.Snapshot())
	require.True(t, gates.Enter(t, g, strings.Repeat("x", rule.MaxNameLength)))
}

func TestEntry_BadCountsAreErrorsAndCountNothing(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	for _, n := range []int64{0, -1, math.MinInt64, (1 << 20) + 1, math.MaxInt64} {
		e, err := g.EntryContext(t.Context(), "orders", leapgate.WithCount(n))
		require.ErrorIs(t, err, leapgate.ErrCount)
		require.NotErrorIs(t, err, leapgate.ErrBlocked)
		require.ErrorContains(t, err, fmt.Sprint(n))
		e.Exit()
	}
	s := gates.Snapshot(t, g, "orders")
	require.Zero(t, s.Pass+s.Block)
}

func TestEntryContext_FinishedContextIsItsErrorAndCountsNothing(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.EntryContext(ctx, "orders", leapgate.WithCount(0))
	require.Equal(t, context.Canceled, err)
	require.Equal(t, context.Canceled, g.Do(ctx, "orders", func(context.Context) error { panic("it ran") }))
	require.Empty(t, g.Snapshot())
	e, err := g.EntryContext(nil, "orders") //nolint:staticcheck // what a careless caller does
	require.NoError(t, err)
	e.Exit()
}

func TestWithCount_CountsPassSuccessRTAndConcurrency(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c)
	e, err := g.EntryContext(t.Context(), "orders", leapgate.WithCount(3))
	require.NoError(t, err)
	require.Equal(t, int64(3), gates.Snapshot(t, g, "orders").Concurrency)
	c.Advance(10 * time.Millisecond)
	e.SetError(errors.New("it broke"))
	e.Exit()
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{3, 3, 3, 0}, []int64{s.Pass, s.Success, s.Exception, s.Concurrency})
	require.Equal(t, 10*time.Millisecond, s.AvgRT)
}

func TestDo_ErrorsAndPanicsCountAsExceptions(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	broken := errors.New("it broke")
	require.NoError(t, g.Do(t.Context(), "orders", func(context.Context) error { return nil }))
	require.Equal(t, broken, g.Do(t.Context(), "orders", func(context.Context) error { return broken }))
	require.PanicsWithValue(t, "boom", func() {
		_ = g.Do(t.Context(), "orders", func(context.Context) error { panic("boom") })
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Do(t.Context(), "orders", func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-done
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{4, 4, 3, 0}, []int64{s.Pass, s.Success, s.Exception, s.Concurrency})
}

func TestCall_GivesTheResultOrTheBlock(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "orders", Threshold: 1})
	n, err := leapgate.Call(t.Context(), g, "orders", func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	n, err = leapgate.Call(t.Context(), g, "orders", func(context.Context) (int, error) { panic("it ran") })
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	require.Zero(t, n)
}

func TestOutcome_DefaultKnowsWhoseCancellationItWas(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	canceled, failed := fmt.Errorf("query: %w", context.Canceled), errors.New("it broke")
	ended := func(name string, tell func(e *resource.Entry)) []int64 {
		e, err := g.Entry(name)
		require.NoError(t, err)
		tell(&e)
		e.Exit()
		e.SetError(failed) // too late
		e.Exit()
		s := gates.Snapshot(t, g, name)
		return []int64{s.Success, s.Exception, s.Ignored}
	}
	require.Equal(t, []int64{1, 0, 0}, ended("nothing told", func(*resource.Entry) {}))
	require.Equal(t, []int64{1, 0, 0}, ended("nil", func(e *resource.Entry) { e.SetError(nil) }))
	require.Equal(t, []int64{1, 0, 1}, ended("canceled", func(e *resource.Entry) { e.SetError(canceled) }))
	require.Equal(t, []int64{1, 1, 0}, ended("failed", func(e *resource.Entry) { e.SetError(failed) }))
	require.Equal(t, []int64{1, 1, 0}, ended("the gravest counts", func(e *resource.Entry) {
		e.SetError(canceled)
		e.SetError(failed)
		e.SetError(canceled)
		e.SetError(nil)
	}))
	require.Equal(t, []int64{1, 0, 1}, ended("SetOutcome decides", func(e *resource.Entry) {
		e.SetError(failed)
		e.SetOutcome(leapgate.Ignored)
		e.SetOutcome(leapgate.Outcome(3)) // there is none such
	}))
	require.Equal(t, []int64{1, 0, 0}, ended("after all a success", func(e *resource.Entry) {
		e.SetError(failed)
		e.SetOutcome(leapgate.Success)
	}))

	_ = g.Do(t.Context(), "deadline", func(context.Context) error { return context.DeadlineExceeded })
	require.Equal(t, int64(1), gates.Snapshot(t, g, "deadline").Exception)
	_ = g.Do(t.Context(), "somebody else's", func(context.Context) error { return canceled })
	require.Equal(t, int64(1), gates.Snapshot(t, g, "somebody else's").Exception)
	ctx, cancel := context.WithCancel(t.Context())
	_ = g.Do(ctx, "the caller's", func(context.Context) error { cancel(); return canceled })
	require.Equal(t, int64(1), gates.Snapshot(t, g, "the caller's").Ignored)

	counted, err := g.EntryContext(t.Context(), "counted", leapgate.WithCount(7))
	require.NoError(t, err)
	counted.SetOutcome(leapgate.Ignored)
	require.Zero(t, gates.Snapshot(t, g, "counted").Ignored)
	counted.Exit()
	require.Equal(t, int64(7), gates.Snapshot(t, g, "counted").Ignored)
}

func TestOutcome_GivenOneDecides(t *testing.T) {
	t.Parallel()
	notFound, slow := errors.New("not found"), errors.New("slow down")
	g := leapgate.Must(leapgate.Config{Outcome: func(err error) leapgate.Outcome {
		switch {
		case errors.Is(err, notFound):
			return leapgate.Success
		case errors.Is(err, slow):
			return leapgate.Ignored
		default:
			return leapgate.Failure
		}
	}})
	for _, err := range []error{notFound, slow, slow, context.Canceled, errors.New("it broke"), nil} {
		_ = g.Do(t.Context(), "orders", func(context.Context) error { return err })
	}
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{6, 2, 2}, []int64{s.Success, s.Exception, s.Ignored})
}

func TestOutcome_Text(t *testing.T) {
	t.Parallel()
	require.Equal(t, "success failure ignored outcome(3)",
		fmt.Sprint(leapgate.Success, leapgate.Failure, leapgate.Ignored, leapgate.Outcome(3)))
}

func TestBlocked_IsCountedAndConsumesNothing(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c, flow.Rule{ID: "orders-qps", Resource: "orders", Threshold: 5})
	for range 2 {
		passed := 0
		for range 25 {
			if gates.Enter(t, g, "orders") {
				passed++
			}
		}
		require.Equal(t, 5, passed)
		c.Advance(time.Second)
	}
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{10, 40, 10, 0}, []int64{s.Pass, s.Block, s.Success, s.Concurrency})
	require.Equal(t, []stat.RuleSnapshot{{
		ID: "orders-qps", Kind: "flow", Threshold: 5, Effective: 5, Interval: time.Second, Admitted: 10, Blocked: 40,
		LastRefusal: stat.Refusal{At: s.At.Add(-time.Second), Observed: 6, Threshold: 5, RetryAfter: time.Second},
	}}, s.Rules)
}

func TestLookup_RegistersNothing(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	for _, name := range []string{"orders", "", strings.Repeat("x", 5000)} {
		require.Nil(t, g.Lookup(name))
	}
	require.Empty(t, g.Snapshot())
	require.True(t, gates.Enter(t, g, "orders"))
	require.Same(t, g.Resource("orders"), g.Lookup("orders"))
	require.NoError(t, g.Close())
	require.EqualValues(t, 1, g.Lookup("orders").Snapshot().Pass)
}

func TestGates_AreIndependent(t *testing.T) {
	t.Parallel()
	a, b := gatetest.NewClock(), gatetest.NewClock()
	guarded, free := gates.New(t, a, flow.Rule{Resource: "orders", Threshold: 0}), gates.New(t, b)
	require.False(t, gates.Enter(t, guarded, "orders"))
	require.True(t, gates.Enter(t, free, "orders"))
	a.Advance(time.Hour)
	require.Equal(t, 1.0, gates.Snapshot(t, free, "orders").PassQPS)
	require.NoError(t, guarded.Close())
	require.Equal(t, int64(1), gates.Snapshot(t, guarded, "orders").Block)
	require.True(t, gates.Enter(t, free, "orders"))
	require.Equal(t, int64(2), gates.Snapshot(t, free, "orders").Pass)
}

func TestClose_EntriesPassUnguardedAndUncounted(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "orders", Threshold: 1})
	handle := g.Resource("orders")
	inFlight, err := handle.Entry()
	require.NoError(t, err)
	require.False(t, gates.Enter(t, g, "orders"))

	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	for range 3 {
		e, err := handle.Entry()
		require.NoError(t, err)
		e.SetError(errors.New("uncounted"))
		e.Exit()
		require.True(t, gates.Enter(t, g, "orders"))
		require.True(t, gates.Enter(t, g, "never seen"))
	}
	inFlight.Exit()
	require.Equal(t, 1.0, handle.QPS(metric.Pass))
	require.Equal(t, int64(1), handle.Recent().Count())
	require.Equal(t, int64(1), handle.Minute().Count())
	require.Equal(t, int64(1), handle.History()[60].Pass)
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{1, 1, 1, 0, 0}, []int64{s.Pass, s.Block, s.Success, s.Exception, s.Concurrency})
	require.Len(t, g.Snapshot(), 1)
	require.ErrorIs(t, g.LoadFlowRules(nil), leapgate.ErrClosed)
}

func TestClose_BesideEntries(t *testing.T) {
	t.Parallel()
	for range 50 {
		g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "guarded", Threshold: 1000})
		var wg sync.WaitGroup
		for _, name := range []string{"guarded", "free", "guarded", "free"} {
			wg.Go(func() {
				for i := range 200 {
					e, err := g.Entry(name)
					assert.NoError(t, err)
					e.Exit()
					if i == 100 {
						assert.NoError(t, g.Close())
					}
				}
			})
		}
		wg.Wait()
		for _, s := range g.Snapshot() {
			require.Zero(t, s.Concurrency)
			require.Equal(t, s.Pass, s.Success)
		}
	}
}

func TestRealClock_UnderSynctest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 1}}))
		e, err := g.Entry("orders")
		require.NoError(t, err)
		time.Sleep(40 * time.Millisecond)
		e.Exit()
		require.Equal(t, 40*time.Millisecond, gates.Snapshot(t, g, "orders").AvgRT)

		_, err = g.Entry("orders")
		var blocked *leapgate.BlockError
		require.ErrorAs(t, err, &blocked)
		time.Sleep(blocked.RetryAfter - 1)
		require.False(t, gates.Enter(t, g, "orders"))
		time.Sleep(time.Nanosecond)
		require.True(t, gates.Enter(t, g, "orders"))
		require.WithinDuration(t, time.Now(), gates.Snapshot(t, g, "orders").At, 0)
	})
}

func TestDefault_PackageFunctions(t *testing.T) {
	// Not parallel: the default gate is one for the process.
	defer func() { require.NoError(t, leapgate.LoadFlowRules(nil)) }()
	require.NoError(t, leapgate.LoadFlowRules([]flow.Rule{{Resource: "default", Threshold: 3, Interval: time.Hour}}))
	e, err := leapgate.Entry("default")
	require.NoError(t, err)
	e.Exit()
	e, err = leapgate.EntryContext(t.Context(), "default", leapgate.WithCount(1))
	require.NoError(t, err)
	e.Exit()
	require.NoError(t, leapgate.Do(t.Context(), "default", func(context.Context) error { return nil }))
	_, err = leapgate.Resource("default").Entry()
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	require.Equal(t, leapgate.Default().Snapshot()[0].Pass, leapgate.Snapshot()[0].Pass)
}

// One decision, one time: two readings could straddle the edge of a window.
func TestEntry_ReadsTheClockOnceAndExitOnce(t *testing.T) {
	t.Parallel()
	var reads int
	g := leapgate.Must(leapgate.Config{Now: func() int64 { reads++; return int64(reads) * int64(time.Second) }})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "guarded", Threshold: 1}, {Resource: "guarded", Threshold: 2, Interval: time.Minute}}))
	g.Resource("free")
	for _, name := range []string{"free", "guarded", "guarded", "guarded"} {
		reads = 0
		e, err := g.EntryContext(t.Context(), name, leapgate.WithCount(1))
		require.Equal(t, 1, reads)
		e.Exit()
		if err == nil {
			require.Equal(t, 2, reads)
		}
	}
}

func TestEntry_AllocatesNothingWhenItPasses(t *testing.T) {
	g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "guarded", Threshold: 1e9}, flow.Rule{Resource: "guarded", Threshold: 1e9, Interval: time.Minute},
		flow.Rule{Resource: "full", Threshold: 1})
	free, guarded, full := g.Resource("free"), g.Resource("guarded"), g.Resource("full")
	require.True(t, gates.Enter(t, g, "full"))
	ctx, fn := context.Background(), func(context.Context) error { return nil }
	for _, tt := range []struct {
		name   string
		allocs float64
		call   func()
	}{
		{"handle", 0, func() { e, _ := free.Entry(); e.Exit() }},
		{"handle, two rules", 0, func() { e, _ := guarded.Entry(); e.Exit() }},
		{"by name", 0, func() { e, _ := g.Entry("free"); e.Exit() }},
		{"WithCount", 0, func() { e, _ := g.EntryContext(ctx, "free", leapgate.WithCount(7)); e.Exit() }},
		{"Do", 0, func() { _ = g.Do(ctx, "free", fn) }},
		{"CallOr", 0, func() { _, _ = leapgate.CallOr(ctx, g, "free", fresh, noFallback) }},
		{"CallOr, blocked", 1, func() { _, _ = leapgate.CallOr(ctx, g, "full", fresh, stale) }},
		{"blocked", 1, func() { _, _ = full.Entry() }},
		{"QPS", 0, func() { free.QPS(metric.Pass) }},
	} {
		require.Equal(t, tt.allocs, testing.AllocsPerRun(1000, tt.call), tt.name)
	}
}

func TestNames_AreClonedSoThatNoBufferIsPinned(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	buffer := []byte("orders and a whole request")
	name := unsafe.String(&buffer[0], 6)
	require.True(t, gates.Enter(t, g, name))
	kept := g.Resource("orders").Name()
	require.NotSame(t, unsafe.StringData(name), unsafe.StringData(kept))
	buffer[0] = 'X'
	require.Equal(t, "orders", kept)
}

// kindly is a guard of some kind, without rules.
type kindly string

func (k kindly) Kind() string                                         { return string(k) }
func (kindly) Bind(string, []resource.Check) ([]resource.Check, bool) { return nil, false }

func TestNew_GuardsAreOfOtherKindsThanTheGatesOwn(t *testing.T) {
	t.Parallel()
	_, err := leapgate.New(leapgate.Config{Guards: []resource.Guard{kindly("mine"), kindly("flow"), nil, kindly("isolation")}})
	require.ErrorIs(t, err, leapgate.ErrConfig)
	require.EqualError(t, err, `leapgate: bad configuration: Guards[1] has the kind "flow", which is one of the gate's own; want another
leapgate: bad configuration: Guards[2] is nil; want a guard
leapgate: bad configuration: Guards[3] has the kind "isolation", which is one of the gate's own; want another`)
}

func TestNew_KindsOfGuardsDifferAndCanBeShown(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 65)
	_, err := leapgate.New(leapgate.Config{Guards: []resource.Guard{
		kindly("mine"), kindly(""), kindly("mine"), kindly("a\nb"), kindly("\xff"), kindly(long), kindly(long[1:]), kindly("für alle"),
	}})
	require.EqualError(t, err, `leapgate: bad configuration: Guards[1] has the kind ""; want 1 to 64 bytes of printable text
leapgate: bad configuration: Guards[2] has the kind "mine", which is that of Guards[0]; want another
leapgate: bad configuration: Guards[3] has the kind "a\nb"; want 1 to 64 bytes of printable text
leapgate: bad configuration: Guards[4] has the kind "\xff"; want 1 to 64 bytes of printable text
leapgate: bad configuration: Guards[5] has the kind "`+long[1:]+`"…; want 1 to 64 bytes of printable text`)
}

func TestGate_SignalsAreThoseOfItsSource(t *testing.T) {
	require.Equal(t, load.Signals{}, *leapgate.Must(leapgate.Config{}).Signals(), "without a source")
	require.Equal(t, load.Signals{}, *leapgate.Must(leapgate.Config{Load: silent{}}).Signals(), "a source that knows nothing")
	var given load.Given
	gate := leapgate.Must(leapgate.Config{Load: &given})
	require.Equal(t, load.Signals{}, *gate.Signals())
	given.Set(load.Signals{CPU: load.Known(0.75)})
	require.Equal(t, load.Signals{Seq: 1, CPU: load.Known(0.75)}, *gate.Signals())
	require.Zero(t, testing.AllocsPerRun(100, func() { gate.Signals() }))
}

// silent is a source that has nothing to say.
type silent struct{}

func (silent) Signals() *load.Signals { return nil }

func TestEntry_APauseIsNoResponseTime(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c)
	e, err := g.Entry("upload")
	require.NoError(t, err)
	c.Advance(10 * time.Millisecond)
	at := e.Pause()
	c.Advance(time.Minute)
	require.EqualValues(t, 1, gates.Snapshot(t, g, "upload").Concurrency)
	e.Resume(at)
	c.Advance(20 * time.Millisecond)
	e.Exit()
	e.Resume(e.Pause()) // too late
	require.Equal(t, 30*time.Millisecond, gates.Snapshot(t, g, "upload").AvgRT)
}
