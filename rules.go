package leapgate

import (
	"errors"

	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

// Rules is a list of rules of each kind. It is a plain value.
type Rules struct {
	Flow      []flow.Rule
	Isolation []isolation.Rule
	Breaker   []breaker.Rule
	Param     []param.Rule
	System    []system.Rule
}

// Len is how many rules there are.
func (r Rules) Len() (n int) {
	list := kinds.Rules(r)
	for _, k := range kinds.All {
		n += k.Len(&list)
	}
	return n
}

// Validate returns everything that is wrong with the rules, as loading them would: nil, or
// a [rule.Faults] with those of all kinds.
func (r Rules) Validate() error {
	list := kinds.Rules(r)
	var faults rule.Faults
	for _, k := range kinds.All {
		faults = append(faults, k.Validate(&list)...)
	}
	return orNil(faults)
}

// LoadRules replaces the rules of all kinds, all or none: with a fault in any of them the
// error is a [rule.Faults] that has all faults, and the rules stay as they were. The zero
// Rules clears them.
//
// A rule that did not change keeps what it has counted; so does one of which only the
// threshold or the mode did. Rules are known by their IDs, so give IDs to those that you
// reload. A threshold that is changed alone holds at once, and the rest of the load a little later,
// resource by resource. Calls in flight end as they began: they give back what they hold to where it came
// from. Calls that wait do so under the rule that they came under, at most its MaxWait, also if
// it is gone or no longer blocks; a larger limit lets them in at once, and a higher threshold at its
// pace. Each pattern is tried on each resource that there is: with thousands of both that takes seconds,
// in which no other rules are loaded, and calls go on. Rules that have a Source are replaced as well:
// beside a rule file, use [Gate.EditRules] or [Gate.ReplaceRules].
func (g *Gate) LoadRules(rules Rules) error {
	return g.load(func() (*kinds.Rules, error) { return (*kinds.Rules)(&rules), nil }, "")
}

// Rules returns copies of the rules of all kinds, with their IDs and defaults filled in.
func (g *Gate) Rules() Rules { return Rules(g.rules()) }

func (g *Gate) rules() (rules kinds.Rules) {
	for _, s := range g.sets {
		s.Rules(&rules)
	}
	return rules
}

// EditRules replaces the rules by what edit makes of them. It gets copies, with IDs and
// defaults filled in, and no other load comes between: what edit has seen is what is replaced.
// So it must not load rules itself, nor in a Config.OnChange that calls of its own bring about,
// and should be quick. With an error of edit nothing changes, and that is the error. All or
// none are replaced, as by [Gate.LoadRules]. Rules without ID are given one there, before they
// are loaded.
func (g *Gate) EditRules(edit func(*Rules) error) error {
	return g.load(func() (*kinds.Rules, error) {
		rules := g.Rules()
		if err := edit(&rules); err != nil {
			return nil, err
		}
		var all kinds.Rules // what edit has put in stays as it is
		for _, k := range kinds.All {
			k.Append(&all, (*kinds.Rules)(&rules))
			k.Number(&all, 0)
		}
		return &all, nil
	}, "")
}

// ReplaceRules replaces the rules that have a source, which is not empty, by the given
// ones, and sets theirs to it; the other rules of the gate stay. It is for what keeps
// rules elsewhere, as package rulefile does. All or none are replaced, as by
// [Gate.LoadRules]; in a fault, the index of a rule counts those that stay before it. Rules
// without ID are numbered among the given ones, and leave out the IDs of those that stay.
func (g *Gate) ReplaceRules(source string, rules Rules) error {
	if source == "" {
		return errors.New("leapgate: the source of rules is empty; want a name")
	}
	return g.load(func() (*kinds.Rules, error) {
		all, given := g.rules(), kinds.Rules(rules)
		for _, k := range kinds.All {
			k.Delete(&all, func(h field.Head) bool { return *h.Source == source })
			stay := k.Len(&all)
			k.Append(&all, &given)
			for i := stay; i < k.Len(&all); i++ {
				*k.Head(&all, i).Source = source
			}
			k.Number(&all, stay)
		}
		return &all, nil
	}, "")
}

// LoadFlowRules is [Gate.LoadRules] for the commonest kind alone: the rules of other kinds
// stay.
func (g *Gate) LoadFlowRules(rules []flow.Rule) error {
	return g.load(func() (*kinds.Rules, error) { return &kinds.Rules{Flow: rules}, nil }, flow.Kind.Name)
}

// FlowRules returns copies of the flow rules, with their IDs and defaults filled in.
func (g *Gate) FlowRules() []flow.Rule {
	var rules kinds.Rules
	for _, s := range g.sets {
		if s.Kind() == flow.Kind.Name {
			s.Rules(&rules)
		}
	}
	return rules.Flow
}

// load replaces the rules of all kinds, or of only one, by those that wanted returns: one
// load at a time, and all or none. It binds them without a lock: a guard that is asked for
// its checks may load rules.
func (g *Gate) load(wanted func() (*kinds.Rules, error), only string) error {
	if g.registry.Closed() {
		return ErrClosed
	}
	rebind, err := g.replace(wanted, only)
	rebind()
	return err
}

func (g *Gate) replace(wanted func() (*kinds.Rules, error), only string) (rebind func(), err error) {
	g.loading.Lock()
	defer g.loading.Unlock()
	var changes names.Set
	var loads []func() names.Set
	var faults rule.Faults
	rules, err := wanted()
	if err == nil {
		for _, s := range g.sets {
			if only == "" || only == s.Kind() {
				load, bad := s.Prepare(rules)
				loads, faults = append(loads, load), append(faults, bad...)
			}
		}
		err = orNil(faults)
	}
	if err == nil {
		for _, load := range loads {
			changes = changes.And(load())
		}
	}
	return g.registry.Changed(changes), err
}

// orNil is the faults as an error, which is nil if there are none.
func orNil(faults rule.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return faults
}
