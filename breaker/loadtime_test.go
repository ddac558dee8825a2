package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// A load that read the clock before the breaker opened, and got its turn only after that, does not
// bring back the calls of before.
func TestReload_ThatReadTheClockBeforeTheLastChange(t *testing.T) {
	t.Parallel()
	r := &Rule{ID: "b", Resource: "a", MinCalls: 2, ErrorRatio: 0.5, SlowRatio: 1, SlowAfter: time.Second}
	complete(r, new(ruleset.Report))
	now := int64(1000)
	env := &ruleset.Env{Now: func() int64 { return now }}
	c := compile(env, r, "a", nil).(*check)
	for range 4 {
		require.Nil(t, c.Reserve(1100, 1, resource.Caller{}).Refused)
	}
	c.Finish(1200, 1, 100, resource.Failure)
	c.Finish(1200, 1, 100, resource.Failure)
	require.Equal(t, "open", c.breaker.state.Current())

	forced := *r
	forced.Force = Closed
	now = 1050
	c = compile(env, &forced, "a", c).(*check)
	require.Equal(t, "closed", c.breaker.state.Current())
	c.Finish(1300, 1, 200, resource.Failure)
	c.Finish(1300, 1, 200, resource.Failure)
	now = 1400
	c = compile(env, r, "a", c).(*check)
	require.Equal(t, "closed", c.breaker.state.Current())
	require.Zero(t, c.breaker.phase.Load().hanging.overdue())
}
