package resource_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// renaming is a guard whose one rule has another ID at each Bind, as when rules are made
// anew for each load.
type renaming struct{ made []weak.Pointer[renamed] }

func (*renaming) Kind() string { return "renaming" }

func (g *renaming) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	c := &renamed{cause: resource.Cause{Resource: name, Kind: "renaming", RuleID: strconv.Itoa(len(g.made))}}
	g.made = append(g.made, weak.Make(c))
	return []resource.Check{c}, false
}

type renamed struct {
	resource.Check
	cause resource.Cause
	_     [1 << 10]byte
}

func (c *renamed) Cause() *resource.Cause           { return &c.cause }
func (*renamed) Mode() rule.Mode                    { return rule.Off }
func (*renamed) Stage() resource.Stage              { return resource.Counting }
func (*renamed) Interval() time.Duration            { return 0 }
func (c *renamed) Snapshot(int64) stat.RuleSnapshot { return stat.RuleSnapshot{Blocked: 1} }

// A call that stays for long, as a stream does, holds the rules that it began under, and
// none of those that came and went since.
func TestTotals_RulesAreLetGoWhileACallIsInFlight(t *testing.T) {
	const loads = 500
	guard := new(renaming)
	g := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now, Guards: []resource.Guard{guard}})
	open, err := g.Entry("a")
	require.NoError(t, err)
	for range loads {
		require.NoError(t, g.Rebind("a"))
	}
	kept := func() (n int) {
		for _, c := range guard.made {
			if c.Value() != nil {
				n++
			}
		}
		return n
	}
	for tries := 0; kept() > 10 && tries < 100; tries++ {
		collect(t, g)
	}
	require.LessOrEqual(t, kept(), 10, "of %d", loads)
	require.EqualValues(t, loads, totalsOf(t, g, resource.Other).FormerRules["renaming"].Blocked)
	open.Exit()
	runtime.KeepAlive(g)
}
