package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// A call that read the clock before the last change, and comes after it, is judged by nobody:
// half-open refuses it, and closed admits it, but counts neither its begin nor its end.
func TestReserve_WithAClockFromBeforeTheLastChange(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	r := &Rule{
		ID: "b", Resource: "a", MinCalls: 2, ErrorRatio: 0.6, SlowRatio: 0.4, SlowAfter: 50 * time.Millisecond,
		OpenFor: 70 * time.Millisecond, Probes: 2,
	}
	complete(r, new(ruleset.Report))
	c := compile(&ruleset.Env{Now: func() int64 { return 0 }}, r, "a", nil).(*check)
	reserve := func(now int64) bool { return c.Reserve(now, 1, resource.Caller{}).Refused == nil }
	in := func(want string) {
		t.Helper()
		require.Equal(t, want, c.breaker.state.Current())
	}
	for range 2 {
		require.True(t, reserve(ms))
	}
	c.Finish(2*ms, 1, time.Millisecond, resource.Failure)
	c.Finish(2*ms, 1, time.Millisecond, resource.Failure)
	in("open")
	require.True(t, reserve(72*ms))
	in("half-open")
	for _, behind := range []int64{72*ms - 1, 3 * ms, -ms} {
		require.False(t, reserve(behind))
		require.NotNil(t, c.Look(behind, 1, resource.Caller{}))
		c.Finish(80*ms, 1, time.Duration(80*ms-behind), resource.Failure)
	}
	in("half-open")
	require.True(t, reserve(73*ms), "they have taken no place")
	c.Finish(90*ms, 1, time.Duration(18*ms), resource.Success)
	in("half-open")
	c.Finish(90*ms, 1, time.Duration(17*ms), resource.Success)
	in("closed")

	for _, behind := range []int64{90*ms - 1, 72 * ms, -ms} {
		for range 5 {
			require.True(t, reserve(behind))
		}
		for range 3 {
			require.Nil(t, c.Look(behind, 1, resource.Caller{}))
			c.Finish(100*ms, 1, time.Duration(100*ms-behind), resource.Failure)
		}
		v := c.Reserve(behind, 1, resource.Caller{})
		c.Refund(v.Ticket, 1)
	}
	require.True(t, reserve(300*ms), "the others that began are in flight, and do not count")
	in("closed")
	c.Finish(301*ms, 1, time.Millisecond, resource.Failure)
	in("closed")
	require.True(t, reserve(302*ms))
	c.Finish(302*ms, 1, 0, resource.Failure)
	in("open")
	require.Equal(t, int64(2), int64(c.breaker.phase.Load().cause.Threshold))
}
