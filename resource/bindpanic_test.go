package resource_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// onceGuard lets one call into a resource, and panics at its third Bind.
type onceGuard struct{ binds int }

func (*onceGuard) Kind() string { return "o" }
func (g *onceGuard) Bind(name string, old []resource.Check) ([]resource.Check, bool) {
	if g.binds++; g.binds == 3 { // other, a, a again
		panic("a bad moment")
	}
	if len(old) > 0 {
		return old, true
	}
	return []resource.Check{&onceCheck{resource.Cause{Resource: name, Kind: "o", RuleID: "o"}, 0}}, name == "a"
}

type onceCheck struct {
	c resource.Cause
	n int64
}

func (c *onceCheck) Cause() *resource.Cause  { return &c.c }
func (c *onceCheck) Mode() rule.Mode         { return rule.Enforce }
func (c *onceCheck) Stage() resource.Stage   { return resource.Counting }
func (c *onceCheck) Interval() time.Duration { return 0 }
func (c *onceCheck) Reserve(_, _ int64, _ resource.Caller) (v resource.Verdict) {
	if c.n++; c.n > 1 {
		v.Refused = &resource.BlockError{}
	}
	return v
}
func (c *onceCheck) Refund(resource.Ticket, int64)                    {}
func (c *onceCheck) Wait(int64, int64, resource.Caller) time.Duration { return -1 }
func (c *onceCheck) Snapshot(int64) (s stat.RuleSnapshot)             { return s }

func TestGuard_WhoseBindPanicsKeepsItsChecks(t *testing.T) {
	t.Parallel()
	guard := new(onceGuard)
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	_, err := g.Entry("a")
	require.NoError(t, err)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 100}})) // calls Bind, which panics
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 101}})) // and again
	require.Equal(t, int64(1), g.GuardFaults())
	_, err = g.Entry("a")
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}
