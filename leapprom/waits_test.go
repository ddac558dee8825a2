package leapprom_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rule"
)

// newPaced makes a gate in which calls of each name begin a second apart, or wait for that.
func newPaced(t require.TestingT, c *gatetest.Clock, places int, waiting func()) *leapgate.Gate {
	g, err := leapgate.New(leapgate.Config{Now: c.Now, MaxResources: places, Sleep: func(_ context.Context, d time.Duration) error {
		waiting()
		c.Advance(d)
		return nil
	}})
	require.NoError(t, err)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{
		{ID: "p", Resource: "*", Match: rule.Glob, Threshold: 1, Behavior: flow.Pace, MaxWait: 10 * time.Second},
	}))
	return g
}

func TestWaits_SeriesOfAResourceInWhichACallHasWaited(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var during reading
	var scrapeNow func() reading
	g := newPaced(t, c, 10, func() { during = scrapeNow() })
	registry := registryOf(t, g, leapprom.Config{NativeOnly: true})
	scrapeNow = func() reading { return scrape(t, registry).only("wait_time", "entries_waiting") }
	require.True(t, call(g, "a"))
	require.True(t, call(g, "b"))
	require.Empty(t, scrapeNow(), "nobody has waited")
	require.True(t, call(g, "a"))
	require.Equal(t, reading{`entries_waiting{resource="a"}`: 1}, during)
	c.Advance(500 * time.Millisecond)
	require.True(t, call(g, "a"))
	require.Equal(t, 1.0, during[`wait_time_seconds_count{resource="a"}`])
	require.Equal(t, reading{
		`entries_waiting{resource="a"}`:                 0,
		`wait_time_seconds_count{resource="a"}`:         2,
		`wait_time_seconds_sum{resource="a"}`:           1.5,
		`wait_time_seconds_native{resource="a",i=zero}`: 0,
		`wait_time_seconds_native{resource="a",i=-8}`:   1,
		`wait_time_seconds_native{resource="a",i=0}`:    1,
	}, scrapeNow())
}
