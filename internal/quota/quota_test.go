package quota

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leaparray"
)

const ms = int64(time.Millisecond)

// minute is a whole minute, as the cases want it: 2020-07-31 12:40 UTC.
const minute = 1596199200000 * ms

func newQuota(t testing.TB, interval time.Duration, buckets int, strict bool) *Quota {
	t.Helper()
	q, err := New(interval, buckets, strict)
	require.NoError(t, err)
	return q
}

// whenOpening makes q run f between the making of a bucket and its publication:
// where an opener that is suspended does most harm.
func whenOpening(t testing.TB, q *Quota, f func(start int64)) {
	t.Helper()
	require.NoError(t, q.ring.Init(int(q.interval/int64(q.ring.Length())), time.Duration(q.interval), func(b *bucket, start int64, prev *leaparray.WindowWrap[bucket]) {
		q.open(b, start, prev)
		f(start)
	}))
}

// abandon makes a bucket that is not published.
func abandon(q *Quota, start int64, prev *wrap) *bucket {
	b := new(bucket)
	q.open(b, start, prev)
	return b
}

// try takes 1 k times and tells how often it was admitted.
func try(q *Quota, now int64, k int, limit int64) (admitted int) {
	for range k {
		if q.Take(now, 1, limit).OK {
			admitted++
		}
	}
	return admitted
}

func admitted(ticket int64) Outcome { return Outcome{OK: true, Ticket: ticket} }

func refused(held int64, wait time.Duration) Outcome { return Outcome{Held: held, Wait: wait} }

func TestBucket_IsOneCacheLine(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 64, unsafe.Sizeof(wrap{}))
	require.LessOrEqual(t, unsafe.Sizeof(Quota{}), uintptr(64))
	q := newQuota(t, time.Second, 10, false)
	for now := minute; now < minute+100*100*ms; now += 100 * ms {
		require.True(t, q.Take(now, 1, 100).OK)
		require.Zero(t, uintptr(unsafe.Pointer(q.ring.Newest()))%64, "a bucket lies across two lines")
	}
}

// The cases FR-* of the list of behaviours, on one quota each.
func TestQuota_Cases(t *testing.T) {
	t.Parallel()
	type step struct {
		at    int64 // ms after the whole minute
		tries int
		want  int
	}
	for name, c := range map[string]struct {
		limit    int64
		interval time.Duration
		buckets  int
		from     int64 // ms added to the minute
		steps    []step
	}{
		"ten per second": {
			limit: 10, interval: time.Second, buckets: 2,
			steps: []step{{0, 20, 10}, {499, 5, 0}, {500, 5, 0}, {999, 5, 0}, {1000, 20, 10}},
		},
		"nothing": {
			limit: 0, interval: time.Second, buckets: 2,
			steps: []step{{0, 5, 0}, {500, 5, 0}, {1000, 5, 0}},
		},
		"0.9 is 0": {
			limit: int64(math.Floor(0.9)), interval: time.Second, buckets: 2,
			steps: []step{{0, 5, 0}},
		},
		"1.5 is 1": {
			limit: int64(math.Floor(1.5)), interval: time.Second, buckets: 2,
			steps: []step{{0, 5, 1}, {999, 5, 0}, {1000, 5, 1}},
		},
		"one bucket that begins in the middle of the story": {
			limit: 2, interval: 300 * time.Millisecond, buckets: 1, from: 100,
			steps: []step{{0, 5, 2}, {100, 1, 0}, {199, 1, 0}, {200, 5, 2}, {300, 1, 0}, {500, 5, 2}},
		},
		"what is refused consumes nothing": {
			limit: 5, interval: time.Second, buckets: 2,
			steps: []step{{0, 25, 5}, {1000, 25, 5}},
		},
		"the clock jumps one hour ahead": {
			limit: 10, interval: time.Second, buckets: 10,
			steps: []step{{0, 20, 10}, {3_600_000, 20, 10}, {3_600_900, 20, 0}, {3_600_999, 20, 0}, {3_601_000, 20, 10}},
		},
		"the clock jumps one hour ahead and back again": {
			limit: 10, interval: time.Second, buckets: 10,
			steps: []step{{0, 20, 10}, {3_600_000, 20, 10}, {1000, 20, 0}, {2000, 20, 0}, {3_600_999, 1, 0}, {3_601_000, 20, 10}},
		},
		"calls leave bucket by bucket": {
			limit: 4, interval: time.Second, buckets: 4,
			steps: []step{{0, 1, 1}, {250, 1, 1}, {500, 1, 1}, {750, 9, 1}, {999, 1, 0}, {1000, 9, 1}, {1250, 9, 1}, {1999, 9, 2}},
		},
		"a bucket exactly one interval old is out": {
			limit: 1, interval: time.Second, buckets: 10,
			steps: []step{{99, 1, 1}, {999, 1, 0}, {1000, 1, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuota(t, c.interval, c.buckets, false)
			base := minute + c.from*ms
			if c.from != 0 { // the minute divides by 300 ms, so this is what the case wants
				require.Equal(t, c.from*ms, base%int64(c.interval))
			}
			total := 0
			for _, s := range c.steps {
				require.Equal(t, s.want, try(q, base+s.at*ms, s.tries, c.limit), "@%d try %d", s.at, s.tries)
				total += s.want
			}
			require.EqualValues(t, total, q.Admitted())
		})
	}
}

// Strict forgets a call up to one bucket later: the price of bounding every interval.
func TestQuota_StrictForgetsOneBucketLater(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 2, true)
	require.Equal(t, 10, try(q, minute+499*ms, 20, 10))
	require.Zero(t, try(q, minute+1000*ms, 5, 10))
	require.Zero(t, try(q, minute+1499*ms, 5, 10), "999 ms … 1 s after the burst")
	require.Equal(t, 10, try(q, minute+1500*ms, 20, 10))

	plain := newQuota(t, time.Second, 2, false)
	require.Equal(t, 10, try(plain, minute+499*ms, 20, 10))
	require.Equal(t, 10, try(plain, minute+1000*ms, 20, 10), "a burst 501 ms later")
}

// Slots filled by CAS, without one order of openings, admit 199 of 100 here.
func TestQuota_BucketSkippedByOneFilledLateByAnother(t *testing.T) {
	t.Parallel()
	const limit = 100
	q := newQuota(t, time.Second, 10, false)
	// One goroutine reads its clock in the bucket at 100 ms, and is suspended.
	suspended := minute + 150*ms
	// Another, two buckets later, takes all there is.
	require.Equal(t, admitted(minute), q.Take(minute, 1, limit))
	require.Equal(t, admitted(minute+200*ms), q.Take(minute+210*ms, 99, limit))
	// The bucket at 100 ms was skipped for good: the first lands in the newest.
	require.Equal(t, refused(100, 850*time.Millisecond), q.Take(suspended, 1, limit))
	require.Equal(t, refused(100, 1050*time.Millisecond), q.Take(suspended, 99, limit), "needs the bucket at 200 ms to leave too")
	// The first bucket leaves, and gives room for what it held.
	require.Equal(t, refused(99, 200*time.Millisecond), q.Take(minute+1000*ms, 99, limit))
	require.Equal(t, admitted(minute+1000*ms), q.Take(suspended+850*ms, 1, limit))
	require.EqualValues(t, 100, q.Window(minute+1000*ms))
}

// An opener is suspended when it has sealed the newest bucket and not yet published
// its own. Nobody waits for it, and what was admitted meanwhile is in its base.
func TestQuota_OpenerSuspendedBetweenSealAndPublish(t *testing.T) {
	t.Parallel()
	const limit = 10
	q := newQuota(t, time.Second, 10, false)
	require.Equal(t, admitted(minute), q.Take(minute, 4, limit))

	// The opener of the bucket at 300 ms gets as far as this.
	abandoned := abandon(q, minute+300*ms, q.ring.Newest())
	require.EqualValues(t, 4, abandoned.base)
	require.Negative(t, q.ring.Newest().Value().used.Load(), "sealed")

	// Those that find the newest sealed open the one after it. They do not spin.
	require.Equal(t, admitted(minute+100*ms), q.Take(minute+50*ms, 3, limit))
	require.Equal(t, refused(7, 950*time.Millisecond), q.Take(minute+50*ms, 4, limit))
	require.EqualValues(t, 7, q.Window(minute+50*ms))

	// It goes on, is beaten, and starts again: its first sum must not be used.
	q.ring.Current(minute + 300*ms)
	require.EqualValues(t, 7, q.ring.Newest().Value().base)
	require.Equal(t, admitted(minute+300*ms), q.Take(minute+300*ms, 3, limit))
	require.Equal(t, refused(10, 700*time.Millisecond), q.Take(minute+300*ms, 1, limit))
}

// The same from within: the other goroutines come between the opener's sum and its
// publication, and it must notice by itself.
func TestQuota_AdmissionBetweenSumAndPublication(t *testing.T) {
	t.Parallel()
	const limit = 10
	q := newQuota(t, time.Second, 10, false)
	opened, between := 0, Outcome{}
	whenOpening(t, q, func(start int64) {
		if start == minute+300*ms {
			if opened++; opened == 1 {
				between = q.Take(minute+50*ms, 3, limit)
			}
		}
	})
	require.Equal(t, admitted(minute), q.Take(minute, 4, limit))
	require.Equal(t, refused(7, 700*time.Millisecond), q.Take(minute+300*ms, 6, limit), "with the late sum it would hold 4")
	require.Equal(t, admitted(minute+100*ms), between)
	require.Equal(t, 2, opened)
	require.Equal(t, admitted(minute+300*ms), q.Take(minute+300*ms, 3, limit))
	require.EqualValues(t, 10, q.Admitted())
}

// A chain of suspended openers: each Take gets past the one before it.
func TestQuota_EveryBucketSealedUnderTheTaker(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 10, false)
	for i := range int64(25) {
		want := minute
		if i > 0 {
			abandon(q, minute+3_600_000*ms, q.ring.Newest()) // by one whose clock is far ahead
			want = minute + i*100*ms
		}
		if held := min(i, 9); held < 5 {
			require.Equal(t, admitted(want), q.Take(minute, 1, 5))
		} else {
			o := q.Take(minute, 1, 5)
			q.Refund(o.Ticket, 1)
		}
		require.Equal(t, want, q.ring.Newest().Start())
	}
}

// A call that looked at a bucket before it was sealed cannot be admitted by it after.
func TestQuota_AdmissionDecidedBeforeTheSealComesTooLate(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 10, false)
	require.True(t, q.Take(minute, 4, 10).OK)
	b := q.ring.Newest().Value()
	looked := b.used.Load()
	abandon(q, minute+100*ms, q.ring.Newest())
	require.False(t, b.used.CompareAndSwap(looked, looked+1))
	again, lends := b.seal()
	require.EqualValues(t, 4, again, "sealing twice changes nothing")
	require.False(t, lends)
	require.EqualValues(t, 4, b.count())
}

// Given to the newest bucket, this refund lets 11 of 10 pass.
func TestQuota_RefundAcrossARollOver(t *testing.T) {
	t.Parallel()
	const limit = 10
	q := newQuota(t, time.Second, 2, false)
	first := q.Take(minute, 1, limit)
	require.Equal(t, admitted(minute+500*ms), q.Take(minute+500*ms, 9, limit))
	q.Refund(first.Ticket, 1) // its bucket is sealed: dropped
	require.Equal(t, refused(10, 500*time.Millisecond), q.Take(minute+500*ms, 1, limit))
	// From 1000 ms on the first bucket is out, and the second still holds its 9.
	require.Equal(t, refused(9, 500*time.Millisecond), q.Take(minute+1000*ms, 2, limit))
	require.Equal(t, admitted(minute+1000*ms), q.Take(minute+1000*ms, 1, limit))
	require.EqualValues(t, 10, q.Window(minute+1000*ms))
	require.EqualValues(t, 11, q.Admitted(), "over two windows, the dropped refund included")
}

func TestQuota_RefundToTheChargedBucketWhileItIsTheNewest(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 2, false)
	require.True(t, q.Take(minute, 3, 10).OK)
	second := q.Take(minute+500*ms, 7, 10)
	require.EqualValues(t, 10, q.Window(minute+500*ms))
	q.Refund(second.Ticket, 7)
	require.EqualValues(t, 3, q.Window(minute+999*ms))
	require.EqualValues(t, 3, q.Admitted())
	require.Equal(t, admitted(minute+500*ms), q.Take(minute+999*ms, 7, 10))
	require.Equal(t, refused(10, time.Millisecond), q.Take(minute+999*ms, 1, 10))
}

func TestQuota_RefundAfterTheSealIsDropped(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 2, false)
	o := q.Take(minute, 10, 10)
	next := abandon(q, minute+500*ms, q.ring.Newest()) // has summed up, and is not published
	q.Refund(o.Ticket, 10)
	require.EqualValues(t, 10, next.base)
	require.EqualValues(t, 10, q.Window(minute), "what was summed up does not change")
	require.Equal(t, refused(10, time.Second), q.Take(minute, 1, 10))
}

func TestQuota_RefundOfWhatWasNeverTaken(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 2, false)
	q.Refund(minute, 1) // no bucket yet
	require.Zero(t, q.Admitted())
	o := q.Take(minute, 2, 10)
	q.Refund(o.Ticket, 3) // more than there is
	q.Refund(o.Ticket+1, 2)
	require.EqualValues(t, 2, q.Window(minute))
}

func TestQuota_TimeGoesBack(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 10, false)
	require.Equal(t, admitted(minute+500*ms), q.Take(minute+500*ms, 4, 10))
	// An older now is served by the newest bucket, and stamped with it.
	require.Equal(t, admitted(minute+500*ms), q.Take(minute, 6, 10))
	require.Equal(t, refused(10, 1500*time.Millisecond), q.Take(minute, 1, 10))
	require.Equal(t, refused(10, 1*time.Hour+1500*time.Millisecond), q.Take(minute-3_600_000*ms, 1, 10))
	require.EqualValues(t, 10, q.Window(minute-3_600_000*ms))
	require.EqualValues(t, 10, q.Window(minute+1499*ms))
	require.Zero(t, q.Window(minute+1500*ms))
}

// The axis may begin anywhere.
func TestQuota_TimeBeforeZero(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 2, false)
	require.Equal(t, admitted(-1500*ms), q.Take(-1001*ms, 3, 3))
	require.Equal(t, refused(3, 1), q.Take(-500*ms-1, 1, 3))
	require.Equal(t, admitted(-500*ms), q.Take(-500*ms, 3, 3))
	require.Equal(t, refused(3, 500*time.Millisecond), q.Take(0, 3, 3))
	require.Equal(t, admitted(500*ms), q.Take(500*ms, 3, 3))
}

// A rule's threshold may change while its window lives on.
func TestQuota_LimitLoweredAndRaisedBetweenCalls(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 2, false)
	require.Equal(t, admitted(minute), q.Take(minute, 6, 10))
	require.Equal(t, admitted(minute+500*ms), q.Take(minute+500*ms, 4, 10))
	// Lowered below what is held: the older bucket leaving is not enough for 2 …
	require.Equal(t, refused(10, 500*time.Millisecond), q.Take(minute+500*ms, 1, 5))
	require.Equal(t, refused(10, 1000*time.Millisecond), q.Take(minute+500*ms, 2, 5))
	require.Equal(t, refused(10, Unknown), q.Take(minute+500*ms, 1, 0))
	// … raised, there is room at once, and what was admitted still counts.
	require.Equal(t, refused(10, 500*time.Millisecond), q.Take(minute+500*ms, 3, 12))
	require.Equal(t, admitted(minute+500*ms), q.Take(minute+500*ms, 2, 12))
	require.Equal(t, refused(6, 500*time.Millisecond), q.Take(minute+1000*ms, 1, 6))
	require.Equal(t, admitted(minute+1000*ms), q.Take(minute+1000*ms, 1, 7))
}

func TestQuota_MoreThanTheLimitNeverPasses(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 2, false)
	require.Equal(t, Unknown, q.Wait(minute, 11, 10))
	require.Equal(t, refused(0, Unknown), q.Take(minute, 11, 10))
	require.Equal(t, admitted(minute), q.Take(minute, 10, 10))
	require.Equal(t, refused(10, Unknown), q.Take(minute, 11, 10))
	require.Equal(t, refused(10, Unknown), q.Take(minute, 1, 0))
	require.Equal(t, refused(10, Unknown), q.Take(minute, 1, -5))
	require.Equal(t, refused(0, Unknown), q.Take(minute+3600_000*ms, 11, 10), "also with an empty window")
}

func TestQuota_LargestNumbersDoNotOverflow(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		q := newQuota(t, time.Second, 2, strict)
		require.True(t, q.Take(minute, MaxLimit, MaxLimit).OK)
		o := q.Take(minute, MaxLimit, MaxLimit)
		require.False(t, o.OK)
		require.EqualValues(t, int64(MaxLimit), o.Held)
		require.Positive(t, o.Wait)
		require.False(t, q.Take(minute+500*ms, 1, MaxLimit).OK)
		require.EqualValues(t, int64(MaxLimit), q.Window(minute+500*ms))
		require.True(t, q.Take(minute+1500*ms, MaxLimit, MaxLimit).OK)
	}
}

func TestQuota_NothingTakenYet(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 10, false)
	require.Zero(t, q.Admitted())
	require.Zero(t, q.Window(minute))
	require.Zero(t, q.Wait(minute, 10, 10))
}

// Reading opens no bucket, so that it cannot seal one either.
func TestQuota_ReadingChangesNothing(t *testing.T) {
	t.Parallel()
	q := newQuota(t, time.Second, 10, false)
	require.True(t, q.Take(minute, 4, 10).OK)
	newest := q.ring.Newest()
	require.Zero(t, q.Window(minute+5000*ms))
	require.EqualValues(t, 4, q.Window(minute+900*ms))
	require.Zero(t, q.Wait(minute+5000*ms, 10, 10))
	require.EqualValues(t, 4, q.Admitted())
	require.Same(t, newest, q.ring.Newest())
	require.GreaterOrEqual(t, newest.Value().used.Load(), int64(0))
}

func TestNew_WindowThatCannotBeCut(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		for _, c := range []struct {
			interval time.Duration
			buckets  int
		}{{time.Second, 3}, {time.Second, 0}, {time.Second, -1}, {0, 10}, {-time.Second, 10}, {7, 14}, {time.Second, leaparray.MaxBuckets + 1}} {
			q, err := New(c.interval, c.buckets, strict)
			require.ErrorIs(t, err, leaparray.ErrConfig, "%v in %d, strict %v", c.interval, c.buckets, strict)
			require.Nil(t, q)
		}
	}
}

// Not parallel: allocations are counted for the whole process.
func TestQuota_AllocatesOnlyToOpenABucket(t *testing.T) {
	const limit = 1 << 40
	q := newQuota(t, time.Second, 10, false)
	now := minute
	for range 10 {
		require.True(t, q.Take(now, 5, limit).OK)
		now += 100 * ms
	}
	require.True(t, q.Take(now, 5, limit).OK)
	for name, f := range map[string]func(){
		"admitted":                         func() { q.Take(now, 1, limit) },
		"refused by the oldest bucket":     func() { q.Take(now, 1, 50) },
		"refused by several":               func() { q.Take(now, 12, 30) },
		"refused for ever":                 func() { q.Take(now, limit+1, limit) },
		"taken and given back":             func() { q.Refund(q.Take(now, 1, limit).Ticket, 1) },
		"given back late":                  func() { q.Refund(minute, 1) },
		"the window":                       func() { q.Window(now) },
		"the window of a later time":       func() { q.Window(now + 300*ms) },
		"the wait":                         func() { q.Wait(now, 12, 30) },
		"all that was ever admitted":       func() { q.Admitted() },
		"admitted although time goes back": func() { q.Take(now-500*ms, 1, limit) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		now += 100 * ms
		q.Take(now, 1, limit)
	}), 2.0, "a bucket and its wrap")
}
