package ruleset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/rule"
)

// naive is a set that does every load from scratch.
type naive struct {
	rules       []limited // complete
	controllers []*controller
}

// load tells what a load of given must do: the faults, or for each rule the
// controller that it keeps, nil if it gets a new one, and the resources that change.
func (m *naive) load(given []limited) (next naive, old []*controller, faults []string) {
	count := make(map[string]int)
	owner := make(map[string]int)
	for i, r := range given {
		report := Report{kind: "test"}
		report.at(i, r.ID, r.Resource)
		if r.Resource == "" {
			report.Fault("Resource", r.Resource, "a name of 1 to 1024 bytes")
		}
		complete(&r, &report)
		count[r.Resource]++
		if r.ID == "" {
			r.ID = fmt.Sprintf("%s/%d", r.Resource, count[r.Resource])
		}
		if j, taken := owner[r.ID]; taken {
			report.Fault("ID", r.ID, fmt.Sprintf("one that is not the ID of rule %d", j))
		}
		owner[r.ID] = i
		for _, f := range report.faults {
			faults = append(faults, f.Error())
		}
		next.rules = append(next.rules, r)

		var was, keeps *controller
		if j := slices.IndexFunc(m.rules, func(o limited) bool { return o.ID == r.ID }); j >= 0 {
			if was = m.controllers[j]; m.rules[j] == r {
				keeps = was
			}
		}
		old = append(old, was)
		next.controllers = append(next.controllers, keeps)
	}
	return next, old, faults
}

// of returns the controllers of every resource that has any.
func (m *naive) of() map[string][]*controller {
	all := make(map[string][]*controller)
	for i, r := range m.rules {
		all[r.Resource] = append(all[r.Resource], m.controllers[i])
	}
	return all
}

func drawRule(t *rapid.T) limited {
	return limited{
		ID:       rapid.SampledFrom([]string{"", "", "", "", "x", "y", "a/1", "b/2"}).Draw(t, "id"),
		Resource: rapid.SampledFrom([]string{"a", "a", "b", "c", "d", "a", "b", "c", "d", ""}).Draw(t, "resource"),
		Limit:    rapid.SampledFrom([]int{0, 1, 2, 0, 1, 2, 0, 1, 2, -1}).Draw(t, "limit"),
		Size:     rapid.SampledFrom([]int{0, 5, 3, 0, 5, 3, 0, 5, 3, 10}).Draw(t, "size"),
	}
}

// edit changes a list in place, as its owner would before the next load.
func edit(t *rapid.T, list []limited) []limited {
	if len(list) == 0 || rapid.IntRange(0, 9).Draw(t, "anew") == 0 {
		return rapid.SliceOfN(rapid.Custom(drawRule), 0, 6).Draw(t, "list")
	}
	i := rapid.IntRange(0, len(list)-1).Draw(t, "at")
	j := rapid.IntRange(0, len(list)-1).Draw(t, "other")
	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0:
		return list
	case 1:
		return slices.Insert(list, i, drawRule(t))
	case 2:
		return slices.Delete(list, i, i+1)
	case 3:
		list[i], list[j] = list[j], list[i]
	case 4:
		list[i] = drawRule(t)
	default: // the shape stays
		r := drawRule(t)
		list[i].Limit, list[j].Size = r.Limit, r.Size
	}
	return list
}

// The short way, for a list of the same shape, and the long way return the same as
// doing all from scratch.
func TestSet_AgreesWithLoadingFromScratch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, model := newSet(), naive{}
		var list, last []limited
		for range rapid.IntRange(1, 15).Draw(t, "loads") {
			if before := slices.Clone(list); rapid.IntRange(0, 4).Draw(t, "back") == 0 {
				list, last = last, before
			} else {
				list, last = edit(t, list), before
			}
			next, old, faults := model.load(list)
			changes, err := s.load(list)
			changed := changes.Names
			if len(faults) > 0 {
				if err == nil {
					t.Fatalf("%+v loaded with faults %q", list, faults)
				}
				var got []string
				var all rule.Faults
				if !errors.As(err, &all) {
					t.Fatalf("%v is no rule.Faults", err)
				}
				for _, f := range all {
					got = append(got, f.Error())
				}
				if !slices.Equal(got, faults) || changed != nil {
					t.Fatalf("faults %q and changes %q, want %q and none", got, changed, faults)
				}
			} else {
				if err != nil {
					t.Fatalf("%+v: %v", list, err)
				}
				// What was compiled anew is only known now.
				seen := make(map[string]int)
				for i, r := range next.rules {
					k := seen[r.Resource]
					seen[r.Resource]++
					if next.controllers[i] != nil {
						continue
					}
					got := of(s, r.Resource)
					if len(got) <= k {
						t.Fatalf("%q has %d controllers, want more", r.Resource, len(got))
					}
					if got[k] == old[i] || got[k].rule != r || got[k].old != old[i] || got[k].had != (old[i] != nil) {
						t.Fatalf("%+v has controller %+v, want a new one in place of %+v", r, got[k], old[i])
					}
					next.controllers[i] = got[k]
				}
				var want []string
				before, after := model.of(), next.of()
				for resource := range maps.Keys(after) {
					if !slices.Equal(before[resource], after[resource]) {
						want = append(want, resource)
					}
				}
				for resource := range maps.Keys(before) {
					if after[resource] == nil {
						want = append(want, resource)
					}
				}
				slices.Sort(changed)
				slices.Sort(want)
				if !slices.Equal(changed, want) {
					t.Fatalf("%q changed, want %q", changed, want)
				}
				model = next
			}
			if got := s.Rules(); !slices.Equal(got, model.rules) {
				t.Fatalf("rules %+v, want %+v", got, model.rules)
			}
			for _, resource := range []string{"a", "b", "c", "d", ""} {
				want := model.of()[resource]
				if got := of(s, resource); !slices.Equal(got, want) {
					t.Fatalf("%q has controllers %v, want %v", resource, got, want)
				}
			}
		}
	})
}
