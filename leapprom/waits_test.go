package leapprom_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// Whatever resources come and go, and have series or not, the sums over them are exact.
func TestWaits_SumsOverResourcesAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := gatetest.NewClock()
		waits := 0.0
		g := newPaced(t, c, rapid.IntRange(1, 4).Draw(t, "places"), func() { waits++ })
		registry := registryOf(t, g, leapprom.Config{MaxResources: rapid.IntRange(1, 4).Draw(t, "series")})
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "other"})
		seconds := 0.0
		before := scrape(t, registry)
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				begin := c.Now()
				require.True(t, call(g, name.Draw(t, "name")))
				seconds += time.Duration(c.Now() - begin).Seconds()
			},
			"time": func(t *rapid.T) {
				c.Advance(time.Duration(rapid.Int64Range(0, int64(2*gatetest.Idle)).Draw(t, "time")))
			},
			"": func(t *rapid.T) {
				now := scrape(t, registry)
				if got := now.sum("wait_time_seconds_count"); got != waits {
					t.Fatalf("%v waits, want %v", got, waits)
				}
				if got := now.sum("wait_time_seconds_native"); got != waits {
					t.Fatalf("%v waits in native buckets, want %v", got, waits)
				}
				if got := now.sum("wait_time_seconds_sum"); math.Abs(got-seconds) > 1e-6 {
					t.Fatalf("%v s waited, want %v", got, seconds)
				}
				for name, value := range before.only("wait_time") {
					if got := now["leapgate_"+name]; got < value {
						t.Fatalf("%s went from %v to %v", name, value, got)
					}
				}
				before = now
			},
		})
	})
}
