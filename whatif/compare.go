package whatif

import (
	"cmp"
	"context"
	"slices"
)

// Comparison is who would be better or worse off with other rules.
type Comparison struct {
	Before *Report `json:"before"`
	After  *Report `json:"after"`

	// How many requests only one of them would have blocked, or both.
	OnlyBefore int64 `json:"onlyBefore"`
	OnlyAfter  int64 `json:"onlyAfter"`
	Both       int64 `json:"both"`

	// How many keys would have fewer requests blocked with the rules after, and how many
	// more; and the ten of each for whom it changes most, most first.
	Better     int         `json:"better"`
	Worse      int         `json:"worse"`
	MostBetter []KeyChange `json:"mostBetter"`
	MostWorse  []KeyChange `json:"mostWorse"`

	// Resources are the ten for which most requests are decided otherwise, most first.
	Resources []ResourceChange `json:"resources"`
}

// Notes are those of both reports, each once.
func (c *Comparison) Notes() []string {
	notes := slices.Clone(c.After.Notes)
	for _, note := range c.Before.Notes {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// KeyChange is a key and how many of its requests would be blocked.
type KeyChange struct {
	Key      string `json:"key"` // as the log has it: escape it before it is shown
	Requests int64  `json:"requests"`
	Before   int64  `json:"before"`
	After    int64  `json:"after"`
}

// ResourceChange is a resource and how many of its requests only one set of rules would block.
type ResourceChange struct {
	Resource   string `json:"resource"` // as the log has it: escape it before it is shown
	OnlyBefore int64  `json:"onlyBefore"`
	OnlyAfter  int64  `json:"onlyAfter"`
}

// Compare tries two sets of rules on the same requests. It takes the terms from before: of
// after only Rules, Limits and Arg matter.
func Compare(ctx context.Context, before, after Config, requests Source) (*Comparison, error) {
	pair := &pairing{open: make(map[int64]verdict)}
	sides, err := replay(ctx, requests, pair, &before, &after)
	if err != nil {
		return nil, err
	}
	c := &pair.comparison
	c.Before, c.After = sides[0].report(&before), sides[1].report(&before)
	c.compareKeys(sides[0].tally, sides[1].tally)
	for number, change := range pair.byRes {
		if change != (ResourceChange{}) {
			change.Resource = sides[0].tally.tables.resources.text(uint32(number))
			c.Resources = append(c.Resources, change)
		}
	}
	slices.SortFunc(c.Resources, func(a, b ResourceChange) int {
		return cmp.Or(cmp.Compare(b.OnlyBefore+b.OnlyAfter, a.OnlyBefore+a.OnlyAfter), cmp.Compare(a.Resource, b.Resource))
	})
	c.Resources = c.Resources[:min(len(c.Resources), most)]
	return c, nil
}

func (c *Comparison) compareKeys(before, after *tally) {
	for i, requests := range before.byKey.all {
		k := KeyChange{Requests: int64(*requests), Before: int64(before.blockedByKey.get(i)), After: int64(after.blockedByKey.get(i))}
		if k.Before == k.After {
			continue
		}
		k.Key = before.tables.keys.text(i)
		if k.After < k.Before {
			c.Better++
			c.MostBetter = ranked(c.MostBetter, k)
		} else {
			c.Worse++
			c.MostWorse = ranked(c.MostWorse, k)
		}
	}
}

// ranked puts a key among those for which it changes most.
func ranked(all []KeyChange, k KeyChange) []KeyChange {
	at, _ := slices.BinarySearchFunc(all, k, func(a, b KeyChange) int {
		return cmp.Or(cmp.Compare(abs(b.After-b.Before), abs(a.After-a.Before)), cmp.Compare(a.Key, b.Key))
	})
	all = slices.Insert(all, at, k)
	return all[:min(len(all), most)]
}

func abs(n int64) int64 { return max(n, -n) }

// verdict is what one side made of a request, while the other has not decided.
type verdict struct {
	side    int
	blocked bool
}

// pairing brings together what both sides make of each request.
type pairing struct {
	comparison Comparison
	open       map[int64]verdict // by the number of the request
	byRes      []ResourceChange  // without names
}

// side returns what is to be told of what one side decides.
func (p *pairing) side(side int) func(*call) {
	return func(c *call) {
		blocked := c.refusedBy != admitted
		other, ok := p.open[c.number]
		if !ok {
			p.open[c.number] = verdict{side, blocked}
			return
		}
		delete(p.open, c.number)
		if blocked && other.blocked {
			p.comparison.Both++
		}
		if blocked == other.blocked {
			return
		}
		p.byRes = grown(p.byRes, c.resource)
		if change := &p.byRes[c.resource]; blocked == (side == 0) {
			change.OnlyBefore++
			p.comparison.OnlyBefore++
		} else {
			change.OnlyAfter++
			p.comparison.OnlyAfter++
		}
	}
}
