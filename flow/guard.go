package flow

import (
	"sync"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

const kind = "flow"

// Guard holds the flow rules of a gate and plugs them into its resources. Make one
// with [NewGuard].
type Guard struct {
	loading sync.Mutex // one load at a time
	rules   *ruleset.Set[Rule, resource.Check]
}

var _ resource.Guard = (*Guard)(nil)

// NewGuard makes a guard without rules.
func NewGuard() *Guard {
	return &Guard{rules: newRules()}
}

func newRules() *ruleset.Set[Rule, resource.Check] {
	return ruleset.New(ruleset.Spec[Rule, resource.Check]{
		Kind:     kind,
		Identity: func(r *Rule) (*string, string) { return &r.ID, r.Resource },
		Complete: complete,
		Compile:  compile,
	})
}

// Validate tells what is wrong with a list of rules, as loading it would: nil, or
// [RuleErrors].
func Validate(rules []Rule) error {
	_, err := newRules().Load(rules)
	return err
}

// Load replaces the rules by the given ones, all or, with [RuleErrors], none. A nil
// list clears them. It gives registry the resources whose rules have changed.
func (g *Guard) Load(rules []Rule, registry *resource.Registry) error {
	g.loading.Lock()
	changed, err := g.rules.Load(rules)
	g.loading.Unlock()
	// Loads that overlap from here on do no harm: each binds the rules that are the
	// newest by then. And a guard that is asked for its checks may load rules.
	registry.Rebind(changed)
	return err
}

// Rules gives copies of the rules, in the order in which they were loaded, with
// their IDs and defaults filled in.
func (g *Guard) Rules() []Rule { return g.rules.Rules() }

// Kind is "flow".
func (g *Guard) Kind() string { return kind }

// Bind gives the checks of a resource, in the order of its rules. All of them name it.
func (g *Guard) Bind(name string) (checks []resource.Check, named bool) {
	checks = g.rules.For(name)
	return checks, len(checks) > 0
}
