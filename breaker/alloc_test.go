package breaker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// Tests of allocations must not be parallel: those of others would count.

func TestAllocations_CallThatPassesHasNone(t *testing.T) {
	for name, rules := range map[string]leapgate.Rules{
		"closed":   {Breaker: []breaker.Rule{usual()}},
		"slow":     {Breaker: []breaker.Rule{hangs()}},
		"throttle": {Breaker: []breaker.Rule{throttles()}},
		"forced":   {Breaker: []breaker.Rule{usual(func(r *breaker.Rule) { r.Force = breaker.Closed })}},
		"two and a flow rule": {
			Flow:    []flow.Rule{{Resource: "a", Threshold: 1e15}},
			Breaker: []breaker.Rule{usual(), hangs(func(r *breaker.Rule) { r.ID = "c" })},
		},
	} {
		w := newWorld(t)
		require.NoError(t, w.gate.LoadRules(rules))
		r := w.gate.Resource("a")
		call := func() {
			e, err := r.Entry()
			if err != nil {
				t.Fatal(err)
			}
			e.Exit()
		}
		call()
		require.Zero(t, testing.AllocsPerRun(100, call), name)
	}
}

func TestAllocations_RefusalHasThatOfItsError(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t, usual())
	w.opens()
	r := w.gate.Resource("a")
	refused := func() {
		if _, err := r.Entry(); err == nil {
			t.Fatal("admitted")
		}
	}
	for range 100 { // those of a row are kept, the first 64 of each millisecond
		refused()
	}
	require.EqualValues(t, 1, testing.AllocsPerRun(100, refused))
}
