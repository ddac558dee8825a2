package breaker

import (
	"sync/atomic"

	"github.com/leapgate-go/leapgate/leaparray"
)

// tally counts calls and how many of them were bad, in one word, so that both are of the same
// moment:
//
//	63    30 29   0
//	  total    bad
//
// It only grows. What was counted since a mark, which is an earlier value, is the difference,
// so it does not matter that both overflow some day: only what lies in a window must fit.
type tally struct{ word atomic.Uint64 }

const (
	badBits = 30
	oneCall = 1 << badBits
	badMask = oneCall - 1
)

// add counts a call, and returns the word with it.
func (t *tally) add(bad bool) (word uint64) {
	if bad {
		return t.word.Add(oneCall | 1)
	}
	return t.word.Add(oneCall)
}

// counts is what a tally has counted since a mark.
type counts struct{ total, bad int64 }

func since(word, mark uint64) counts {
	d := word - mark
	return counts{int64(d >> badBits), int64(d & badMask)}
}

// ratio is the share of bad calls, of which there is at least one. Dividing whole numbers
// rounds as a literal does: 7 of 100 is 0.07.
func (c counts) ratio() float64 { return float64(c.bad) / float64(c.total) }

// results are those of the calls that have ended since the last change of state, in a window
// of buckets. A result belongs to the bucket that is the newest when its call ends. No result is
// lost when a bucket turns: the window is what the tallies have grown since its first bucket
// was opened.
//
// A call is counted in one word, by one addition. With SlowRatio there are several: most calls are good,
// and their ends are counted in hanging anyway.
type results struct {
	calls   tally         // successes and failures; with Throttle, also what was refused, as bad
	slow    tally         // those that were slow, which calls has not
	ignored atomic.Uint64 // slow calls that were ignored
	hanging *hanging      // with SlowRatio: it has the good calls, which calls has not
	row     atomic.Int64  // failures in a row
	ring    leaparray.LeapArray[bucket]
}

// bucket has the marks of the tallies when it was opened, and those when the window began
// whose newest bucket it is. It does not change.
type bucket struct{ opened, window marks }

// marks are the numbers of the results at one moment. They only grow.
type marks struct {
	errors, slow uint64 // words of tallies: of all successes and failures, and of those that were slow
	ignored      uint64
}

// since returns what was counted since earlier marks: failures of successes and failures, and
// slow calls of those and the ignored ones that were slow.
func (m marks) since(w marks) (errors, slow counts) {
	errors = since(m.errors, w.errors)
	ignored := int64(m.ignored - w.ignored)
	return errors, counts{errors.total + ignored, since(m.slow, w.slow).total + ignored}
}

// isGood reports whether all calls since earlier marks were, whatever number of good ones there is.
func (m marks) isGood(w marks) bool {
	return m.slow == w.slow && m.ignored == w.ignored && since(m.errors, w.errors).bad == 0
}

func newResults(r *Rule, h *hanging) *results {
	s := &results{hanging: h}
	if err := s.ring.Init(r.Buckets, r.Interval, s.open); err != nil {
		panic(err) // complete has let a rule through that it should not have
	}
	return s
}

func (s *results) open(b *bucket, start int64, _ *leaparray.WindowWrap[bucket]) {
	b.opened = s.marks()
	b.window = b.opened
	if oldest := s.ring.Oldest(start); oldest != nil {
		b.window = oldest.Value().opened
	}
}

// marks returns the numbers as they were at one moment.
func (s *results) marks() marks {
	for {
		m := s.unlikely()
		if s.hanging == nil {
			return m
		}
		// What few calls write was the same all the while, and good calls are added one by one,
		// so that there was a moment with just this sum.
		good := s.hanging.sum().good
		if s.unlikely() == m {
			m.errors += uint64(good) * oneCall
			return m
		}
	}
}

// unlikely returns the marks without the calls that were good, which are counted in hanging.
func (s *results) unlikely() marks {
	slow := s.slow.word.Load()
	return marks{s.calls.word.Load() + slow, slow, s.ignored.Load()}
}

// endRow ends a row of failures.
func (s *results) endRow() {
	if s.row.Load() > 0 {
		s.row.Store(0)
	}
}

// at returns the bucket of now, opened if need be.
func (s *results) at(now int64) *bucket {
	w := s.ring.Newest()
	if !w.Covers(now) {
		w = s.ring.Current(now)
	}
	return w.Value()
}

// markAt is the mark of the calls when the window began that has its end at now, which may be in the
// future. Nothing is opened.
func (s *results) markAt(now int64) uint64 {
	if w := s.ring.Newest(); w.Covers(now) {
		return w.Value().window.errors
	}
	if oldest := s.ring.Oldest(now); oldest != nil {
		return oldest.Value().opened.errors
	}
	return s.calls.word.Load()
}
