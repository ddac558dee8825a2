package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/rule"
)

// A resource is not evicted while its breaker remembers an opening.
func TestEviction_NotWhileTheBreakerRemembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = leapgate.Must(leapgate.Config{Now: w.clock.Now, MaxResources: 1})
	w.load(usual(func(r *breaker.Rule) { r.Resource, r.Match, r.OpenFor = "", rule.Default, 7*time.Minute }))
	w.opens()
	w.at(7 * time.Minute)
	w.calls(fails) // the probe
	before := w.rule("b")
	require.EqualValues(t, 3, before.Changes)
	for _, name := range []string{"x", "y"} {
		w.clock.Advance(2 * time.Minute)
		e, err := w.gate.Entry(name)
		require.NoError(t, err)
		e.Exit()
	}
	require.NotNil(t, w.gate.Lookup("a"))
	require.Equal(t, 3*time.Minute, w.refused().RetryAfter)
	after := w.rule("b")
	require.Equal(t, "open", after.State)
	require.Equal(t, before.Since, after.Since)
	require.Equal(t, before.LastChanges, after.LastChanges)
	require.EqualValues(t, 3, after.Changes)
	w.clock.Advance(3 * time.Minute)
	w.calls(ok)
	w.in("closed")
}
