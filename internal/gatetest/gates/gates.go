// Package gates makes gates for tests, and calls them. Packages that the gate itself
// is made of can use it in their external tests only.
package gates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/stat"
)

// New returns a gate with a given clock and flow rules.
func New(t require.TestingT, c *gatetest.Clock, rules ...flow.Rule) *leapgate.Gate {
	return With(t, leapgate.Config{Now: c.Now}, rules...)
}

// Small returns a gate that has places for so many resources, with a given clock and
// flow rules.
func Small(t require.TestingT, c *gatetest.Clock, resources int, rules ...flow.Rule) *leapgate.Gate {
	return With(t, leapgate.Config{Now: c.Now, MaxResources: resources}, rules...)
}

// With returns a gate with a configuration and flow rules.
func With(t require.TestingT, cfg leapgate.Config, rules ...flow.Rule) *leapgate.Gate {
	g, err := leapgate.New(cfg)
	require.NoError(t, err)
	require.NoError(t, g.LoadFlowRules(rules))
	return g
}

// LoadIsolation replaces the isolation rules of a gate and leaves its others.
func LoadIsolation(g *leapgate.Gate, rules []isolation.Rule) error {
	return g.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = rules
		return nil
	})
}

// Enter makes one call that ends at once, and reports whether it passed. What does not
// pass must be blocked.
func Enter(t testing.TB, g *leapgate.Gate, name string) bool {
	t.Helper()
	e, err := g.Entry(name)
	defer e.Exit()
	if err != nil {
		require.ErrorIs(t, err, leapgate.ErrBlocked)
	}
	return err == nil
}

// Snapshot returns the figures of a resource, which must be there.
func Snapshot(t testing.TB, g *leapgate.Gate, name string) stat.Snapshot {
	t.Helper()
	for _, s := range g.Snapshot() {
		if s.Resource == name {
			return s
		}
	}
	t.Fatalf("no snapshot of %q", name)
	return stat.Snapshot{}
}
