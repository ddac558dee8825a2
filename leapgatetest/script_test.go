package leapgatetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/param"
)

func run(t testing.TB, script string) {
	t.Helper()
	g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 10, Interval: time.Second}}))
	leapgatetest.Run(t, g, "GET /orders", script)
}

func TestRun_ScriptsThatHold(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"@0 try 20 -> 10   @499 try 5 -> 0   @1000 try 20 -> 10",
		"@0 try 20 → 10\n\t@1s try 20 → 10 @1.5s blocked @3s ok err ignored",
		"try 0 -> 0",
	} {
		require.Empty(t, try(t, func(t *test) { run(t, script) }), script)
	}
	s := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	leapgatetest.Run(t, s, "a", "ok ok err ignored")
	require.EqualValues(t, 1, s.Lookup("a").Snapshot().Exception)
}

func TestRun_ACallThatWouldWaitCountsAsRefused(t *testing.T) {
	t.Parallel()
	g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, g.LoadRules(leapgate.Rules{
		Flow:      []flow.Rule{{Resource: "paced", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}},
		Isolation: []isolation.Rule{{Resource: "alone", MaxInFlight: 1, MaxWait: time.Minute}},
		Param:     []param.Rule{{Resource: "by item", Arg: "item", Threshold: 1}},
	}))
	leapgatetest.Run(t, g, "paced", "try 5 -> 1 @999 blocked @1s ok")
	e, err := g.Entry("alone")
	require.NoError(t, err)
	leapgatetest.Run(t, g, "alone", "blocked")
	e.Exit()
	leapgatetest.Run(t, g, "by item", "ok blocked", leapgate.WithArg("item", "a"))
	leapgatetest.Run(t, g, "by item", "ok blocked", leapgate.WithArg("item", "b"))
}

func TestRun_AWrongExpectationNamesItsStep(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"@0 try 20 -> 10 @499 try 5 -> 1": "leapgatetest: step 2, @499 try 5 -> 1: 0 of 5 passed; want 1",
		"try 20 → 10 ok":                  "leapgatetest: step 2, @0 ok: 0 of 1 passed; want 1",
		"@10 blocked":                     "leapgatetest: step 1, @10 blocked: 1 of 1 passed; want 0",
	} {
		require.Equal(t, want, try(t, func(t *test) { run(t, script) }), script)
	}
}

func TestRun_ScriptsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"":                   `leapgatetest: the script "" has no step`,
		"@5":                 `leapgatetest: the script "@5" has no step`,
		"@x ok":              `leapgatetest: word 1 is "@x"; want a time such as @499 (in ms) or @1.5s`,
		"@-1s ok":            `leapgatetest: word 1 is "@-1s", before @0; want times that do not go back`,
		"@9 ok @8 ok":        `leapgatetest: word 3 is "@8", before @9; want times that do not go back`,
		"try 5 -> 6":         `leapgatetest: word 1 is "try 5 -> 6"; want @499, try 5 -> 2, ok, err, ignored or blocked`,
		"try -1 -> -1":       `leapgatetest: word 1 is "try -1 -> -1"; want @499, try 5 -> 2, ok, err, ignored or blocked`,
		"ok try 5":           `leapgatetest: word 2 is "try 5"; want @499, try 5 -> 2, ok, err, ignored or blocked`,
		"succeed":            `leapgatetest: word 1 is "succeed"; want @499, try 5 -> 2, ok, err, ignored or blocked`,
		"@99999999999999 ok": `leapgatetest: word 1 is "@99999999999999"; want a time such as @499 (in ms) or @1.5s`,
	} {
		require.Equal(t, want, try(t, func(t *test) { run(t, script) }), script)
	}
}
