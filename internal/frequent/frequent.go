// Package frequent finds the keys that come most often, in bounded memory.
//
// The algorithm is Filtered Space-Saving (Homem, Carvalho: "Finding top-k elements in data streams", Information
// Sciences 180, 2010). It keeps so many counts. Keys that have none are counted in cells, many keys to a cell. One
// whose cell comes to more than the smallest count takes that over: it may have been all that the cell holds, so what
// others can have had of it is its excess. What loses its count leaves it in its cell.
//
// A key that comes more often than all keys / counts has a count for certain, and no excess is more than that,
// as with Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005). The cells keep most of those out that come
// seldom, which need neither a lock nor memory then.
package frequent

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// Keys are the counts of the keys that come most often. Make them with [New]. All methods may be
// called by any number of goroutines at once.
type Keys struct {
	table *keys.Table[count]
	cells []atomic.Int64 // by the hash of the key; a power of two

	// least is what a cell must exceed for its key to have a count: the smallest of them, or
	// one that it was; 0 while there are counts to be had.
	least atomic.Int64
	// changes is odd while a key gets a count or loses it, and then one more. A caller that found no
	// count, and the same even number before and after, has added to a cell that was not taken over
	// meanwhile.
	changes atomic.Uint64

	mu   sync.Mutex // guards what is below, and the changes of the table
	heap []ranked   // the least seen first
	most int
}

// count is how often a key came.
type count struct {
	n      atomic.Int64 // at most; below 0: the key has lost its count
	excess int64        // how much of n may have been others; guarded by Keys.mu
}

type node = keys.Node[count]

// ranked is a node, and a count that it had: now it may be larger.
type ranked struct {
	node *node
	seen int64
}

const (
	lost         = math.MinInt64 / 2
	cellsPerNode = 8
)

// New makes so many counts: 1 or more.
func New(counts int) *Keys {
	k := &Keys{most: counts, cells: make([]atomic.Int64, 1<<bits.Len(uint(counts*cellsPerNode-1)))}
	k.table = keys.New(counts, false, keys.Rules[count]{
		Init:    func(node *node, _, n int64) { node.Value.n.Store(n) },
		Inspect: func(*node, int64) (warmth uint64, expired bool) { return 0, false },
		Kill:    func(*node, int64, bool) bool { return true }, // it was, by replaceLeast
	})
	return k
}

// Count counts n more of a key, of at most [keys.MaxLength] bytes. It takes a lock only if the key gets
// a count, or another does at the same time. It keeps a copy of the key.
func (k *Keys) Count(key string, n int64) {
	changes := k.changes.Load()
	hash := k.table.Hash(key)
	if node := k.table.Find(hash, key); node != nil && node.Value.n.Add(n) > 0 {
		return
	}
	k.countOther(changes, hash, key, n)
}

// countOther counts a key that had no count a moment ago.
func (k *Keys) countOther(changes, hash uint64, key string, n int64) {
	inCell := false
	if least := k.least.Load(); least > 0 && changes&1 == 0 {
		inCell = true
		if k.cellOf(hash).Add(n) <= least && k.changes.Load() == changes {
			return
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if node := k.table.Find(hash, key); node != nil {
		if inCell { // and the node may have begun with it
			node.Value.excess += n
		}
		node.Value.n.Add(n)
		return
	}
	if len(k.heap) < k.most {
		k.add(hash, key, n, 0)
		return
	}
	cell := k.cellOf(hash)
	if !inCell || k.changes.Load() != changes { // it may have been lost when the cell was taken over
		cell.Add(n)
	}
	if cell.Load() > k.refreshLeast() {
		cell.Add(-n)
		k.changes.Add(1)
		k.dropLeast()
		others := cell.Load()
		k.add(hash, key, others+n, others)
		k.changes.Add(1)
	}
}

func (k *Keys) cellOf(hash uint64) *atomic.Int64 { return &k.cells[hash>>8&uint64(len(k.cells)-1)] }

// add adds a key that has no count. There is room for it.
func (k *Keys) add(hash uint64, key string, n, excess int64) {
	node, _, _ := k.table.FindOrMake(hash, key, 0, n)
	node.Value.excess = excess
	i := len(k.heap)
	k.heap = append(k.heap, ranked{node, n})
	for ; i > 0 && k.heap[i].seen < k.heap[(i-1)/2].seen; i = (i - 1) / 2 {
		k.heap[i], k.heap[(i-1)/2] = k.heap[(i-1)/2], k.heap[i]
	}
	if len(k.heap) == k.most {
		k.refreshLeast()
	}
}

// refreshLeast returns the smallest count. Counts only grow, so it is the first of the heap if
// that has not.
func (k *Keys) refreshLeast() int64 {
	for {
		first := &k.heap[0]
		n := first.node.Value.n.Load()
		if n == first.seen {
			k.least.Store(n)
			return n
		}
		first.seen = n
		k.sink()
	}
}

// dropLeast takes the smallest count from its key. The cell of the key holds it before, so that
// nobody counts where it is missing.
func (k *Keys) dropLeast() {
	for {
		n := k.refreshLeast()
		least := k.heap[0].node
		hash := k.table.Hash(least.Key())
		raise(k.cellOf(hash), n)
		if !least.Value.n.CompareAndSwap(n, lost) {
			continue // it came once more
		}
		k.table.Delete(hash, least.Key())
		last := len(k.heap) - 1
		k.heap[0] = k.heap[last]
		k.heap = k.heap[:last]
		k.sink()
		return
	}
}

func raise(cell *atomic.Int64, to int64) {
	for n := cell.Load(); n < to && !cell.CompareAndSwap(n, to); n = cell.Load() {
	}
}

// sink puts the first of the heap, which may be larger than others, where it belongs.
func (k *Keys) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(k.heap) {
			return
		}
		if right := child + 1; right < len(k.heap) && k.heap[right].seen < k.heap[child].seen {
			child = right
		}
		if k.heap[i].seen <= k.heap[child].seen {
			return
		}
		k.heap[i], k.heap[child] = k.heap[child], k.heap[i]
		i = child
	}
}

// Key is a key, and how often it came: Count − Excess times for certain, and Count at most.
type Key struct {
	Key           string
	Count, Excess int64
}

// Top returns the keys with the largest counts, at most that many. Of equal ones, that with the
// smaller excess goes first, then by name.
func (k *Keys) Top(most int) []Key {
	all := k.counted()
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Excess, b.Excess), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), max(0, most))]
}

func (k *Keys) counted() []Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]Key, len(k.heap))
	for i, r := range k.heap {
		n := r.node.Value.n.Load()
		all[i] = Key{r.node.Key(), n, min(n, r.node.Value.excess)}
	}
	return all
}
