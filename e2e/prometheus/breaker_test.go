//go:build e2e

package prometheus

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
)

// stateTime is how long the breaker of the program is in each of its states: long enough for a
// scrape or two.
const stateTime = 1200 * time.Millisecond

// newBreakers makes a gate with a breaker that goes through all its states, and one that
// throttles and is forced open now and then.
func (p *program) newBreakers(t *testing.T) *leapgate.Gate {
	t.Helper()
	gate := leapgate.Must(leapgate.Config{OnChange: func(c leapgate.Change) {
		p.count(func(t *tally) { t.changes[c.RuleID] += float64(1 + c.Skipped) })
	}})
	require.NoError(t, gate.LoadRules(breakers(breaker.None)))
	return gate
}

func breakers(force breaker.Force) leapgate.Rules {
	return leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "cycles", Resource: "pay", MinCalls: 5, Consecutive: 5, OpenFor: stateTime, Probes: 1, ProbeTimeout: time.Minute, Ramp: stateTime},
		{ID: "throttles", Resource: "mail", Behavior: breaker.Throttle, Force: force},
	}}
}

// breakOften makes calls that succeed while the first breaker is closed, for a while, and then fail
// until it is open. It ends while that breaker is closed. Other states end with time, and such a change is
// not counted before the next call.
func (p *program) breakOften(ctx context.Context, t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	begin, state, force := time.Now(), "closed", breaker.None
	for {
		<-tick.C
		now, over := stateOf(p.second, "cycles"), ctx.Err() != nil
		if over && now == "closed" && state == now { // and a call was made since it is
			return
		}
		if now != state {
			begin, state = time.Now(), now
		}
		length, fails := time.Duration(0), !over && state == "closed" && time.Since(begin) > stateTime
		if state == "open" { // the next that passes is the probe
			length = stateTime
		}
		p.callBreaker("pay", length, fails)
		p.callBreaker("mail", 0, false)
		if wanted := breaker.Force(time.Now().Second() % 2); wanted != force { // none, or open
			force = wanted
			require.NoError(t, p.second.LoadRules(breakers(force)))
		}
	}
}

func stateOf(gate *leapgate.Gate, id string) string {
	for _, s := range gate.Snapshot() {
		for _, r := range s.Rules {
			if r.ID == id {
				return r.State
			}
		}
	}
	return ""
}

func (p *program) callBreaker(name string, length time.Duration, fails bool) {
	e, err := p.second.Entry(name)
	var refused *leapgate.BlockError
	if errors.As(err, &refused) {
		p.count(func(t *tally) {
			t.blocked++
			t.byRule[refused.RuleID]++
		})
		return
	}
	<-time.After(length) //nolint:forbidigo // it pretends to work
	if fails {
		e.SetError(errPretended)
	}
	e.Exit()
	p.count(func(t *tally) {
		t.passed++
		t.completed++
		if fails {
			t.failed++
		}
	})
}

// changed returns how often the program was told that a rule has changed.
func (p *program) changed(rule string) (n float64) {
	p.count(func(t *tally) { n = t.changes[rule] })
	return n
}

// checkStates looks at every scrape: each breaker is in one state, which is one of its own, and
// not always the same. Its changes are those that the program was told of, the last ones by a scrape.
func (s *server) checkStates(t *testing.T, p *program, want tally) {
	t.Helper()
	for rule, states := range map[string][]string{
		"cycles":    {"closed", "open", "half-open", "ramping"},
		"throttles": {"throttling", "open"},
	} {
		total, seen := map[any]float64{}, map[string]bool{} // by time, of all states
		series := s.query(t, `leapgate_rule_state{rule="`+rule+`"}[30m]`)
		require.Len(t, series, 5)
		for _, r := range series {
			for _, sample := range r.Values {
				value := sample.float(t)
				require.Contains(t, []float64{0, 1}, value)
				total[sample[0]] += value
				seen[r.Metric["state"]] = seen[r.Metric["state"]] || value == 1
			}
			require.Len(t, r.Values, len(total), "no scrape lacks %s", r.Metric["state"])
		}
		require.Greater(t, len(total), 5)
		for at, n := range total {
			require.InDelta(t, 1, n, 0, "states of %s at %v", rule, at)
		}
		maps.DeleteFunc(seen, func(_ string, was bool) bool { return !was })
		require.Subset(t, states, slices.Collect(maps.Keys(seen)), rule)
		require.Greater(t, len(seen), 1, rule)
		require.Greater(t, p.changed(rule), 6.0)
		eventually(t, rule+" has changed as often as the program was told", func() bool {
			return s.value(t, `leapgate_rule_changes_total{rule="`+rule+`"}`) == p.changed(rule)
		})
		require.NotZero(t, want.byRule[rule])
		require.Equal(t, want.byRule[rule], s.value(t, `leapgate_blocks_total{rule="`+rule+`"}`), rule)
	}
}
