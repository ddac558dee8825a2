package breaker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
)

// batch begins a call that counts n, which must pass.
func (w *world) batch(n int64) *flight {
	w.t.Helper()
	e, err := w.gate.EntryContext(context.Background(), "a", leapgate.WithCount(n))
	require.NoError(w.t, err)
	return &flight{w, e}
}

func TestCount_IsOneCallThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) { r.ErrorRatio, r.SlowRatio, r.SlowAfter, r.MinCalls = 0, 1, 7*ms, 3 }))
	w.batch(100)
	w.batch(100)
	w.at(15 * ms)
	w.begin()
	w.in("closed")
	w.at(23 * ms)
	w.refused()
	require.Equal(t, "3 of 3 calls took longer than 7ms, 3 of them in flight", w.why())
}

func TestCount_IsOneRequestOfAThrottle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual(func(r *breaker.Rule) {
		r.Behavior, r.ErrorRatio, r.MinCalls, r.K = breaker.Throttle, 0, 3, 1
	}))
	share := func() float64 { return w.rule("b").Effective }
	w.batch(10).end(fails)
	w.batch(10).end(fails)
	w.batch(10).end(ignored)
	require.Zero(t, share())
	w.batch(10).end(ok)
	require.InDelta(t, 2.0/4, share(), 0)
	w.batch(10).end(ok)
	require.InDelta(t, 2.0/5, share(), 0)
}
