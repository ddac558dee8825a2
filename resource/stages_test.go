package resource_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// door is a check of the stage Beginning: open, or shut.
type door struct {
	*scriptedCheck
	shut  bool
	times []int64 // of Reserve, and now − rt of Finish
}

func newDoor(id string, mode rule.Mode) *door {
	d := &door{scriptedCheck: &scriptedCheck{id: id, mode: mode, stage: resource.Beginning, guard: new(scripted)}}
	d.cause = resource.Cause{Resource: "orders", Kind: "door", RuleID: id, Detail: " open"}
	d.reserve = func(now int64, _ resource.Caller) resource.Verdict {
		d.times = append(d.times, now)
		if d.shut {
			return resource.Verdict{Refused: &resource.BlockError{Cause: &d.cause}}
		}
		return resource.Verdict{}
	}
	return d
}

func (d *door) Look(int64, int64, resource.Caller) *resource.BlockError {
	if d.shut {
		d.guard.note("?%s", d.id)
		return &resource.BlockError{}
	}
	return nil
}

func (d *door) Finish(now, _ int64, rt time.Duration, _ resource.Outcome) {
	d.times = append(d.times, now-int64(rt))
}

// doors is a guard of checks that are made before.
type doors []resource.Check

func (d doors) Kind() string                                           { return "door" }
func (d doors) Bind(string, []resource.Check) ([]resource.Check, bool) { return d, false }

func TestStage_WhoWouldBeRefusedTakesNothingOfOthersAndDoesNotWait(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	slept := 0
	shut, tries := newDoor("d", rule.Enforce), newDoor("tries", rule.Shadow)
	shut.shut, tries.shut = true, true
	g := leapgate.Must(leapgate.Config{
		Now: c.Now, Guards: []resource.Guard{doors{shut, tries}},
		Sleep: func(context.Context, time.Duration) error { slept++; return nil },
	})
	require.NoError(t, g.LoadRules(leapgate.Rules{
		Flow:      []flow.Rule{{Resource: "orders", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}, {ID: "few", Resource: "orders", Threshold: 5}},
		Isolation: []isolation.Rule{{Resource: "orders", MaxInFlight: 1, MaxWait: time.Minute}},
	}))
	for range 3 {
		_, err := g.Entry("orders")
		require.EqualError(t, err, `door rule "d" on "orders": 0 of 0 open`)
	}
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{0, 3}, []int64{s.Pass, s.Block})
	for _, r := range s.Rules {
		require.Zero(t, r.Admitted, r.ID)
	}
	require.Zero(t, slept)
	require.Empty(t, shut.times)
	require.Equal(t, "?d ?d ?d", shut.guard.noted()+tries.guard.noted())

	shut.shut = false
	require.True(t, gates.Enter(t, g, "orders"))
	require.Equal(t, int64(1), gates.Snapshot(t, g, "orders").WouldBlock)
	require.Equal(t, "!tries", tries.guard.noted())
}

// It is asked at once then, so that a refusal is counted once.
func TestStage_NobodyLooksWhereNoCheckOfAnEarlierStageIs(t *testing.T) {
	t.Parallel()
	shut, other := newDoor("d", rule.Enforce), newDoor("e", rule.Enforce)
	shut.shut = true
	g := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now, Guards: []resource.Guard{doors{other, shut}}})
	require.False(t, gates.Enter(t, g, "orders"))
	require.Equal(t, "!d", shut.guard.noted())
	require.Len(t, shut.times, 1)
}

// What begins after a wait is reserved then, and its end knows when that was.
func TestStage_ThoseOfTheBeginAreAskedWhenTheCallBegins(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	d := newDoor("d", rule.Enforce)
	g := leapgate.Must(leapgate.Config{
		Now: c.Now, Guards: []resource.Guard{doors{d}},
		Sleep: func(_ context.Context, wait time.Duration) error { c.Advance(wait); return nil },
	})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}}))
	start := c.Now()
	for range 3 {
		e, err := g.Entry("orders")
		require.NoError(t, err)
		c.Advance(100 * time.Millisecond)
		e.Exit()
	}
	second := int64(time.Second)
	require.Equal(t, []int64{start, start, start + second, start + second, start + 2*second, start + 2*second}, d.times)
}

// A clock that goes back does not make a call end before it began.
func TestStage_ACallEndsNoSoonerThanItBegan(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	d := newDoor("d", rule.Enforce)
	g := leapgate.Must(leapgate.Config{Now: c.Now, Guards: []resource.Guard{doors{d}}})
	e, err := g.Entry("orders")
	require.NoError(t, err)
	begin := c.Now()
	c.Advance(-time.Second)
	e.Exit()
	require.Equal(t, []int64{begin, begin}, d.times)
}

func TestStage_AFaultOfLookIsAsIfItHadRefusedNobody(t *testing.T) {
	t.Parallel()
	d := &brokenDoor{newDoor("d", rule.Enforce)}
	g := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now, Guards: []resource.Guard{doors{d}}})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 1}}))
	require.True(t, gates.Enter(t, g, "orders"))
	require.Equal(t, int64(1), g.GuardFaults())
	require.Len(t, d.times, 2)
}

type brokenDoor struct{ *door }

func (d *brokenDoor) Look(int64, int64, resource.Caller) *resource.BlockError { panic("no light") }
