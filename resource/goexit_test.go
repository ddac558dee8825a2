package resource_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// exitGuard does what it must not.
type exitGuard struct{}

func (exitGuard) Kind() string { return "x" }
func (exitGuard) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	return []resource.Check{&exitCheck{resource.Cause{Resource: name, Kind: "x", RuleID: "x"}}}, false
}

type exitCheck struct{ c resource.Cause }

func (c *exitCheck) Cause() *resource.Cause  { return &c.c }
func (c *exitCheck) Mode() rule.Mode         { return rule.Enforce }
func (c *exitCheck) Stage() resource.Stage   { return resource.Beginning }
func (c *exitCheck) Interval() time.Duration { return 0 }
func (c *exitCheck) Reserve(_, _ int64, _ resource.Caller) (v resource.Verdict) {
	runtime.Goexit()
	return v
}
func (c *exitCheck) Refund(resource.Ticket, int64)                    {}
func (c *exitCheck) Wait(int64, int64, resource.Caller) time.Duration { return 0 }
func (c *exitCheck) Snapshot(int64) (s stat.RuleSnapshot)             { return s }

func TestWaits_AreOverWhenAGuardEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{exitGuard{}}})
	require.NoError(t, g.LoadRules(leapgate.Rules{
		Isolation: []isolation.Rule{{Resource: "a", MaxInFlight: 2}},
		Flow:      []flow.Rule{{Resource: "a", Threshold: 1000, Behavior: flow.Pace, MaxWait: time.Second}},
	}))
	for range 2 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			e, _ := g.Entry("a")
			e.Exit()
		}()
		<-done
	}
	s := g.Resource("a").Snapshot()
	require.Zero(t, s.Waiting, "calls that wait")
}
