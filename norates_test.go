package leapgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/param"
)

func TestWithoutRates_RulesOnCallsPerTimeNeitherRefuseNorCountWhatIsExempt(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadRules(leapgate.Rules{
		Flow: []flow.Rule{
			{ID: "plain", Resource: "a", Threshold: 1, Interval: time.Hour},
			{ID: "strict", Resource: "a", Threshold: 1, Interval: time.Hour, Strict: true, Candidate: 1},
			{ID: "paced", Resource: "a", Threshold: 1, Interval: time.Hour, Behavior: flow.Pace, MaxWait: time.Hour},
		},
		Param: []param.Rule{
			{ID: "value", Resource: "a", Arg: "x", Threshold: 1, Interval: time.Hour, Candidate: 1},
			{ID: "inside", Resource: "a", Arg: "x", MaxInFlight: 3},
		},
		Isolation: []isolation.Rule{{ID: "places", Resource: "a", MaxInFlight: 2}},
	}))
	ctx, arg := context.Background(), leapgate.WithArg("x", "v")
	for range 100 {
		e, err := gate.EntryContext(ctx, "a", arg, leapgate.WithoutRates())
		require.NoError(t, err)
		e.Exit()
	}
	inside := make([]interface{ Exit() }, 2)
	for i := range inside {
		e, err := gate.EntryContext(ctx, "a", arg, leapgate.WithoutRates())
		require.NoError(t, err)
		inside[i] = &e
	}
	_, err := gate.EntryContext(ctx, "a", arg, leapgate.WithoutRates())
	require.ErrorContains(t, err, "places", "it counts among those in flight")
	for _, e := range inside {
		e.Exit()
	}
	s := gate.Lookup("a").Snapshot()
	require.EqualValues(t, 102, s.Pass)
	for _, r := range s.Rules {
		if r.ID != "places" && r.ID != "inside" {
			require.Zero(t, r.Admitted+r.Blocked+r.CandidateWouldBlock, r.ID)
		}
	}
	e, err := gate.EntryContext(ctx, "a", arg)
	require.NoError(t, err, "nothing of the rates is used up, and what was refused was given back")
	e.Exit()
	_, err = gate.EntryContext(ctx, "a", arg)
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}
