package whatif

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strings"

	"github.com/leapgate-go/leapgate/rule"
)

// texts numbers texts from 0, in the order in which they come. It takes half of what a map
// does.
type texts struct {
	all   column[string]
	count uint32
	page  strings.Builder // has room for more of them, so that not each is an allocation
	table []uint32        // the number + 1 at the hash or behind it; 0 is free
	seed  maphash.Seed
	most  int // how many have a number of their own; the others have that of overflow
}

// pageSize is how many bytes of texts lie together.
const pageSize = 32 << 10

// overflow is what all have in common that are beyond the bound.
const overflow = "(more)"

func newTexts(most int) *texts {
	return &texts{table: make([]uint32, 64), seed: maphash.MakeSeed(), most: most}
}

func (t *texts) number(s string) uint32 {
	if len(s) > rule.MaxNameLength {
		sum := sha256.Sum256([]byte(s))
		s = "sha256:" + hex.EncodeToString(sum[:])
	}
	mask := uint64(len(t.table) - 1)
	at := maphash.String(t.seed, s) & mask
	for ; t.table[at] != 0; at = (at + 1) & mask {
		if n := t.table[at] - 1; t.text(n) == s {
			return n
		}
	}
	if t.len() >= t.most && s != overflow {
		return t.number(overflow)
	}
	return t.add(s, at)
}

// text returns the text of a number.
func (t *texts) text(n uint32) string { return *t.all.at(n) }

// len is how many numbers there are.
func (t *texts) len() int { return int(t.count) }

func (t *texts) add(s string, at uint64) uint32 {
	if t.page.Cap()-t.page.Len() < len(s) {
		t.page.Reset() // what is there stays, and is read only
		t.page.Grow(pageSize)
	}
	begin := t.page.Len()
	t.page.WriteString(s)
	n := t.count
	*t.all.at(n) = t.page.String()[begin:]
	t.count++
	t.table[at] = n + 1
	if t.len()*3 > len(t.table)*2 {
		t.grow()
	}
	return n
}

func (t *texts) grow() {
	t.table = make([]uint32, 2*len(t.table))
	mask := uint64(len(t.table) - 1)
	for n := range t.count {
		at := maphash.String(t.seed, t.text(n)) & mask
		for t.table[at] != 0 {
			at = (at + 1) & mask
		}
		t.table[at] = n + 1
	}
}

// overflows reports whether there were more than have numbers of their own.
func (t *texts) overflows() bool { return t.len() > t.most }
