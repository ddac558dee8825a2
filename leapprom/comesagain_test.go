package leapprom_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// A resource comes again with a rule that goes on: its series goes on, with all that it
// counted, whenever it was read.
func TestSeries_OfARuleOnAResourceThatComesAgain(t *testing.T) {
	t.Parallel()
	for _, between := range []int{0, 1, 2} {
		g := gates.Small(t, gatetest.NewClock(), 1)
		registry := registryOf(t, g, leapprom.Config{MaxResources: 1})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: "*", Match: rule.Glob, Threshold: 0}}))
		const own, other = `leapgate_blocks_total{guard="flow",resource="user",rule="r"}`, `leapgate_blocks_total{guard="flow",resource="other",rule="r"}`
		before := scrape(t, registry)
		for i := range 5 {
			call(g, "user")
			call(g, "user")
			now := scrape(t, registry)
			require.Empty(t, checkNoneWentBack(before, now, 0))
			require.EqualValues(t, 2*(i+1), now[own])
			require.EqualValues(t, 3*(i+1)-1, now.sum("blocks_total"))
			call(g, "filler"+strconv.Itoa(i)) // in its place
			for range between {
				now = scrape(t, registry)
				require.EqualValues(t, 2*(i+1), now[own])
				require.EqualValues(t, 3*(i+1), now.sum("blocks_total"))
			}
			before = now
		}
		require.Zero(t, before[other])
	}
}

// interrupted is a guard whose check blocks every call of the resource a, and lets something
// happen while it is asked for its figures.
type interrupted struct {
	twin
	happens *func()
}

func (interrupted) Kind() string                    { return "interrupted" }
func (interrupted) Mode() rule.Mode                 { return rule.Enforce }
func (interrupted) Interval() time.Duration         { return time.Hour }
func (g interrupted) Cause() *resource.Cause        { return g.cause }
func (g interrupted) Refund(resource.Ticket, int64) {}

func (g interrupted) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	return []resource.Check{g}, false
}

func (g interrupted) Reserve(_, n int64, _ resource.Caller) resource.Verdict {
	*g.blocked += n
	return resource.Verdict{Refused: &resource.BlockError{Cause: g.cause}}
}

func (g interrupted) Snapshot(now int64) stat.RuleSnapshot {
	happens := *g.happens
	*g.happens = func() {}
	happens()
	return g.twin.Snapshot(now)
}

// A resource is evicted and comes again while it is read, and its rule goes on meanwhile:
// what the reading has seen of that is not seen twice.
func TestSeries_ResourceComesAgainWhileItIsRead(t *testing.T) {
	t.Parallel()
	happens, blocked := func() {}, int64(0)
	cause := &resource.Cause{Resource: "a", Kind: "interrupted", RuleID: "r", Last: new(resource.LastRefusal)}
	g := leapgate.Must(leapgate.Config{
		Now: gatetest.NewClock().Now, MaxResources: 1,
		Guards: []resource.Guard{interrupted{twin{cause: cause, blocked: &blocked}, &happens}},
	})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "so that there is no sharing", Resource: resource.Other, Threshold: 9}}))
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	before := scrape(t, registry)
	happens = func() {
		call(g, "b") // in its place
		for range 3 {
			call(g, "a")
		}
	}
	for i := range 3 {
		evicted := g.Evictions().Evicted
		now := scrape(t, registry)
		require.Equal(t, i == 0, g.Evictions().Evicted > evicted)
		require.Empty(t, checkNoneWentBack(before, now, 0))
		require.EqualValues(t, 4+i, now.sum("blocks_total"))
		require.EqualValues(t, 4+i, now[`leapgate_blocks_total{guard="interrupted",resource="a",rule="r"}`])
		call(g, "a")
		before = now
	}
}
