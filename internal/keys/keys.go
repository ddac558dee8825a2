// Package keys is the store of the keyed limiters: a bounded table from keys to
// small values that is read without a lock.
//
// A table is cut into shards by the hash of the key. A shard has an array of
// lines; a line fills one cache line with eight bytes of tags and seven pointers to
// nodes, and a node has its key in it. So a look-up touches a line and a node,
// besides what is mostly in the cache. A look-up takes no lock; adding or taking
// out a key locks its shard. A shard never holds more than a few
// hundred keys on average, so that no call ever pays for the growth of a large table.
//
// What bounds the table is a number of keys. Nothing sweeps in the background: a
// hand goes round each shard, a few nodes with every new key. It takes out what has
// expired, and if the table is full and the caller wants that, the coldest of those
// it looked at.
//
// A node is never taken out from under a caller. The goroutine that takes it out first makes
// its value dead, by the same atomic word or lock by which callers change it. A
// caller that finds a value dead has changed nothing, and asks the table again.
package keys

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Rules say what a table must know of its values. The functions run under the lock
// of a shard and must not call the table.
type Rules[V any] struct {
	// Init makes a new node, which no other goroutine knows. n is from the caller of
	// [Table.FindOrMake]; now is its time, or a later one: see there.
	Init func(node *Node[V], now, n int64)
	// Inspect reports whether a node may go because it no longer matters at now, and
	// returns how warm it is: if one that matters must go, it is the coldest.
	Inspect func(node *Node[V], now int64) (warmth uint64, expired bool)
	// Kill makes a node dead, for good. With force it always does; else only if it
	// is still expired at now. It reports whether it did.
	Kill func(node *Node[V], now int64, force bool) bool
	// Keep reports whether a key always has room, beyond the bound of the table if there is
	// none within, and is never evicted. Nil: no key.
	Keep func(key string) bool
}

// Table maps keys to nodes. Make one with [New].
type Table[V any] struct {
	seed  maphash.Seed // random: nobody outside can aim at one line
	shift uint         // the hash without it is the shard
	// heads has the lines of each shard: nil before the first key, and replaced under its
	// lock. They lie together, and not in the shards, so that they stay in the cache.
	heads []atomic.Pointer[lines[V]]

	shards []shard
	rules  Rules[V]
	max    int64
	evict  bool

	_       [64]byte // what changes has lines of its own
	size    atomic.Int64
	expired atomic.Int64
	evicted atomic.Int64
	freed   atomic.Uint64 // the shard that Free has come to
	_       [64]byte
}

type shard struct {
	mu sync.Mutex // guards what is below, and the changes of the lines

	index   int
	count   int
	hand    int    // the slot that is looked at next
	born    uint32 // how many nodes were made
	horizon int64  // nothing begins before the time at which something expired

	_ [64 - 6*8]byte
}

// lines is the array of a shard: a power of two of them.
type lines[V any] struct{ line []line[V] }

// at is the line of a hash, and those after it.
func (l *lines[V]) at(i uint64) *line[V] { return &l.line[i&uint64(len(l.line)-1)] }

const (
	slots     = 7  // nodes in a line
	fullShard = 80 // % of its slots that a shard fills before it grows
	sweep     = 2  // nodes that the hand looks at with each new key
	search    = 8  // the same when the table is full
	perShard  = 512
	maxShards = 1 << 16
)

// line is one cache line. Only the holder of the shard's lock writes.
//
// A slot is filled by storing first the node and then the tag, and emptied the
// other way round. A reader that has an old tag finds no node or another one, and
// compares the key.
type line[V any] struct {
	// tags has a byte of the hash for each slot, 0 if it is empty.
	//
	//	63    56  55 …  0
	//	passed by   tags
	//
	// The top byte counts the keys that belong here and found no empty slot, up to 255,
	// where it stays: only if it is not 0 need a reader look at the next line.
	// (Folly's F14 table does it so.)
	tags  atomic.Uint64
	nodes [slots]atomic.Pointer[Node[V]]
}

const (
	passedBy    = 1 << 56
	passedByMax = 255
	lowBits     = 0x0001010101010101
	highBits    = 0x0080808080808080
)

// New makes a table of at most so many keys. If it is full, a new key replaces
// one that has expired or, with evict, of one that has not.
func New[V any](most int, evict bool, rules Rules[V]) *Table[V] {
	count := 1
	for count < maxShards && most/count > perShard {
		count *= 2
	}
	t := &Table[V]{
		seed:   maphash.MakeSeed(),
		shift:  64 - uint(bits.Len(uint(count-1))),
		heads:  make([]atomic.Pointer[lines[V]], count),
		shards: make([]shard, count),
		rules:  rules,
		max:    int64(most),
		evict:  evict,
	}
	for i := range t.shards {
		t.shards[i].index, t.shards[i].horizon = i, math.MinInt64
	}
	return t
}

// Hash is what the other methods want to know of a key.
func (t *Table[V]) Hash(key string) uint64 { return maphash.String(t.seed, key) }

func (t *Table[V]) shardOf(hash uint64) *shard { return &t.shards[hash>>t.shift] }

func (t *Table[V]) linesOf(s *shard) *lines[V] { return t.heads[s.index].Load() }

// tagOf is a byte of the hash, not 0, that neither chooses the shard nor the line.
func tagOf(hash uint64) uint64 { return max(1, hash>>32&0xff) }

// matches has the top bit of each byte set in which tags has this tag. It may have
// more, where the byte before it matches.
func matches(tags, tag uint64) uint64 {
	x := tags ^ tag*lowBits
	return (x - lowBits) &^ x & highBits
}

// Find returns the node of a key, nil if there is none. It takes no lock. The node
// may be dead at any time.
func (t *Table[V]) Find(hash uint64, key string) *Node[V] {
	all := t.heads[hash>>t.shift].Load()
	if all == nil {
		return nil
	}
	tag := tagOf(hash)
	for i := range all.line {
		line := all.at(hash + uint64(i))
		tags := line.tags.Load()
		for found := matches(tags, tag); found != 0; found &= found - 1 {
			if n := line.nodes[bits.TrailingZeros64(found)/8].Load(); n != nil && n.Key() == key {
				return n
			}
		}
		if tags < passedBy {
			break
		}
	}
	return nil
}

// Lock locks what belongs to a hash: no key of it comes or goes meanwhile.
func (t *Table[V]) Lock(hash uint64) *sync.Mutex {
	mu := &t.shardOf(hash).mu
	mu.Lock()
	return mu
}

// FindOrMake returns the node of a key, which is made with n if there is none. It is nil
// if there is no room for it.
//
// What has expired at some time is forgotten. So that a caller with an older now does
// not begin in the time that was forgotten, a new node begins at the latest time at
// which anything in its shard expired, if that is later than now: begun, if made.
func (t *Table[V]) FindOrMake(hash uint64, key string, now, n int64) (node *Node[V], begun int64, made bool) {
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if node := t.Find(hash, key); node != nil { // under the lock, it is not dead
		return node, 0, false
	}
	if !t.makeRoom(s, now) {
		if !t.keeps(key) {
			return nil, 0, false
		}
		t.size.Add(1)
	}
	s.born++
	node = NewNode[V](key, s.born)
	begun = max(now, s.horizon)
	t.rules.Init(node, begun, n)
	t.put(s, hash, node)
	return node, begun, true
}

// Delete takes a key out, expired or not. It reports whether there was one.
func (t *Table[V]) Delete(hash uint64, key string) bool {
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	node := t.Find(hash, key)
	if node == nil {
		return false
	}
	t.rules.Kill(node, 0, true)
	t.remove(s, hash, node)
	t.size.Add(-1)
	return true
}

// Sweep takes out all that has expired at now. It locks one shard after the other.
func (t *Table[V]) Sweep(now int64) {
	for i := range t.shards {
		t.sweepShard(&t.shards[i], now)
	}
}

// Free takes out what has expired at now, one shard after the other from where it last
// stopped, until there is room for a new key. It reports whether there is.
func (t *Table[V]) Free(now int64) bool {
	for range t.shards {
		if t.size.Load() < t.max {
			return true
		}
		t.sweepShard(&t.shards[t.freed.Add(1)%uint64(len(t.shards))], now)
	}
	return t.size.Load() < t.max
}

func (t *Table[V]) sweepShard(s *shard, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := t.linesOf(s); all != nil {
		t.look(s, now, slots*len(all.line), len(all.line))
		t.shrink(s)
	}
}

// Room reports whether there is room for a new key of that hash at now, which may be in the
// future. It changes nothing.
func (t *Table[V]) Room(hash uint64, now int64) bool {
	if t.evict || t.size.Load() < t.max {
		return true
	}
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	hand, all := s.hand, t.linesOf(s)
	expired := int64(0)
	for nodes, lines := min(sweep+search, s.count), 0; nodes > 0 && lines <= sweep+2*search; {
		node := t.next(s, all, &lines)
		if node == nil {
			continue
		}
		nodes--
		if _, gone := t.rules.Inspect(node, now); gone {
			expired++
		}
	}
	s.hand = hand
	return t.size.Load()-expired < t.max
}

// SweepFew takes out what has expired among a few keys of the shard of that hash.
func (t *Table[V]) SweepFew(hash uint64, now int64) {
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.look(s, now, search, 2*search)
}

// Len is the number of keys.
func (t *Table[V]) Len() int { return int(t.size.Load()) }

// Max is how many keys there may be.
func (t *Table[V]) Max() int { return int(t.max) }

// Expired is how many keys were taken out because they no longer mattered.
func (t *Table[V]) Expired() int64 { return t.expired.Load() }

// Evicted is how many keys were taken out although they mattered.
func (t *Table[V]) Evicted() int64 { return t.evicted.Load() }

// makeRoom reserves room for one more key in s, whose lock is held.
func (t *Table[V]) makeRoom(s *shard, now int64) bool {
	t.look(s, now, sweep, sweep)
	if t.reserve() {
		return true
	}
	coldest := t.look(s, now, search, 2*search)
	if t.reserve() {
		return true
	}
	if !t.evict {
		return false
	}
	if coldest == nil { // the hand met none among many empty lines
		if all := t.linesOf(s); all != nil {
			coldest = t.look(s, now, search, len(all.line))
		}
	}
	// A shard without any key, in a table that is full, does not happen: there are
	// hundreds to a shard by then. If it does, or all are kept, there is no room.
	if coldest == nil {
		return t.reserve()
	}
	// The room goes from one to the other: given back, another shard could take it.
	t.rules.Kill(coldest, now, true)
	t.remove(s, t.Hash(coldest.Key()), coldest)
	t.evicted.Add(1)
	return true
}

func (t *Table[V]) keeps(key string) bool { return t.rules.Keep != nil && t.rules.Keep(key) }

// reserve counts one more key, if there may be one.
func (t *Table[V]) reserve() bool {
	for n := t.size.Load(); n < t.max; n = t.size.Load() {
		if t.size.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// look moves the hand over so many nodes, but over no more than so many lines, and
// takes out those that have expired. It returns the coldest of the others.
func (t *Table[V]) look(s *shard, now int64, nodes, most int) (coldest *Node[V]) {
	all := t.linesOf(s)
	if all == nil {
		return nil
	}
	nodes = min(nodes, s.count)
	least := uint64(math.MaxUint64)
	for visited := 0; nodes > 0 && visited <= most; {
		node := t.next(s, all, &visited)
		if node == nil {
			continue
		}
		nodes--
		warmth, expired := t.rules.Inspect(node, now)
		switch {
		case expired && t.rules.Kill(node, now, false):
			t.remove(s, t.Hash(node.Key()), node)
			t.size.Add(-1)
			t.expired.Add(1)
			s.horizon = max(s.horizon, now)
		case (coldest == nil || warmth < least) && !t.keeps(node.Key()):
			coldest, least = node, warmth
		}
	}
	return coldest
}

// next moves the hand of s over one slot and returns its node, nil if the slot is empty. It counts
// the lines that the hand leaves.
func (t *Table[V]) next(s *shard, all *lines[V], left *int) *Node[V] {
	if s.hand >= slots*len(all.line) {
		s.hand = 0
	}
	node := all.line[s.hand/slots].nodes[s.hand%slots].Load()
	if s.hand++; s.hand%slots == 0 {
		*left++
	}
	return node
}

// put adds a node to s, whose lock is held. There is none of its key.
func (t *Table[V]) put(s *shard, hash uint64, node *Node[V]) {
	all := t.linesOf(s)
	if all == nil || (s.count+1)*100 > len(all.line)*slots*fullShard {
		size := 1
		if all != nil {
			size = 2 * len(all.line)
		}
		all = t.rebuild(s, size)
	}
	insert(all, hash, node)
	s.count++
}

// rebuild makes that many lines for s, with all its nodes in them. Readers that are still
// on the old ones find in them what was there.
func (t *Table[V]) rebuild(s *shard, size int) *lines[V] {
	all := &lines[V]{make([]line[V], size)}
	if old := t.linesOf(s); old != nil {
		for i := range old.line {
			for j := range old.line[i].nodes {
				if n := old.line[i].nodes[j].Load(); n != nil {
					insert(all, t.Hash(n.Key()), n)
				}
			}
		}
	}
	s.hand = 0
	t.heads[s.index].Store(all)
	return all
}

// shrink gives back lines that are of no more use.
func (t *Table[V]) shrink(s *shard) {
	size := len(t.linesOf(s).line)
	if s.count == 0 {
		t.heads[s.index].Store(nil)
		s.hand = 0
		return
	}
	for size > 1 && s.count*100 < size/4*slots*fullShard {
		size /= 2
	}
	if size < len(t.linesOf(s).line) {
		t.rebuild(s, size)
	}
}

// insert fills the first empty slot from the home line on. There is one.
func insert[V any](all *lines[V], hash uint64, node *Node[V]) {
	for i := hash; ; i++ {
		line := all.at(i)
		tags := line.tags.Load()
		if empty := matches(tags, 0); empty != 0 {
			slot := bits.TrailingZeros64(empty) / 8
			line.nodes[slot].Store(node)
			line.tags.Store(tags | tagOf(hash)<<(8*slot))
			return
		}
		if tags>>56 < passedByMax {
			line.tags.Store(tags + passedBy)
		}
	}
}

// remove empties the slot of a node of s, whose lock is held.
func (t *Table[V]) remove(s *shard, hash uint64, node *Node[V]) {
	all := t.linesOf(s)
	for i := hash; ; i++ {
		line := all.at(i)
		tags := line.tags.Load()
		for found := matches(tags, tagOf(hash)); found != 0; found &= found - 1 {
			slot := bits.TrailingZeros64(found) / 8
			if line.nodes[slot].Load() == node {
				line.tags.Store(tags &^ (0xff << (8 * slot)))
				line.nodes[slot].Store(nil)
				s.count--
				return
			}
		}
		if tags>>56 < passedByMax {
			line.tags.Store(tags - passedBy)
		}
	}
}
