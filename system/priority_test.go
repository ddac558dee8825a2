package system_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/system"
)

// Demand is four times MaxQPS, of which critical calls would take one half.
func TestMaxQPS_AdmitsCriticalCallsThatFit(t *testing.T) {
	t.Parallel()
	rates := []int{100, 1000, 10_000}
	if gatetest.Race || testing.Short() {
		rates = rates[:1]
	}
	for _, qps := range rates {
		for _, origins := range []int{1, 1000} {
			w, rnd := newWorld(t, all(system.Rule{MaxQPS: int64(qps)})), rand.New(rand.NewPCG(1, 2))
			const seconds, warmUp = 13, 3
			var critical, blocked, used float64
			next := w.clock.Now()
			end := next + int64(seconds*sec)
			for from := next + int64(warmUp*sec); next < end; next += int64(rnd.ExpFloat64() * float64(sec) / float64(4*qps)) {
				w.clock.Set(next)
				matters := leapgate.Background
				if rnd.IntN(8) == 0 {
					matters = leapgate.Critical
				}
				passed, _ := w.try("a", 1, leapgate.WithCriticality(matters), leapgate.WithOrigin(fmt.Sprint(rnd.IntN(origins))))
				exit(passed)
				if next < from {
					continue
				}
				used += float64(len(passed))
				if matters == leapgate.Critical {
					critical++
					blocked += float64(1 - len(passed))
				}
			}
			used /= float64(qps * (seconds - warmUp))
			t.Logf("MaxQPS %d, %d origins: %.4f of the critical calls blocked, %.3f used", qps, origins, blocked/critical, used)
			require.LessOrEqual(t, blocked/critical, 0.02)
			require.GreaterOrEqual(t, used, 0.88)
		}
	}
}

// Demand is four times MaxQPS, of which one or two calls per second are critical.
func TestMaxQPS_AdmitsRareCriticalCalls(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{1, 2} {
		w, rnd := newWorld(t, all(system.Rule{MaxQPS: 100})), rand.New(rand.NewPCG(1, 2))
		const seconds, demand = 1000, 400
		var critical, blocked, used float64
		next := w.clock.Now()
		for end := next + int64(seconds*sec); next < end; next += int64(rnd.ExpFloat64() * float64(sec) / demand) {
			w.clock.Set(next)
			matters := leapgate.Background
			if rnd.IntN(demand) < rate {
				matters = leapgate.Critical
			}
			passed, _ := w.try("a", 1, leapgate.WithCriticality(matters))
			exit(passed)
			used += float64(len(passed))
			if matters == leapgate.Critical {
				critical++
				blocked += float64(1 - len(passed))
			}
		}
		t.Logf("%d critical calls per second: %.4f of them blocked, %.3f used", rate, blocked/critical, used/100/seconds)
		require.LessOrEqual(t, blocked/critical, 0.01)
		require.GreaterOrEqual(t, used/100/seconds, 0.97)
	}
}

// Room kept for a critical call that never comes again is used by others half a minute later.
func TestMaxQPS_StopsKeepingRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxQPS: 1}))
	calls := func(seconds int, opts ...leapgate.EntryOption) (passed int) {
		for range 5 * seconds {
			w.clock.Advance(200 * ms)
			entries, _ := w.try("a", 1, opts...)
			exit(entries)
			passed += len(entries)
		}
		return passed
	}
	require.Equal(t, 10, calls(10))
	calls(1, leapgate.WithCriticality(leapgate.Critical))
	calls(40)
	require.Equal(t, 10, calls(10))
}

// A blocked call passes after its RetryAfter if no other call is made, whichever rule blocked it.
func TestRetryAfter_IsEnough(t *testing.T) {
	t.Parallel()
	criticalities := []leapgate.Criticality{leapgate.Critical, resource.DefaultCriticality, leapgate.Sheddable, leapgate.Background}
	kinds := map[string]int{}
	for seed := range uint64(1000) {
		w, rnd := newWorld(t), rand.New(rand.NewPCG(seed, 0))
		require.NoError(t, w.gate.LoadRules(leapgate.Rules{
			System: []system.Rule{all(system.Rule{MaxQPS: 1 + rnd.Int64N(8)})},
			Flow:   []flow.Rule{{Resource: "a", Threshold: 1 + float64(rnd.IntN(8)), Interval: 500 * ms}},
		}))
		var blocked *leapgate.BlockError
		var matters leapgate.EntryOption
		for i := 0; i < 20 || blocked == nil; i++ {
			w.clock.Advance(time.Duration(rnd.IntN(150)) * ms)
			matters = leapgate.WithCriticality(criticalities[rnd.IntN(4)])
			_, blocked = w.try("a", 1, matters)
		}
		require.Positive(t, blocked.RetryAfter, "seed %d", seed)
		w.clock.Advance(blocked.RetryAfter)
		passed, _ := w.try("a", 1, matters)
		require.Len(t, passed, 1, "seed %d: %v", seed, blocked)
		kinds[blocked.Kind]++
	}
	require.Len(t, kinds, 2)
}

// Whoever reads figures while nobody calls does not lengthen the wait for room that is kept for others.
func TestRetryAfter_IsEnoughWhileFiguresAreRead(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{70 * ms, 100 * ms, 600 * ms} {
		w := newWorld(t, all(system.Rule{MaxQPS: 100}))
		var blocked *leapgate.BlockError
		for range 5000 {
			w.clock.Advance(ms)
			_, _ = w.try("a", 1, leapgate.WithCriticality(leapgate.Critical))
			_, blocked = w.try("a", 1, leapgate.WithCriticality(leapgate.Background))
		}
		require.GreaterOrEqual(t, blocked.RetryAfter, sec)
		for rest := blocked.RetryAfter; rest > 0; rest -= every {
			w.clock.Advance(min(rest, every))
			_ = w.rule("a")
		}
		passed, _ := w.try("a", 1, leapgate.WithCriticality(leapgate.Background))
		require.Len(t, passed, 1, every)
	}
}
