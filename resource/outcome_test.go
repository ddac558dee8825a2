package resource_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
)

// outcomes is a guard that notes how calls ended.
type outcomes struct{ seen []leapgate.Outcome }

func (o *outcomes) Kind() string { return "outcomes" }

func (o *outcomes) Bind(string, []resource.Check) ([]resource.Check, bool) {
	check := &outcomesCheck{scriptedCheck{id: "seen", guard: &scripted{}}, o}
	check.cause = resource.Cause{Kind: "outcomes", RuleID: check.id}
	return []resource.Check{check}, false
}

type outcomesCheck struct {
	scriptedCheck
	to *outcomes
}

func (c *outcomesCheck) Finish(_, _ int64, _ time.Duration, outcome leapgate.Outcome) {
	c.to.seen = append(c.to.seen, outcome)
}

func TestOutcome_ReachesGuards(t *testing.T) {
	t.Parallel()
	seen := new(outcomes)
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{seen}})
	_ = g.Do(t.Context(), "orders", func(context.Context) error { return nil })
	_ = g.Do(t.Context(), "orders", func(context.Context) error { return errors.New("it broke") })
	require.Panics(t, func() {
		_ = g.Do(t.Context(), "orders", func(context.Context) error { panic("it broke badly") })
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = g.Do(t.Context(), "orders", func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-ended
	e, err := g.Entry("orders")
	require.NoError(t, err)
	e.SetError(context.Canceled)
	e.Exit()
	require.Equal(t, []leapgate.Outcome{leapgate.Success, leapgate.Failure, leapgate.Failure, leapgate.Failure, leapgate.Ignored}, seen.seen)
}

// Whose cancellation it was is known where the context is, and then also to an entry.
func TestEntry_SetErrorContextKnowsWhoHasCanceled(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	always := func(o leapgate.Outcome) func(error) leapgate.Outcome {
		return func(error) leapgate.Outcome { return o }
	}
	for _, c := range []struct {
		name    string
		outcome func(error) leapgate.Outcome
		ctx     context.Context //nolint:containedctx // it is what is tested
		err     error
		want    [2]int64 // failures, ignored
	}{
		{"no error", nil, over, nil, [2]int64{0, 0}},
		{"the caller's cancellation", nil, over, context.Canceled, [2]int64{0, 1}},
		{"somebody else's", nil, t.Context(), context.Canceled, [2]int64{1, 0}},
		{"without a context", nil, nil, context.Canceled, [2]int64{1, 0}},
		{"a failure of a call that was canceled", nil, over, errors.New("broken"), [2]int64{1, 0}},
		{"the program says otherwise", always(leapgate.Success), t.Context(), context.Canceled, [2]int64{0, 0}},
		{"the program ignores it", always(leapgate.Ignored), t.Context(), context.Canceled, [2]int64{0, 1}},
	} {
		g := leapgate.Must(leapgate.Config{Outcome: c.outcome})
		e, err := g.Entry("a")
		require.NoError(t, err)
		e.SetErrorContext(c.ctx, c.err)
		e.Exit()
		e.SetErrorContext(c.ctx, errors.New("too late"))
		s := g.Resource("a").Snapshot()
		require.Equal(t, c.want, [2]int64{s.Exception, s.Ignored}, c.name)
	}
	var none resource.Entry
	none.SetErrorContext(over, errors.New("of no call"))
	none.Exit()
}
