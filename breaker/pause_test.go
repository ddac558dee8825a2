package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// A pause is part of neither the overdue time nor the response time of a call.
func TestPause_DoesNotMakeACallSlow(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	c := newTestCheck(Rule{MinCalls: 1, SlowRatio: 0.1, SlowAfter: 100 * time.Millisecond})
	begin := func(now int64) bool { return c.Reserve(now, 1, resource.Caller{}).Refused == nil }
	require.True(t, begin(0))
	c.Pause(50*ms, 0)
	require.True(t, begin(900*ms), "the first call is not overdue")
	c.Finish(900*ms, 1, 0, resource.Success)
	c.Resume(1000*ms, 0, 950*ms) // 50ms have passed
	require.True(t, begin(1049*ms))
	c.Finish(1049*ms, 1, 0, resource.Success)
	c.Finish(1050*ms, 1, 100*time.Millisecond, resource.Success)
	require.Equal(t, closed, c.breaker.phase.Load().state)

	require.True(t, begin(2000*ms))
	c.Pause(2010*ms, 2000*ms)
	c.Resume(3000*ms, 2000*ms, 2990*ms)
	require.False(t, begin(3111*ms), "the call is overdue after the pause")
}

// The probe that closes the breaker has read its clock before the calls that pause have read theirs. Nothing may be
// left in flight, or taken off twice.
func TestPause_WhileTheBreakerCloses(t *testing.T) {
	t.Parallel()
	const tried = int64(2 * time.Second)
	for _, probePauses := range []bool{false, true} {
		c := newTestCheck(Rule{MinCalls: 1, SlowRatio: 1, SlowAfter: 100 * time.Millisecond, OpenFor: time.Second, Probes: 2})
		begin := func(now int64) { require.Nil(t, c.Reserve(now, 1, resource.Caller{}).Refused) }
		end := func(start, now int64) { c.Finish(now, 1, time.Duration(now-start), resource.Success) }
		begin(0)
		begin(0)
		c.Pause(1, 0)
		end(0, int64(200*time.Millisecond)) // opens the breaker
		begin(tried)
		begin(tried + 2)
		if probePauses {
			c.Pause(tried+3, tried+2)
			end(tried, tried+1)
			c.Resume(tried+5, tried+2, tried+4)
			end(tried+4, tried+6)
		} else {
			c.Resume(tried+5, 0, tried+4)
			end(tried, tried+1)
			end(tried+4, tried+6)
			end(tried+2, tried+7)
		}
		p := c.breaker.phase.Load()
		require.Equal(t, closed, p.state)
		require.Zero(t, p.hanging.sum().inFlight, "a probe pauses: %v", probePauses)
	}
}

func newTestCheck(r Rule) *check {
	r.ID, r.Resource = "b", "a"
	complete(&r, new(ruleset.Report))
	return compile(&ruleset.Env{Now: gatetest.NewClock().Now}, &r, "a", nil).(*check)
}

// A clock may start at zero, and nothing has paused: the ramp lasts from the probe's end to the nanosecond.
func TestPause_NoneOnAClockThatStartsAtZero(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	c := newTestCheck(Rule{MinCalls: 1, ErrorCount: 1, OpenFor: time.Millisecond, Probes: 1, Ramp: time.Millisecond})
	require.Nil(t, c.Reserve(-ms, 1, resource.Caller{}).Refused)
	c.Finish(-ms, 1, 0, resource.Failure)
	require.Nil(t, c.Reserve(0, 1, resource.Caller{}).Refused, "a probe")
	c.Finish(0, 1, 0, resource.Success)
	require.Equal(t, ramping, c.breaker.look(ms-1).state)
	require.Equal(t, closed, c.breaker.look(ms).state)
}
