package kinds

import (
	"fmt"
	"strconv"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/rule"
)

// Reach finds rules that need more calls than others on their resource admit.
type Reach struct {
	rules    *Rules // complete
	bounding []*bounding
}

// bounding is the rules of a kind that bound how many calls there are.
type bounding struct {
	kind      Kind
	set       Set
	byID      map[string]int
	byPattern map[pattern][]int
}

type pattern struct {
	match    rule.Match
	resource string
}

// NewReach looks at good rules.
func NewReach(rules *Rules) *Reach {
	r := &Reach{rules: Completed(rules)}
	for _, k := range All {
		b := &bounding{kind: k, byID: map[string]int{}, byPattern: map[pattern][]int{}}
		for i := range k.Len(r.rules) {
			if k.Admits(r.rules, i) == (ruleset.Calls{}) {
				continue
			}
			h := k.Head(r.rules, i)
			b.byID[*h.ID] = i
			if *h.Match == rule.Glob || *h.Match == rule.Regexp {
				p := pattern{*h.Match, *h.Resource}
				b.byPattern[p] = append(b.byPattern[p], i)
			}
		}
		if len(b.byID) == 0 {
			continue
		}
		b.set = k.NewSet(ruleset.Env{})
		if load, faults := b.set.Prepare(r.rules); faults == nil {
			load()
			r.bounding = append(r.bounding, b)
		}
	}
	return r
}

// Warnings says which rules admit fewer calls than a rule needs.
func (r *Reach) Warnings(k Kind, i int) (all []string) {
	need, name := k.Needs(r.rules, i)
	if need == (ruleset.Calls{}) {
		return nil
	}
	for _, b := range r.bounding {
		for _, j := range b.on(k.Head(r.rules, i)) {
			most := b.kind.Admits(r.rules, j)
			if most.Within(need.In) >= need.N {
				continue
			}
			all = append(all, fmt.Sprintf("%s is %s in %s, and %s rule %s admits at most %s in %s; is a longer interval or a smaller %s meant?",
				name, figure(need.N), field.ShortDuration(need.In), b.kind.Name(), escape.Text(*b.kind.Head(r.rules, j).ID),
				figure(most.N), field.ShortDuration(most.In), name))
		}
	}
	return all
}

// on returns the rules that bound the calls of all resources for which another one is. Of
// patterns only those that are the same are known to be for the same resources.
func (b *bounding) on(h field.Head) (indices []int) {
	if *h.Match != rule.Exact {
		return b.byPattern[pattern{*h.Match, *h.Resource}]
	}
	checks, _ := b.set.Bind(*h.Resource, nil)
	for _, c := range checks {
		if j, bounds := b.byID[c.Cause().RuleID]; bounds {
			indices = append(indices, j)
		}
	}
	return indices
}

func figure(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
