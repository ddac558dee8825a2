package limit

import "sync/atomic"

// budget divides Config.MaxBytes among the rings of the keys. Half of it is cut into
// equal parts, one for each of MaxKeys, which no other key can take. The other half goes to
// the keys that ask first. So a few clients with many admissions cannot take the memory that
// the others need to be counted well.
type budget struct {
	own    int   // admissions that each key always has memory for; 0 if it is no more than the few it begins with
	common int64 // bytes that rings may have in all beyond that

	used   atomic.Int64 // bytes of all rings but the first of each key
	beyond atomic.Int64 // of these, those that are from the common half
}

func (b *budget) divide(maxBytes, maxKeys int64) {
	// One more than MaxKeys, for the count that keys share under Share.
	if own := maxBytes / 2 / (maxKeys + 1) / admissionBytes; own > fewAdmissions {
		b.own = int(own)
	}
	b.common = maxBytes - int64(b.own)*admissionBytes*(maxKeys+1)
}

// ringBytes is the memory of a ring. The first one is a part of its key's node.
func ringBytes(size int) int64 {
	if size <= fewAdmissions {
		return 0
	}
	return admissionBytes * int64(size)
}

// beyondOwn is what a ring takes from the common half.
func (b *budget) beyondOwn(size int) int64 {
	return max(0, ringBytes(size)-admissionBytes*int64(b.own))
}

// resize puts a log into a ring of that size, which is large enough for it. It
// returns false, and has changed nothing, if there is no memory for it; there always is
// for a smaller one, and for one of own.
func (b *budget) resize(l *keyLog, size int) bool {
	was := len(l.ring)
	if !b.reserve(b.beyondOwn(size) - b.beyondOwn(was)) {
		return false
	}
	b.used.Add(ringBytes(size) - ringBytes(was))
	ring := l.few[:]
	if size > fewAdmissions {
		ring = make([]admission, size)
	}
	l.move(ring)
	return true
}

// reserve takes n bytes of the common half, or gives back −n.
func (b *budget) reserve(n int64) bool {
	for was := b.beyond.Load(); n <= 0 || was+n <= b.common; was = b.beyond.Load() {
		if b.beyond.CompareAndSwap(was, was+n) {
			return true
		}
	}
	return false
}
