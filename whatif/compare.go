package whatif

import (
	"cmp"
	"context"
	"slices"

	"github.com/leapgate-go/leapgate/rule"
)

// Comparison shows which keys would have more or fewer blocked requests with other rules.
type Comparison struct {
	Before *Report `json:"before"`
	After  *Report `json:"after"`

	// The numbers of requests that only one set of rules would have blocked, or both.
	OnlyBefore int64 `json:"onlyBefore"`
	OnlyAfter  int64 `json:"onlyAfter"`
	Both       int64 `json:"both"`

	// The numbers of keys with fewer and with more blocked requests after, and the ten of each with the largest change.
	Better     int         `json:"better"`
	Worse      int         `json:"worse"`
	MostBetter []KeyChange `json:"mostBetter"`
	MostWorse  []KeyChange `json:"mostWorse"`

	// Resources are the ten with the most requests that are decided differently.
	Resources []ResourceChange `json:"resources"`
}

// Notes returns the notes of both reports, each once.
func (c *Comparison) Notes() []string {
	notes := slices.Clone(c.After.Notes)
	for _, note := range c.Before.Notes {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// KeyChange is the change for a key.
type KeyChange struct {
	Key      string `json:"key"` // as in the log: escape it before it is shown
	Requests int64  `json:"requests"`
	Before   int64  `json:"before"` // blocked
	After    int64  `json:"after"`
}

// ResourceChange is the number of requests of a resource that only one set of rules would block.
type ResourceChange struct {
	Resource   string `json:"resource"` // as in the log: escape it before it is shown
	OnlyBefore int64  `json:"onlyBefore"`
	OnlyAfter  int64  `json:"onlyAfter"`
}

// Compare tries two sets of rules on the same requests. The rules of before are in force, so those in mode shadow block
// nothing. Resolution and Windows of after are ignored.
func Compare(ctx context.Context, before, after Config, requests Source) (*Comparison, error) {
	after.Resolution, after.Windows = before.Resolution, before.Windows
	if _, err := newTrial(&after, rule.Enforce); err != nil {
		return nil, err
	}
	var blocked []bool // before, by number
	old, err := simulate(ctx, &before, rule.Off, requests, func(c *call) {
		for int64(len(blocked)) <= c.number {
			blocked = append(blocked, false)
		}
		blocked[c.number] = c.blockedBy != admitted
	})
	if err != nil {
		return nil, err
	}
	c := new(Comparison)
	changes := make(map[string]*ResourceChange)
	now, err := simulate(ctx, &after, rule.Enforce, requests, func(decided *call) {
		before, after := blocked[decided.number], decided.blockedBy != admitted
		if before == after {
			if after {
				c.Both++
			}
			return
		}
		change := changes[decided.place.name]
		if change == nil {
			change = &ResourceChange{Resource: decided.place.name}
			changes[change.Resource] = change
		}
		if before {
			c.OnlyBefore++
			change.OnlyBefore++
		} else {
			c.OnlyAfter++
			change.OnlyAfter++
		}
	})
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		c.Resources = ranked(c.Resources, *change, func(a, b ResourceChange) int {
			return cmp.Or(cmp.Compare(b.OnlyBefore+b.OnlyAfter, a.OnlyBefore+a.OnlyAfter), cmp.Compare(a.Resource, b.Resource))
		})
	}
	c.compareKeys(old.tally, now.tally)
	c.Before, c.After = old.report(&before), now.report(&after)
	return c, nil
}

// compareKeys compares the counts of keys, which have the same numbers in both tallies.
func (c *Comparison) compareKeys(before, after *tally) {
	for i, k := range before.byKey {
		change := KeyChange{before.keys.all[i], k.requests, k.blocked, after.byKey[i].blocked}
		difference := change.After - change.Before
		list, n := &c.MostWorse, &c.Worse
		if difference < 0 {
			list, n = &c.MostBetter, &c.Better
		}
		if i != noKey && difference != 0 {
			*n++
			*list = ranked(*list, change, func(a, b KeyChange) int {
				return cmp.Or(cmp.Compare(max(b.After-b.Before, b.Before-b.After), max(a.After-a.Before, a.Before-a.After)), cmp.Compare(a.Key, b.Key))
			})
		}
	}
}
