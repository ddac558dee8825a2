package ruleset

import (
	"slices"

	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// Validate returns everything that is wrong with a list of rules, as loading it would.
func (k *Kind[R]) Validate(given []R) rule.Faults {
	_, faults := New(k, Env{}).complete(given)
	return faults
}

// Prepare makes ready to replace the rules by the given ones. If anything is wrong with any
// of them, it returns all faults, and nothing changes. Otherwise load replaces them, and
// returns which resources have other rules than before. Nothing may be loaded in between.
func (s *Set[R]) Prepare(given []R) (load func() resource.Changes, faults rule.Faults) {
	if different, ok := s.different(given); ok {
		return s.prepareSome(given, different)
	}
	next, faults := s.complete(given)
	if faults != nil {
		return nil, faults
	}
	return func() resource.Changes { return s.replace(next) }, nil
}

// different finds which of the given rules differ from the loaded ones, if at
// every place the ID and the resource are those that were there, and no pattern
// differs. This is how long lists with few changes are reloaded, at the price of a
// comparison.
func (s *Set[R]) different(given []R) (indices []int, ok bool) {
	if len(given) != len(s.given) {
		return nil, false
	}
	for i := range given {
		if given[i] == s.given[i] {
			continue
		}
		h, old := s.kind.Head(&given[i]), s.kind.Head(&s.given[i])
		if *h.ID != *old.ID || *h.Resource != *old.Resource || *h.Match != *old.Match || *h.Match != rule.Exact || s.reads(&given[i]) != s.reads(&s.given[i]) {
			return nil, false
		}
		indices = append(indices, i)
	}
	return indices, true
}

func (s *Set[R]) reads(r *R) string {
	if s.kind.Reads == nil {
		return ""
	}
	return s.kind.Reads(r)
}

// prepareSome makes ready to load the given rules that differ; all keep their IDs.
func (s *Set[R]) prepareSome(given []R, different []int) (load func() resource.Changes, faults rule.Faults) {
	if len(different) == 0 {
		return func() resource.Changes { return resource.Changes{} }, nil
	}
	report := Report{kind: s.kind.Name, names: s.names}
	fresh, asGiven := make([]loaded[R], len(different)), make([]R, len(different))
	for k, i := range different {
		r := &fresh[k].rule
		*r, asGiven[k] = given[i], given[i]
		h := s.kind.Head(r)
		report.at(i, *h.ID, *h.Resource)
		report.head(h)
		s.kind.Complete(r, &report)
		report.mode(*h.Mode)
		*h.ID = *s.kind.Head(&s.rules[i].rule).ID
	}
	if report.faults != nil {
		return nil, report.faults
	}
	return func() resource.Changes {
		var changed resource.Changes
		seen := make(map[int32]bool) // the indices of the first rules with a name
		for k, i := range different {
			old := &s.rules[i]
			fresh[k].first = old.first
			if fresh[k].rule == old.rule { // it said the same in other words
				fresh[k].check = old.check
				continue
			}
			name := *s.kind.Head(&fresh[k].rule).Resource
			fresh[k].check = s.compile(&fresh[k].rule, name, old.check)
			if !seen[old.first] {
				seen[old.first] = true
				changed.Names = append(changed.Names, name)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for k, i := range different {
			s.given[i], s.rules[i] = asGiven[k], fresh[k]
		}
		return changed
	}, nil
}

// complete makes the generation of the given rules, without checks.
func (s *Set[R]) complete(given []R) (*generation[R], rule.Faults) {
	next := &generation[R]{
		given: slices.Clone(given),
		rules: make([]loaded[R], len(given)),
		byID:  make(map[string]int32, len(given)),
		at:    make(map[string][]int32, len(given)),
		read:  make(map[string]bool),
	}
	report := Report{kind: s.kind.Name, names: s.names}
	numbers := numbering{head: func(i int) rule.Head { return s.kind.Head(&next.rules[i].rule) }}
	first := make([]int32, len(given)) // where the first place of each name is kept
	for i := range given {
		r := &next.rules[i].rule
		*r = given[i]
		h := s.kind.Head(r)
		report.at(i, *h.ID, *h.Resource)
		report.head(h)
		s.kind.Complete(r, &report)
		report.mode(*h.Mode)
		if *h.ID == "" {
			*h.ID = numbers.id(i)
		}
		if other, taken := next.byID[*h.ID]; taken {
			report.duplicate(*h.ID, int(other))
		}
		next.byID[*h.ID] = int32(i)
		if report.pattern != nil {
			next.patterns = append(next.patterns, patterned[R]{r, *h.ID, report.pattern})
		}
		if name := s.reads(r); name != "" {
			next.read[name] = true
		}
		if *h.Match != rule.Exact {
			continue
		}
		at := next.at[*h.Resource]
		if at == nil {
			at = first[i : i : i+1]
		}
		at = append(at, int32(i))
		next.at[*h.Resource] = at
		next.rules[i].first = at[0]
	}
	if report.faults != nil {
		return nil, report.faults
	}
	return next, nil
}

// replace makes the checks of a generation, and puts it in the place of the one before.
func (s *Set[R]) replace(next *generation[R]) (changed resource.Changes) {
	for i := range next.rules {
		r := &next.rules[i].rule
		h := s.kind.Head(r)
		if *h.Match != rule.Exact {
			continue
		}
		var old loaded[R]
		if j, had := s.byID[*h.ID]; had {
			old = s.rules[j] // without a check if it had a pattern
		}
		if old.check != nil && old.rule == *r {
			next.rules[i].check = old.check
		} else {
			next.rules[i].check = s.compile(r, *h.Resource, old.check)
		}
	}
	for name, at := range next.at {
		same := func(i, j int32) bool { return next.rules[i].check == s.rules[j].check }
		if !slices.EqualFunc(at, s.at[name], same) || next.read[name] != s.read[name] {
			changed.Names = append(changed.Names, name)
		}
	}
	for name := range s.at {
		if next.at[name] == nil {
			changed.Names = append(changed.Names, name)
		}
	}
	for _, names := range []struct{ these, others map[string]bool }{{s.read, next.read}, {next.read, s.read}} {
		for name := range names.these {
			if !names.others[name] && next.at[name] == nil && s.at[name] == nil {
				changed.Names = append(changed.Names, name)
			}
		}
	}
	changed.Matching = matching(s.patterns, next.patterns)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = *next
	return changed
}

// matching returns which names are matched by a pattern of a rule that came, went or
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

// split returns those of a that are not in b, and those that are.
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
