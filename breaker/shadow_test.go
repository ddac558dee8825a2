package breaker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// Only as many as there would be probes decide, whatever else runs, and the back-off is that which
// there would be.
func TestShadow_WouldBeProbesDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) {
		r.Mode, r.Probes, r.OpenFor, r.MaxOpenFor = rule.Shadow, 3, 2*sec, 8*sec
	}))
	w.opens()
	w.at(2 * sec)
	probes := w.beginMany(5)
	probes[4].end(fails)
	probes[3].end(fails)
	w.in("half-open")
	require.EqualValues(t, 2, w.rule("b").WouldBlock)
	probes[0].end(fails)
	probes[1].end(fails)
	w.in("open")
	probes[2].end(ok)
	w.at(6*sec - 1)
	w.calls(ok, ok)
	w.in("open")
	w.at(6 * sec)
	w.calls(ok, ok)
	w.in("closed")
	require.EqualValues(t, 4, w.rule("b").WouldBlock)
}

// What another rule refuses is no would-be probe, and what one breaker refuses is unknown to another
// in mode shadow.
func TestShadow_BesideRulesThatRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(), usual(func(r *breaker.Rule) { r.ID, r.Mode, r.OpenFor = "c", rule.Shadow, 3*sec }))
	w.opens()
	require.Equal(t, "open", w.rule("c").State)
	w.at(3 * sec)
	w.refused()
	require.Equal(t, "open", w.rule("c").State)
	w.at(5 * sec)
	require.NoError(t, w.gate.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 0}}))
	for range 5 {
		require.Equal(t, "flow", w.refused().Kind)
	}
	require.Equal(t, []string{"open", "open"}, []string{w.rule("b").State, w.rule("c").State})
	require.NoError(t, w.gate.LoadFlowRules(nil))
	probe := w.begin()
	require.Equal(t, []string{"half-open", "half-open"}, []string{w.rule("b").State, w.rule("c").State})
	probe.end(ok)
	require.Equal(t, []string{"closed", "closed"}, []string{w.rule("b").State, w.rule("c").State})
}
