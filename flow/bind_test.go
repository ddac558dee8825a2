package flow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// A binding that is not carried out yet changes nothing of the one that holds: as long as
// the rule for a caller is not asked, that for the others binds him.
func TestLoad_HeldUpBindingChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{hold: make(chan struct{})}
		g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{s}})
		others := flow.Rule{ID: "others", Resource: "a", Origin: flow.OtherOrigins, Threshold: 0}
		us := flow.Rule{ID: "us", Resource: "a", Origin: "us", Threshold: 0}
		require.NoError(t, g.LoadFlowRules([]flow.Rule{others}))
		refusedBy := func(id string) {
			t.Helper()
			_, err := g.EntryContext(t.Context(), "a", leapgate.WithOrigin("us"))
			var blocked *leapgate.BlockError
			require.ErrorAs(t, err, &blocked)
			require.Equal(t, id, blocked.RuleID)
		}
		refusedBy("others")
		s.held.Store(true)
		go g.LoadFlowRules([]flow.Rule{others, us})
		synctest.Wait()
		refusedBy("others")
		close(s.hold)
		synctest.Wait()
		refusedBy("us")
	})
}

// Rules that were never carried out, because others came before they could be, leave
// nothing behind: the threshold by which a resource warms up is that of the rule.
func TestWarmUp_RulesAreChangedAndChangedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, s := &gate{}, &slow{hold: make(chan struct{})}
		g.clock.Store(minute)
		g.Gate = leapgate.Must(leapgate.Config{Now: g.clock.Load, Guards: []resource.Guard{s}})
		rule := flow.Rule{
			ID: "w", Match: rule.Default, Threshold: 100,
			Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second, ColdFactor: 3,
		}
		less := rule
		less.Threshold = 10
		require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
		require.Equal(t, 33, g.try(t, "a", 200))
		s.held.Store(true)
		go g.LoadFlowRules([]flow.Rule{less})
		synctest.Wait()
		require.NoError(t, g.LoadFlowRules([]flow.Rule{rule}))
		close(s.hold)
		synctest.Wait()
		for second, want := range []int{34, 36, 38, 41} {
			require.Equal(t, want, g.at(time.Duration(second+1)*time.Second).try(t, "a", 200))
		}
	})
}
