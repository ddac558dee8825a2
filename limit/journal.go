package limit

import (
	"sort"
	"sync"
	"time"
)

// journal is the admissions of one key in the last window, oldest first, in a ring.
type journal struct {
	mu   sync.Mutex // guards what is below
	dead bool       // the key was taken out

	ring  []admission
	first int // in the ring
	count int

	number  int64  // of the first; the others follow. A ticket has it
	through uint64 // the through of the last that has left the window
	latest  int64  // the latest time that left a mark here: no time is before it

	few [fewAdmissions]admission // the ring at first
}

// admission is so many admitted at one time. The difference to the through of the one
// before it tells how many, so that the sum over any stretch is one subtraction. It
// wraps around; no window holds as much.
type admission struct {
	at      int64
	through uint64 // all that was admitted up to this one and with it
}

const (
	fewAdmissions  = 4
	admissionBytes = 16
)

func (j *journal) begin(now int64) {
	j.ring, j.latest = j.few[:], now
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
	if through := j.nth(gone - 1).through; through != j.through {
		j.latest = now // for a clock that goes back, they are gone all the same
		j.through = through
	}
	j.number += int64(gone)
	if j.count -= gone; j.count == 0 {
		j.first = 0
		return
	}
	if j.first += gone; j.first >= len(j.ring) {
		j.first -= len(j.ring)
	}
}

// add charges n at a time that is not before the latest. join makes it a part of the
// newest admission, which is moved to that time.
func (j *journal) add(at, n int64, join bool) {
	j.latest = at
	if j.count > 0 {
		if newest := j.nth(j.count - 1); join || newest.at == at {
			newest.at = at
			newest.through += uint64(n)
			return
		}
	}
	through := j.through + uint64(j.held()) + uint64(n)
	j.count++
	*j.nth(j.count - 1) = admission{at, through}
}

// needsRoom tells whether another admission, at that time, finds no place in the ring.
func (j *journal) needsRoom(at int64) bool {
	return j.count == len(j.ring) && j.nth(j.count-1).at != at
}

// move gives the journal another ring, which is large enough.
func (j *journal) move(ring []admission) {
	for i := range j.count {
		ring[i] = *j.nth(i)
	}
	j.ring, j.first = ring, 0
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

// refund takes n off the admission of that number, if it is in the window and was
// that many.
func (j *journal) refund(number, n int64) {
	i := number - j.number
	if i < 0 || i >= int64(j.count) {
		return
	}
	was := j.upTo(int(i))
	if i > 0 {
		was -= j.upTo(int(i) - 1)
	}
	if was < n {
		return
	}
	for i := int(i); i < j.count; i++ { // mostly it is the newest
		j.nth(i).through -= uint64(n)
	}
	for j.count > 0 && j.held() == 0 || j.count > 1 && j.upTo(j.count-1) == j.upTo(j.count-2) {
		j.count-- // so that reset is true
	}
}
