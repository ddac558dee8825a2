package quota

import (
	"cmp"
	"slices"
)

// loans is what has been lent, while a bucket is the newest, of the buckets after
// it. It does not change: a call that lends swaps in another list. A nil list is empty.
type loans struct {
	all []loan // in the order of their start, none twice

	// most is the largest held among those windows that this bucket still lies in,
	// so that one comparison shows whether an admission to it leaves room for all.
	most int64

	// sealed lists are replaced no more. What is in them has been taken over by the
	// next bucket, or will be as soon as there is one.
	sealed bool
}

type loan struct {
	start int64 // of that bucket
	n     int64

	// held is what the window that ends with that bucket holds, all loans included,
	// but without what the newest bucket has admitted, which is still growing.
	held int64
}

func (l *loans) list() []loan {
	if l == nil {
		return nil
	}
	return l.all
}

func (l *loans) closed() bool { return l != nil && l.sealed }

// fullest is what the fullest of the windows that the newest bucket lies in holds
// without it: base of its own, or more in one that ends later.
func (l *loans) fullest(base int64) int64 {
	if l == nil {
		return base
	}
	return max(base, l.most)
}

func (l *loans) total() (sum int64) {
	for _, a := range l.list() {
		sum += a.n
	}
	return sum
}

// newLoans makes a list for the bucket that leaves the window at the time of gone.
func newLoans(all []loan, gone int64) *loans {
	if len(all) == 0 {
		return nil
	}
	l := &loans{all: all}
	for _, a := range all {
		if a.start < gone {
			l.most = max(l.most, a.held)
		}
	}
	return l
}

func find(all []loan, start int64) (i int, found bool) {
	return slices.BinarySearchFunc(all, start, func(a loan, start int64) int { return cmp.Compare(a.start, start) })
}

// lend returns a copy of all with n more at start, and held as the loan's held if it
// is the first of its bucket.
func lend(all []loan, start, n, held, interval int64) []loan {
	i, found := find(all, start)
	more := make([]loan, 0, len(all)+1)
	more = append(more, all[:i]...)
	if !found {
		more = append(more, loan{start: start, held: held})
	}
	more = append(more, all[i:]...)
	more[i].n += n
	raise(more[i:], start+interval, n)
	return more
}

// giveBack returns a copy of all with n less at start, nothing if n was not lent.
func giveBack(all []loan, start, n, interval int64) (less []loan, ok bool) {
	i, found := find(all, start)
	if !found || all[i].n < n {
		return nil, false
	}
	less = slices.Clone(all)
	less[i].n -= n
	raise(less[i:], start+interval, -n)
	if less[i].n == 0 {
		less = slices.Delete(less, i, i+1)
	}
	return less, true
}

// raise adds n to what the windows of all that end before a time hold.
func raise(all []loan, before, n int64) {
	for i := range all {
		if all[i].start >= before {
			return
		}
		all[i].held += n
	}
}

// bears reports whether the windows that what was lent at start lies in all keep to
// the limit, if the newest bucket, in the window until gone, has admitted own.
func bears(all []loan, start, interval, own, gone, limit int64) bool {
	i, _ := find(all, start)
	for _, a := range all[i:] {
		if a.start >= start+interval {
			break
		}
		if a.start >= gone {
			own = 0
		}
		if a.held+own > limit {
			return false
		}
	}
	return true
}

// takeOver divides all between the bucket that opens at start and those after it.
// own is what the bucket before it has admitted, which leaves the window at gone.
//
// due is what the new bucket begins with, and over what was lent of buckets so long
// past that nobody can see them any more. Both are of start itself, unless start
// was opened just when something was lent of an earlier bucket that it skips: then
// that is kept in this one, and so remembered longer than it need be.
func takeOver(all []loan, start, interval, own, gone int64) (due, over int64, rest []loan) {
	i, found := find(all, start)
	if found {
		i++
	}
	rest = slices.Clone(all[i:])
	for _, a := range all[:i] {
		if a.start+interval <= start {
			over += a.n
			continue
		}
		due += a.n
		raise(rest, a.start+interval, -a.n) // it is now the newest bucket's own
	}
	raise(rest, gone, own) // and this no more
	return due, over, rest
}
