// Package names says what names of resources may be, and has a look-up table from names to
// values, read without a lock by any number of goroutines while one at a time changes it.
package names

import (
	"hash/maphash"
	"math/bits"

	"go.uber.org/atomic"
)

// Table maps names to values of type *V: a hash table of chains. Make one with [New].
type Table[V any] struct {
	seed   maphash.Seed // random: nobody outside can aim at one chain
	chains atomic.Pointer[[]atomic.Pointer[node[V]]]
	size   int // for Put and Delete only
}

// node is one link of a chain. Only next changes. A node that was taken out
// keeps its next, for readers that still stand on it.
type node[V any] struct {
	hash  uint64
	name  string
	value *V
	next  atomic.Pointer[node[V]]
}

// New makes a table with room for about size names.
func New[V any](size int) *Table[V] {
	t := &Table[V]{seed: maphash.MakeSeed()}
	chains := make([]atomic.Pointer[node[V]], 1<<bits.Len(uint(max(1, size)-1)))
	t.chains.Store(&chains)
	return t
}

// Get returns the value of name, nil if it has none. It takes no lock.
func (t *Table[V]) Get(name string) *V {
	hash := maphash.String(t.seed, name)
	for n := chainOf(*t.chains.Load(), hash).Load(); n != nil; n = n.next.Load() {
		if n.hash == hash && n.name == name {
			return n.value
		}
	}
	return nil
}

// Put adds a name that is not in the table. Put and Delete must not run at the
// same time.
func (t *Table[V]) Put(name string, value *V) {
	if t.size == 2*len(*t.chains.Load()) {
		t.grow()
	}
	t.size++
	push(*t.chains.Load(), &node[V]{hash: maphash.String(t.seed, name), name: name, value: value})
}

// Delete takes a name out, if it is in the table.
func (t *Table[V]) Delete(name string) {
	hash := maphash.String(t.seed, name)
	link := chainOf(*t.chains.Load(), hash)
	for n := link.Load(); n != nil; n = link.Load() {
		if n.hash == hash && n.name == name {
			link.Store(n.next.Load())
			t.size--
			return
		}
		link = &n.next
	}
}

// grow makes a table of more chains, with nodes of its own: readers may still be
// on the old ones.
func (t *Table[V]) grow() {
	old := *t.chains.Load()
	chains := make([]atomic.Pointer[node[V]], 4*len(old))
	for i := range old {
		for n := old[i].Load(); n != nil; n = n.next.Load() {
			push(chains, &node[V]{hash: n.hash, name: n.name, value: n.value})
		}
	}
	t.chains.Store(&chains)
}

func push[V any](chains []atomic.Pointer[node[V]], n *node[V]) {
	c := chainOf(chains, n.hash)
	n.next.Store(c.Load())
	c.Store(n)
}

func chainOf[V any](chains []atomic.Pointer[node[V]], hash uint64) *atomic.Pointer[node[V]] {
	return &chains[hash&uint64(len(chains)-1)]
}
