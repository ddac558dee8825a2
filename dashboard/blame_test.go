package dashboard_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// blamed returns which rule of a resource a figure stands for, as "kind id"; empty if there is none.
func (w *watching) blamed(name, figure string) string { return w.rules[w.figures[name][figure]] }

// Of the rules that may block, viewers are told which refused last, and which is nearest to its limit.
func TestEvents_WhichRuleRefusedLastAndWhichIsFullest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := gates.New(t, c)
		require.NoError(t, g.LoadRules(leapgate.Rules{
			Flow: []flow.Rule{
				{ID: "rate", Resource: "a", Threshold: 10},
				{ID: "of-one", Resource: "a", Threshold: 1, Origin: "nobody"},
				{ID: "tried", Resource: "a", Threshold: 1, Mode: rule.Shadow},
				{ID: "of-the-day", Resource: "a", Threshold: 100, Interval: 24 * time.Hour},
			},
			Isolation: []isolation.Rule{{ID: "places", Resource: "a", MaxInFlight: 4}},
		}))
		enter := func() *resource.Entry {
			e, err := g.Entry("a")
			require.NoError(t, err)
			return &e
		}
		e := enter()
		client, _ := serve(t, dashboard.Handler(g, dashboard.Config{}))
		w := watch(t, client)
		w.next()
		require.Equal(t, 0.25, w.figures["a"]["use"], "one of four in flight, one of ten a second")
		require.Equal(t, "isolation places", w.blamed("a", "fullest"))
		require.Equal(t, 10.0, w.figures["a"]["limit"], "that of the day is no limit of a second")
		require.Empty(t, w.blamed("a", "refusedBy"))

		e.Exit()
		for range 3 {
			enter().Exit()
		}
		w.next()
		require.Equal(t, 0.4, w.figures["a"]["use"], "four of ten a second")
		require.Equal(t, "flow rate", w.blamed("a", "fullest"))
		require.Empty(t, w.blamed("a", "refusedBy"), "what is tried blocks nothing")

		for range 4 {
			defer enter().Exit()
		}
		_, err := g.Entry("a")
		require.Error(t, err)
		w.next()
		require.Equal(t, 1.0, w.figures["a"]["use"])
		require.Equal(t, "isolation places", w.blamed("a", "refusedBy"))
		c.Advance(time.Millisecond)
		second := watch(t, client)
		second.next()
		require.Equal(t, "isolation places", second.blamed("a", "refusedBy"), "to one who has seen none")
	})
}

// A limit of a day that is nearly used up stays so in seconds without calls.
func TestEvents_LongWindowThatIsNearlyUsedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := gates.New(t, c)
		require.NoError(t, g.LoadRules(leapgate.Rules{Flow: []flow.Rule{
			{ID: "rate", Resource: "a", Threshold: 100},
			{ID: "of-the-day", Resource: "a", Threshold: 10, Interval: 24 * time.Hour},
		}}))
		for range 9 {
			e, err := g.Entry("a")
			require.NoError(t, err)
			e.Exit()
		}
		c.Advance(5 * time.Second)
		client, _ := serve(t, dashboard.Handler(g, dashboard.Config{}))
		w := watch(t, client)
		w.next()
		require.Equal(t, 0.9, w.figures["a"]["use"])
		require.Equal(t, "flow of-the-day", w.blamed("a", "fullest"))
		require.Equal(t, 100.0, w.figures["a"]["limit"])
	})
}
