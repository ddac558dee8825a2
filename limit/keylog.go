package limit

import (
	"sort"
	"sync"
	"time"
)

// keyLog is what one key was admitted in the last window.
type keyLog struct {
	mu   sync.Mutex // guards what is below
	dead bool       // the key was taken out
	admissions
	few [fewAdmissions]admission // the ring at first
}

// admissions are those of a window, oldest first, in a ring. A copy shares the ring: expire, which
// changes no slot, may be called on a copy to see what is left at a time.
type admissions struct {
	ring  []admission // only move changes it, so that first and count always fit it
	first int         // in the ring
	count int

	through uint64 // the through of the last that has left the window
	latest  int64  // the latest time that left a mark here: no time is before it
	joined  int64  // of the newest admission that has earlier ones in it: see thin
}

// admission is so many admitted at one time, 1 or more; no two in a log have the same time. The
// difference to the through of the one before it is how many, so that the sum over any
// stretch is one subtraction. It wraps around; no window holds as much.
type admission struct {
	at      int64
	through uint64 // all that was admitted up to this one and with it
}

const (
	fewAdmissions  = 4
	admissionBytes = 16
)

func (l *keyLog) begin(now int64) {
	l.ring, l.latest, l.joined = l.few[:], now, minTime
}

// nth is the i-th admission, oldest first.
func (l *admissions) nth(i int) *admission {
	if i += l.first; i >= len(l.ring) {
		i -= len(l.ring)
	}
	return &l.ring[i]
}

// upTo is what was admitted up to the i-th and with it, in the window.
func (l *admissions) upTo(i int) int64 { return int64(l.nth(i).through - l.through) }

// held is what was admitted in the window.
func (l *admissions) held() int64 {
	if l.count == 0 {
		return 0
	}
	return l.upTo(l.count - 1)
}

// expire lets go of what is not in (now − window, now]; no admission is later. Mostly that is all, or none, or
// one; a long stretch is found by halving.
func (l *admissions) expire(now, window int64) {
	gone := 0
	left := func(i int) bool { return uint64(now-l.nth(i).at) >= uint64(window) }
	switch {
	case l.count == 0 || !left(0):
		return
	case left(l.count - 1):
		gone = l.count
	case !left(1):
		gone = 1
	default:
		gone = sort.Search(l.count, func(i int) bool { return !left(i) })
	}
	l.latest = now // for a clock that goes back, they are gone all the same
	l.through = l.nth(gone - 1).through
	l.count -= gone
	if l.first += gone; l.first >= len(l.ring) {
		l.first -= len(l.ring)
	}
}

// add charges n at a time that is not before the latest, if needsRoom does not say
// that there is no room for it.
func (l *admissions) add(at, n int64) {
	l.latest = at
	if l.count > 0 {
		if newest := l.nth(l.count - 1); newest.at == at {
			newest.through += uint64(n)
			return
		}
	}
	through := l.through + uint64(l.held()) + uint64(n)
	l.count++
	*l.nth(l.count - 1) = admission{at, through}
}

// needsRoom reports whether another admission, at that time, finds no free slot in the ring.
func (l *admissions) needsRoom(at int64) bool {
	return l.count == len(l.ring) && l.nth(l.count-1).at != at
}

// move puts the log into another ring, which is large enough.
func (l *admissions) move(ring []admission) {
	for i := range l.count {
		ring[i] = *l.nth(i)
	}
	l.ring, l.first = ring, 0
}

// thin joins the admissions that lie in the same stretch of time, where time is cut
// into stretches of that length: what was admitted earlier in it counts as admitted at the last of
// their times. As the cuts are always the same, however often it is done, nothing is moved by more than
// a stretch. It returns how many admissions were joined with the one after them.
func (l *admissions) thin(length int64) (gone int) {
	kept := 0
	for i := range l.count {
		a := *l.nth(i)
		if kept > 0 && floor(l.nth(kept-1).at, length) == floor(a.at, length) {
			l.joined = max(l.joined, a.at)
			kept--
		}
		*l.nth(kept) = a
		kept++
	}
	gone, l.count = l.count-kept, kept
	return gone
}

// wait is how long from now until n more fit, which do not fit now: until the first
// admission has left without which they would.
func (l *admissions) wait(now, n, limit, window int64) time.Duration {
	short := l.held() + n - limit
	i := 0
	if l.upTo(0) < short {
		i = sort.Search(l.count, func(i int) bool { return l.upTo(i) >= short })
	}
	return time.Duration(between(now, l.nth(i).at) + window)
}

// reset is how long from now until nothing is in the window.
func (l *admissions) reset(now, window int64) time.Duration {
	if l.count == 0 {
		return 0
	}
	return time.Duration(between(now, l.nth(l.count-1).at) + window)
}

// refund takes n off the admission of that time, or off the one that it was joined
// with, if it is in the window and is that many. What nothing is left of goes, so that
// it takes no slot.
func (l *admissions) refund(at, n, window int64) {
	if uint64(l.latest-at) >= uint64(window) {
		return // it has left: what has not is in the window of the latest time
	}
	i := sort.Search(l.count, func(i int) bool { return l.nth(i).at >= at })
	if i == l.count || at > l.joined && l.nth(i).at != at {
		return
	}
	was := l.upTo(i)
	if i > 0 {
		was -= l.upTo(i - 1)
	}
	if was < n {
		return
	}
	to := i
	if was == n {
		i++
	}
	for ; i < l.count; i++ { // mostly it is the newest
		a := *l.nth(i)
		a.through -= uint64(n)
		*l.nth(to) = a
		to++
	}
	l.count = to
}
