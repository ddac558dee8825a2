// Package ruleset is the one way in which a guard loads its rules: validate
// all, tell what changed, swap that.
//
// Loading is all or nothing. A rule that did not change keeps its controller,
// and so its state; one that did is compiled with its old controller at hand, to
// take over what still fits. What counts is what a rule says, not where it is
// stored: a list that its owner changed in place and loads again is compared with
// a copy of what it said before.
package ruleset

import (
	"slices"
	"strconv"
	"sync"

	"github.com/leapgate-go/leapgate/resource"
)

// Spec is what a guard says about its rules, which are of type R, and the
// controllers that carry them out, which are of type C and compare by identity.
type Spec[R, C comparable] struct {
	// Kind names the guard in faults: "flow".
	Kind string
	// Identity points to the rule's ID, and gives the resource it is for, or the
	// pattern of those.
	Identity func(rule *R) (id *string, name string, match resource.Match)
	// Complete fills in what was left zero, all but the ID, and reports what is
	// wrong with what is there. It calls [Report.Target], or [Report.Pattern], for the
	// pattern of a rule that has one.
	Complete func(rule *R, report *Report)
	// Compile makes the controller of a complete rule for a resource. old is that of
	// the rule that had this ID before, on this resource if the rule has a pattern. It
	// must not call the set.
	Compile func(rule *R, name string, old C, had bool) C
	// RuleID gives the ID of the rule of a controller.
	RuleID func(C) string
	// Enforces tells whether a controller's rule is in mode enforce.
	Enforces func(C) bool
}

// Set is the rules of one guard. Make one with [New]. Its methods may be called
// by any number of goroutines at once, except that loads come one at a time.
type Set[R, C comparable] struct {
	spec Spec[R, C]

	mu       sync.RWMutex // guards what is below
	given    []R          // as they were given
	rules    []loaded[R, C]
	byID     map[string]int32   // ID → index into rules
	at       map[string][]int32 // resource → indices of the rules that name it, in order
	patterns []patterned[R]     // the rules with patterns, in order; not changed, only replaced
}

type loaded[R, C comparable] struct {
	rule       R     // complete
	controller C     // zero for a rule with a pattern, which has one per resource
	first      int32 // the index of the first rule with its name
}

// patterned is a rule that binds all resources that match.
type patterned[R comparable] struct {
	rule    *R // complete; not changed
	id      string
	pattern *resource.Pattern
}

// New makes a set without rules.
func New[R, C comparable](spec Spec[R, C]) *Set[R, C] {
	return &Set[R, C]{spec: spec}
}

// Rules gives copies of the rules, complete and in the order in which they were
// loaded.
func (s *Set[R, C]) Rules() []R {
	s.mu.RLock()
	defer s.mu.RUnlock()
	rules := make([]R, len(s.rules))
	for i := range s.rules {
		rules[i] = s.rules[i].rule
	}
	return rules
}

// For gives the controllers of a resource: those of the rules that name it, in the
// order of the rules, and then those of the patterns that match. old are the
// controllers that it has: from them those of patterns take over what they remember.
func (s *Set[R, C]) For(name string, old []C) (controllers []C, named bool) {
	// Until the end: what is compiled for rules that are gone by then could undo what those
	// have changed that took their place.
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.at[name] {
		controllers = append(controllers, s.rules[i].controller)
	}
	named = len(controllers) > 0
	if len(s.patterns) > 0 {
		enforced := slices.ContainsFunc(controllers, s.spec.Enforces)
		for _, p := range s.patterns {
			if p.pattern.Matches(name, enforced) {
				before, had := s.ofRule(old, p.id)
				controllers = append(controllers, s.spec.Compile(p.rule, name, before, had))
			}
		}
	}
	return controllers, named
}

// Bind is For with checks, for the Bind of a guard.
func Bind[R comparable, C interface {
	comparable
	resource.Check
}](s *Set[R, C], name string, old []resource.Check) (checks []resource.Check, named bool) {
	before := make([]C, len(old))
	for i, c := range old {
		before[i] = c.(C)
	}
	controllers, named := s.For(name, before)
	if len(controllers) == 0 {
		return nil, named
	}
	checks = make([]resource.Check, len(controllers))
	for i, c := range controllers {
		checks[i] = c
	}
	return checks, named
}

func (s *Set[R, C]) ofRule(old []C, id string) (c C, had bool) {
	for _, c := range old {
		if s.spec.RuleID(c) == id {
			return c, true
		}
	}
	return c, false
}

// Load replaces the rules by the given ones, or, if anything is wrong with any
// of them, changes nothing and gives all [Faults]. It tells which resources have
// other rules than before.
func (s *Set[R, C]) Load(given []R) (changed resource.Changes, err error) {
	if different, ok := s.different(given); ok {
		return s.loadSome(given, different)
	}
	return s.loadAll(given)
}

// Check tells what is wrong with rules, as Load would.
func (s *Set[R, C]) Check(given []R) error {
	_, err := s.complete(given)
	return err
}

// different tells which of the given rules differ from the loaded ones, if at
// every place the ID and the resource are those that were there, and no pattern
// differs. This is how long lists with few changes are reloaded, at the price of a
// comparison.
func (s *Set[R, C]) different(given []R) (indices []int, ok bool) {
	if len(given) != len(s.given) {
		return nil, false
	}
	for i := range given {
		if given[i] == s.given[i] {
			continue
		}
		id, name, match := s.spec.Identity(&given[i])
		oldID, oldName, oldMatch := s.spec.Identity(&s.given[i])
		if *id != *oldID || name != oldName || match != oldMatch || match != resource.Exact {
			return nil, false
		}
		indices = append(indices, i)
	}
	return indices, true
}

// loadSome loads the given rules that differ; all keep their IDs.
func (s *Set[R, C]) loadSome(given []R, different []int) (changed resource.Changes, err error) {
	if len(different) == 0 {
		return resource.Changes{}, nil
	}
	report := Report{kind: s.spec.Kind}
	fresh := make([]loaded[R, C], len(different))
	for k, i := range different {
		rule := &fresh[k].rule
		*rule = given[i]
		id, name, _ := s.spec.Identity(rule)
		report.at(i, *id, name)
		s.spec.Complete(rule, &report)
		oldID, _, _ := s.spec.Identity(&s.rules[i].rule)
		*id = *oldID
	}
	if report.faults != nil {
		return resource.Changes{}, report.faults
	}
	seen := make([]bool, len(given)) // by the index of the first rule with a name
	for k, i := range different {
		old := &s.rules[i]
		fresh[k].first = old.first
		if fresh[k].rule == old.rule { // it said the same in other words
			fresh[k].controller = old.controller
			continue
		}
		_, name, _ := s.spec.Identity(&fresh[k].rule)
		fresh[k].controller = s.spec.Compile(&fresh[k].rule, name, old.controller, true)
		if !seen[old.first] {
			seen[old.first] = true
			changed.Names = append(changed.Names, name)
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for k, i := range different {
		s.given[i] = given[i]
		s.rules[i] = fresh[k]
	}
	return changed, nil
}

// complete makes a set of the given rules, without controllers.
func (s *Set[R, C]) complete(given []R) (*Set[R, C], error) {
	next := &Set[R, C]{
		given: slices.Clone(given),
		rules: make([]loaded[R, C], len(given)),
		byID:  make(map[string]int32, len(given)),
		at:    make(map[string][]int32, len(given)),
	}
	report := Report{kind: s.spec.Kind}
	first := make([]int32, len(given)) // where the first place of each name is kept
	for i := range given {
		rule := &next.rules[i].rule
		*rule = given[i]
		id, name, _ := s.spec.Identity(rule)
		report.at(i, *id, name)
		s.spec.Complete(rule, &report)
		_, name, _ = s.spec.Identity(rule)

		at := next.at[name]
		if at == nil {
			at = first[i : i : i+1]
		}
		at = append(at, int32(i))
		next.at[name] = at
		next.rules[i].first = at[0]
		if *id == "" {
			*id = name + "/" + strconv.Itoa(len(at))
		}
		if other, taken := next.byID[*id]; taken {
			report.Fault("ID", *id, "one that is not the ID of rule "+strconv.Itoa(int(other)))
		}
		next.byID[*id] = int32(i)
		if report.pattern != nil {
			next.patterns = append(next.patterns, patterned[R]{rule, *id, report.pattern})
		}
	}
	if report.faults != nil {
		return nil, report.faults
	}
	next.dropPatterns(s.spec)
	return next, nil
}

// dropPatterns leaves only rules that name a resource in at, where the rules of all
// kinds were numbered.
func (s *Set[R, C]) dropPatterns(spec Spec[R, C]) {
	if s.patterns == nil {
		return
	}
	for name, at := range s.at {
		at = slices.DeleteFunc(at, func(i int32) bool {
			_, _, match := spec.Identity(&s.rules[i].rule)
			return match != resource.Exact
		})
		if s.at[name] = at; len(at) == 0 {
			delete(s.at, name)
			continue
		}
		for _, i := range at {
			s.rules[i].first = at[0]
		}
	}
}

func (s *Set[R, C]) loadAll(given []R) (changed resource.Changes, err error) {
	next, err := s.complete(given)
	if err != nil {
		return resource.Changes{}, err
	}
	for i := range next.rules {
		rule := &next.rules[i].rule
		id, name, match := s.spec.Identity(rule)
		if match != resource.Exact {
			continue
		}
		var old loaded[R, C]
		j, had := s.byID[*id]
		if had {
			old = s.rules[j]
			_, _, match := s.spec.Identity(&old.rule)
			had = match == resource.Exact
		}
		if had && old.rule == *rule {
			next.rules[i].controller = old.controller
		} else {
			next.rules[i].controller = s.spec.Compile(rule, name, old.controller, had)
		}
	}

	for name, at := range next.at {
		same := func(i, j int32) bool { return next.rules[i].controller == s.rules[j].controller }
		if !slices.EqualFunc(at, s.at[name], same) {
			changed.Names = append(changed.Names, name)
		}
	}
	for name := range s.at {
		if next.at[name] == nil {
			changed.Names = append(changed.Names, name)
		}
	}
	changed.Matching = matching(s.patterns, next.patterns)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given, s.rules, s.byID, s.at, s.patterns = next.given, next.rules, next.byID, next.at, next.patterns
	return changed, nil
}

// matching tells which names are matched by a pattern of a rule that came, went or
// changed; nil if none did. If the order of the others did, all are.
func matching[R comparable](before, after []patterned[R]) func(name string) bool {
	gone, stayed := split(before, after)
	came, stay := split(after, before)
	changed := append(gone, came...)
	switch {
	case !slices.EqualFunc(stayed, stay, func(a, b patterned[R]) bool { return *a.rule == *b.rule }):
		return func(string) bool { return true }
	case changed == nil:
		return nil
	}
	return func(name string) bool {
		return slices.ContainsFunc(changed, func(p patterned[R]) bool { return p.pattern.Matches(name, false) })
	}
}

// split gives those of a that are not in b, and those that are.
func split[R comparable](a, b []patterned[R]) (missing, there []patterned[R]) {
	in := make(map[R]bool, len(b))
	for _, p := range b {
		in[*p.rule] = true
	}
	for _, p := range a {
		if in[*p.rule] {
			there = append(there, p)
		} else {
			missing = append(missing, p)
		}
	}
	return missing, there
}
