package dashboard_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/rule"
)

// sumOf adds up what is known of the seconds of a figure.
func sumOf(figures any) (sum float64, known int) {
	for _, v := range figures.([]any) {
		if n, ok := v.(float64); ok {
			sum += n
			known++
		}
	}
	return sum, known
}

// One rule binds two resources, and what it did there is told together.
func TestMinute_HasEveryCallOfAllThatWasCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "all", Match: rule.All, Threshold: 5, Candidate: 2}}))
		d := keeping(t, g, 0)
		for range 30 {
			for i := range 8 {
				for _, name := range []string{"a", "b\xff"}[:1+i%2] {
					if e, err := g.Entry(name); err == nil {
						e.Exit()
					}
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		minute := get(t, d, "minute")
		resources := list(minute, "resources")
		require.Len(t, resources, 2)
		require.Equal(t, "a", resources[0]["name"], "the busiest")
		require.Equal(t, "b%FF", resources[1]["raw"])
		var pass, block, admitted, blocked, candidate float64
		for _, r := range resources {
			s := gates.Snapshot(t, g, map[any]string{nil: "a", "b%FF": "b\xff"}[r["raw"]])
			got, known := sumOf(r["pass"])
			require.EqualValues(t, s.Pass, got)
			require.GreaterOrEqual(t, known, 30)
			pass += got
			got, _ = sumOf(r["block"])
			require.EqualValues(t, s.Block, got)
			block += got
			candidate += float64(s.Rules[0].CandidateWouldBlock)
		}
		require.NotZero(t, block)
		rules := list(minute, "rules")
		require.Len(t, rules, 1)
		require.Equal(t, "flow all", rules[0]["kind"].(string)+" "+rules[0]["id"].(string))
		admitted, _ = sumOf(rules[0]["admitted"])
		blocked, _ = sumOf(rules[0]["blocked"])
		require.InDelta(t, pass, admitted, 0)
		require.InDelta(t, block, blocked, 0)
		blocked, _ = sumOf(rules[0]["candidateWouldBlock"])
		require.InDelta(t, candidate, blocked, 0)

		time.Sleep(2 * time.Minute)
		require.Empty(t, list(get(t, d, "minute"), "resources"), "they were called too long ago")
	})
}

func TestMinute_HasTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given load.Given
		d := keeping(t, leapgate.Must(leapgate.Config{Load: &given}), 0)
		require.Empty(t, get(t, d, "minute")["load"])
		given.Set(load.Signals{CPU: load.Known(0.5), SchedLatency: load.Known(0.002)})
		time.Sleep(20 * time.Second)
		signals := get(t, d, "minute")["load"].(map[string]any)
		require.Len(t, signals, 2)
		sum, known := sumOf(signals["cpu"])
		require.GreaterOrEqual(t, known, 18)
		require.InDelta(t, 0.5*float64(known), sum, 1e-9)
		sum, known = sumOf(signals["schedLatency"])
		require.InDelta(t, 2*float64(known), sum, 1e-9, "in milliseconds")

		time.Sleep(2 * time.Minute)
		_, known = sumOf(get(t, d, "minute")["load"].(map[string]any)["cpu"])
		require.LessOrEqual(t, known, 60)
	})
}

func TestMinute_WhereNoneIsKept(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{})
	require.Equal(t, http.StatusNotFound, fetch(d, http.MethodGet, "/api/v1/minute").Code)
}

// What a rule with a pattern did is told of each resource, those that it refused last first.
func TestBound_TellsOfEachResource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{
			{ID: "tenants", Match: rule.Glob, Resource: "tenant/*", Threshold: 5}, {ID: "other", Resource: "orders", Threshold: 5},
		}))
		d := keeping(t, g, 0)
		for range 12 {
			for name, n := range map[string]int{"tenant/a": 2, "tenant/b": 9, "orders": 7} {
				for range n {
					if e, err := g.Entry(name); err == nil {
						e.Exit()
					}
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		bound := get(t, d, "bound?kind=flow&id=tenants&hour=1")
		require.EqualValues(t, 3, bound["total"], "with other, for which there would be no room")
		resources := list(bound, "resources")
		require.Equal(t, "tenant/b", resources[0]["name"])
		figures := resources[0]["figures"].(map[string]any)
		require.EqualValues(t, 12*4, figures["blocked"])
		require.Contains(t, figures["lastRefusal"].(map[string]any)["reason"], "tenant/b")
		require.Equal(t, "tenant/a", resources[1]["name"])
		var sum float64
		for _, row := range bound["hour"].(map[string]any)["rows"].([]any) {
			sum += row.([]any)[1].(float64)
		}
		require.InDelta(t, 12*4, sum, 0)
		require.NotContains(t, get(t, d, "bound?kind=flow&id=tenants"), "hour")
		require.Empty(t, list(get(t, d, "bound?kind=flow&id=nothing"), "resources"))
	})
}
