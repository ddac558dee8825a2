package flow

import (
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

const kind = "flow"

// Memory tells how much memory is in use, in bytes, if that is known. It is asked for
// every call that a rule with Strategy MemoryAdaptive binds, by any number of
// goroutines at once, and must not panic. Package memory has one.
type Memory interface {
	Used() (bytes int64, known bool)
}

// Config says what a guard reads besides its rules.
type Config struct {
	// Passes gives how many calls of a resource passed in the last second, for rules
	// that have Associated. Nil: none.
	Passes func(name string, now int64) int64
	// Memory is for rules with Strategy MemoryAdaptive. Nil: the memory in use is not
	// known.
	Memory Memory
}

// Guard holds the flow rules of a gate and plugs them into its resources. Make one
// with [NewGuard].
type Guard struct {
	cfg        Config
	rules      *ruleset.Set[Rule, *controller]
	associated atomic.Pointer[map[string]bool] // the resources that rules read
}

var _ resource.Guard = (*Guard)(nil)

// NewGuard makes a guard without rules.
func NewGuard(cfg Config) *Guard {
	g := &Guard{cfg: cfg}
	g.rules = ruleset.New(ruleset.Spec[Rule, *controller]{
		Kind:     kind,
		Identity: func(r *Rule) (*string, string, Match) { return &r.ID, r.Resource, r.Match },
		Complete: complete,
		Compile:  g.compile,
		RuleID:   func(c *controller) string { return c.rule.ID },
		Enforces: func(c *controller) bool { return c.rule.Mode == Enforce },
	})
	g.associated.Store(&map[string]bool{})
	return g
}

// Validate tells what is wrong with a list of rules, as loading it would: nil, or
// [RuleErrors].
func Validate(rules []Rule) error { return NewGuard(Config{}).Check(rules) }

// Check is [Validate].
func (g *Guard) Check(rules []Rule) error { return g.rules.Check(rules) }

// Load replaces the rules by the given ones, all or, with [RuleErrors], none. A nil
// list clears them. It tells which resources are to be bound anew. Loads come one at
// a time.
func (g *Guard) Load(rules []Rule) (resource.Changes, error) {
	changes, err := g.rules.Load(rules)
	if err != nil {
		return changes, err
	}
	before, after := *g.associated.Load(), map[string]bool{}
	for i := range rules {
		if name := rules[i].Associated; name != "" {
			after[name] = true
			if !before[name] {
				changes.Names = append(changes.Names, name)
			}
		}
	}
	for name := range before {
		if !after[name] {
			changes.Names = append(changes.Names, name)
		}
	}
	g.associated.Store(&after)
	return changes, nil
}

// Rules gives copies of the rules, in the order in which they were loaded, with
// their IDs and defaults filled in.
func (g *Guard) Rules() []Rule { return g.rules.Rules() }

// Kind is "flow".
func (g *Guard) Kind() string { return kind }

// Bind gives the checks of a resource: those of the rules that name it, and then those
// of the patterns that it matches, in the order of the rules. It is named if a rule
// is for it or reads it.
func (g *Guard) Bind(name string, old []resource.Check) (checks []resource.Check, named bool) {
	checks, named = ruleset.Bind(g.rules, name, old)
	var origins []string // that a rule names
	for _, c := range checks {
		if origin := c.(*controller).rule.Origin; origin != "" && origin != OtherOrigins {
			origins = append(origins, origin)
		}
	}
	for i, c := range checks {
		if c := c.(*controller); c.rule.Origin == OtherOrigins {
			checks[i] = c.beside(origins)
		}
	}
	return checks, named || (*g.associated.Load())[name]
}
