// Package names is a look-up table from names to values, read without a lock
// by any number of goroutines while one at a time changes it.
//
// It is a hash table of a fixed number of chains. Its owner bounds what it
// holds, and so how long the chains get.
package names

import (
	"hash/maphash"
	"math/bits"

	"go.uber.org/atomic"
)

// Table maps names to values of type *V. Make one with [New].
type Table[V any] struct {
	seed   maphash.Seed // random: nobody outside can aim at one chain
	chains []atomic.Pointer[node[V]]
}

// node is one link of a chain. Only next changes. A node that was taken out
// keeps its next, for readers that still stand on it.
type node[V any] struct {
	hash  uint64
	name  string
	value *V
	next  atomic.Pointer[node[V]]
}

// New makes a table for about size names.
func New[V any](size int) *Table[V] {
	chains := 1 << bits.Len(uint(max(1, size)-1))
	return &Table[V]{seed: maphash.MakeSeed(), chains: make([]atomic.Pointer[node[V]], chains)}
}

// Get gives the value of name, nil if it has none. It takes no lock.
func (t *Table[V]) Get(name string) *V {
	hash := maphash.String(t.seed, name)
	for n := t.chain(hash).Load(); n != nil; n = n.next.Load() {
		if n.hash == hash && n.name == name {
			return n.value
		}
	}
	return nil
}

// Put adds a name that is not in the table. Put and Delete must not run at the
// same time.
func (t *Table[V]) Put(name string, value *V) {
	n := &node[V]{hash: maphash.String(t.seed, name), name: name, value: value}
	chain := t.chain(n.hash)
	n.next.Store(chain.Load())
	chain.Store(n)
}

// Delete takes a name out, if it is in the table.
func (t *Table[V]) Delete(name string) {
	hash := maphash.String(t.seed, name)
	link := t.chain(hash)
	for n := link.Load(); n != nil; n = link.Load() {
		if n.hash == hash && n.name == name {
			link.Store(n.next.Load())
			return
		}
		link = &n.next
	}
}

func (t *Table[V]) chain(hash uint64) *atomic.Pointer[node[V]] {
	return &t.chains[hash&uint64(len(t.chains)-1)]
}
