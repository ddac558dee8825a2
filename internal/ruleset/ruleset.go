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
)

// Spec is what a guard says about its rules, which are of type R, and the
// controllers that carry them out, which are of type C and compare by identity.
type Spec[R, C comparable] struct {
	// Kind names the guard in faults: "flow".
	Kind string
	// Identity points to the rule's ID, and gives the resource it is for.
	Identity func(rule *R) (id *string, resource string)
	// Complete fills in what was left zero, all but the ID, and reports what is
	// wrong with what is there.
	Complete func(rule *R, report *Report)
	// Compile makes the controller of a complete rule. old is that of the rule
	// that had this ID before, if one had.
	Compile func(rule *R, old C, had bool) C
}

// Set is the rules of one guard. Make one with [New]. Its methods may be called
// by any number of goroutines at once, except that loads come one at a time.
type Set[R, C comparable] struct {
	spec Spec[R, C]

	mu    sync.RWMutex // guards what is below; nothing is called under it
	given []R          // as they were given
	rules []loaded[R, C]
	byID  map[string]int32   // ID → index into rules
	at    map[string][]int32 // resource → indices of its rules, in order
}

type loaded[R, C comparable] struct {
	rule       R // complete
	controller C
	first      int32 // the index of the first rule of its resource
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

// For gives the controllers of a resource, in the order of its rules.
func (s *Set[R, C]) For(resource string) []C {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := s.at[resource]
	if len(at) == 0 {
		return nil
	}
	controllers := make([]C, len(at))
	for k, i := range at {
		controllers[k] = s.rules[i].controller
	}
	return controllers
}

// Load replaces the rules by the given ones, or, if anything is wrong with any
// of them, changes nothing and gives all [Faults]. It tells which resources have
// other rules than before.
func (s *Set[R, C]) Load(given []R) (changed []string, err error) {
	if different, ok := s.different(given); ok {
		return s.loadSome(given, different)
	}
	return s.loadAll(given)
}

// different tells which of the given rules differ from the loaded ones, if at
// every place the ID and the resource are those that were there. This is how
// long lists with few changes are reloaded, at the price of a comparison.
func (s *Set[R, C]) different(given []R) (indices []int, ok bool) {
	if len(given) != len(s.given) {
		return nil, false
	}
	for i := range given {
		if given[i] == s.given[i] {
			continue
		}
		id, resource := s.spec.Identity(&given[i])
		oldID, oldResource := s.spec.Identity(&s.given[i])
		if *id != *oldID || resource != oldResource {
			return nil, false
		}
		indices = append(indices, i)
	}
	return indices, true
}

// loadSome loads the given rules that differ; all keep their IDs.
func (s *Set[R, C]) loadSome(given []R, different []int) (changed []string, err error) {
	if len(different) == 0 {
		return nil, nil
	}
	report := Report{kind: s.spec.Kind}
	fresh := make([]loaded[R, C], len(different))
	for k, i := range different {
		rule := &fresh[k].rule
		*rule = given[i]
		id, resource := s.spec.Identity(rule)
		report.at(i, *id, resource)
		s.spec.Complete(rule, &report)
		oldID, _ := s.spec.Identity(&s.rules[i].rule)
		*id = *oldID
	}
	if report.faults != nil {
		return nil, report.faults
	}
	seen := make([]bool, len(given)) // by the index of the first rule of a resource
	for k, i := range different {
		old := &s.rules[i]
		fresh[k].first = old.first
		if fresh[k].rule == old.rule { // it said the same in other words
			fresh[k].controller = old.controller
			continue
		}
		fresh[k].controller = s.spec.Compile(&fresh[k].rule, old.controller, true)
		if !seen[old.first] {
			seen[old.first] = true
			_, resource := s.spec.Identity(&fresh[k].rule)
			changed = append(changed, resource)
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

func (s *Set[R, C]) loadAll(given []R) (changed []string, err error) {
	next := Set[R, C]{
		given: slices.Clone(given),
		rules: make([]loaded[R, C], len(given)),
		byID:  make(map[string]int32, len(given)),
		at:    make(map[string][]int32, len(given)),
	}
	report := Report{kind: s.spec.Kind}
	first := make([]int32, len(given)) // where the first place of each resource is kept
	for i := range given {
		rule := &next.rules[i].rule
		*rule = given[i]
		id, resource := s.spec.Identity(rule)
		report.at(i, *id, resource)
		s.spec.Complete(rule, &report)

		at := next.at[resource]
		if at == nil {
			at = first[i : i : i+1]
		}
		at = append(at, int32(i))
		next.at[resource] = at
		next.rules[i].first = at[0]
		if *id == "" {
			*id = resource + "/" + strconv.Itoa(len(at))
		}
		if other, taken := next.byID[*id]; taken {
			report.Fault("ID", *id, "one that is not the ID of rule "+strconv.Itoa(int(other)))
		}
		next.byID[*id] = int32(i)
	}
	if report.faults != nil {
		return nil, report.faults
	}

	for i := range next.rules {
		rule := &next.rules[i].rule
		id, _ := s.spec.Identity(rule)
		var old loaded[R, C]
		j, had := s.byID[*id]
		if had {
			old = s.rules[j]
		}
		if had && old.rule == *rule {
			next.rules[i].controller = old.controller
		} else {
			next.rules[i].controller = s.spec.Compile(rule, old.controller, had)
		}
	}

	for resource, at := range next.at {
		same := func(i, j int32) bool { return next.rules[i].controller == s.rules[j].controller }
		if !slices.EqualFunc(at, s.at[resource], same) {
			changed = append(changed, resource)
		}
	}
	for resource := range s.at {
		if next.at[resource] == nil {
			changed = append(changed, resource)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given, s.rules, s.byID, s.at = next.given, next.rules, next.byID, next.at
	return changed, nil
}
