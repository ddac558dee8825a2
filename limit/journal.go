package limit

import (
	"sort"
	"sync"
	"time"
)

// journal is what one key was admitted in the last window, oldest first, in a ring.
type journal struct {
	mu   sync.Mutex // guards what is below
	dead bool       // the key was taken out

	ring  []admission // only move changes it, so that first and count always fit it
	first int         // in the ring
	count int

	through uint64 // the through of the last that has left the window
	latest  int64  // the latest time that left a mark here: no time is before it
	joined  int64  // of the newest admission that has earlier ones in it: see thin

	few [fewAdmissions]admission // the ring at first
}

// admission is so many admitted at one time, 1 or more; no two in a journal have the same time. The
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

func (j *journal) begin(now int64) {
	j.ring, j.latest, j.joined = j.few[:], now, minTime
}

// nth is the i-th admission, oldest first.
func (j *journal) nth(i int) *admission {
	if i += j.first; i >= len(j.ring) {
		i -= len(j.ring)
	}
	return &j.ring[i]
}

// upTo is what was admitted up to the i-th and with it, in the window.
func (j *journal) upTo(i int) int64 { return int64(j.nth(i).through - j.through) }

// held is what was admitted in the window.
func (j *journal) held() int64 {
	if j.count == 0 {
		return 0
	}
	return j.upTo(j.count - 1)
}

// expire lets go of what is not in (now − window, now]; no admission is later. Mostly that is all, or none, or
// one; a long stretch is found by halving.
func (j *journal) expire(now, window int64) {
	gone := 0
	left := func(i int) bool { return uint64(now-j.nth(i).at) >= uint64(window) }
	switch {
	case j.count == 0 || !left(0):
		return
	case left(j.count - 1):
		gone = j.count
	case !left(1):
		gone = 1
	default:
		gone = sort.Search(j.count, func(i int) bool { return !left(i) })
	}
	j.latest = now // for a clock that goes back, they are gone all the same
	j.through = j.nth(gone - 1).through
	j.count -= gone
	if j.first += gone; j.first >= len(j.ring) {
		j.first -= len(j.ring)
	}
}

// add charges n at a time that is not before the latest, if needsRoom does not say
// that there is no room for it.
func (j *journal) add(at, n int64) {
	j.latest = at
	if j.count > 0 {
		if newest := j.nth(j.count - 1); newest.at == at {
			newest.through += uint64(n)
			return
		}
	}
	through := j.through + uint64(j.held()) + uint64(n)
	j.count++
	*j.nth(j.count - 1) = admission{at, through}
}

// needsRoom reports whether another admission, at that time, finds no place in the ring.
func (j *journal) needsRoom(at int64) bool {
	return j.count == len(j.ring) && j.nth(j.count-1).at != at
}

// move puts the journal into another ring, which is large enough.
func (j *journal) move(ring []admission) {
	for i := range j.count {
		ring[i] = *j.nth(i)
	}
	j.ring, j.first = ring, 0
}

// thin joins the admissions that lie in the same stretch of time, where time is cut
// into stretches of that length: what was admitted earlier in it counts as admitted at the last of
// their times. As the cuts are always the same, however often it is done, nothing is moved by more than
// a stretch. It returns how many admissions were joined with the one after them.
func (j *journal) thin(length int64) (gone int) {
	kept := 0
	for i := range j.count {
		a := *j.nth(i)
		if kept > 0 && floor(j.nth(kept-1).at, length) == floor(a.at, length) {
			j.joined = max(j.joined, a.at)
			kept--
		}
		*j.nth(kept) = a
		kept++
	}
	gone, j.count = j.count-kept, kept
	return gone
}

// wait is how long from now until n more fit, which do not fit now: until the first
// admission has left without which they would.
func (j *journal) wait(now, n, limit, window int64) time.Duration {
	short := j.held() + n - limit
	i := 0
	if j.upTo(0) < short {
		i = sort.Search(j.count, func(i int) bool { return j.upTo(i) >= short })
	}
	return time.Duration(between(now, j.nth(i).at) + window)
}

// reset is how long from now until nothing is in the window.
func (j *journal) reset(now, window int64) time.Duration {
	if j.count == 0 {
		return 0
	}
	return time.Duration(between(now, j.nth(j.count-1).at) + window)
}

// refund takes n off the admission of that time, or off the one that it was joined
// with, if it is in the window and is that many. What nothing is left of goes, so that
// it takes no place.
func (j *journal) refund(at, n, window int64) {
	if uint64(j.latest-at) >= uint64(window) {
		return // it has left: what has not is in the window of the latest time
	}
	i := sort.Search(j.count, func(i int) bool { return j.nth(i).at >= at })
	if i == j.count || at > j.joined && j.nth(i).at != at {
		return
	}
	was := j.upTo(i)
	if i > 0 {
		was -= j.upTo(i - 1)
	}
	if was < n {
		return
	}
	to := i
	if was == n {
		i++
	}
	for ; i < j.count; i++ { // mostly it is the newest
		a := *j.nth(i)
		a.through -= uint64(n)
		*j.nth(to) = a
		to++
	}
	j.count = to
}
