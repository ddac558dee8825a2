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
