package keys

import (
	"sync/atomic"
	"unsafe"
)

// Node is what is kept for one key. The bytes of the key lie behind it, in the
// same allocation: a look-up that finds the key touches one cache line less, and a
// value without pointers makes a node that the garbage collector need not scan.
type Node[V any] struct {
	// Value is the caller's own. It must be safe for concurrent use, and it shows
	// when it is dead: see [Rules].
	Value V
	// Aux is the caller's own, too. It fills what would be padding.
	Aux atomic.Uint32

	// meta does not change:
	//
	//	31     11  10    0
	//	generation  length of the key
	meta uint32
}

const (
	// MaxLength is the length of the longest key, in bytes.
	MaxLength = 1024

	lengthBits     = 11
	generationBits = 21

	// MaxGeneration is the largest generation.
	MaxGeneration = 1<<generationBits - 1
)

// Key is the key. It is the node's own copy.
func (n *Node[V]) Key() string {
	// unsafe: NewNode made the allocation long enough.
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(n), unsafe.Sizeof(*n))), n.meta&(1<<lengthBits-1))
}

// Generation distinguishes this node of a key from those before and after it, up to
// [MaxGeneration] of them.
func (n *Node[V]) Generation() uint32 { return n.meta >> lengthBits }

// sized is a node with room for a key. N is an array of bytes.
type sized[V, N any] struct {
	node Node[V]
	_    N
}

func alloc[V, N any]() *Node[V] { return &new(sized[V, N]).node }

// NewNode makes a node, which is in no table, with a copy of the key. The lengths are those that fill up
// the size classes of Go's allocator, for a Value of 8 bytes.
func NewNode[V any](key string, generation uint32) *Node[V] {
	var n *Node[V]
	switch l := len(key); {
	case l <= 8:
		n = alloc[V, [8]byte]()
	case l <= 16:
		n = alloc[V, [16]byte]()
	case l <= 24: // for a Value of 16 bytes; with 8, it takes what the next does
		n = alloc[V, [24]byte]()
	case l <= 32:
		n = alloc[V, [32]byte]()
	case l <= 48:
		n = alloc[V, [48]byte]()
	case l <= 64:
		n = alloc[V, [64]byte]()
	case l <= 96:
		n = alloc[V, [96]byte]()
	case l <= 144:
		n = alloc[V, [144]byte]()
	case l <= 240:
		n = alloc[V, [240]byte]()
	case l <= 368:
		n = alloc[V, [368]byte]()
	case l <= 496:
		n = alloc[V, [496]byte]()
	case l <= 752:
		n = alloc[V, [752]byte]()
	case l <= MaxLength:
		n = alloc[V, [MaxLength]byte]()
	default:
		panic("keys: a key that is too long")
	}
	n.meta = generation%(MaxGeneration+1)<<lengthBits | uint32(len(key))
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(n), unsafe.Sizeof(*n))), len(key)), key)
	return n
}
