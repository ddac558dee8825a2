package resource

import "github.com/leapgate-go/leapgate/internal/names"

// rememberedResource is what is remembered of a resource that was evicted before its rules had
// forgotten what it used: its checks. If the resource comes again, its checks keep
// their windows, queues and warmth. So eviction refunds nothing. A resource without rules is
// remembered as well, until it would have been idle: its name does not count as a new one
// then. It does not change, except for its index.
type rememberedResource struct {
	name   string
	checks *checks
	bound  uint32         // the generation of the rules that checks are of
	former []*formerCheck // of checks, in their order
	used   int64          // calls that passed
	until  int64          // when nothing is left to be remembered
	index  int            // in the list
}

// minRemembered is how many there may be even if there are fewer places.
const minRemembered = 1000

// rememberedResources are all of them, max at most. The registry's lock guards them, but
// looking one up takes none.
type rememberedResources struct {
	table *names.Table[rememberedResource]
	list  []*rememberedResource
	hand  int // goes round the list in search of one to forget
	max   int

	forgotten, forgottenCalls int64
}

func newRemembered(places int) rememberedResources {
	return rememberedResources{table: names.New[rememberedResource](1), max: max(places, minRemembered)}
}

// add remembers a resource. It looks at a few others, and drops those whose rules have
// forgotten everything by now. If there are still too many, it forgets the least used of
// those few, which refunds least: an attacker who wants one forgotten has to use as much
// on other names, many times.
func (g *rememberedResources) add(one *rememberedResource, now int64) {
	least := one
	for step := 0; step < handSteps && step < len(g.list); step++ {
		g.hand = (g.hand + 1) % len(g.list)
		switch other := g.list[g.hand]; {
		case other.until <= now:
			g.drop(other)
		case other.used <= least.used:
			least = other
		}
	}
	if len(g.list) >= g.max {
		if least.checks != nil && least.checks.longest > 0 {
			g.forgotten++
			g.forgottenCalls += least.used
		}
		if least == one {
			return
		}
		g.drop(least)
	}
	one.index = len(g.list)
	g.list = append(g.list, one)
	g.table.Put(one.name, one)
}

// drop takes a resource out.
func (g *rememberedResources) drop(one *rememberedResource) {
	g.table.Delete(one.name)
	last := len(g.list) - 1
	g.list[one.index] = g.list[last]
	g.list[one.index].index = one.index
	g.list[last] = nil
	g.list = g.list[:last]
}
