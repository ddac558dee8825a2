package docs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// newShopGate returns a gate with three rules on two resources. Close it when the program ends.
func newShopGate() (*leapgate.Gate, error) {
	gate, err := leapgate.New(leapgate.Config{})
	if err != nil {
		return nil, err
	}
	return gate, gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 100},
		{ID: "orders-day", Resource: "GET /orders", Threshold: 1e6, Interval: 24 * time.Hour, Buckets: 24},
		{ID: "search-try", Resource: "GET /search", Threshold: 20, Mode: rule.Shadow},
	})
}

// waitAfter returns how long the caller of a refused call should wait; 0 if that is not known.
func waitAfter(err error) time.Duration {
	var blocked *leapgate.BlockError
	if errors.As(err, &blocked) {
		return blocked.RetryAfter
	}
	return 0
}

func TestGates_RefusalsSayHowLongToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate, err := newShopGate()
		require.NoError(t, err)
		defer gate.Close()
		query := func(context.Context) error { return nil }
		require.NoError(t, gate.Do(t.Context(), "GET /orders", query, leapgate.WithCount(100)))
		err = gate.Do(t.Context(), "GET /orders", query)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		time.Sleep(waitAfter(err))
		require.NoError(t, gate.Do(t.Context(), "GET /orders", query))
	})
}
