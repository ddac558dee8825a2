package ruleset

import (
	"slices"

	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/pattern"
	"github.com/leapgate-go/leapgate/resource"
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
//
// What the lists have in common at both ends is only compared. This is how long lists with
// few changes are reloaded.
func (s *Set[R]) Prepare(given []R) (load func() names.Set, faults rule.Faults) {
	n := min(len(given), len(s.rules))
	first, same := 0, 0
	for first < n && given[first] == s.rules[first].given {
		first++
	}
	if first == max(len(given), len(s.rules)) {
		return func() names.Set { return names.Set{} }, nil
	}
	for same < n-first && given[len(given)-1-same] == s.rules[len(s.rules)-1-same].given {
		same++
	}
	d := s.differ(given, first, same)
	if !d.complete() { // a fault may concern rules at the ends, too
		d = s.differ(given, 0, 0)
		d.complete()
	}
	if d.report.faults != nil {
		return nil, d.report.faults
	}
	return d.load, nil
}

// difference is what one load changes: the rules that stand between those at both ends
// that stay as they are.
type difference[R comparable] struct {
	*Set[R]
	given  []R          // all
	before []*loaded[R] // the rules that were there
	after  []change[R]  // the rules that come in their place
	first  int          // the index of both
	report Report

	numbers map[string]int   // of rules so far that are called after it; nil if IDs do not depend on it
	room    []R              // for rules; see newRule
	claimed []int32          // by which of the given rules each of before is claimed, + 1
	fresh   map[string]int32 // ID → index of the given rules that have no old one

	touched  []*target[R]
	patterns bool // there are other patterns, or in another order
}

// roomFor is how many rules are allocated at once.
const roomFor = 16

// change is what becomes of one of the given rules.
type change[R comparable] struct {
	old     *loaded[R] // of the same ID; nil if there is none
	rule    *R         // complete
	id      string
	check   resource.Check
	pattern *pattern.Pattern
	shared  any
}

// differ returns the difference between the rules and the given ones, of which so many
// stay at both ends. It may be that fewer stay at the second: a rule without an ID of its own
// gets another one if more or fewer rules before it are called after the same.
func (s *Set[R]) differ(given []R, first, same int) *difference[R] {
	target := func(r *R) string { return s.kind.Head(r).Target() }
	unnamed := func(r *R) bool { return *s.kind.Head(r).ID == "" }
	before, after := s.rules[first:len(s.rules)-same], given[first:len(given)-same]
	more := make(map[string]int) // how many more rules are called after it
	for i := range max(len(before), len(after)) {
		if i < min(len(before), len(after)) && target(&before[i].given) == target(&after[i]) {
			continue
		}
		if same == 0 && len(more) > 0 { // nothing comes after them
			break
		}
		if i < len(before) {
			more[target(&before[i].given)]--
		}
		if i < len(after) {
			more[target(&after[i])]++
		}
	}
	if len(more) > 0 {
		for i, l := range slices.Backward(s.rules[len(s.rules)-same:]) {
			if unnamed(&l.given) && more[target(&l.given)] != 0 {
				same -= i + 1
				break
			}
		}
	}
	d := &difference[R]{Set: s, given: given, first: first, before: s.rules[first : len(s.rules)-same]}
	d.after = make([]change[R], len(given)-same-first)
	d.claimed = make([]int32, len(d.before))
	for i := range d.after {
		if unnamed(&given[first+i]) && (len(more) > 0 || !unnamed(&d.before[i].given)) {
			d.numbers = make(map[string]int, len(d.after))
			for _, l := range s.rules[:first] {
				d.numbers[target(&l.given)]++
			}
			break
		}
	}
	d.report = Report{kind: s.kind.Name, names: s.names}
	for _, p := range s.patterns {
		d.report.size += p.pattern.Size()
	}
	for _, l := range d.before {
		if l.pattern != nil {
			d.report.size -= l.pattern.Size()
		}
	}
	return d
}

// complete completes the rules that come. It is false if there is a fault.
func (d *difference[R]) complete() bool {
	for i := range d.after {
		d.completeOne(i)
	}
	return d.report.faults == nil
}

func (d *difference[R]) completeOne(i int) {
	given, c := &d.given[d.first+i], &d.after[i]
	var beside *loaded[R] // the rule that was at this place
	if i < len(d.before) {
		beside = d.before[i]
	}
	if d.numbers == nil && beside != nil && *given == beside.given {
		*c = change[R]{beside, beside.rule, beside.id, beside.check, beside.pattern, beside.shared}
		if c.pattern != nil {
			d.report.size += c.pattern.Size()
		}
		h := d.kind.Head(given)
		d.report.at(d.first+i, *h.ID, *h.Resource)
		d.claim(i)
		return
	}
	c.rule = d.newRule()
	*c.rule = *given
	h := d.kind.Head(c.rule)
	d.report.at(d.first+i, *h.ID, *h.Resource)
	d.report.head(h)
	d.kind.Complete(c.rule, &d.report)
	d.report.mode(*h.Mode)
	c.pattern = d.report.pattern
	if d.numbers != nil {
		d.numbers[h.Target()]++
	}
	switch {
	case *h.ID != "":
	case d.numbers != nil:
		*h.ID = idOf(h, d.numbers[h.Target()])
	default: // as many as before are called after the same
		*h.ID = beside.id
	}
	if c.id = *h.ID; beside != nil && beside.id == c.id {
		c.old = beside
	} else {
		c.old = d.byID[c.id]
	}
	d.claim(i)
}

// newRule returns room for a rule. Many are allocated at once, which is most of what each
// costs, but not all: a rule keeps those beside it in memory.
func (d *difference[R]) newRule() *R {
	if len(d.room) == 0 {
		d.room = make([]R, min(roomFor, len(d.after)))
	}
	r := &d.room[0]
	d.room = d.room[1:]
	return r
}

// claim claims the ID of a rule that comes, unless another rule has it.
func (d *difference[R]) claim(i int) {
	c := &d.after[i]
	index := int32(d.first + i)
	if c.old == nil {
		if other, taken := d.fresh[c.id]; taken {
			d.report.duplicate(c.id, int(other))
		}
		if d.fresh == nil {
			d.fresh = make(map[string]int32, len(d.after))
		}
		d.fresh[c.id] = index
		return
	}
	place := c.old.index - d.first
	if place < 0 || place >= len(d.claimed) { // it stays
		d.report.duplicate(c.id, c.old.index)
		return
	}
	if other := d.claimed[place]; other > 0 {
		d.report.duplicate(c.id, int(other-1))
	}
	d.claimed[place] = index + 1
}

// load makes the checks of the rules that come, and puts the rules in their places.
func (d *difference[R]) load() names.Set {
	for i := range d.after {
		c := &d.after[i]
		d.share(c)
		if c.pattern != nil {
			continue
		}
		var old resource.Check
		if c.old != nil {
			if old = c.old.check; old != nil && (c.rule == c.old.rule || *c.rule == *c.old.rule) {
				c.check = old
				continue
			}
		}
		c.check = d.compile(c.rule, *d.kind.Head(c.rule).Resource, old, c.shared)
	}
	d.touched = make([]*target[R], 0, len(d.after))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, l := range d.before {
		if d.claimed[i] == 0 {
			delete(d.byID, l.id)
			d.put(l, nil)
			d.read(d.reads(l.rule), -1)
			d.patterns = d.patterns || l.pattern != nil
		}
	}
	rules := make([]*loaded[R], len(d.after))
	for i := range d.after {
		rules[i] = d.apply(i)
	}
	end := d.first + len(d.before)
	if len(d.given) != len(d.rules) {
		for i, l := range d.rules[end:] {
			l.index = d.first + len(d.after) + i
		}
	}
	d.rules = slices.Replace(d.rules, d.first, end, rules...)
	return d.settle()
}

// share makes what the resources of a rule that comes have in common.
func (d *difference[R]) share(c *change[R]) {
	switch {
	case d.kind.Share == nil:
	case c.old == nil:
		c.shared = d.kind.Share(&d.env, c.rule, nil)
	case c.rule == c.old.rule || *c.rule == *c.old.rule:
		c.shared = c.old.shared
	default:
		c.shared = d.kind.Share(&d.env, c.rule, c.old.shared)
	}
}

// apply puts the i-th of the rules that come in its place.
func (d *difference[R]) apply(i int) *loaded[R] {
	c, index := &d.after[i], d.first+i
	l := c.old
	if l == nil {
		l = new(loaded[R])
		d.byID[c.id] = l
	}
	if l.rule == c.rule && l.index == index {
		return l
	}
	d.patterns = d.patterns || l.pattern != nil || c.pattern != nil
	was, is := "", d.reads(c.rule)
	if l.rule != nil {
		was = d.reads(l.rule)
	}
	if was != is {
		d.read(was, -1)
		d.read(is, 1)
	}
	changed := l.check != c.check
	l.given, l.rule, l.id, l.index = d.given[index], c.rule, c.id, index
	l.check, l.pattern, l.shared = c.check, c.pattern, c.shared
	switch name := *d.kind.Head(c.rule).Resource; {
	case c.pattern != nil:
		d.put(l, nil)
	case l.on != nil && l.on.name == name:
		d.touch(l.on, changed)
	default:
		d.put(l, d.targetAt(name))
	}
	return l
}

// put makes a rule name a resource, or none.
func (d *difference[R]) put(l *loaded[R], on *target[R]) {
	if l.on != nil {
		d.touch(l.on, true)
	}
	if l.on = on; on != nil {
		on.rules = append(on.rules, l)
		d.touch(on, true)
	}
}

// read notes how many rules more read a resource.
func (d *difference[R]) read(name string, more int) {
	if name != "" {
		on := d.targetAt(name)
		d.touch(on, on.readers == 0 || on.readers+more == 0)
		on.readers += more
	}
}

func (d *difference[R]) reads(r *R) string {
	if d.kind.Reads == nil {
		return ""
	}
	return d.kind.Reads(r)
}

func (d *difference[R]) targetAt(name string) *target[R] {
	on := d.at[name]
	if on == nil {
		on = &target[R]{name: name}
		d.at[name] = on
	}
	return on
}

func (d *difference[R]) touch(on *target[R], changed bool) {
	if !on.touched {
		on.touched = true
		d.touched = append(d.touched, on)
	}
	on.changed = on.changed || changed
}

// settle brings the rules of each resource into order, and returns which have changed.
func (d *difference[R]) settle() (changed names.Set) {
	for _, on := range d.touched {
		on.rules = slices.DeleteFunc(on.rules, func(l *loaded[R]) bool { return l.on != on })
		byIndex := func(a, b *loaded[R]) int { return a.index - b.index }
		if !slices.IsSortedFunc(on.rules, byIndex) {
			slices.SortFunc(on.rules, byIndex)
			on.changed = true
		}
		if on.changed {
			if changed.Names == nil { // for all, or none if all checks go on as they are
				changed.Names = make([]string, 0, len(d.touched))
			}
			changed.Names = append(changed.Names, on.name)
		}
		if len(on.rules) == 0 && on.readers == 0 {
			delete(d.at, on.name)
		}
		on.touched, on.changed = false, false
	}
	if d.patterns {
		var patterns []patterned[R]
		for _, l := range d.rules {
			if l.pattern != nil {
				patterns = append(patterns, patterned[R]{l.rule, l.id, l.pattern, l.shared})
			}
		}
		changed.Matching = matching(d.Set.patterns, patterns)
		d.Set.patterns = patterns
	}
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
