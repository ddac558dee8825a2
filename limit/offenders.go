package limit

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// Offender is a key that was refused often.
type Offender struct {
	Key string // as the client sent it: escape it before it is shown

	// Refused is how often it was refused, at most. It was refused
	// Refused − Excess times for certain. A key that was tracked from its
	// first refusal has an Excess of 0.
	Refused, Excess int64
}

// offenders finds the keys that are refused most, in bounded memory: the Space-Saving
// algorithm (Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent and Top-k
// Elements in Data Streams", ICDT 2005). It keeps so many counts; a key that has none
// takes over the smallest, and what that was is its excess. A key that was refused more
// often than all refusals / counts of its part has one for certain.
//
// By the hash of the key it is cut into parts with a lock each, so that refusals on many
// processors do not queue. No key is in two parts, so the parts need no merging.
type offenders struct {
	seed  maphash.Seed
	parts []saving
}

type saving struct {
	mu    sync.Mutex // guards what is below
	most  int
	heap  []Offender     // the least Refused first
	where map[string]int // in heap

	_ [64]byte
}

const (
	savings   = 8  // parts, if there are enough counts
	minSaving = 16 // counts in a part; with fewer, chance fills one and not the others
)

func newOffenders(counts int) *offenders {
	parts := max(1, min(savings, counts/minSaving))
	o := &offenders{seed: maphash.MakeSeed(), parts: make([]saving, parts)}
	for i := range o.parts {
		o.parts[i].most = (counts + parts - 1) / parts
	}
	o.forget()
	return o
}

// note counts a refusal.
func (o *offenders) note(key string) {
	p := &o.parts[0]
	if len(o.parts) > 1 {
		p = &o.parts[maphash.String(o.seed, key)%uint64(len(o.parts))]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.where[key]; ok {
		p.heap[i].Refused++
		p.sink(i)
		return
	}
	p.take(strings.Clone(key)) // a substring would pin a request's buffer
}

// take makes a count for a key: a new one, or the smallest.
func (p *saving) take(key string) {
	if len(p.heap) < p.most {
		// It goes to the end and rises to the top: nothing is less than 1.
		i := len(p.heap)
		p.heap = append(p.heap, Offender{Key: key, Refused: 1})
		p.where[key] = i
		for ; i > 0; i = (i - 1) / 2 {
			p.swap(i, (i-1)/2)
		}
		return
	}
	least := &p.heap[0]
	delete(p.where, least.Key)
	*least = Offender{Key: key, Refused: least.Refused + 1, Excess: least.Refused}
	p.where[key] = 0
	p.sink(0)
}

// sink puts the count at i, which has grown, where it belongs.
func (p *saving) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(p.heap) {
			return
		}
		if right := child + 1; right < len(p.heap) && p.heap[right].Refused < p.heap[child].Refused {
			child = right
		}
		if p.heap[i].Refused <= p.heap[child].Refused {
			return
		}
		p.swap(i, child)
		i = child
	}
}

func (p *saving) swap(i, j int) {
	p.heap[i], p.heap[j] = p.heap[j], p.heap[i]
	p.where[p.heap[i].Key], p.where[p.heap[j].Key] = i, j
}

// top returns the k keys with the largest counts. Of equal ones, that with the smaller
// excess goes first, then by name.
func (o *offenders) top(k int) []Offender {
	var all []Offender
	for i := range o.parts {
		all = o.parts[i].appendTo(all)
	}
	slices.SortFunc(all, func(a, b Offender) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Excess, b.Excess), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), max(0, k))]
}

func (o *offenders) forget() {
	for i := range o.parts {
		o.parts[i].forget()
	}
}

func (p *saving) appendTo(all []Offender) []Offender {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(all, p.heap...)
}

func (p *saving) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heap, p.where = nil, make(map[string]int)
}
