package param

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"unsafe"

	"github.com/leapgate-go/leapgate/internal/keys"
	"github.com/leapgate-go/leapgate/resource"
)

// buffer has the key of several values. It comes from a pool, so that a call that passes
// allocates nothing: tables copy the keys that they keep.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, keys.MaxLength)} }}

// free returns b, which may be nil, to the pool. Nobody may have its key any more.
func (b *buffer) free() {
	if b != nil {
		buffers.Put(b)
	}
}

// hashed is before the hash of several values. No length of a value begins with it.
const hashed = "\xff\xff"

// joined is the key of several values: each but the last with its length before it, so that
// no two lists of values have the same. What is longer than a key may be is hashed.
func joined(names []string, args resource.Args) (key string, b *buffer, ok bool) {
	b = buffers.Get().(*buffer)
	b.bytes = b.bytes[:0]
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
		sum := sha256.Sum256(b.bytes)
		b.bytes = append(append(b.bytes[:0], hashed...), sum[:]...)
	}
	// unsafe: the bytes do not change until the buffer is freed.
	return unsafe.String(unsafe.SliceData(b.bytes), len(b.bytes)), b, true
}
