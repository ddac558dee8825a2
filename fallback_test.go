package leapgate_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
)

func fresh(context.Context) (string, error) { return "fresh", nil }

func stale(context.Context, *leapgate.BlockError) (string, error) { return "stale", nil }

// noFallback is one that must not be called.
func noFallback(context.Context, *leapgate.BlockError) (string, error) {
	panic("the fallback was called")
}

func TestCallOr_RefusalIsAnsweredByTheFallback(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	g := gates.New(t, clock, flow.Rule{ID: "r", Resource: "orders", Threshold: 1})
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{ID: "full", Resource: "busy", MaxInFlight: 1}}))
	got, err := leapgate.CallOr(t.Context(), g, "orders", fresh, noFallback)
	require.Equal(t, []any{"fresh", nil}, []any{got, err})

	clock.Advance(400 * time.Millisecond)
	ctx := context.WithValue(t.Context(), ctxKey{}, "mine")
	never := func(context.Context) (string, error) { panic("it ran") }
	for range 3 {
		got, err = leapgate.CallOr(ctx, g, "orders", never, func(given context.Context, refused *leapgate.BlockError) (string, error) {
			require.Equal(t, ctx, given)
			require.Equal(t, []any{"r", "flow", 429, 600 * time.Millisecond}, []any{refused.RuleID, refused.Kind, refused.Status, refused.RetryAfter})
			return "stale", nil
		})
		require.Equal(t, []any{"stale", nil}, []any{got, err})
	}
	s := g.Resource("orders").Snapshot()
	require.Equal(t, []int64{1, 3, 1, 0, 0}, []int64{s.Pass, s.Block, s.Success, s.Exception, s.Concurrency})

	e, err := g.Entry("busy")
	require.NoError(t, err)
	defer e.Exit()
	sorry := errors.New("nothing in the cache")
	got, err = leapgate.CallOr(ctx, g, "busy", never, func(_ context.Context, refused *leapgate.BlockError) (string, error) {
		require.Equal(t, []any{"full", "isolation", 503}, []any{refused.RuleID, refused.Kind, refused.Status})
		return "", sorry
	})
	require.Equal(t, []any{"", sorry}, []any{got, err}, "the error is the fallback's")

	got, err = leapgate.CallOr(ctx, leapgate.Default(), "no rules", fresh, noFallback)
	require.Equal(t, []any{"fresh", nil}, []any{got, err})
}

type ctxKey struct{}

func TestCallOr_NothingElseCallsTheFallback(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "closed"})
	broken := errors.New("connection reset")
	_, refusal := g.Entry("closed")
	for _, fault := range []error{broken, context.Canceled, refusal, fmt.Errorf("inside: %w", leapgate.ErrBlocked)} {
		got, err := leapgate.CallOr(t.Context(), g, "orders", func(context.Context) (string, error) { return "half", fault }, noFallback)
		require.Equal(t, []any{"half", fault}, []any{got, err})
	}
	require.PanicsWithValue(t, "boom", func() {
		_, _ = leapgate.CallOr(t.Context(), g, "orders", func(context.Context) (string, error) { panic("boom") }, noFallback)
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = leapgate.CallOr(t.Context(), g, "orders", func(context.Context) (string, error) { runtime.Goexit(); return "", nil }, noFallback)
	}()
	<-ended
	s := g.Resource("orders").Snapshot()
	require.Equal(t, []int64{6, 0, 6, 6, 0}, []int64{s.Pass, s.Block, s.Success, s.Exception, s.Concurrency})

	over, cancel := context.WithCancel(t.Context())
	cancel()
	call := func(ctx context.Context, name string, opts ...leapgate.EntryOption) error {
		_, err := leapgate.CallOr(ctx, g, name, fresh, noFallback, opts...)
		return err
	}
	require.ErrorIs(t, call(t.Context(), ""), leapgate.ErrName)
	require.ErrorIs(t, call(t.Context(), strings.Repeat("x", 1025)), leapgate.ErrName)
	require.ErrorIs(t, call(t.Context(), "closed", leapgate.WithCount(0)), leapgate.ErrCount)
	require.Equal(t, context.Canceled, call(over, "closed"))
}

func TestCallOr_WithoutAFallbackIsCall(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock(), flow.Rule{ID: "r", Resource: "orders", Threshold: 3})
	got, err := leapgate.CallOr(t.Context(), g, "orders", fresh, nil, leapgate.WithCount(3))
	require.Equal(t, []any{"fresh", nil}, []any{got, err})
	got, err = leapgate.CallOr(t.Context(), g, "orders", fresh, nil, leapgate.WithCount(3))
	require.Empty(t, got)
	require.EqualError(t, err, `flow rule "r" on "orders": 6 of 3 in 1s; retry in 1s`)
}

// A fallback holds nothing of the call, counts nowhere, and may call the gate.
func TestCallOr_FallbackIsNoPartOfTheCall(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	g := gates.New(t, clock, flow.Rule{Resource: "orders"})
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{Resource: "orders", MaxInFlight: 1}}))
	got, err := leapgate.CallOr(t.Context(), g, "orders", fresh, func(ctx context.Context, refused *leapgate.BlockError) (string, error) {
		require.Zero(t, g.Resource("orders").Snapshot().Concurrency)
		clock.Advance(time.Second)
		return leapgate.CallOr(ctx, g, "the other data center", fresh, noFallback)
	})
	require.Equal(t, []any{"fresh", nil}, []any{got, err})
	require.PanicsWithValue(t, "boom", func() {
		_, _ = leapgate.CallOr(t.Context(), g, "orders", fresh, func(context.Context, *leapgate.BlockError) (string, error) { panic("boom") })
	})
	s := g.Resource("orders").Snapshot()
	require.Equal(t, []int64{0, 2, 0, 0, 0, 0}, []int64{s.Pass, s.Block, s.Success, s.Exception, s.Ignored, s.Concurrency})
}

func TestCallOr_ContextEndsDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{
			{ID: "slowly", Resource: "mail", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour},
		}))
		_, err := leapgate.CallOr(t.Context(), g, "mail", fresh, noFallback)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		got, err := leapgate.CallOr(ctx, g, "mail", fresh, func(ctx context.Context, refused *leapgate.BlockError) (string, error) {
			require.Equal(t, "slowly", refused.RuleID)
			return "later", ctx.Err()
		})
		require.Equal(t, []any{"later", context.Canceled}, []any{got, err})
	})
}

// Under any interleaving each call is answered once: by fn, or by the fallback.
func TestCallOr_ManyCallers_EachIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	const callers, calls, threshold = 16, 500, 1234
	g := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "orders", Threshold: threshold})
	var passed, refused atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				_, _ = leapgate.CallOr(context.Background(), g, "orders",
					func(context.Context) (int64, error) { return passed.Add(1), nil },
					func(context.Context, *leapgate.BlockError) (int64, error) { return refused.Add(1), nil })
			}
		})
	}
	all.Wait()
	s := g.Resource("orders").Snapshot()
	require.Equal(t, []int64{threshold, callers*calls - threshold}, []int64{passed.Load(), refused.Load()})
	require.Equal(t, []int64{threshold, callers*calls - threshold, 0}, []int64{s.Success, s.Block, s.Concurrency})
}
