package flow_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// The race: calls, loads that bring, alter and take patterns, exact rules and modes,
// evictions, and readers. The exact rules that stay are never exceeded and never
// lost, nobody is stuck, and the figures add up.
func TestReload_HammerPatternsModesAndEvictions(t *testing.T) {
	t.Parallel()
	const limit, calls, callers = 25, 60, 8
	rounds := 40
	if testing.Short() { // the race detector wants all of them
		rounds = 8
	}
	stay := flow.Rule{ID: "stay", Resource: "a", Threshold: limit}
	of := flow.Rule{ID: "of b", Resource: "b", Threshold: limit}
	all := flow.Rule{ID: "all", Match: rule.Default, Threshold: 1e9, Candidate: 3}
	glob := flow.Rule{ID: "glob", Resource: "[ab]*", Match: rule.Glob, Threshold: 1e9}
	reg := flow.Rule{ID: "regexp", Resource: "[^c]|x.*", Match: rule.Regexp, Threshold: 1e9, Mode: rule.Shadow}
	warm := flow.Rule{ID: "warm", Resource: "*", Match: rule.Glob, Threshold: 1e12, Strategy: flow.WarmUp, WarmUpPeriod: time.Second, Origin: flow.OtherOrigins}
	us := flow.Rule{ID: "us", Resource: "a", Origin: "us", Threshold: 1e9}
	pace := flow.Rule{ID: "pace", Resource: "x1", Threshold: 1e9, Behavior: flow.Pace, MaxWait: time.Second}
	reads := flow.Rule{ID: "reads", Resource: "x*", Match: rule.Glob, Threshold: 1e9, Associated: "a"}
	shadow, off, altered := of, of, glob
	shadow.Mode, off.Mode, altered.Threshold = rule.Shadow, rule.Off, 1e8
	lists := [][]flow.Rule{
		{stay, of},
		{stay, of, all, glob},
		{glob, stay, all, shadow, reads},
		{altered, stay, off, all, us},
		{stay, reg, of, warm, us},
		{warm, reg, glob, pace, stay, of},
		{stay},
	}
	g := newGateWith(t, leapgate.Config{MaxResources: 6, Sleep: sleeper(func(time.Duration) {})}, lists[0]...)
	for round := range rounds {
		g.at(time.Duration(round) * 5 * time.Minute)
		before := g.Resource("a").Snapshot()
		var refusedA, admittedA, loads, finished atomic.Int64
		ctx := context.Background()
		gatetest.AtOnce(callers+2, func(id int) {
			switch id {
			case callers:
				for finished.Load() < callers || loads.Load() < 10 {
					n := int(loads.Add(1)) + round
					if err := g.LoadFlowRules(lists[n%len(lists)]); err != nil {
						t.Error(err)
					}
				}
				return
			case callers + 1:
				for finished.Load() < callers {
					g.Snapshot()
				}
				return
			}
			for i := range calls {
				for _, name := range []string{"a", "b", "x" + strconv.Itoa((id*7+i+round)%30)} {
					e, err := g.EntryContext(ctx, name, leapgate.WithOrigin([]string{"", "us", "them"}[i%3]))
					if err != nil {
						if name == "a" {
							refusedA.Add(1)
						}
						continue
					}
					if name == "a" {
						admittedA.Add(1)
					}
					e.Exit()
				}
			}
			finished.Add(1)
		})
		require.EqualValues(t, limit, admittedA.Load(), "round %d", round)
		now := g.Resource("a").Snapshot()
		require.Equal(t, []int64{admittedA.Load(), refusedA.Load()}, []int64{now.Pass - before.Pass, now.Block - before.Block}, "round %d", round)
	}
	require.NoError(t, g.LoadFlowRules(lists[0]))
	require.EqualValues(t, limit*rounds, g.rule(t, "a", "stay").admitted)
	for _, s := range g.Snapshot() {
		require.Zero(t, s.Concurrency, s.Resource)
		require.Equal(t, s.Pass, s.Success, s.Resource)
	}
	require.Equal(t, []string{"of b"}, []string{g.rules("b")[0].id}, "the last load holds")
	require.Empty(t, g.rules(resource.Other))
}

// The race: a pattern's rule on a resource, exact from the first call to the last,
// while other patterns come and go.
func TestReload_HammerKeepsWhatAPatternCounted(t *testing.T) {
	t.Parallel()
	const limit, names = 10, 4
	p := flow.Rule{ID: "p", Resource: "r*", Match: rule.Glob, Threshold: limit}
	lists := [][]flow.Rule{
		{p},
		{{ID: "q", Resource: "*1", Match: rule.Glob, Threshold: 1e9}, p},
		{p, {ID: "d", Match: rule.Default, Threshold: 1e9}},
		{p, {ID: "e", Resource: "r2", Threshold: 1e9}},
	}
	g := newGate(t, lists[0]...)
	for round := range 30 {
		g.at(time.Duration(round) * time.Second)
		var admitted [names]atomic.Int64
		var finished, loads atomic.Int64
		gatetest.AtOnce(7, func(id int) {
			if id == 6 {
				for finished.Load() < 6 || loads.Load() < 8 {
					if err := g.LoadFlowRules(lists[loads.Add(1)%int64(len(lists))]); err != nil {
						t.Error(err)
					}
				}
				return
			}
			for range 40 {
				for i := range names {
					if e, err := g.Entry("r" + strconv.Itoa(i)); err == nil {
						admitted[i].Add(1)
						e.Exit()
					}
				}
			}
			finished.Add(1)
		})
		for i := range names {
			require.EqualValues(t, limit, admitted[i].Load(), "r%d in round %d", i, round)
			require.EqualValues(t, limit*(round+1), g.rule(t, "r"+strconv.Itoa(i), "p").admitted)
		}
	}
}

// The race: warmth is turned by many at the edge of a second, and no admission is
// lost or counted twice in it.
func TestWarmUp_HammerAtTheEdgesOfSeconds(t *testing.T) {
	t.Parallel()
	rule := warming
	rule.Threshold = 900
	g := newGate(t, rule)
	model := newNaiveWarmth(&rule, minute)
	handle := g.Resource("a")
	for second := range 30 {
		g.at(time.Duration(second) * time.Second)
		want := int64(model.allowed(g.clock.Load()))
		var admitted atomic.Int64
		gatetest.AtOnce(32, func(int) {
			for range 40 {
				if e, err := handle.Entry(); err == nil {
					admitted.Add(1)
					e.Exit()
				}
			}
		})
		require.InDelta(t, want, admitted.Load(), 1, "second %d", second)
		model.admitted = float64(admitted.Load())
	}
	require.Equal(t, 900.0, g.snapshot(t, "a").Effective)
}
