package ruleset

import (
	"strconv"

	"github.com/leapgate-go/leapgate/rule"
)

// numbering is how rules without ID get theirs: what the rule is called after, and the
// number that it has among those of a list that are called after the same. It counts when
// it is asked first, since long lists seldom need it.
type numbering struct {
	head func(i int) rule.Head
	next int            // the first rule that is not counted yet
	last map[string]int // number, by what rules are called after
}

// id returns the ID that the i-th rule has if it has none of its own. It is to be asked in
// the order of the rules.
func (n *numbering) id(i int) string {
	if n.last == nil {
		n.last = make(map[string]int)
	}
	for ; n.next <= i; n.next++ {
		n.last[n.head(n.next).Target()]++
	}
	target := n.head(i).Target()
	return target + "/" + strconv.Itoa(n.last[target])
}

// skip makes the next IDs of what the i-th rule is called after one higher.
func (n *numbering) skip(i int) { n.last[n.head(i).Target()]++ }

// Number gives the rules of a list, from the first one on, the IDs that they lack. They are
// numbered among themselves, and leave out the IDs that other rules have. Those that have
// nothing to be called after, which is a fault, get none.
func (k *Kind[R]) Number(rules []R, first int) {
	head := func(i int) rule.Head { return k.Head(&rules[i]) }
	var taken map[string]bool
	n := numbering{head: head, next: first}
	for i := first; i < len(rules); i++ {
		h := head(i)
		if *h.ID != "" || h.Target() == "" {
			continue
		}
		if taken == nil {
			taken = make(map[string]bool, len(rules))
			for j := range rules {
				taken[*head(j).ID] = true
			}
		}
		id := n.id(i)
		for ; taken[id]; id = n.id(i) {
			n.skip(i)
		}
		*h.ID, taken[id] = id, true
	}
}
