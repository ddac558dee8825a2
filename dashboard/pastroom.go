package dashboard

import (
	"cmp"
	"slices"
	"strings"
)

// idleAfter is for how many seconds a resource must not have been called before another may take its
// room.
const idleAfter = 60

// roomFor reports whether the history of one more resource may begin, which takes so many bytes at
// first. If there is no room, those are forgotten that are idle. The history of a resource that is busy
// is not given up for a new one: nobody would have any for long.
func (p *past) roomFor(bytes int) bool {
	if p.full && !p.forgetIdle() {
		return false
	}
	for p.used+bytes > p.max {
		if !p.forgetIdle() {
			return false
		}
	}
	return true
}

// forgetIdle forgets the resource that is idle for longest, and reports whether there was any.
func (p *past) forgetIdle() bool {
	if p.idle == nil {
		p.idle = []*resourcePast{} // they are sought once in a round
		for _, r := range p.resources {
			if r.rowsPast != nil && r.isIdle(p) {
				p.idle = append(p.idle, r)
			}
		}
		slices.SortFunc(p.idle, byCall)
	}
	for len(p.idle) > 0 {
		r := p.idle[0]
		p.idle = p.idle[1:]
		if r.rowsPast != nil && r.isIdle(p) { // and it was not called meanwhile
			p.forgetOne(r)
			return true
		}
	}
	return false
}

func (r *resourcePast) isIdle(p *past) bool { return r.called <= p.second-idleAfter }

func byCall(a, b *resourcePast) int {
	return cmp.Or(cmp.Compare(a.called, b.called), strings.Compare(a.name, b.name))
}

// forget makes room: a sixteenth of it at once, so that it is not sought every second. Those that are
// idle are forgotten first, and then those whose history is the shortest.
func (p *past) forget() {
	enough := p.max - p.max/16
	for p.used > enough && p.forgetIdle() {
	}
	if p.used <= enough {
		return
	}
	p.full = true
	var busy []*resourcePast
	for _, r := range p.resources {
		if r.rowsPast != nil {
			busy = append(busy, r)
		}
	}
	slices.SortFunc(busy, func(a, b *resourcePast) int {
		return cmp.Or(cmp.Compare(b.began, a.began), strings.Compare(b.name, a.name))
	})
	for _, r := range busy {
		if p.used <= enough {
			return
		}
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
