// Package ruleset is the one way in which rules are loaded, whatever their kind: validate
// all, find what changed, swap that.
//
// Loading is all or nothing. A rule that did not change keeps its check, and so its state;
// one that did is compiled with its old check at hand, to take over what still fits. What
// counts is what a rule says, not where it is stored: a list that its owner changed in
// place and loads again is compared with a copy of what it said before.
package ruleset

import (
	"slices"
	"sync"

	"github.com/leapgate-go/leapgate/internal/pattern"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// Set is the rules of one kind in one gate: the guard that carries them out. Make one with
// [New]. Its methods may be called by any number of goroutines at once, except that loads
// come one at a time.
type Set[R comparable] struct {
	kind  *Kind[R]
	env   Env
	names map[string]string // of the fields in files, by those in Go

	mu       sync.RWMutex // guards what is below, which loads alone change
	rules    []*loaded[R]
	byID     map[string]*loaded[R]
	at       map[string]*target[R] // the resources that rules name or read
	patterns []patterned[R]        // the rules with patterns, in order; not changed, only replaced
}

// loaded is a rule that is loaded. It stays when the rule is changed.
type loaded[R comparable] struct {
	given   R  // as it was given
	rule    *R // complete; not changed, only replaced
	id      string
	index   int            // in the list
	on      *target[R]     // the resource that it names; nil if it has a pattern
	check   resource.Check // nil if it has a pattern: then there is one for each resource
	pattern *pattern.Pattern
	shared  any // by all resources that the rule binds
}

// target is a resource that rules name or read.
type target[R comparable] struct {
	name    string
	rules   []*loaded[R] // those that name it, in order
	readers int          // how many rules read it

	// During a load:
	touched bool // its rules may be others, or in another order
	changed bool // they are
}

// patterned is a rule that binds all resources that match.
type patterned[R comparable] struct {
	rule    *R // complete; not changed
	id      string
	pattern *pattern.Pattern
	shared  any
}

var _ resource.Guard = (*Set[struct{}])(nil)

// New makes a set without rules.
func New[R comparable](kind *Kind[R], env Env) *Set[R] {
	s := &Set[R]{
		kind: kind, env: env, names: make(map[string]string),
		byID: make(map[string]*loaded[R]), at: make(map[string]*target[R]),
	}
	for _, f := range kind.AllFields() {
		s.names[f.GoName] = f.Name
	}
	return s
}

// Kind is the name of the kind.
func (s *Set[R]) Kind() string { return s.kind.Name }

// Rules returns copies of the rules, complete and in the order in which they were
// loaded; nil if there never were any.
func (s *Set[R]) Rules() []R {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.rules == nil {
		return nil
	}
	rules := make([]R, len(s.rules))
	for i, l := range s.rules {
		rules[i] = *l.rule
	}
	return rules
}

// Bind returns the checks of a resource: those of the rules that name it, in the order of
// the rules, and then those of the patterns that match. It is named if a rule is for it, or
// reads it. From the old checks those of patterns take over what they remember.
func (s *Set[R]) Bind(name string, old []resource.Check) (checks []resource.Check, named bool) {
	// Until the end: what is compiled for rules that are gone by then could undo what those
	// have changed that took their place.
	s.mu.RLock()
	defer s.mu.RUnlock()
	on, named := s.at[name]
	if named && len(on.rules) > 0 {
		checks = make([]resource.Check, 0, len(on.rules))
		for _, l := range on.rules {
			checks = append(checks, l.check)
		}
	}
	if len(s.patterns) > 0 {
		enforced := slices.ContainsFunc(checks, func(c resource.Check) bool { return c.Mode() == rule.Enforce })
		for _, p := range s.patterns {
			if p.pattern.Matches(name, enforced) {
				checks = append(checks, s.compile(p.rule, name, ofRule(old, p.id), p.shared))
			}
		}
	}
	if s.kind.Relate != nil {
		s.kind.Relate(checks)
	}
	return checks, named
}

// compile makes the check of a complete rule for a resource.
func (s *Set[R]) compile(r *R, name string, old resource.Check, shared any) resource.Check {
	env := &s.env
	if shared != nil {
		own := s.env
		own.Shared, env = shared, &own
	}
	c := s.kind.Compile(env, r, name, old)
	if cause := c.Cause(); c != old && cause.Status == 0 { // nobody reads a new one yet
		cause.Status = s.kind.Status
	}
	return c
}

// ofRule returns the check of the rule with that ID, nil if there is none.
func ofRule(checks []resource.Check, id string) resource.Check {
	for _, c := range checks {
		if c.Cause().RuleID == id {
			return c
		}
	}
	return nil
}
