package breaker_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/resource"
)

// Calls begin and end while the rule is changed, so that their ends may be seen under another rule
// than their begins. When all have ended, exactly MinCalls calls that hang must open the
// breaker: no more, which would be a call that was taken off twice, and no fewer.
func TestReload_CallsThatBeginMeanwhileAreNotTakenOffTheOverdueOnes(t *testing.T) {
	t.Parallel()
	const minCalls = 20
	rounds := 300
	if testing.Short() {
		rounds /= 10
	}
	var now atomic.Int64
	now.Store(int64(time.Hour))
	g, err := leapgate.New(leapgate.Config{Now: func() int64 { return now.Add(1) }})
	require.NoError(t, err)
	rule := func(round int) breaker.Rule {
		r := breaker.Rule{
			ID: "b", Resource: "a", MinCalls: minCalls, SlowRatio: 1, SlowAfter: time.Second,
			Interval: time.Duration(10+round%2*10) * time.Second, OpenFor: time.Millisecond, Probes: 1,
		}
		if round%3 == 0 {
			r = breaker.Rule{ID: "b", Resource: "a", Behavior: breaker.Throttle}
		}
		return r
	}
	load := func(r breaker.Rule) { require.NoError(t, g.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{r}})) }
	load(rule(0))
	a := g.Resource("a")
	for round := range rounds {
		var stop atomic.Bool
		var loading sync.WaitGroup
		loading.Go(func() {
			for i := range 3 {
				load(rule(round + i))
			}
			load(rule(1 + round%2*4))
			stop.Store(true)
		})
		gatetest.AtOnce(8, func(int) {
			for !stop.Load() {
				e, err := a.Entry()
				if err == nil {
					e.Resume(e.Pause())
					e.Exit()
				}
			}
		})
		loading.Wait()
		now.Add(int64(time.Minute)) // the window is empty
		hanging := make([]resource.Entry, minCalls)
		for i := range hanging {
			hanging[i], err = a.Entry()
			require.NoError(t, err)
			if i == minCalls-2 {
				now.Add(int64(1100 * time.Millisecond))
			}
		}
		now.Add(int64(1100 * time.Millisecond))
		_, err = a.Entry()
		require.ErrorIs(t, err, leapgate.ErrBlocked, "in round %d", round)
		for i := range hanging {
			hanging[i].Exit()
		}
		now.Add(int64(time.Second))
		e, err := a.Entry() // the probe
		require.NoError(t, err)
		e.Exit()
	}
}

// On a clock that stands still meanwhile, a call begins before the rule is changed and ends after it.
func TestReload_CallOfTheSameMomentIsNotTakenOffTheOverdueOnes(t *testing.T) {
	t.Parallel()
	now := int64(time.Hour)
	g, err := leapgate.New(leapgate.Config{Now: func() int64 { return now }})
	require.NoError(t, err)
	load := func(slowAfter time.Duration) {
		r := breaker.Rule{ID: "b", Resource: "a", MinCalls: 2, SlowRatio: 1, SlowAfter: slowAfter}
		require.NoError(t, g.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{r}}))
	}
	load(time.Minute)
	before, err := g.Entry("a")
	require.NoError(t, err)
	load(time.Second)
	before.Exit()
	now += int64(time.Minute)
	for range 2 {
		_, err = g.Entry("a")
		require.NoError(t, err)
	}
	now += int64(1100 * time.Millisecond)
	_, err = g.Entry("a")
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}
