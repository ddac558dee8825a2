package leapprom_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/param"
)

// Calls without the argument that a rule is about have a series as soon as there is one. It goes
// on whatever rules are loaded, and no value of an argument becomes a label.
func TestArguments_CallsWithoutThemAreCounted(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	load := func(rules ...param.Rule) { require.NoError(t, g.LoadRules(leapgate.Rules{Param: rules})) }
	r := param.Rule{ID: "per item", Resource: "a", Arg: "item", Threshold: 1, Interval: time.Hour, Top: 5}
	load(r)
	registry := registryOf(t, g, leapprom.Config{})
	enter := func(opts ...leapgate.EntryOption) {
		e, _ := g.EntryContext(t.Context(), "a", opts...)
		e.Exit()
	}
	for range 3 {
		enter(leapgate.WithArg("item", "hot"))
	}
	all := scrape(t, registry)
	for name := range all {
		require.NotContains(t, name, "hot")
	}
	require.Empty(t, all.only("rule_missing"))
	require.Equal(t, reading{`blocks_total{guard="param",resource="a",rule="per item"}`: 2}, all.only("blocks"))
	missing := func(n float64) {
		t.Helper()
		require.Equal(t, reading{`rule_missing_arguments_total{guard="param",resource="a",rule="per item"}`: n}, scrape(t, registry).only("rule_missing"))
	}
	enter()
	enter(leapgate.WithArg("id", "hot"), leapgate.WithCount(4))
	missing(5)
	r.Threshold, r.Missing = 9, param.Block
	load(r)
	enter()
	missing(6)
}
