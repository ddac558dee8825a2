package dashboard

import (
	"cmp"
	"slices"
	"strings"
)

// idleAfter is for how many seconds a resource must not have been called before another may take its
// room.
const idleAfter = 60

// roomFor reports whether the history of one more resource may begin, which takes this many bytes at first.
// A busy resource does not lose its history to a new one: nobody would have any for long.
func (p *past) roomFor(bytes int) bool { return !p.full && p.used+bytes <= p.max }

func (r *resourcePast) isIdle(p *past) bool { return r.called <= p.second-idleAfter }

// makeRoom forgets histories of idle resources if room for others runs short, and then the shortest ones if all
// together take too much. It frees more than is needed now, so that this does not happen every second.
func (p *past) makeRoom() {
	over := p.used > p.max
	if p.used <= p.max/16*15 && !p.full {
		return
	}
	var some []*resourcePast
	for _, r := range p.resources {
		if r.rowsPast != nil && (over || r.isIdle(p)) {
			some = append(some, r)
		}
	}
	slices.SortFunc(some, func(a, b *resourcePast) int {
		if a.isIdle(p) || b.isIdle(p) {
			return cmp.Or(cmp.Compare(a.called, b.called), strings.Compare(a.name, b.name))
		}
		return cmp.Or(cmp.Compare(b.began, a.began), strings.Compare(b.name, a.name))
	})
	for _, r := range some {
		busy := !r.isIdle(p)
		if p.used <= p.max/8*7 || busy && p.used <= p.max/16*15 {
			return
		}
		p.full = busy
		p.forgetOne(r)
	}
}

// lost returns how many resources have lost their history for want of room.
func (p *past) lost() int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forgotten
}

func (p *past) forgetOne(r *resourcePast) {
	p.drop(r)
	p.forgotten++
}

// measure takes what the rows of a resource take now.
func (p *past) measure(r *resourcePast) {
	bytes := r.size()
	p.used += bytes - r.bytes
	r.bytes = bytes
}

// drop gives up the rows of a resource, if it has any.
func (p *past) drop(r *resourcePast) {
	if r.rowsPast != nil {
		p.used -= r.bytes
		r.rowsPast = nil
	}
}

// beginAnew gives up all rows, and goes on from here.
func (p *past) beginAnew() {
	for _, r := range p.resources {
		p.drop(r)
		r.called = 0
	}
}

// forgetRules gives up the rows of rules that are gone for an hour, and, if there are many, of those that
// went first.
func (r *rowsPast) forgetRules(p *past) {
	var gone []ruleKey
	for key, rule := range r.rules {
		if rule.round != p.round {
			rule.hour.Until(p.second)
			gone = append(gone, key)
		}
	}
	slices.SortFunc(gone, func(a, b ruleKey) int {
		return cmp.Or(cmp.Compare(r.rules[b].round, r.rules[a].round), strings.Compare(a.id, b.id))
	})
	for i, key := range gone {
		if i >= maxGoneRules || r.rules[key].round < p.round-hourSeconds {
			delete(r.rules, key)
		}
	}
}
