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
	all   []string
	table []uint32 // the number + 1 at the hash or behind it; 0 is free
	seed  maphash.Seed
	most  int // how many have a number of their own; the others have that of overflow
}

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
		if n := t.table[at] - 1; t.all[n] == s {
			return n
		}
	}
	if len(t.all) >= t.most && s != overflow {
		return t.number(overflow)
	}
	return t.add(strings.Clone(s), at)
}

func (t *texts) add(s string, at uint64) uint32 {
	n := uint32(len(t.all))
	t.all = append(t.all, s)
	t.table[at] = n + 1
	if len(t.all)*3 > len(t.table)*2 {
		t.grow()
	}
	return n
}

func (t *texts) grow() {
	t.table = make([]uint32, 2*len(t.table))
	mask := uint64(len(t.table) - 1)
	for n, s := range t.all {
		at := maphash.String(t.seed, s) & mask
		for t.table[at] != 0 {
			at = (at + 1) & mask
		}
		t.table[at] = uint32(n) + 1
	}
}

// overflows reports whether there were more than have numbers of their own.
func (t *texts) overflows() bool { return len(t.all) > t.most }
