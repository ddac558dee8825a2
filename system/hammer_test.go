package system_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

func TestMaxInFlight_NeverMoreInAllResourcesTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, system.Rule{ID: "in", Resource: "GET *", Match: rule.Glob, MaxInFlight: 10})
	var inside, most, passed, blocked atomic.Int64
	criticalities := []resource.Criticality{resource.DefaultCriticality, leapgate.Critical, leapgate.Sheddable, leapgate.Background}
	gatetest.AtOnce(64, func(id int) {
		for i := range gatetest.Rounds(5000) {
			e, err := w.gate.EntryContext(t.Context(), fmt.Sprint("GET /", id%2), leapgate.WithCriticality(criticalities[id%4]))
			if i%50 == 0 {
				w.clock.Advance(ms)
			}
			if err != nil {
				blocked.Add(1)
				continue
			}
			now := inside.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); {
				m = most.Load()
			}
			passed.Add(1)
			inside.Add(-1)
			e.Exit()
		}
	})
	require.LessOrEqual(t, most.Load(), int64(10))
	a, b := w.rule("GET /0"), w.rule("GET /1")
	require.Equal(t, passed.Load(), a.Admitted+b.Admitted)
	require.Equal(t, blocked.Load(), a.Blocked+b.Blocked)
	require.Equal(t, a.Blocked, a.Shed.Sum())
	w.clock.Advance(20 * sec)
	all, _ := w.try("GET /0", 20)
	require.Len(t, all, 10, "all places are free in the end")
}

func TestMaxQPS_ExactlySoManyOverManyResources(t *testing.T) {
	t.Parallel()
	const qps = 1000
	w := newWorld(t, all(system.Rule{MaxQPS: qps}))
	for range gatetest.Rounds(20) {
		var passed atomic.Int64
		gatetest.AtOnce(64, func(id int) {
			for i := range 100 {
				if e, err := w.gate.Entry(fmt.Sprint("r", (id+i)%20)); err == nil {
					passed.Add(1)
					e.Exit()
				}
			}
		})
		require.EqualValues(t, qps, passed.Load())
		w.clock.Advance(2 * sec)
	}
}

// The race: reloads of the rule, which make other checks of the same state.
func TestReload_LosesNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all(system.Rule{MaxInFlight: 4, MaxQPS: 1_000_000}))
	gatetest.AtOnce(16, func(id int) {
		for i := range gatetest.Rounds(1000) {
			if id == 0 && i%10 == 0 {
				r := all(system.Rule{MaxInFlight: 4, MaxQPS: int64(1_000_000 + i)})
				if err := w.gate.LoadRules(leapgate.Rules{System: []system.Rule{r}}); err != nil {
					t.Error(err)
				}
				continue
			}
			if e, err := w.gate.Entry(fmt.Sprint("r", id%4)); err == nil {
				e.Exit()
			}
		}
	})
	w.clock.Advance(20 * sec)
	for i := range 4 {
		passed, _ := w.try(fmt.Sprint("r", i), 20)
		require.Len(t, passed, 4)
		exit(passed)
	}
}
