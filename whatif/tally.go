package whatif

import "time"

// tally holds the counts of the report.
type tally struct {
	requests, refused, keyless, durations, clipped int64
	blocked, waited                                int64
	longest                                        time.Duration
	first, last                                    int64 // times in the log
	minute                                         busiestMinute
	keys                                           names
	byKey                                          []keyCount // by number; the first has no key
	places                                         []*place
	manyResources                                  bool
	rules                                          []ruleTally
	curves                                         []*windows
}

type keyCount struct{ requests, blocked int64 }

// names numbers keys from 0.
type names struct {
	all  []string
	ids  map[string]uint32
	full bool
}

func (n *names) number(s string) uint32 {
	id, ok := n.ids[s]
	if ok {
		return id
	}
	if len(n.all) > maxKeys && s != others {
		n.full = true
		return n.number(others)
	}
	id = uint32(len(n.all))
	n.ids[s] = id
	n.all = append(n.all, s)
	return id
}

// ruleTally counts for one rule.
type ruleTally struct {
	*tried
	requests, blocked, missing int64 // missing: requests without a key
	first, last                int64 // blocked
	minute                     busiestMinute
	byKey                      map[uint32]int64 // blocked
	bounds                     []*bound
}

// bound is a rule on one resource, or a limit on all resources.
type bound struct {
	*ruleTally
	demand *windows // nil if the rule does not limit a rate
}

// busiestMinute finds the minute of the clock with the most events.
type busiestMinute struct {
	most, mostAt int64
	count, at    int64
}

func (m *busiestMinute) add(now int64) {
	if at := now - now%int64(time.Minute); at != m.at {
		m.count, m.at = 0, at
	}
	if m.count++; m.count > m.most {
		m.most, m.mostAt = m.count, m.at
	}
}

func (m *busiestMinute) report() (of Minute) {
	if m.most > 0 {
		of = Minute{timeOf(m.mostAt), m.most}
	}
	return of
}

func newTally(t *trial, curves []time.Duration) *tally {
	y := &tally{keys: names{ids: make(map[string]uint32)}, rules: make([]ruleTally, len(t.all))}
	y.keys.number("")
	for _, length := range curves {
		y.curves = append(y.curves, newWindows(length))
	}
	for i := range t.all {
		y.rules[i].tried, y.rules[i].byKey = &t.all[i], make(map[uint32]int64)
		if i < t.limits {
			y.rules[i].newBound()
		}
	}
	return y
}

func (r *ruleTally) newBound() *bound {
	b := &bound{ruleTally: r}
	if r.rated {
		b.demand = newWindows(r.interval)
	}
	r.bounds = append(r.bounds, b)
	return b
}

// arrives counts a request.
func (y *tally) arrives(now int64, c *call) {
	y.requests++
	y.minute.add(now)
	if c.refused {
		y.refused++
	}
	if c.duration > 0 {
		y.durations++
	}
	for int(c.key) >= len(y.byKey) {
		y.byKey = append(y.byKey, keyCount{})
	}
	y.byKey[c.key].requests++
	if c.key == noKey {
		y.keyless++
	} else {
		for _, w := range y.curves {
			w.add(now, c.key, c.cost)
		}
	}
	c.place.requests++
	for _, b := range c.place.bounds {
		b.requests++
		switch {
		case b.demand == nil:
		case !b.perKey:
			b.demand.add(now, 0, c.cost)
		case c.key == noKey:
			b.missing++
		default:
			b.demand.add(now, c.key, c.cost)
		}
	}
}

// decided counts the decision about a request.
func (y *tally) decided(now int64, c *call) {
	if c.blockedBy == admitted {
		if c.waited > 0 {
			y.waited++
			y.longest = max(y.longest, c.waited)
		}
		return
	}
	y.blocked++
	y.byKey[c.key].blocked++
	r := &y.rules[c.blockedBy]
	if r.blocked == 0 {
		r.first = now
	}
	r.blocked++
	r.last = now
	r.minute.add(now)
	if c.key != noKey {
		r.byKey[c.key]++
	}
}
