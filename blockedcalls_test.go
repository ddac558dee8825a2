package leapgate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/system"
)

// Calls that one rule blocks change nothing for the other rules: RetryAfter asks all of them
// about the future, and their Wait must only read. Two gates have the same rules and get the same
// calls. One of them also gets calls that the first rule blocks, and decides like the other.
func TestGate_BlockedCallsChangeNothingForOtherRules(t *testing.T) {
	t.Parallel()
	cases := map[string]leapgate.Rules{
		"flow":             {Flow: []flow.Rule{{Threshold: 5}}},
		"flow strict":      {Flow: []flow.Rule{{Threshold: 5, Strict: true, Buckets: 4}}},
		"flow pace":        {Flow: []flow.Rule{{Threshold: 5, Behavior: flow.Pace, MaxWait: time.Second}}},
		"flow warm-up":     {Flow: []flow.Rule{{Threshold: 9, Strategy: flow.WarmUp, WarmUpPeriod: 4 * time.Second}}},
		"isolation":        {Isolation: []isolation.Rule{{MaxInFlight: 3}}},
		"isolation queue":  {Isolation: []isolation.Rule{{MaxInFlight: 3, Strategy: isolation.Adaptive, MinInFlight: 1}}},
		"breaker":          {Breaker: []breaker.Rule{{ErrorRatio: 0.4, MinCalls: 3, OpenFor: time.Second, Ramp: 2 * time.Second}}},
		"breaker slow":     {Breaker: []breaker.Rule{{SlowRatio: 0.4, SlowAfter: time.Second, MinCalls: 3, OpenFor: time.Second}}},
		"breaker throttle": {Breaker: []breaker.Rule{{ErrorRatio: 0.4, MinCalls: 3, Behavior: breaker.Throttle}}},
		"system":           {System: []system.Rule{{MaxQPS: 5, MaxInFlight: 4}}},
	}
	for _, full := range []param.WhenFull{param.Evict, param.Deny, param.Share} {
		for name, r := range map[string]param.Rule{
			"reject": {Threshold: 3}, "bucket": {Threshold: 3, Behavior: param.Bucket, Burst: 5},
			"pace":       {Threshold: 3, Behavior: param.Pace, MaxWait: time.Second},
			"in flight":  {MaxInFlight: 2},
			"one window": {Threshold: 3, Interval: time.Millisecond},
		} {
			r.MaxKeys, r.WhenFull, r.Items, r.Missing = 3, full, "vip=6,a=1", param.Shared
			cases[fmt.Sprintf("param %s, %s", name, full)] = leapgate.Rules{Param: []param.Rule{r}}
		}
	}
	for name, rules := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareUnderBlockedCalls(t, false, rules)
			// A rule that is asked before the one that blocks may have evicted a value by then.
			if p := rules.Param; p == nil || p[0].WhenFull != param.Evict || p[0].MaxInFlight > 0 {
				compareUnderBlockedCalls(t, true, rules)
			}
		})
	}
}

func compareUnderBlockedCalls(t *testing.T, blockedLast bool, rules leapgate.Rules) {
	t.Helper()
	random := rand.New(rand.NewPCG(24, 6))
	rules = complete(rules, blockedLast)
	clock := gatetest.NewClock()
	gates := make([]*leapgate.Gate, 2)
	for i := range gates {
		var err error
		gates[i], err = leapgate.New(leapgate.Config{Now: clock.Now, Sleep: func(context.Context, time.Duration) error { return nil }})
		require.NoError(t, err)
		require.NoError(t, gates[i].LoadRules(rules))
		e, err := gates[i].EntryContext(t.Context(), "r", leapgate.WithOrigin("noisy"), leapgate.WithArg("tenant", "noisy"))
		require.NoError(t, err)
		e.Exit()
	}
	enter := func(g *leapgate.Gate, origin, item string, n int64) (resource.Entry, *leapgate.BlockError) {
		options := []leapgate.EntryOption{leapgate.WithOrigin(origin), leapgate.WithCount(n)}
		if item != "" {
			options = append(options, leapgate.WithArg("item", item))
		}
		if origin != "" {
			options = append(options, leapgate.WithArg("tenant", origin))
		}
		e, err := g.EntryContext(context.Background(), "r", options...)
		var blocked *leapgate.BlockError
		require.Equal(t, err != nil, errors.As(err, &blocked), err)
		return e, blocked
	}
	items := []string{"a", "b", "c", "d", "e", "f", "vip", ""}
	var open [][2]resource.Entry
	for step := range 3000 {
		clock.Advance(time.Duration(random.Int64N([]int64{1, 1e5, 1e8, 1e9}[random.IntN(4)])))
		for range random.IntN(3) {
			_, err := enter(gates[1], "noisy", items[random.IntN(len(items))], random.Int64N(3)+1)
			require.NotNil(t, err)
		}
		item, n := items[random.IntN(len(items))], random.Int64N(3)+1
		a, errA := enter(gates[0], "", item, n)
		b, errB := enter(gates[1], "", item, n)
		require.Equal(t, errA == nil, errB == nil, "step %d: %v, and with blocked calls %v", step, errA, errB)
		switch {
		case errA == nil:
			open = append(open, [2]resource.Entry{a, b})
		case rules.System == nil: // system rules spread their RetryAfter at random
			require.Equal(t, errA.RetryAfter, errB.RetryAfter, "step %d: %v", step, errA)
		}
		if len(open) > 0 && random.IntN(4) > 0 {
			i := random.IntN(len(open))
			failed := random.IntN(3) == 0
			for _, e := range open[i] {
				if failed {
					e.SetError(errors.New("failed"))
				}
				e.Exit()
			}
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
}

// complete names what the cases leave out, and adds the rule that blocks: it admits one call in 24
// hours, so that RetryAfter asks the other rules about a day ahead.
func complete(rules leapgate.Rules, blockedLast bool) leapgate.Rules {
	rules.Flow, rules.Param = slices.Clone(rules.Flow), slices.Clone(rules.Param)
	for i := range rules.Flow {
		rules.Flow[i].Resource = "r"
	}
	for i := range rules.Isolation {
		rules.Isolation[i].Resource = "r"
	}
	for i := range rules.Breaker {
		rules.Breaker[i].Resource = "r"
	}
	for i := range rules.Param {
		rules.Param[i].Resource, rules.Param[i].Arg = "r", "item"
	}
	for i := range rules.System {
		rules.System[i].Resource = "r"
	}
	if blockedLast {
		for i := range rules.Param {
			rules.Param[i].Items = "" // a table over MaxKeys removes what has expired also when it blocks a call
		}
		rules.Param = append(rules.Param, param.Rule{
			ID: "blocker", Resource: "r", Arg: "tenant", Threshold: 1, Interval: 24 * time.Hour,
		})
	} else {
		rules.Flow = slices.Insert(rules.Flow, 0, flow.Rule{
			ID: "blocker", Resource: "r", Origin: "noisy", Threshold: 1, Interval: 24 * time.Hour,
		})
	}
	return rules
}
