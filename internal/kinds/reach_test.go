package kinds_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/rule"
)

// What a rule admits is never said to be less than it is: an interval may begin anywhere.
func TestCalls_Within(t *testing.T) {
	t.Parallel()
	c := ruleset.Calls{N: 5, In: time.Second}
	for interval, want := range map[time.Duration]float64{
		time.Millisecond: 10, time.Second: 10, time.Second + 1: 15, 10 * time.Second: 55,
	} {
		require.InDelta(t, want, c.Within(interval), 0, interval)
	}
}

// A warning names all rules that are in the way, on a list of thousands as well.
func TestReach_OfManyRules(t *testing.T) {
	t.Parallel()
	const n = 3000
	rules := kinds.Rules{Flow: []flow.Rule{{ID: "all", Resource: "*", Match: rule.Glob, Threshold: 0.5}}}
	for i := range n {
		rules.Flow = append(rules.Flow, flow.Rule{Resource: strconv.Itoa(i), Threshold: 1})
		rules.Breaker = append(rules.Breaker, breaker.Rule{Resource: strconv.Itoa(i), ErrorRatio: 0.5, MinCalls: 12})
	}
	reach := kinds.NewReach(&rules)
	for _, k := range kinds.All {
		for i := range k.Len(&rules) {
			warnings := reach.Warnings(k, i)
			if k.Name() != "breaker" {
				require.Empty(t, warnings)
				continue
			}
			require.Len(t, warnings, 2)
			require.Contains(t, warnings[0], "flow rule "+strconv.Itoa(i)+"/1 admits")
			require.Contains(t, warnings[1], "flow rule all admits")
		}
	}
}
