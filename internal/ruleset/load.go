package ruleset

import (
	"slices"

	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/rule"
)

// Validate returns everything that is wrong with a list of rules, as loading it would.
func (k *Kind[R]) Validate(given []R) rule.Faults {
	_, faults := New(k, Env{}).Prepare(given)
	return faults
}

// Prepare makes ready to replace the rules by the given ones. If anything is wrong with any
// of them, it returns all faults, and nothing changes. Otherwise load replaces them, and
// returns which resources have other rules than before. Nothing may be loaded in between.
func (s *Set[R]) Prepare(given []R) (load func() names.Set, faults rule.Faults) {
	unchanged := len(given) == len(s.rules)
	for i := 0; unchanged && i < len(given); i++ {
		unchanged = given[i] == s.rules[i].given
	}
	if unchanged {
		return func() names.Set { return names.Set{} }, nil
	}
	next, faults := s.complete(given)
	if faults != nil {
		return nil, faults
	}
	return func() names.Set { return s.replace(next) }, nil
}

// roomFor is how many rules are allocated at once. That is most of what each costs, but a rule keeps
// those beside it in memory.
const roomFor = 16

// complete completes the given rules. A rule that is at the same index as before stays as it is.
func (s *Set[R]) complete(given []R) (*state[R], rule.Faults) {
	next := &state[R]{rules: make([]loaded[R], len(given)), byID: make(map[string]*loaded[R], len(given))}
	report := Report{kind: s.kind.Name, names: s.names}
	numbers := make(map[string]int, len(given)) // of rules so far that are called after it
	var room []R
	none := new(loaded[R])
	for i := range given {
		l, before := &next.rules[i], none
		if i < len(s.rules) {
			before = &s.rules[i]
		}
		h := s.kind.Head(&given[i])
		report.at(i, *h.ID, *h.Resource)
		if given[i] == before.given && before.rule != nil && report.fits(before.pattern) &&
			(*h.ID != "" || before.number == numbers[s.kind.Head(before.rule).Target()]+1) {
			l.rule, l.pattern = before.rule, before.pattern
			report.add(before.pattern)
		} else {
			if len(room) == 0 {
				room = make([]R, min(roomFor, len(given)-i))
			}
			l.rule, room = &room[0], room[1:]
			*l.rule = given[i]
			h = s.kind.Head(l.rule)
			report.head(h)
			s.kind.Complete(l.rule, &report)
			report.mode(*h.Mode)
			l.pattern = report.pattern
		}
		h = s.kind.Head(l.rule)
		numbers[h.Target()]++
		l.given, l.index, l.number = given[i], i, numbers[h.Target()]
		switch {
		case *h.ID != "":
		case before.rule != nil && before.number == l.number && *s.kind.Head(&before.given).ID == "" && s.kind.Head(before.rule).Target() == h.Target():
			*h.ID = before.id
		default:
			*h.ID = idOf(h, l.number)
		}
		l.id = *h.ID
		if other := next.byID[l.id]; other != nil {
			report.duplicate(l.id, other.index)
		}
		next.byID[l.id] = l
	}
	return next, report.faults
}

// replace makes the checks of the rules of next, and puts it in the place of the state. A rule that says
// the same as the one that had its ID keeps its check.
func (s *Set[R]) replace(next *state[R]) (changed names.Set) {
	next.at = make(map[string]target[R], len(next.rules))
	for i := range next.rules {
		l := &next.rules[i]
		old := s.byID[l.id]
		if old == nil {
			old = new(loaded[R])
		}
		same := old.rule != nil && *l.rule == *old.rule
		switch {
		case same:
			l.rule, l.shared = old.rule, old.shared
		case s.kind.Share != nil:
			l.shared = s.kind.Share(&s.env, l.rule, old.shared)
		}
		if s.kind.Reads != nil {
			if name := s.kind.Reads(l.rule); name != "" {
				on := next.at[name]
				on.read = true
				next.at[name] = on
			}
		}
		if l.pattern != nil {
			next.patterns = append(next.patterns, l)
			continue
		}
		name := *s.kind.Head(l.rule).Resource
		if l.check = old.check; !same || l.check == nil {
			l.check = s.compile(l.rule, name, old.check, l.shared)
		}
		on := next.at[name]
		if on.first == nil {
			on.first = l
		} else {
			on.last.next = l
		}
		on.last = l
		next.at[name] = on
	}
	for name, on := range next.at {
		if before, was := s.at[name]; !was || !on.equals(before) {
			changed.Names = append(changed.Names, name)
		}
	}
	for name := range s.at {
		if _, is := next.at[name]; !is {
			changed.Names = append(changed.Names, name)
		}
	}
	slices.Sort(changed.Names)
	changed.Matching = matching(s.patterns, next.patterns)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = *next
	return changed
}

// equals reports whether both have the same checks in the same order.
func (t target[R]) equals(u target[R]) bool {
	a, b := t.first, u.first
	for a != nil && b != nil && a.check == b.check {
		a, b = a.next, b.next
	}
	return a == nil && b == nil && t.read == u.read
}

// matching returns which names are matched by a pattern of a rule that came, went or
// changed; nil if none did. If the order of the others did, all are.
func matching[R comparable](before, after []*loaded[R]) func(name string) bool {
	gone, stayed := split(before, after)
	came, stay := split(after, before)
	changed := append(gone, came...)
	switch {
	case !slices.EqualFunc(stayed, stay, func(a, b *loaded[R]) bool { return *a.rule == *b.rule }):
		return func(string) bool { return true }
	case changed == nil:
		return nil
	}
	return func(name string) bool {
		return slices.ContainsFunc(changed, func(p *loaded[R]) bool { return p.pattern.Matches(name, false) })
	}
}

// split returns those of a that are not in b, and those that are.
func split[R comparable](a, b []*loaded[R]) (missing, there []*loaded[R]) {
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
