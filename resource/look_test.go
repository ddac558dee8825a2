package resource_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// lookGuard refuses all calls by one refusal.
type lookGuard struct{ c lookCheck }

func (g *lookGuard) Kind() string { return "l" }
func (g *lookGuard) Bind(string, []resource.Check) ([]resource.Check, bool) {
	return []resource.Check{&g.c}, false
}

type lookCheck struct {
	c   resource.Cause
	err *resource.BlockError
}

func (c *lookCheck) Cause() *resource.Cause { return &c.c }
func (c *lookCheck) Mode() rule.Mode        { return rule.Enforce }

func (c *lookCheck) Stage() resource.Stage                                      { return resource.Beginning }
func (c *lookCheck) Interval() time.Duration                                    { return 0 }
func (c *lookCheck) Reserve(_, _ int64, _ resource.Caller) (v resource.Verdict) { return v }
func (c *lookCheck) Refund(resource.Ticket, int64)                              {}
func (c *lookCheck) Wait(int64, int64, resource.Caller) time.Duration           { return 7 * time.Second }
func (c *lookCheck) Snapshot(int64) (s stat.RuleSnapshot)                       { return s }
func (c *lookCheck) Look(int64, int64, resource.Caller) *resource.BlockError    { return c.err }

func TestLook_MayReturnTheSameRefusalEveryTime(t *testing.T) {
	t.Parallel()
	g := &lookGuard{lookCheck{c: resource.Cause{Kind: "l", RuleID: "l"}}}
	g.c.err = &resource.BlockError{Cause: &g.c.c, RetryAfter: time.Second}
	gate := leapgate.Must(leapgate.Config{Guards: []resource.Guard{g}})
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 1e9}}))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 100 {
				_, _ = gate.Entry("a")
			}
		})
	}
	wg.Wait()
	require.Equal(t, time.Second, g.c.err.RetryAfter)
}
