package ruleset

import (
	"strconv"

	"github.com/leapgate-go/leapgate/internal/field"
)

// idOf is the ID of a rule that has none of its own: what it is called after, and its
// number among the rules of a list that are called after the same.
func idOf(h field.Head, number int) string { return h.Target() + "/" + strconv.Itoa(number) }

// Number sets the IDs that the rules of a list lack, from the first one on. They are
// numbered among themselves, and leave out the IDs that other rules have. Those that have
// nothing to be called after, which is a fault, get none.
func (k *Kind[R]) Number(rules []R, first int) {
	head := func(i int) field.Head { return k.Head(&rules[i]) }
	var taken map[string]bool
	numbers := make(map[string]int)
	for i := first; i < len(rules); i++ {
		h := head(i)
		numbers[h.Target()]++
		if *h.ID != "" || h.Target() == "" {
			continue
		}
		if taken == nil {
			taken = make(map[string]bool, len(rules))
			for j := range rules {
				taken[*head(j).ID] = true
			}
		}
		id := idOf(h, numbers[h.Target()])
		for taken[id] {
			numbers[h.Target()]++
			id = idOf(h, numbers[h.Target()])
		}
		*h.ID, taken[id] = id, true
	}
}
