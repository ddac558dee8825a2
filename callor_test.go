package leapgate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestCallOr_FallsBackForRefusalsOnly(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	g := leapgate.Must(leapgate.Config{Now: clock.Now})
	require.NoError(t, g.LoadRules(leapgate.Rules{
		Flow:    []flow.Rule{{Resource: "full", Threshold: 0}},
		Breaker: []breaker.Rule{{Resource: "open", ErrorRatio: 0.5, Force: breaker.Open}},
	}))
	ctx := context.Background()
	fellBack := 0
	call := func(ctx context.Context, name string, fn func(context.Context) (string, error)) (string, error) {
		return leapgate.CallOr(ctx, g, name, fn, func(_ context.Context, refused error) (string, error) {
			fellBack++
			require.ErrorIs(t, refused, leapgate.ErrBlocked)
			return "from the cache", nil
		})
	}
	value := func(context.Context) (string, error) { return "fresh", nil }
	for i, name := range []string{"open", "full"} {
		result, err := call(ctx, name, value)
		require.NoError(t, err)
		require.Equal(t, "from the cache", result)
		require.Equal(t, i+1, fellBack)
		require.EqualValues(t, 1, g.Resource(name).Snapshot().Block)
	}

	result, err := call(ctx, "a", value)
	require.NoError(t, err)
	require.Equal(t, "fresh", result)
	away := errors.New("away")
	_, err = call(ctx, "a", func(context.Context) (string, error) { return "", away })
	require.Equal(t, away, err)
	_, err = call(ctx, "a", func(ctx context.Context) (string, error) {
		return leapgate.Call(ctx, g, "open", value) // a refusal, but not of this call
	})
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	require.Panics(t, func() { _, _ = call(ctx, "a", func(context.Context) (string, error) { panic("no") }) })
	_, err = call(ctx, "", value)
	require.ErrorIs(t, err, leapgate.ErrName)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = call(ended, "open", value)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, 2, fellBack)
}

func ExampleCallOr() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{Resource: "prices", ErrorRatio: 0.5, Force: breaker.Open},
	}})
	price, err := leapgate.CallOr(context.Background(), gate, "prices",
		func(context.Context) (int, error) { return 120, nil },
		func(context.Context, error) (int, error) { return 100, nil }, // as of yesterday
	)
	fmt.Println(price, err)
	// Output: 100 <nil>
}
