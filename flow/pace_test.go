package flow_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rule"
)

// pacing is the rule of the cases: ten per second, with a queue of 500 ms.
var pacing = flow.Rule{ID: "p", Resource: "a", Threshold: 10, Behavior: flow.Pace, MaxWait: 500 * ms}

func TestPace_Cases(t *testing.T) {
	t.Parallel()
	type step struct {
		at    time.Duration
		tries int
		n     int64
		want  []time.Duration // of the admitted; 0 of those that did not wait
	}
	six := list(0, 100, 200, 300, 400, 500)
	ten := flow.Rule{Threshold: 10}
	for name, c := range map[string]struct {
		given flow.Rule
		steps []step
	}{
		"ten at once":                      {pacing, []step{{0, 10, 1, six}, {1000 * ms, 10, 1, six}}},
		"nobody waits":                     {ten, []step{{0, 2, 1, list(0)}, {99 * ms, 1, 1, nil}, {100*ms - 1, 1, 1, nil}, {100 * ms, 2, 1, list(0)}}},
		"the longest wait may be waited":   {flow.Rule{Threshold: 10, MaxWait: 100*ms - 1}, []step{{0, 5, 1, list(0)}, {1, 5, 1, []time.Duration{100*ms - 1}}}},
		"the queue gets shorter with time": {pacing, []step{{0, 9, 1, six}, {250 * ms, 9, 1, list(350, 450)}, {700 * ms, 1, 1, list(100)}, {2000 * ms, 1, 1, list(0)}}},
		"a batch waits for its length":     {flow.Rule{Threshold: 50, Interval: 10 * time.Second}, []step{{0, 3, 51, nil}, {0, 1, 50, list(0)}, {0, 10, 1, nil}, {2010 * ms, 2, 1, list(0)}}},
		"a batch behind another":           {flow.Rule{Threshold: 50, MaxWait: time.Second}, []step{{0, 4, 25, list(0, 500, 1000)}, {500 * ms, 1, 25, list(1000)}}},
		"half a millisecond":               {flow.Rule{Threshold: 2000}, []step{{0, 2, 1, list(0)}, {ms / 2, 2, 1, list(0)}, {ms - 1, 1, 1, nil}}},
		"50,000 per second": {
			flow.Rule{Threshold: 50_000, MaxWait: 60 * time.Microsecond},
			[]step{{0, 9, 1, []time.Duration{0, 20_000, 40_000, 60_000}}, {19_999, 9, 1, nil}, {20_000, 9, 1, []time.Duration{60_000}}},
		},
		"a fraction":                 {flow.Rule{Threshold: 1.5, MaxWait: time.Second}, []step{{0, 5, 1, []time.Duration{0, 666_666_667}}}},
		"gaps are rounded up":        {flow.Rule{Threshold: 3, MaxWait: 700 * ms}, []step{{0, 5, 1, []time.Duration{0, 333_333_334, 666_666_668}}}},
		"zero blocks all":            {flow.Rule{Threshold: 0, MaxWait: time.Hour}, []step{{0, 5, 1, nil}}},
		"less than one blocks all":   {flow.Rule{Threshold: 0.9, MaxWait: time.Hour}, []step{{0, 5, 1, nil}, {time.Hour, 5, 1, nil}}},
		"one per day":                {flow.Rule{Threshold: 1, Interval: 24 * time.Hour, MaxWait: 24 * time.Hour}, []step{{0, 5, 1, []time.Duration{0, 24 * time.Hour}}}},
		"the clock jumps":            {pacing, []step{{0, 9, 1, six}, {time.Hour, 9, 1, six}}},
		"the clock goes back":        {pacing, []step{{time.Hour, 1, 1, list(0)}, {0, 9, 1, nil}, {time.Hour - 400*ms, 1, 1, list(500)}}},
		"what is blocked takes none": {ten, []step{{0, 100, 1, list(0)}, {100 * ms, 1, 1, list(0)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := c.given
			given.Resource, given.Behavior = "a", flow.Pace
			g, q := newQueue(t, given)
			for _, s := range c.steps {
				g.at(s.at)
				admitted := g.try(t, "a", s.tries, leapgate.WithCount(s.n))
				require.Equal(t, len(s.want), admitted, "@%v", s.at)
				waits := slices.DeleteFunc(slices.Clone(s.want), func(d time.Duration) bool { return d == 0 })
				require.ElementsMatch(t, waits, q.taken(), "@%v", s.at)
			}
		})
	}
}

func TestPace_FiguresOfTheRule(t *testing.T) {
	t.Parallel()
	g, _ := newQueue(t, pacing)
	require.Equal(t, 6, g.try(t, "a", 10))
	require.Equal(t, figuresOf{"p", 6, 4, 0}, g.rule(t, "a", "p"))
	figures := g.Resource("a").Snapshot()
	require.EqualValues(t, 6, figures.Pass)
	require.EqualValues(t, 4, figures.Block)
	require.Zero(t, figures.OccupiedPass, "nothing was borrowed")
}

// In mode shadow a rule lets nobody wait, and counts as if it did.
func TestPace_Shadow(t *testing.T) {
	t.Parallel()
	given := pacing
	given.Mode = rule.Shadow
	g, q := newQueue(t, given)
	require.Equal(t, 10, g.try(t, "a", 10))
	require.Empty(t, q.taken())
	require.Equal(t, figuresOf{"p", 6, 0, 4}, g.rule(t, "a", "p"))
	require.EqualValues(t, 4, g.Resource("a").Snapshot().WouldBlock)
}

// A rule that paces is asked after those that refuse, wherever it stands: nobody
// waits in order to be refused.
func TestPace_AskedLast(t *testing.T) {
	t.Parallel()
	g, q := newQueue(t, pacing, flow.Rule{ID: "two", Resource: "a", Threshold: 2})
	require.Equal(t, 2, g.try(t, "a", 10))
	require.Equal(t, list(100), q.taken())
	require.Equal(t, "two", g.blocked(t, "a", 1).RuleID)
	require.EqualValues(t, 2, g.rule(t, "a", "p").admitted)
}

// The queue is the rule's: it stays whatever is changed of the rule.
func TestPace_Reload(t *testing.T) {
	t.Parallel()
	g, q := newQueue(t, pacing)
	load := func(change func(r *flow.Rule)) {
		given := pacing
		change(&given)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{given}))
	}
	require.Equal(t, 3, g.try(t, "a", 3))
	load(func(r *flow.Rule) { r.Threshold = 20 })
	require.Equal(t, 6, g.try(t, "a", 100))
	require.Equal(t, list(100, 200, 250, 300, 350, 400, 450, 500), q.taken())
	load(func(r *flow.Rule) { r.MaxWait = 600 * ms })
	require.Equal(t, 1, g.try(t, "a", 100))
	require.Equal(t, list(600), q.taken())
	load(func(r *flow.Rule) { r.Interval, r.MaxWait = 2*time.Second, time.Second })
	require.Equal(t, 2, g.try(t, "a", 100))
	require.Equal(t, list(800, 1000), q.taken())
	load(func(r *flow.Rule) { r.Buckets = 5 })
	require.Zero(t, g.try(t, "a", 100))
	require.EqualValues(t, 3+6+1+2, g.snapshot(t, "a").Admitted)
}

// In true time: the call waits, its response time begins when its wait is over, and
// it passes in that second.
func TestPace_TrueWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		given := pacing
		given.Threshold, given.MaxWait = 1, 3*time.Second
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{given}))
		begin := time.Now()
		for i, call := range []func() error{
			func() error { e, err := g.Entry("a"); exitLater(&e); return err }, // without context, too
			func() error { e, err := g.Entry("a"); exitLater(&e); return err },
			func() error { e, err := g.EntryContext(nil, "a"); exitLater(&e); return err }, //nolint:staticcheck // it is allowed
			func() error { e, err := g.Resource("a").Entry(); exitLater(&e); return err },
		} {
			require.NoError(t, call())
			require.Equal(t, time.Duration(i)*time.Second+5*ms, time.Since(begin))
			s := g.Resource("a").Snapshot()
			require.EqualValues(t, i+1, s.Pass)
			require.Equal(t, 1.0, s.PassQPS, "only this second's")
			require.Equal(t, 5*ms, s.AvgRT)
		}
	})
}

// exitLater ends a call after 5 ms.
func exitLater(e interface{ Exit() }) {
	time.Sleep(5 * ms)
	e.Exit()
}

// A context that ends ends the wait at once. It is a block, and what the
// context says; and the turn of the last in the queue is free again.
func TestPace_ContextEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{pacing}))
		e, err := g.Entry("a")
		require.NoError(t, err)
		e.Exit()
		for _, c := range []struct {
			end  func(ctx context.Context) (context.Context, context.CancelFunc)
			want error
			text string
		}{
			{func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(10*ms, cancel)
				return ctx, cancel
			}, context.Canceled, "context canceled"},
			{
				func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithTimeout(ctx, 10*ms)
					return gatetest.Unannounced(ctx), cancel
				},
				context.DeadlineExceeded, "context deadline exceeded",
			},
		} {
			ctx, cancel := c.end(t.Context())
			begin := time.Now()
			e, err := g.EntryContext(ctx, "a", leapgate.WithOrigin("us"))
			require.Equal(t, 10*ms, time.Since(begin))
			require.ErrorIs(t, err, leapgate.ErrBlocked)
			require.ErrorIs(t, err, c.want)
			var b *leapgate.BlockError
			require.ErrorAs(t, err, &b)
			require.Equal(t, "p", b.RuleID)
			require.Contains(t, err.Error(), `flow rule "p" on "a": `)
			require.Contains(t, err.Error(), " of 10 in 1s, with a queue of 500ms: "+c.text)
			e.Exit()
			cancel()
		}
		s := g.Resource("a").Snapshot()
		require.EqualValues(t, 1, s.Pass)
		require.EqualValues(t, 2, s.Block)
		require.EqualValues(t, 1, s.Success)
		require.EqualValues(t, 1, s.Rules[0].Admitted)
		require.Equal(t, "us", s.Rules[0].LastRefusal.Origin)

		begin := time.Now() // 20 ms after the first
		e, err = g.Entry("a")
		require.NoError(t, err)
		e.Exit()
		require.Equal(t, 80*ms, time.Since(begin), "as if they had never been there")
	})
}

// A context that has ended counts nothing, whatever the rules.
func TestPace_ContextEndedBefore(t *testing.T) {
	t.Parallel()
	g, q := newQueue(t, pacing)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, call := range []func() error{
		func() error { _, err := g.EntryContext(ctx, "a"); return err },
		func() error { _, err := g.Resource("a").EntryContext(ctx); return err },
		func() error { return g.Do(ctx, "a", func(context.Context) error { return nil }) },
	} {
		err := call()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, leapgate.ErrBlocked)
	}
	require.Empty(t, q.taken())
	require.Equal(t, figuresOf{"p", 0, 0, 0}, g.rule(t, "a", "p"))
	s := g.Resource("a").Snapshot()
	require.Zero(t, s.Pass+s.Block)
}

// Calls behind one that gives up move up.
func TestPace_WhoGivesUpLeavesTheTurnToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{pacing}))
		var mu sync.Mutex // guards waited
		waited := make(map[int]time.Duration)
		var all sync.WaitGroup
		begin := time.Now()
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 1 { // the second, the fourth and the last give up
				time.AfterFunc(time.Duration(10*i)*ms, cancel)
			}
			all.Go(func() {
				defer cancel()
				e, err := g.EntryContext(ctx, "a")
				e.Exit()
				mu.Lock()
				defer mu.Unlock()
				if waited[i] = time.Since(begin); err != nil {
					waited[i] = -1
				}
			})
			synctest.Wait() // it is in the queue
		}
		all.Wait()
		require.Equal(t, map[int]time.Duration{0: 0, 1: -1, 2: 100 * ms, 3: -1, 4: 200 * ms, 5: -1}, waited)
		e, err := g.Entry("a")
		require.NoError(t, err)
		e.Exit()
		require.Equal(t, 300*ms, time.Since(begin), "the turn of the last was free again")
	})
}

// 64 goroutines in true time: nobody is lost, and no two are closer than the gap.
func TestPace_ManyInTrueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 50_000, Behavior: flow.Pace, MaxWait: 2 * ms}}))
		const goroutines, calls, gap = 64, 100, 20 * time.Microsecond
		var mu sync.Mutex // guards what is below
		var at []time.Time
		blocked, ended := 0, 0
		gatetest.AtOnce(goroutines, func(id int) {
			for i := range calls {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+(id+i)%97)*50*time.Microsecond)
				ctx = gatetest.Unannounced(ctx)
				e, err := g.EntryContext(ctx, "a")
				mu.Lock()
				switch {
				case err == nil:
					at = append(at, time.Now())
				case errors.Is(err, context.DeadlineExceeded):
					ended++
				default:
					blocked++
				}
				mu.Unlock()
				e.Exit()
				time.Sleep(time.Duration(id*i%7) * 100 * time.Microsecond)
				cancel()
			}
		})
		slices.SortFunc(at, time.Time.Compare)
		for i := range at[1:] {
			require.GreaterOrEqual(t, at[i+1].Sub(at[i]), gap)
		}
		s := g.Resource("a").Snapshot()
		require.EqualValues(t, len(at), s.Pass)
		require.EqualValues(t, len(at), s.Success)
		require.EqualValues(t, blocked+ended, s.Block)
		require.Equal(t, goroutines*calls, len(at)+blocked+ended)
		require.EqualValues(t, len(at), s.Rules[0].Admitted)
		require.EqualValues(t, blocked+ended, s.Rules[0].Blocked)
		require.Positive(t, ended)
		require.NotEmpty(t, at)
	})
}

// The clock stands, and 512 goroutines come at once. Nobody's wait is over before all have come.
func TestPace_HammerAtOneInstant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wait time.Duration
		want int
	}{{0, 1}, {time.Second, 6}, {10 * time.Second, 51}} {
		synctest.Test(t, func(t *testing.T) {
			g := newCrowd(t, flow.Rule{Resource: "a", Threshold: 50, Interval: 10 * time.Second, Behavior: flow.Pace, MaxWait: c.wait})
			gatetest.AtOnce(512, func(int) { g.call("waits", 0) })
			slices.Sort(g.waits)
			for i, wait := range g.waits {
				require.Equal(t, time.Duration(i)*200*ms, wait, "each turn once")
			}
			require.Len(t, g.waits, c.want)
			require.EqualValues(t, 512-c.want, g.gate.Resource("a").Snapshot().Rules[0].Blocked)
		})
	}
}

// In a moving clock: calls that wait move it, and some of them give up.
func TestPace_HammerOnAMovingClock(t *testing.T) {
	t.Parallel()
	const gap = int64(100 * ms)
	g := &gate{}
	g.clock.Store(minute)
	errGivenUp := errors.New("given up")
	type key struct{}
	g.Gate = leapgate.Must(leapgate.Config{Now: g.clock.Load, Sleep: func(ctx context.Context, d time.Duration) error {
		if ctx.Value(key{}) != nil {
			return errGivenUp
		}
		g.clock.Add(int64(d) / 64)
		return nil
	}})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{pacing, {ID: "seen", Resource: "a", Threshold: 1e9, Mode: rule.Shadow}}))
	var pass, block, given atomic.Int64
	gatetest.AtOnce(64, func(id int) {
		for i := range 200 {
			ctx := context.Background()
			if (id+i)%3 == 0 {
				ctx = context.WithValue(ctx, key{}, true)
			}
			e, err := g.EntryContext(ctx, "a")
			switch {
			case err == nil:
				pass.Add(1)
			case errors.Is(err, errGivenUp):
				given.Add(1)
			default:
				block.Add(1)
			}
			e.Exit()
			if i%10 == 0 {
				g.clock.Add(gap / 8)
			}
		}
	})
	elapsed := g.clock.Load() - minute
	require.LessOrEqual(t, pass.Load(), 1+(elapsed+int64(500*ms))/gap, "as many as there were turns")
	require.Positive(t, given.Load())
	s := g.Resource("a").Snapshot()
	require.EqualValues(t, 64*200, pass.Load()+block.Load()+given.Load())
	require.Equal(t, []int64{pass.Load(), block.Load() + given.Load(), 0}, []int64{s.Pass, s.Block, s.Concurrency})
	require.Equal(t, pass.Load(), s.Rules[0].Admitted)
	require.Equal(t, pass.Load(), s.Rules[1].Admitted)
}

// Waiting calls move up when the threshold is raised, and keep their turns when it is lowered.
func TestPace_WaitingCallsGoByARaisedThreshold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		given := flow.Rule{ID: "p", Resource: "a", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{given}))
		began := time.Now()
		for threshold, at := range map[float64]time.Duration{10: 1500 * ms, 5: 1650 * ms} {
			time.AfterFunc(at, func() {
				given := given
				given.Threshold = threshold
				if err := g.LoadFlowRules([]flow.Rule{given}); err != nil {
					t.Error(err)
				}
			})
		}
		var mu sync.Mutex // guards at
		var at []time.Duration
		gatetest.AtOnce(6, func(int) {
			e, err := g.Entry("a")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			at = append(at, time.Since(began))
			mu.Unlock()
			e.Exit()
		})
		require.Equal(t, list(0, 1000, 1500, 1600, 1700, 1800), at)
	})
}

// A rule that warmed up and no longer does leaves no pace behind.
func TestPace_WarmUpThatIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := flow.Rule{
			ID: "p", Resource: "a", Threshold: 100, Behavior: flow.Pace, MaxWait: time.Minute,
			Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second,
		}
		g := leapgate.Must(leapgate.Config{Memory: new(heap)})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{r}))
		r.Threshold, r.Strategy, r.WarmUpPeriod = 1, flow.MemoryAdaptive, 0
		r.LowMemory, r.HighMemory, r.HighMemoryThreshold = 1, 2, 0.5
		require.NoError(t, g.LoadFlowRules([]flow.Rule{r}))
		began := time.Now()
		gatetest.AtOnce(4, func(int) {
			if _, err := g.Entry("a"); err != nil {
				t.Error(err)
			}
		})
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}
