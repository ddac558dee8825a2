package resource_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

type lastGuard struct{}

func (lastGuard) Kind() string { return "last" }
func (lastGuard) Bind(name string, old []resource.Check) ([]resource.Check, bool) {
	c := &lastCheck{resource.Cause{Resource: name, Kind: "last", RuleID: "l", Last: new(resource.LastRefusal), State: resource.NewState("a", "b")}}
	if len(old) > 0 {
		c.c.State = old[0].Cause().State // as NewState's page says; the last refusal is its own
	}
	return []resource.Check{c}, false
}

type lastCheck struct{ c resource.Cause }

func (c *lastCheck) Cause() *resource.Cause  { return &c.c }
func (c *lastCheck) Mode() rule.Mode         { return rule.Enforce }
func (c *lastCheck) Stage() resource.Stage   { return resource.Counting }
func (c *lastCheck) Interval() time.Duration { return 0 }
func (c *lastCheck) Reserve(now, _ int64, _ resource.Caller) (v resource.Verdict) {
	c.c.State.Set(now, "b", "first call")
	return v
}
func (c *lastCheck) Refund(resource.Ticket, int64)                    {}
func (c *lastCheck) Wait(int64, int64, resource.Caller) time.Duration { return 0 }
func (c *lastCheck) Snapshot(int64) (s stat.RuleSnapshot)             { return s }

func TestState_ChangesAreCountedOnceAlsoIfTheLastRefusalIsNew(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{lastGuard{}}})
	e, err := g.Entry("a")
	require.NoError(t, err)
	e.Exit()
	sum := func() (n int64) {
		for _, t := range g.Totals() {
			for _, r := range t.Rules {
				n += r.Changes
			}
		}
		return n
	}
	require.Equal(t, int64(1), sum())
	for range 3 {
		require.NoError(t, g.Rebind("a"))
	}
	require.Equal(t, int64(1), sum())
}
