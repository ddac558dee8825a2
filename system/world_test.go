package system_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
	"github.com/leapgate-go/leapgate/system"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// world is a gate with a given clock and given signals.
type world struct {
	t     testing.TB
	clock *gatetest.Clock
	load  *load.Given
	gate  *leapgate.Gate

	mu      sync.Mutex
	changes []leapgate.Change
}

func newWorld(t testing.TB, rules ...system.Rule) *world {
	t.Helper()
	w := &world{t: t, clock: gatetest.NewClock(), load: new(load.Given)}
	w.gate = leapgate.Must(leapgate.Config{Now: w.clock.Now, Load: w.load, OnChange: func(c leapgate.Change) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes = append(w.changes, c)
	}})
	t.Cleanup(func() { _ = w.gate.Close() })
	w.loadRules(rules...)
	return w
}

func (w *world) loadRules(rules ...system.Rule) {
	w.t.Helper()
	require.NoError(w.t, w.gate.LoadRules(leapgate.Rules{System: rules}))
}

// try begins n calls, and returns the entries of those that passed and the last refusal.
func (w *world) try(name string, n int, opts ...leapgate.EntryOption) (passed []*resource.Entry, last *leapgate.BlockError) {
	w.t.Helper()
	for range n {
		e, err := w.gate.EntryContext(w.t.Context(), name, opts...)
		if err != nil {
			require.ErrorAs(w.t, err, &last)
			continue
		}
		passed = append(passed, &e)
	}
	return passed, last
}

func exit(entries []*resource.Entry) {
	for _, e := range entries {
		e.Exit()
	}
}

// run is n calls, one after the other, of so long each.
func (w *world) run(name string, n int, rt time.Duration) {
	w.t.Helper()
	for range n {
		passed, _ := w.try(name, 1)
		w.clock.Advance(rt)
		exit(passed)
	}
}

// busy is so many seconds of 100 calls that take 10 ms each, one after the other: a rate of 100
// and an RT of 10 ms, so that one is in flight.
func (w *world) busy(name string, seconds int) {
	w.t.Helper()
	for range seconds {
		w.run(name, 100, 10*ms)
	}
}

// cpu is a sample of the CPU.
func (w *world) cpu(v float64) {
	w.load.Set(load.Signals{CPU: load.Known(v)})
}

func (w *world) rule(name string) stat.RuleSnapshot {
	w.t.Helper()
	rules := w.gate.Resource(name).Snapshot().Rules
	require.Len(w.t, rules, 1)
	return rules[0]
}

// all binds everything.
func all(r system.Rule) system.Rule {
	r.ID, r.Match = "s", rule.All
	return r
}
