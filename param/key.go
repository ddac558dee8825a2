package param

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"
	"unsafe"

	"github.com/leapgate-go/leapgate/internal/keys"
	"github.com/leapgate-go/leapgate/resource"
)

// A rule has one table for the values of all its resources. The key of a value in it is the prefix of
// the resource, if the rule has a pattern, and then the value. A long value is replaced by its hash, so
// that clients cannot fill the memory with few keys.

const (
	// maxValue is the length of the longest value that is a key as it is, in bytes.
	maxValue = 96
	// hashed is before a hash. A value that begins with it is hashed too, and no length of a value in
	// a list begins with it.
	hashed = "\xff\xff"
)

// buffer has keys and the values of several arguments. It comes from a pool, so that a call that passes
// allocates nothing: tables copy the keys that they keep.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, keys.MaxLength)} }}

func newBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.bytes = b.bytes[:0]
	return b
}

// free returns b, which may be nil, to the pool. Nobody may have its keys any more.
func (b *buffer) free() {
	if b != nil {
		buffers.Put(b)
	}
}

// from returns the bytes from an index on as a string.
func (b *buffer) from(i int) string {
	// unsafe: the bytes do not change until the buffer is freed.
	return unsafe.String(&b.bytes[i], len(b.bytes)-i)
}

// hash replaces the bytes from an index on by their hash.
func (b *buffer) hash(i int) {
	sum := sha256.Sum256(b.bytes[i:])
	b.bytes = append(append(b.bytes[:i], hashed...), sum[:]...)
}

func isLong(value string) bool { return len(value) > maxValue || strings.HasPrefix(value, hashed) }

// locate sets the key of a value.
func (a *asked) locate(prefix string) {
	a.key = a.value
	if prefix == "" && !isLong(a.value) {
		return
	}
	if a.buffer == nil {
		a.buffer = newBuffer()
	}
	start := len(a.buffer.bytes)
	a.buffer.bytes = append(append(a.buffer.bytes, prefix...), a.value...)
	if isLong(a.value) {
		a.buffer.hash(start + len(prefix))
	}
	if len(a.buffer.bytes) > start {
		a.key = a.buffer.from(start)
	}
}

// joined is the text of several values: each but the last with its length before it, so that
// no two lists of values have the same. What is longer than a key may be is hashed.
func joined(names []string, args resource.Args) (value string, b *buffer, ok bool) {
	b = newBuffer()
	for i, name := range names {
		value, ok := args.Get(name)
		if !ok {
			b.free()
			return "", nil, false
		}
		if i < len(names)-1 {
			b.bytes = binary.AppendUvarint(b.bytes, uint64(len(value)))
		}
		b.bytes = append(b.bytes, value...)
	}
	if len(b.bytes) > keys.MaxLength {
		b.hash(0)
	}
	return b.from(0), b, true // a length of 0 is a byte, too
}
