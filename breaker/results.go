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
// A call is counted in one of three words, by one addition. With SlowRatio calls that were slow
// have words of their own, so that most calls write one word, whatever is judged.
type results struct {
	calls   tally         // successes and failures, but for slow ones; with Throttle, also what was refused, as bad
	slow    tally         // slow successes and failures
	ignored atomic.Uint64 // slow calls that were ignored
	row     atomic.Int64  // failures in a row
	ring    leaparray.LeapArray[bucket]
}

// bucket has the marks of the tallies when it was opened, and those when the window began
// whose newest bucket it is. It does not change.
type bucket struct{ opened, window marks }

// marks are the words of the results at one moment.
type marks struct{ calls, slow, ignored uint64 }

// since returns what was counted since earlier marks: failures of successes and failures, and
// slow calls of those and the ignored ones that were slow.
func (m marks) since(w marks) (errors, slow counts) {
	errors = since(m.calls+m.slow, w.calls+w.slow)
	ignored := int64(m.ignored - w.ignored)
	return errors, counts{errors.total + ignored, since(m.slow, w.slow).total + ignored}
}

func newResults(r *Rule) *results {
	s := new(results)
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

// marks returns the words as they were at one moment: when calls was read, if the others, which few
// calls write, were the same before and after.
func (s *results) marks() marks {
	for {
		slow, ignored := s.slow.word.Load(), s.ignored.Load()
		m := marks{s.calls.word.Load(), slow, ignored}
		if s.slow.word.Load() == slow && s.ignored.Load() == ignored {
			return m
		}
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
		return w.Value().window.calls
	}
	if oldest := s.ring.Oldest(now); oldest != nil {
		return oldest.Value().opened.calls
	}
	return s.calls.word.Load()
}
