package leapgate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

// Failures open a breaker, and never come to the fallback; refusals of the open breaker do,
// and count as blocks.
func TestCallOr_FallsBackWhileABreakerIsOpen(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	g := leapgate.Must(leapgate.Config{Now: clock.Now})
	require.NoError(t, g.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{{Resource: "a", ErrorRatio: 0.5, MinCalls: 5}}}))
	away := errors.New("away")
	fellBack := 0
	call := func() (string, error) {
		return leapgate.CallOr(t.Context(), g, "a",
			func(context.Context) (string, error) { return "", away },
			func(_ context.Context, refused *leapgate.BlockError) (string, error) {
				fellBack++
				require.Equal(t, "breaker", refused.Kind)
				return "from the cache", nil
			})
	}
	for range 5 {
		_, err := call()
		require.Equal(t, away, err)
	}
	require.Zero(t, fellBack)
	for i := range 3 {
		result, err := call()
		require.NoError(t, err)
		require.Equal(t, "from the cache", result)
		require.Equal(t, i+1, fellBack)
	}
	require.EqualValues(t, 3, gates.Snapshot(t, g, "a").Block)
}
