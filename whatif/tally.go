package whatif

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/rule"
)

// tally is what a report has of one lane.
type tally struct {
	trial  *trial
	tables *tables

	requests, refused, blocked, retried, recovered, waited int64
	longest                                                time.Duration
	keyless, durations                                     int64
	first, last                                            int64
	minute                                                 worst
	byKey                                                  column[uint32] // requests
	blockedByKey                                           column[uint32]
	rules                                                  []ruleTally
	byRes                                                  [][]*bound    // by the number of the resource
	resources                                              column[int64] // requests
	curves                                                 []*windows
}

// ruleTally is what is counted of one rule.
type ruleTally struct {
	*tried
	index                       int
	requests, blocked, refusals int64
	first, last                 int64 // refusal
	minute                      worst
	byKey                       column[uint32] // refused
	missing                     int64          // requests without a key
	compared                    Exact
	busiest                     int64
	windows                     *histogram // of what was wanted, on all resources
	bounds                      []*bound
}

// bound is a rule on one resource; or a limit, on all.
type bound struct {
	*ruleTally
	local   map[uint32]uint32 // its own numbers of keys; nil: those of all
	wanted  *windows          // nil: nobody asks
	curve   bool              // wanted is that of a curve, which counts the same
	demand  *sliding          // likewise
	exactly *sliding          // nil: it is no such rule
}

// worst finds the minute of the clock with the most.
type worst struct {
	most, mostAt int64
	now, nowAt   int64
}

func (w *worst) add(at int64) {
	const minute = int64(time.Minute)
	if at-w.nowAt >= minute || at < w.nowAt {
		w.now, w.nowAt = 0, at-mod(at, minute)
	}
	if w.now++; w.now > w.most {
		w.most, w.mostAt = w.now, w.nowAt
	}
}

func (w *worst) report() (m Minute) {
	if w.most > 0 {
		m = Minute{time.Unix(0, w.mostAt).UTC(), w.most}
	}
	return m
}

func newTally(t *trial, all *tables, curves []time.Duration) *tally {
	y := &tally{trial: t, tables: all, rules: make([]ruleTally, len(t.all))}
	for _, length := range curves {
		y.curves = append(y.curves, newWindows(int64(length), new(histogram)))
	}
	for i := range t.all {
		y.rules[i].tried, y.rules[i].index, y.rules[i].windows = &t.all[i], i, new(histogram)
		if i < t.limits {
			b := y.newBound(&y.rules[i])
			if at := slices.Index(curves, b.interval); at >= 0 {
				b.wanted, b.curve, b.windows = y.curves[at], true, y.curves[at].closed
			}
		}
	}
	return y
}

func (y *tally) newBound(r *ruleTally) *bound {
	b := &bound{ruleTally: r}
	r.bounds = append(r.bounds, b)
	if !r.rated {
		return b
	}
	b.wanted = newWindows(int64(r.interval), r.windows)
	if r.exact && !y.trial.waits {
		b.exactly = newExact(int64(r.interval))
	}
	if r.perKey && r.many {
		b.local = make(map[uint32]uint32)
	}
	if !r.perKey {
		b.demand = newSliding(int64(r.interval))
	}
	return b
}

// number is the key by which a rule counts a request; false if it does not.
func (b *bound) number(key uint32) (uint32, bool) {
	switch {
	case !b.perKey:
		return 0, true
	case key == noKey:
		return 0, false
	case b.local == nil:
		return key, true
	}
	n, ok := b.local[key]
	if !ok {
		n = uint32(len(b.local))
		b.local[key] = n
	}
	return n, true
}

// bounds returns the rules on a resource, after the limits.
func (y *tally) boundsOf(number uint32, p *place) []*bound {
	if int(number) < len(y.byRes) && y.byRes[number] != nil {
		return y.byRes[number]
	}
	y.byRes = grown(y.byRes, number)
	all := make([]*bound, 0, y.trial.limits+len(p.rules))
	for i := range y.trial.limits {
		all = append(all, y.rules[i].bounds[0])
	}
	for _, r := range p.rules {
		all = append(all, y.newBound(&y.rules[r]))
	}
	y.byRes[number] = all
	return all
}

// comes counts a request that comes for the first time.
func (y *tally) comes(now int64, r *request, p *place) {
	if y.requests == 0 {
		y.first = r.at
	}
	y.requests++
	y.last = max(y.last, r.at)
	y.minute.add(now)
	if r.refused {
		y.refused++
	}
	if r.duration > 0 {
		y.durations++
	}
	if r.key == noKey {
		y.keyless++
	} else {
		*y.byKey.at(r.key)++
		for _, c := range y.curves {
			c.add(now, r.key, r.cost)
		}
	}
	*y.resources.at(r.resource)++
	for _, b := range y.boundsOf(r.resource, p) {
		b.requests++
		if b.wanted == nil {
			continue
		}
		key, ok := b.number(r.key)
		if !ok {
			b.missing++
			continue
		}
		if !b.curve {
			b.wanted.add(now, key, r.cost)
		}
		if b.demand != nil {
			held := b.demand.at(now, key) + r.cost
			b.demand.add(now, key, r.cost)
			b.busiest = max(b.busiest, held)
		}
	}
}

// decided counts what became of a try, which was the last one if final.
func (y *tally) decided(now int64, c *call, p *place, final bool) {
	if c.tries > 0 {
		y.retried++
	}
	if c.waited > 0 && c.refusedBy == admitted {
		y.waited++
		y.longest = max(y.longest, c.waited)
	}
	if c.refusedBy != admitted {
		y.rules[c.refusedBy].refuse(now, &c.request, final)
		if final {
			y.blocked++
			if c.key != noKey {
				*y.blockedByKey.at(c.key)++
			}
		}
	} else if c.tries > 0 {
		y.recovered++
	}
	for _, r := range c.would {
		y.rules[r].refuse(now, &c.request, final)
	}
	for _, b := range y.boundsOf(c.resource, p) {
		if b.exactly != nil {
			y.compare(now, c, b)
		}
	}
}

func (r *ruleTally) refuse(now int64, of *request, final bool) {
	if r.refusals == 0 {
		r.first = now
	}
	r.refusals++
	r.last = now
	r.minute.add(now)
	if final {
		r.blocked++
	}
	if of.key != noKey {
		*r.byKey.at(of.key)++
	}
}

// compare asks an exact count what the rule was asked.
func (y *tally) compare(now int64, c *call, b *bound) {
	blocked := c.refusedBy == b.index || slices.Contains(c.would, b.index)
	if b.mode == rule.Off || c.refusedBy != admitted && !blocked {
		return // another one refused it, and this one got back what it took
	}
	key, ok := b.number(c.key)
	if !ok {
		return
	}
	threshold := math.Floor(b.threshold)
	if len(b.plans) > 0 {
		if own, ok := b.plans[y.tables.keys.text(c.key)]; ok {
			threshold = float64(own)
		}
	}
	beyond := threshold >= 0 && float64(b.exactly.at(now, key)+c.cost) > threshold
	switch {
	case !beyond:
		b.exactly.add(now, key, c.cost)
		if blocked {
			b.compared.Stricter++
		}
	case !blocked:
		b.compared.Laxer++
		fallthrough
	default:
		b.compared.Blocked++
	}
}

// top returns the keys of which by counts most.
func (y *tally) top(by, requests, blocked *column[uint32]) []KeyCount {
	const n = most
	top := make([]KeyCount, 0, n+1)
	less := func(count int64, key string, than int64, thanKey string) int {
		return cmp.Or(cmp.Compare(than, count), cmp.Compare(key, thanKey))
	}
	var ranks []int64
	for i, count := range by.all {
		count := int64(*count)
		if count == 0 || len(top) == n && count < ranks[n-1] {
			continue
		}
		key := y.tables.keys.text(i)
		place := 0
		for place < len(top) && less(count, key, ranks[place], top[place].Key) > 0 {
			place++
		}
		top = slices.Insert(top, place, KeyCount{key, int64(requests.get(i)), int64(blocked.get(i))})
		ranks = slices.Insert(ranks, place, count)
		top, ranks = top[:min(n, len(top))], ranks[:min(n, len(ranks))]
	}
	return top
}

// most is how many keys or resources are shown.
const most = 10
