package param_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

func TestPace_CallsOfOneValueWaitForTheirTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{
			{ID: "x", Resource: "r", Arg: "item", Threshold: 5, Behavior: param.Pace, MaxWait: 500 * time.Millisecond, Items: "slow=1"},
		}}))
		start := time.Now()
		var mu sync.Mutex
		waits, blocked := make(map[time.Duration]int), 0
		for range 10 {
			go func() {
				e, err := g.EntryContext(context.Background(), "r", leapgate.WithArg("item", "a"))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					blocked++
					return
				}
				waits[time.Since(start)]++
				e.Exit()
			}()
		}
		synctest.Wait()
		e, err := g.EntryContext(context.Background(), "r", leapgate.WithArg("item", "b"))
		require.NoError(t, err, "another value has turns of its own")
		e.Exit()
		e, err = g.EntryContext(context.Background(), "r", leapgate.WithArg("item", "slow"))
		require.NoError(t, err)
		e.Exit()
		_, err = g.EntryContext(context.Background(), "r", leapgate.WithArg("item", "slow"))
		require.EqualError(t, err, `param rule "x" on "r": 2 of 1 in 1s, with a queue of 500ms; retry in 500ms`)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, map[time.Duration]int{0: 1, 200 * time.Millisecond: 1, 400 * time.Millisecond: 1}, waits)
		require.Equal(t, 7, blocked)
	})
}

func TestPace_ACallThatGivesUpFreesTheLastTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{
			{Resource: "r", Arg: "item", Threshold: 1, Behavior: param.Pace, MaxWait: 10 * time.Second},
		}}))
		enter := func(wait time.Duration, n int64) error {
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			ctx = gatetest.Unannounced(ctx)
			defer cancel()
			e, err := g.EntryContext(ctx, "r", leapgate.WithArg("item", "a"), leapgate.WithCount(n))
			e.Exit()
			return err
		}
		require.NoError(t, enter(time.Minute, 1))
		start := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			time.Sleep(100 * time.Millisecond)
			cancel()
		}()
		_, err := g.EntryContext(ctx, "r", leapgate.WithArg("item", "a"))
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, enter(time.Minute, 1))
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, enter(time.Minute, 2), leapgate.ErrBlocked, "more than the threshold")
	})
}

func TestPace_InModeShadowNobodyWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Threshold: 1, Behavior: param.Pace, MaxWait: 2 * time.Second, Mode: rule.Shadow})
	require.Equal(t, 10, w.pass(10, item("a")))
	s := w.snapshot()
	require.Equal(t, []int64{3, 7}, []int64{s.Admitted, s.WouldBlock})
}
