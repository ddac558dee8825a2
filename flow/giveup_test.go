package flow_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rule"
)

// crowd is a number of clients of the resource "a", in fake time.
type crowd struct {
	gate  *leapgate.Gate
	all   sync.WaitGroup
	mu    sync.Mutex // guards what is below
	begun []time.Time
	tries map[string]int
	pass  map[string]int
	told  []time.Duration // what calls that were refused at once were told
	waits []time.Duration // how long those waited that passed
}

func newCrowd(t testing.TB, rules ...flow.Rule) *crowd {
	t.Helper()
	c := &crowd{gate: leapgate.Must(leapgate.Config{}), tries: make(map[string]int), pass: make(map[string]int)}
	require.NoError(t, c.gate.LoadFlowRules(rules))
	return c
}

// calls makes rate calls a second, at random times, until the end. Each gives up after patience,
// if that is not 0.
func (c *crowd) calls(who string, rate int, seed uint64, until time.Time, patience time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 1))
	mean := float64(time.Second) / float64(rate)
	for {
		time.Sleep(time.Duration(rng.ExpFloat64() * mean))
		if time.Now().After(until) {
			return
		}
		c.all.Go(func() { c.call(who, patience) })
	}
}

func (c *crowd) call(who string, patience time.Duration) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, patience)
		ctx = gatetest.Unannounced(ctx)
	}
	defer cancel()
	came := time.Now()
	e, err := c.gate.EntryContext(ctx, "a")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries[who]++
	switch {
	case err == nil:
		c.pass[who]++
		c.begun = append(c.begun, time.Now())
		c.waits = append(c.waits, time.Since(came))
		e.Exit()
	case time.Since(came) == 0:
		c.told = append(c.told, retryAfter(err))
	}
}

func retryAfter(err error) time.Duration {
	var b *leapgate.BlockError
	if !errors.As(err, &b) {
		return -1
	}
	return b.RetryAfter
}

// A client that gives up all the time costs no other call its turn: 40 calls a second that are given up
// after 120 ms, and four a second that wait.
func TestPace_ThoseWhoWaitPassBesideThoseWhoGiveUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, flow.Rule{Resource: "a", Threshold: 10, Behavior: flow.Pace, MaxWait: time.Second})
			end := time.Now().Add(time.Minute)
			c.all.Go(func() { c.calls("hangs up", 40, 2*seed, end, 120*ms) })
			c.all.Go(func() { c.calls("waits", 4, 2*seed+1, end, 0) })
			c.all.Wait()
			t.Log(c.pass, c.tries)
			require.GreaterOrEqual(t, float64(c.pass["waits"]), 0.95*float64(c.tries["waits"]))
			c.keepsItsPromises(t, 100*ms, time.Second)
		})
	}
}

// With demand above the rate, and among it many calls that are given up, hardly a turn is lost.
func TestPace_TurnsAreUsedUp(t *testing.T) {
	t.Parallel()
	for _, patience := range list(5, 120, 990) {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, flow.Rule{Resource: "a", Threshold: 10, Behavior: flow.Pace, MaxWait: time.Second})
			begin := time.Now()
			end := begin.Add(time.Minute)
			c.all.Go(func() { c.calls("hangs up", 40, uint64(patience), end, patience) })
			c.all.Go(func() { c.calls("waits", 12, 1, end, 0) })
			c.all.Wait()
			turns := int(c.begun[len(c.begun)-1].Sub(begin)/(100*ms)) + 1
			t.Log(patience, len(c.begun), turns)
			require.GreaterOrEqual(t, float64(len(c.begun)), 0.96*float64(turns))
			c.keepsItsPromises(t, 100*ms, time.Second)
		})
	}
}

// keepsItsPromises reports whether the gap held, no call waited too long, and one that was refused at once
// was told when to come again.
func (c *crowd) keepsItsPromises(t *testing.T, gap, longest time.Duration) {
	t.Helper()
	slices.SortFunc(c.begun, time.Time.Compare)
	for i := range c.begun[1:] {
		require.GreaterOrEqual(t, c.begun[i+1].Sub(c.begun[i]), gap)
	}
	require.LessOrEqual(t, slices.Max(c.waits), longest)
	for _, told := range c.told {
		require.Positive(t, told)
		require.LessOrEqual(t, told, gap)
	}
	s := c.gate.Resource("a").Snapshot()
	require.EqualValues(t, len(c.begun), s.Pass)
	require.EqualValues(t, len(c.begun), s.Rules[0].Admitted)
	require.EqualValues(t, c.tries["waits"]+c.tries["hangs up"]-len(c.begun), s.Rules[0].Blocked)
}

// Loading the rule with other buckets or another interval leaves calls that queue where they are, and
// those that come later behind them.
func TestPace_ReloadKeepsTheQueue(t *testing.T) {
	t.Parallel()
	given := flow.Rule{ID: "p", Resource: "a", Threshold: 10, Behavior: flow.Pace, MaxWait: 10 * time.Second}
	for name, change := range map[string]func(r *flow.Rule){
		"buckets":            func(r *flow.Rule) { r.Buckets = 5 },
		"interval":           func(r *flow.Rule) { r.Threshold, r.Interval = 20, 2*time.Second },
		"threshold":          func(r *flow.Rule) { r.Threshold = 9.5 },
		"warming up":         func(r *flow.Rule) { r.Strategy, r.WarmUpPeriod, r.ColdFactor = flow.WarmUp, time.Second, 1.1 },
		"shadow and back":    func(r *flow.Rule) { r.Mode = rule.Shadow },
		"nobody waits, back": func(r *flow.Rule) { r.MaxWait = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, given)
				for i := range 100 {
					if i == 50 {
						changed := given
						change(&changed)
						require.NoError(t, c.gate.LoadFlowRules([]flow.Rule{changed}))
						if changed.Mode == rule.Shadow || changed.MaxWait == 0 {
							require.NoError(t, c.gate.LoadFlowRules([]flow.Rule{given}))
						}
					}
					c.all.Go(func() { c.call("waits", 0) })
					synctest.Wait()
				}
				c.all.Wait()
				require.GreaterOrEqual(t, c.pass["waits"], 95)
				slices.SortFunc(c.begun, time.Time.Compare)
				for i := range c.begun[1:] {
					require.GreaterOrEqual(t, c.begun[i+1].Sub(c.begun[i]), 100*ms)
				}
				require.EqualValues(t, c.pass["waits"], c.gate.Resource("a").Snapshot().Rules[0].Admitted)
			})
		})
	}
}

// When a large call gives up, a small one behind it may begin at once. The gap to the next call
// counts from its begin, not from the time at which it might have begun.
func TestPace_GapAfterACallThatMovesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 10, Behavior: flow.Pace, MaxWait: time.Second}}))
		start := time.Now()
		begun := make([]time.Duration, 4)
		var all sync.WaitGroup
		for i, n := range []int64{1, 2, 1, 2} {
			all.Go(func() {
				ctx := context.Background()
				if i == 1 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 150*ms)
					ctx = gatetest.Unannounced(ctx)
					defer cancel()
				}
				e, err := g.EntryContext(ctx, "a", leapgate.WithCount(n))
				require.Equal(t, i == 1, err != nil)
				begun[i] = time.Since(start)
				e.Exit()
			})
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, list(0, 150, 150, 350), begun)
	})
}

// A program that brings its own clock and sleep gets the same queue.
func TestPace_TurnsAreUsedUpWithASleepOfTheProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := func() int64 { return time.Now().UnixNano() }
		c := &crowd{gate: leapgate.Must(leapgate.Config{Now: clock, Sleep: gatetest.SleepOnTimer}), tries: make(map[string]int), pass: make(map[string]int)}
		require.NoError(t, c.gate.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 10, Behavior: flow.Pace, MaxWait: time.Second}}))
		begin := time.Now()
		end := begin.Add(20 * time.Second)
		c.all.Go(func() { c.calls("hangs up", 40, 1, end, 120*ms) })
		c.all.Go(func() { c.calls("waits", 12, 2, end, 0) })
		c.all.Wait()
		turns := int(c.begun[len(c.begun)-1].Sub(begin)/(100*ms)) + 1
		require.GreaterOrEqual(t, float64(len(c.begun)), 0.96*float64(turns))
		c.keepsItsPromises(t, 100*ms, time.Second)
	})
}
