// Package leaparray is a ring of time buckets for sliding windows.
//
// A [LeapArray] cuts time into buckets of equal length and keeps the newest
// few of them: the window. Each bucket holds a value of the caller's own type
// and is opened by the first call that sees its span of time. A bucket is never
// reset: a new span gets a fresh [WindowWrap], which takes its slot by
// compare-and-swap, so a goroutine that still holds the old one holds it whole.
//
// The ring knows time and slots and nothing else. It never reads a clock: every
// method is given now, in nanoseconds, on whatever axis the caller keeps.
//
// The idea is Alibaba Sentinel's LeapArray; the ordering of the openings by one
// pointer is Leapgate's own.
package leaparray

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"go.uber.org/atomic"
)

// MaxBuckets is the largest number of buckets a ring may have.
const MaxBuckets = 1 << 16

// ErrConfig is what every error of [New] is.
var ErrConfig = errors.New("leaparray: bad configuration")

// LeapArray is a ring of buckets whose values are of type T.
//
// One CAS on current orders all openings. The slots behind it are filled after
// that, by the first call that comes, before the next opening, and never with an
// older bucket. So at any time every bucket but the newest is in its slot, and
// no bucket that was skipped is ever filled in late. (Opening buckets by CAS
// into their slots alone is shorter and wrong: a bucket that one goroutine
// skipped is opened by another after its successors, and a window then counts
// what it should have forgotten.)
//
// All methods may be called by any number of goroutines at once. None takes a
// lock, and none waits for another.
type LeapArray[T any] struct {
	current   atomic.Pointer[WindowWrap[T]] // the newest bucket; nil before the first
	length    int64                         // of one bucket, in nanoseconds
	slots     []atomic.Pointer[WindowWrap[T]]
	newBucket func(value *T, start int64, prev *WindowWrap[T])
}

// WindowWrap is one bucket: a span of time, and the value kept for it. The span does not
// change; the value may. They lie together, so that a goroutine that looks whether a bucket covers now
// has the cache line where the value begins.
type WindowWrap[T any] struct {
	start  int64
	length int64
	value  T
}

// Start is the first nanosecond of the bucket.
func (w *WindowWrap[T]) Start() int64 { return w.start }

// Covers reports whether now lies in the bucket. A nil bucket covers nothing.
func (w *WindowWrap[T]) Covers(now int64) bool {
	// A now before the bucket wraps round to a huge unsigned number, so that one
	// comparison shows both that it has begun and that it has not ended.
	return w != nil && uint64(now-w.start) < uint64(w.length)
}

// Value is what is kept for the bucket. It lies in the bucket, and keeps that in memory.
func (w *WindowWrap[T]) Value() *T { return &w.value }

// New makes a ring of the given number of buckets, 1 to [MaxBuckets], which
// together cover interval. The interval must divide by the number of buckets
// into whole nanoseconds.
//
// newBucket makes the value, which is zero, of the bucket that starts at start. It gets
// the newest wrap before this one, nil for the first. It may run more than once for
// one bucket, in several goroutines, each time with another value; one is published, the
// others are dropped. It may read the ring, and must not open buckets in it.
//
// The error, if any, is [ErrConfig] and says what would be right.
func New[T any](buckets int, interval time.Duration, newBucket func(value *T, start int64, prev *WindowWrap[T])) (*LeapArray[T], error) {
	a := new(LeapArray[T])
	if err := a.Init(buckets, interval, newBucket); err != nil {
		return nil, err
	}
	return a, nil
}

// Init makes the ring, as [New] does, in memory that is there already: a ring that is a field
// of what is read with it spares a cache line. It must come before all other methods.
func (a *LeapArray[T]) Init(buckets int, interval time.Duration, newBucket func(value *T, start int64, prev *WindowWrap[T])) error {
	switch {
	case buckets < 1 || buckets > MaxBuckets:
		return fmt.Errorf("%w: %d buckets; want 1 to %d", ErrConfig, buckets, MaxBuckets)
	case interval <= 0:
		return fmt.Errorf("%w: interval %v; want more than 0", ErrConfig, interval)
	case interval%time.Duration(buckets) != 0:
		return fmt.Errorf("%w: interval %v does not divide by %d buckets; %d buckets would do",
			ErrConfig, interval, buckets, nearestDivisor(interval, buckets))
	case newBucket == nil:
		return fmt.Errorf("%w: newBucket is nil; want a function that makes a bucket", ErrConfig)
	}
	a.length = int64(interval) / int64(buckets)
	a.slots = make([]atomic.Pointer[WindowWrap[T]], buckets)
	a.newBucket = newBucket
	return nil
}

func (a *LeapArray[T]) interval() int64 { return a.length * int64(len(a.slots)) }

// nearestDivisor finds the number of buckets closest to n that divides interval.
func nearestDivisor(interval time.Duration, n int) int {
	for d := 1; d < n; d++ {
		if interval%time.Duration(n-d) == 0 {
			return n - d
		}
		if n+d <= MaxBuckets && interval%time.Duration(n+d) == 0 {
			return n + d
		}
	}
	return 1
}

// Length is the length of one bucket.
func (a *LeapArray[T]) Length() time.Duration { return time.Duration(a.length) }

// Current is the bucket that now lies in, opened if need be. If now is older
// than the newest bucket, it is the newest: the ring never moves back.
//
// Where every nanosecond counts, look at [LeapArray.Newest] first: that and
// [WindowWrap.Covers] are inlined, and Current is not.
func (a *LeapArray[T]) Current(now int64) *WindowWrap[T] {
	if c := a.current.Load(); c.Covers(now) {
		return c
	}
	return a.open(now)
}

//go:noinline
func (a *LeapArray[T]) open(now int64) *WindowWrap[T] {
	start := a.align(now)
	for {
		c := a.current.Load()
		if c != nil {
			if start <= c.start {
				return c
			}
			a.settle(c)
		}
		w := &WindowWrap[T]{start: start, length: a.length}
		a.newBucket(&w.value, start, c)
		if a.current.CompareAndSwap(c, w) {
			a.settle(w)
			return w
		}
	}
}

// settle puts w into its slot, unless that holds w or a newer bucket already.
func (a *LeapArray[T]) settle(w *WindowWrap[T]) {
	slot := &a.slots[a.index(w.start)]
	for {
		old := slot.Load()
		if old != nil && old.start >= w.start || slot.CompareAndSwap(old, w) {
			return
		}
	}
}

// Newest is the bucket opened last, live or not, and nil before the first. A
// reader that finds the same Newest before and after it read a bucket's value
// and whatever that is compared with, knows that no bucket was opened meanwhile.
func (a *LeapArray[T]) Newest() *WindowWrap[T] { return a.current.Load() }

// Oldest is the first of the buckets that [LeapArray.Live] returns, nil if there
// are none. It takes one step when the ring is busy.
func (a *LeapArray[T]) Oldest(now int64) *WindowWrap[T] {
	c := a.current.Load()
	if c == nil {
		return nil
	}
	back, index := a.liveBefore(c, now), a.index(c.start)
	for ; back > 0; back-- {
		if w := a.before(c, index, back); w != nil {
			return w
		}
	}
	if back < 0 {
		return nil
	}
	return c
}

// Live returns the buckets of the window that ends with the bucket of now, oldest
// first: those that start in (aligned now − interval, aligned now]. Spans in
// which nobody called Current have no bucket. A now older than the newest
// bucket is taken for the time of that bucket. Live opens nothing.
func (a *LeapArray[T]) Live(now int64) iter.Seq[*WindowWrap[T]] {
	return func(yield func(*WindowWrap[T]) bool) {
		c := a.current.Load()
		if c == nil {
			return
		}
		back, index := a.liveBefore(c, now), a.index(c.start)
		for ; back > 0; back-- {
			if w := a.before(c, index, back); w != nil && !yield(w) {
				return
			}
		}
		if back == 0 {
			yield(c)
		}
	}
}

// liveBefore returns how many places of the ring before c are live at now: −1 if
// c itself is not.
func (a *LeapArray[T]) liveBefore(c *WindowWrap[T], now int64) int {
	last := len(a.slots) - 1
	switch since := now - c.start; {
	case uint64(since) < uint64(a.length) || now < c.start:
		return last
	case uint64(since) >= uint64(a.interval()): // or it has overflowed
		return -1
	default:
		return last - int(since/a.length)
	}
}

// before returns the bucket that lies exactly back places before c, which has the slot of
// that index; nil if that span had none, or if its slot was taken by a newer bucket meanwhile.
func (a *LeapArray[T]) before(c *WindowWrap[T], index, back int) *WindowWrap[T] {
	i := index - back
	if i < 0 {
		i += len(a.slots)
	}
	if w := a.slots[i].Load(); w != nil && w.start == c.start-int64(back)*a.length {
		return w
	}
	return nil
}

// Trim lets go of the buckets that are no longer live at now, all but the
// newest, so that a ring in disuse does not keep their memory. It changes
// nothing that can be seen at now or later.
func (a *LeapArray[T]) Trim(now int64) {
	c := a.current.Load()
	if c == nil {
		return
	}
	now = max(now, c.start)
	for i := range a.slots {
		// A slot that changed since it was looked at holds a newer bucket.
		if w := a.slots[i].Load(); w != nil && w != c && now-w.start >= a.interval() {
			a.slots[i].CompareAndSwap(w, nil)
		}
	}
}

// align returns the start of the bucket that now lies in.
func (a *LeapArray[T]) align(now int64) int64 {
	r := now % a.length
	if r < 0 {
		r += a.length
	}
	if now < math.MinInt64+r { // time itself begins in the middle of a bucket
		return now - r + a.length
	}
	return now - r
}

// index returns the slot of the bucket that starts at start, which is aligned.
func (a *LeapArray[T]) index(start int64) int {
	i := int(start / a.length % int64(len(a.slots)))
	if i < 0 {
		i += len(a.slots)
	}
	return i
}
