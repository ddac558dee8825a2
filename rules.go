package leapgate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
)

// LoadFlowRules replaces the flow rules, all or none: with a fault in any of them
// the error is a [flow.RuleErrors] that tells all faults, and the rules stay as they
// were. Nil clears them. Rules that did not change keep their windows; so do those
// of which only the threshold or the mode did. Rules are told by their IDs, so give
// IDs to those that you reload. Calls in flight end as they began. Rules that have a
// Source are replaced as well: beside a rule file, use [Gate.SetFlowRules].
func (g *Gate) LoadFlowRules(rules []flow.Rule) error {
	return g.load(func() (resource.Changes, error) { return g.flow.Load(rules) })
}

// FlowRules gives copies of the flow rules, with their IDs and defaults filled in.
func (g *Gate) FlowRules() []flow.Rule { return g.flow.Rules() }

// SetFlowRules replaces the flow rules that name one resource exactly, but for those
// that have a Source; the others stay. Nil clears them. The Resource of the given
// rules may be left empty; those without ID are numbered as by LoadFlowRules, but leave
// out what those have that stay. In the error, the index of a rule counts those that stay
// before it. What goes for LoadFlowRules goes for this.
func (g *Gate) SetFlowRules(name string, rules []flow.Rule) error {
	return setRules(g, g.flow, name, rules, ofFlow)
}

// LoadIsolationRules replaces the rules on calls in flight, all or none: with a fault
// in any of them the error is an [isolation.RuleErrors] that tells all faults, and the
// rules stay as they were. Nil clears them. Calls in flight keep their places and give
// them back when they end; a rule that has the ID it had goes on with them, unless it had a
// pattern and has a name now. Calls that queue for a place go on doing so if their rule is
// removed, turned off or put in mode shadow: they get those that calls in flight give back.
func (g *Gate) LoadIsolationRules(rules []isolation.Rule) error {
	return g.load(func() (resource.Changes, error) { return g.isolation.Load(rules) })
}

// IsolationRules gives copies of the rules on calls in flight, with their IDs filled in.
func (g *Gate) IsolationRules() []isolation.Rule { return g.isolation.Rules() }

// SetIsolationRules is [Gate.SetFlowRules] for rules on calls in flight.
func (g *Gate) SetIsolationRules(name string, rules []isolation.Rule) error {
	return setRules(g, g.isolation, name, rules, ofIsolation)
}

// ReplaceRules replaces the rules that have a source, which is not empty, by the given
// ones, and sets theirs to it; the other rules of the gate stay. It is for what keeps
// rules elsewhere, as package rulefile does. All or none are replaced: the error tells
// the faults of both kinds; the index of a rule counts those that stay before it. Rules
// without ID get one as with [Gate.SetFlowRules].
func (g *Gate) ReplaceRules(source string, flowRules []flow.Rule, isolationRules []isolation.Rule) error {
	if source == "" {
		return errors.New("leapgate: the source of rules is empty; want a name")
	}
	return g.EditRules(func(allFlow []flow.Rule, allIsolation []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) {
		return replace(allFlow, flowRules, source, ofFlow), replace(allIsolation, isolationRules, source, ofIsolation), nil
	})
}

// EditRules replaces the flow rules and those on calls in flight by what edit makes of
// them. It gets copies, with IDs and defaults filled in, and no other load comes between: what
// edit has seen is what is replaced. So it must not load rules itself, and should be quick.
// With an error of edit nothing changes, and that is the error. All or none are replaced:
// otherwise the error tells the faults of both kinds. Rules without ID are numbered as by
// [Gate.LoadFlowRules], but leave out what others have; it is written into the lists that
// edit gave.
func (g *Gate) EditRules(edit func([]flow.Rule, []isolation.Rule) ([]flow.Rule, []isolation.Rule, error)) error {
	return g.load(func() (changes resource.Changes, err error) {
		allFlow, allIsolation, err := edit(g.flow.Rules(), g.isolation.Rules())
		if err != nil {
			return changes, err
		}
		allFlow, allIsolation = number(allFlow, 0, ofFlow), number(allIsolation, 0, ofIsolation)
		if err := errors.Join(g.flow.Check(allFlow), g.isolation.Check(allIsolation)); err != nil {
			return changes, err
		}
		first, err := g.flow.Load(allFlow)
		if err != nil {
			return changes, err
		}
		second, err := g.isolation.Load(allIsolation)
		return first.And(second), err
	})
}

// common is what rules of all kinds have.
type common struct {
	id, resource *string
	match        resource.Match
	source       *string
}

func ofFlow(r *flow.Rule) common           { return common{&r.ID, &r.Resource, r.Match, &r.Source} }
func ofIsolation(r *isolation.Rule) common { return common{&r.ID, &r.Resource, r.Match, &r.Source} }

// replace gives the rules that do not have a source, and then the given ones, which
// get it.
func replace[R any](rules, given []R, source string, of func(*R) common) []R {
	rules = slices.DeleteFunc(rules, func(r R) bool { return *of(&r).source == source })
	given = slices.Clone(given)
	for i := range given {
		*of(&given[i]).source = source
	}
	return join(rules, given, of)
}

// join gives the rules that stay, which have their IDs, and the given ones after them, which
// are numbered among themselves.
func join[R any](stay, given []R, of func(*R) common) []R {
	return number(append(stay, given...), len(stay), of)
}

// number gives the rules without ID, from first on, the numbers that they have among these,
// or if such a one is taken, by a rule that was numbered in another list, the next that is
// free. The list is changed.
func number[R any](all []R, first int, of func(*R) common) []R {
	taken := make(map[string]bool, len(all))
	for i := range all {
		taken[*of(&all[i]).id] = true
	}
	last := make(map[string]int) // number, by resource
	for i := first; i < len(all); i++ {
		r := of(&all[i])
		name := *r.resource
		if r.match == resource.Default {
			name = "*"
		}
		last[name]++
		for *r.id == "" && name != "" { // without a name it is refused anyway
			if id := name + "/" + strconv.Itoa(last[name]); !taken[id] {
				*r.id = id
			} else {
				last[name]++
			}
		}
	}
	return all
}

// setRules replaces the rules of a guard that name one resource.
func setRules[R any](g *Gate, guard interface {
	Kind() string
	Rules() []R
	Load(rules []R) (resource.Changes, error)
}, name string, given []R, of func(*R) common,
) error {
	if err := resource.CheckName(name); err != nil {
		return err
	}
	given = slices.Clone(given)
	return g.load(func() (resource.Changes, error) {
		stay := slices.DeleteFunc(guard.Rules(), func(r R) bool {
			c := of(&r)
			return *c.resource == name && c.match == resource.Exact && *c.source == ""
		})
		var faults resource.RuleErrors
		for i := range given {
			r := of(&given[i])
			if *r.resource == "" {
				*r.resource = name
			}
			fault := func(field string, value any, want string) {
				faults = append(faults, &resource.RuleError{
					Kind: guard.Kind(), Index: len(stay) + i, ID: *r.id, Resource: *r.resource, Field: field, Value: value, Want: want,
				})
			}
			if *r.resource != name {
				fault("Resource", *r.resource, fmt.Sprintf("%q, for which the rules are set, or nothing", name))
			}
			if r.match != resource.Exact {
				fault("Match", r.match, "exact")
			}
			if *r.source != "" {
				fault("Source", *r.source, "nothing")
			}
		}
		if faults != nil {
			return resource.Changes{}, faults
		}
		return guard.Load(join(stay, given, of))
	})
}

// load loads rules, one load at a time, and binds them without a lock: a guard that is
// asked for its checks may load rules.
func (g *Gate) load(rules func() (resource.Changes, error)) error {
	if g.registry.Closed() {
		return ErrClosed
	}
	locked := func() (rebind func(), err error) {
		g.loading.Lock()
		defer g.loading.Unlock()
		changes, err := rules()
		return g.registry.Changed(changes), err
	}
	rebind, err := locked()
	rebind()
	return err
}
