package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
)

// A flow rule refuses, and says when it will not. A throttle that would refuse then makes that
// unknown, and one that would not leaves it true.
func TestThrottle_WaitOfAnotherRuleIsTrue(t *testing.T) {
	t.Parallel()
	for failures := range 30 {
		now := int64(time.Hour)
		g, err := leapgate.New(leapgate.Config{Now: func() int64 { return now }})
		require.NoError(t, err)
		require.NoError(t, g.LoadRules(leapgate.Rules{
			Flow:    []flow.Rule{{Resource: "a", Threshold: 12, Interval: 100 * time.Millisecond}},
			Breaker: []breaker.Rule{{Resource: "a", Behavior: breaker.Throttle, MinCalls: 1, Interval: time.Second}},
		}))
		told := 0
		for call := range 200 {
			e, err := g.Entry("a")
			if call%30 < failures {
				e.SetError(errors.New("failed"))
			}
			e.Exit()
			var b *leapgate.BlockError
			if errors.As(err, &b) && b.Kind == "flow" && b.RetryAfter > 0 {
				told++
				now += int64(b.RetryAfter)
				e, err := g.Entry("a")
				require.NoError(t, err, "after %v, with %d failures", b.RetryAfter, failures)
				e.Exit()
			}
			now += int64(time.Millisecond)
		}
		if failures == 0 {
			require.NotZero(t, told)
		}
	}
}
