package quota

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// borrow is Borrow without what the window held, unless it refuses.
func borrow(q *Quota, now, n, limit int64, maxWait time.Duration) Outcome {
	o := q.Borrow(now, n, limit, maxWait)
	if o.OK {
		o.Held = 0
	}
	return o
}

func borrowed(ticket int64, wait time.Duration) Outcome {
	return Outcome{OK: true, Ticket: ticket, Wait: wait}
}

const (
	halfSecond = 500 * time.Millisecond
	second     = time.Second
	hour       = time.Hour
)

func TestQuota_BorrowWhatTheOldestBucketWillLeave(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.Equal(t, 10, try(q, minute, 10, 10))
	for range 10 {
		require.Equal(t, borrowed(minute+1000*ms, 300*time.Millisecond), borrow(q, minute+700*ms, 1, 10, halfSecond))
	}
	require.Equal(t, refused(10, 1300*time.Millisecond), borrow(q, minute+700*ms, 1, 10, halfSecond))
	require.EqualValues(t, 20, q.Admitted(), "what was borrowed counts at once")

	// At 1000 ms the bucket starts with 10.
	require.EqualValues(t, 10, q.Window(minute+1000*ms))
	require.Equal(t, refused(10, second), q.Take(minute+1000*ms, 1, 10))
	require.EqualValues(t, 10, q.ring.Newest().Value().count())
	require.EqualValues(t, 20, q.Admitted())
	require.Equal(t, 10, try(q, minute+2000*ms, 20, 10))
}

// The first wait frees nothing, and the next is too long.
func TestQuota_BorrowFromABucketTooFarAhead(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.Equal(t, 10, try(q, minute+500*ms, 10, 10))
	require.Equal(t, refused(10, 800*time.Millisecond), borrow(q, minute+700*ms, 1, 10, halfSecond))
	require.Equal(t, refused(10, 800*time.Millisecond), borrow(q, minute+700*ms, 1, 10, 800*time.Millisecond-1))
	require.Equal(t, refused(10, 800*time.Millisecond), borrow(q, minute+700*ms, 1, 10, 0))
	require.Equal(t, refused(10, 800*time.Millisecond), borrow(q, minute+700*ms, 1, 10, -hour))
	require.EqualValues(t, 10, q.Admitted())
	require.Equal(t, borrowed(minute+1500*ms, 800*time.Millisecond), borrow(q, minute+700*ms, 1, 10, 800*time.Millisecond), "the longest wait is included")
}

func TestQuota_BorrowWhenThereIsRoomNow(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.Equal(t, admitted(minute), borrow(q, minute, 4, 10, hour))
	require.Equal(t, admitted(minute), borrow(q, minute, 6, 10, -1))
	require.EqualValues(t, 10, q.ring.Newest().Value().used.Load(), "nothing was lent")
}

func TestQuota_BorrowFromAStrictQuota(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, true)
	require.Equal(t, 10, try(q, minute+499*ms, 10, 10))
	require.Equal(t, refused(10, 800*time.Millisecond), borrow(q, minute+700*ms, 1, 10, 799*time.Millisecond))
	for range 10 {
		require.Equal(t, borrowed(minute+1500*ms, 800*time.Millisecond), borrow(q, minute+700*ms, 1, 10, second))
	}
	require.Equal(t, refused(10, 2300*time.Millisecond), borrow(q, minute+700*ms, 1, 10, second))
	require.Equal(t, refused(10, 2000*time.Millisecond), q.Take(minute+1000*ms, 1, 10))
	require.Equal(t, refused(10, 1500*time.Millisecond), q.Take(minute+1500*ms, 1, 10))
	require.EqualValues(t, 10, q.ring.Newest().Value().count())
	require.Equal(t, refused(10, 1), q.Take(minute+3000*ms-1, 1, 10))
	require.Equal(t, 10, try(q, minute+3000*ms, 20, 10))
}

func TestQuota_BorrowFromSeveralBuckets(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 4, false)
	require.True(t, q.Take(minute, 4, 10).OK)
	require.True(t, q.Take(minute+250*ms, 3, 10).OK)
	require.True(t, q.Take(minute+500*ms, 3, 10).OK)
	now := minute + 600*ms
	require.Equal(t, borrowed(minute+1250*ms, 650*time.Millisecond), borrow(q, now, 5, 10, second), "needs two of them to leave")
	require.Equal(t, borrowed(minute+1000*ms, 400*time.Millisecond), borrow(q, now, 2, 10, second), "goes before the one that came first")
	require.Equal(t, borrowed(minute+1500*ms, 900*time.Millisecond), borrow(q, now, 1, 10, second), "only 2 more at 1000 or 1250 ms, and then none")
	require.Equal(t, refused(10, 900*time.Millisecond), borrow(q, now, 2, 10, 899*time.Millisecond))
	require.Equal(t, borrowed(minute+1500*ms, 900*time.Millisecond), borrow(q, now, 2, 10, second))
	require.Equal(t, borrowed(minute+2000*ms, 1400*time.Millisecond), borrow(q, now, 2, 10, 2*second), "what was borrowed at 1000 ms leaves, too")
	require.Equal(t, borrowed(minute+3000*ms, 2400*time.Millisecond), borrow(q, now, 10, 10, 3*second), "two windows later")

	for at, want := range map[int64]int64{600: 10, 999: 10, 1000: 8, 1250: 10, 1499: 10, 1500: 10, 1750: 10, 2000: 10, 2250: 5, 2500: 2, 2750: 2, 3000: 10, 3999: 10, 4000: 0} {
		require.Equal(t, want, q.Window(minute+at*ms), "@%d", at)
	}
	require.Equal(t, minute+500*ms, q.ring.Newest().Start(), "reading opens nothing")
	require.EqualValues(t, 32, q.Admitted())
}

// A call that has room now is refused if those that have borrowed would not have it
// any more, and is told the truth about when it has.
func TestQuota_RoomNowButWhatWasLentNeedsIt(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.True(t, q.Take(minute, 5, 10).OK)
	loan := borrow(q, minute+500*ms, 8, 10, second)
	require.Equal(t, borrowed(minute+1000*ms, halfSecond), loan)
	require.EqualValues(t, 5, q.Window(minute+500*ms))
	require.Equal(t, refused(8, 1500*time.Millisecond), q.Take(minute+500*ms, 3, 10), "it would be 11 at 1000 ms")
	require.Equal(t, admitted(minute+500*ms), q.Take(minute+500*ms, 2, 10))
	require.Equal(t, refused(10, 1000*time.Millisecond), q.Take(minute+500*ms, 1, 10))
	require.Equal(t, 1000*time.Millisecond, q.Wait(minute+500*ms, 1, 10))
	require.Equal(t, refused(10, 500*time.Millisecond), q.Take(minute+1000*ms, 1, 10))
	q.Refund(loan.Ticket, 8)
	require.Equal(t, admitted(minute+1000*ms), q.Take(minute+1000*ms, 8, 10))
}

// A loan need not be of the next bucket to stand in the way.
func TestQuota_LaterLoanStandsInTheWay(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.True(t, q.Take(minute, 4, 10).OK)
	require.True(t, q.Take(minute+500*ms, 5, 10).OK)
	require.Equal(t, borrowed(minute+1500*ms, 800*time.Millisecond), borrow(q, minute+700*ms, 6, 10, second))
	require.Equal(t, admitted(minute+500*ms), q.Take(minute+700*ms, 1, 10), "will have left by then")
	require.Equal(t, borrowed(minute+2500*ms, 1800*time.Millisecond), borrow(q, minute+700*ms, 5, 10, hour), "5 of 10 fit at 1000 ms, but not at 1500 ms")
	require.Equal(t, admitted(minute+1000*ms), q.Take(minute+1000*ms, 4, 10))
	require.Equal(t, refused(10, 1000*time.Millisecond), q.Take(minute+1000*ms, 1, 10))
	require.Equal(t, refused(10, 500*time.Millisecond), q.Take(minute+1500*ms, 1, 10))
	require.Equal(t, admitted(minute+2000*ms), q.Take(minute+2000*ms, 4, 10), "what was borrowed of 2500 ms leaves 5, and 6 are still there")
}

// What is admitted after a loan was made and before its bucket opens counts there.
func TestQuota_LoanOutlastsSeveralOpenings(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 4, false)
	require.True(t, q.Take(minute, 3, 10).OK)
	require.Equal(t, borrowed(minute+1000*ms, second), borrow(q, minute, 8, 10, second))
	require.Equal(t, admitted(minute+250*ms), q.Take(minute+250*ms, 2, 10))
	require.Equal(t, refused(10, 750*time.Millisecond), q.Take(minute+500*ms, 1, 10), "the 3 will have left at 1000 ms, the 2 not")
	require.Equal(t, borrowed(minute+1250*ms, 750*time.Millisecond), borrow(q, minute+500*ms, 1, 10, second))
	require.Equal(t, refused(10, 500*time.Millisecond), q.Take(minute+750*ms, 1, 10))
	require.Equal(t, refused(10, 250*time.Millisecond), q.Take(minute+1000*ms, 1, 10))
	require.Equal(t, admitted(minute+1250*ms), q.Take(minute+1250*ms, 1, 10))
}

func TestQuota_BorrowMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.Equal(t, refused(0, Unknown), borrow(q, minute, 11, 10, hour))
	require.Equal(t, admitted(minute), borrow(q, minute, 10, 10, hour))
	require.Equal(t, refused(10, Unknown), borrow(q, minute, 11, 10, hour))
	require.Equal(t, borrowed(minute+1000*ms, second), borrow(q, minute, 10, 10, hour))
	require.Equal(t, refused(10, Unknown), borrow(q, minute, 11, 10, hour))
	require.Equal(t, refused(10, Unknown), q.Take(minute, 1, 0))
	require.Equal(t, Unknown, q.Wait(minute, 1, -5))
}

func TestQuota_BorrowTheLargestNumbers(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		q := newQuota(t, second, 2, strict)
		require.True(t, q.Take(minute, MaxLimit, MaxLimit).OK)
		for range 2 {
			require.True(t, borrow(q, minute, MaxLimit, MaxLimit, hour).OK)
		}
		o := q.Take(minute+1500*ms, MaxLimit, MaxLimit)
		require.False(t, o.OK)
		require.EqualValues(t, int64(MaxLimit), o.Held)
		require.Positive(t, o.Wait)
		require.True(t, q.Take(minute+1500*ms+int64(o.Wait), MaxLimit, MaxLimit).OK)
	}
}

func TestQuota_RefundOfALoan(t *testing.T) {
	t.Parallel()
	const ticket = minute + 1000*ms
	setUp := func(t *testing.T) *Quota {
		t.Helper()
		q := newQuota(t, second, 2, false)
		require.Equal(t, 10, try(q, minute, 10, 10))
		require.Equal(t, borrowed(ticket, halfSecond), borrow(q, minute+500*ms, 4, 10, second))
		require.Equal(t, borrowed(ticket, halfSecond), borrow(q, minute+500*ms, 6, 10, second))
		return q
	}
	t.Run("before its bucket opens", func(t *testing.T) {
		t.Parallel()
		q := setUp(t)
		require.False(t, borrow(q, minute+500*ms, 4, 10, second).OK)
		q.Refund(ticket, 4)
		require.EqualValues(t, 16, q.Admitted())
		require.Equal(t, borrowed(ticket, halfSecond), borrow(q, minute+500*ms, 3, 10, second))
		q.Refund(ticket, 3)
		q.Refund(ticket, 6)
		require.Nil(t, q.ring.Newest().Value().ahead.Load(), "nothing is lent any more")
		require.Equal(t, 10, try(q, ticket, 20, 10))
	})
	t.Run("once its bucket is the newest", func(t *testing.T) {
		t.Parallel()
		q := setUp(t)
		require.False(t, q.Take(ticket, 1, 10).OK)
		q.Refund(ticket, 4)
		require.EqualValues(t, 16, q.Admitted())
		require.Equal(t, 4, try(q, ticket, 20, 10))
	})
	t.Run("when its bucket is sealed", func(t *testing.T) {
		t.Parallel()
		q := setUp(t)
		require.False(t, q.Take(ticket+500*ms, 1, 10).OK)
		q.Refund(ticket, 4)
		require.EqualValues(t, 20, q.Admitted())
		require.Equal(t, refused(10, halfSecond), q.Take(ticket+500*ms, 1, 10))
	})
	t.Run("when an opener is suspended that has sealed what was lent", func(t *testing.T) {
		t.Parallel()
		q := setUp(t)
		abandoned := abandon(q, minute+3_600_000*ms, q.ring.Newest())
		require.EqualValues(t, 0, abandoned.used.Load(), "long past")
		q.Refund(ticket, 4) // opens the bucket at 1000 ms and gives it back there
		require.Equal(t, ticket, q.ring.Newest().Start())
		require.EqualValues(t, 6, q.Window(ticket))
		require.Equal(t, 4, try(q, ticket, 20, 10))
	})
	t.Run("of what was never lent", func(t *testing.T) {
		t.Parallel()
		q := setUp(t)
		q.Refund(ticket, 11) // more than there is
		q.Refund(ticket+500*ms, 1)
		q.Refund(ticket+1, 1)
		q.Refund(ticket-1, 1)
		require.EqualValues(t, 20, q.Admitted())
		abandon(q, ticket, q.ring.Newest())
		q.Refund(ticket+500*ms, 1)
		require.EqualValues(t, 10, q.Window(ticket))
		require.EqualValues(t, 20, q.Admitted())
	})
}

func TestQuota_LimitChangedWhileLoansAreOut(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.True(t, q.Take(minute, 10, 10).OK)
	require.True(t, borrow(q, minute+500*ms, 8, 10, second).OK)

	// Lowered below what was lent: that is kept, nothing is added …
	require.Equal(t, refused(10, 1500*time.Millisecond), borrow(q, minute+500*ms, 1, 5, second))
	require.Equal(t, refused(10, Unknown), borrow(q, minute+500*ms, 1, 0, hour))
	// … but to a bucket that has nothing to do with it.
	require.Equal(t, borrowed(minute+2000*ms, 1500*time.Millisecond), borrow(q, minute+500*ms, 5, 5, hour))

	// Raised, there is room now, and what was lent still counts.
	require.Equal(t, admitted(minute+500*ms), borrow(q, minute+500*ms, 2, 12, second))
	require.Equal(t, borrowed(minute+1000*ms, halfSecond), borrow(q, minute+500*ms, 2, 12, second))
	require.Equal(t, refused(12, 1000*time.Millisecond), q.Take(minute+500*ms, 1, 12))

	require.Equal(t, refused(12, 1000*time.Millisecond), q.Take(minute+1000*ms, 1, 10))
	require.Equal(t, admitted(minute+1000*ms), q.Take(minute+1000*ms, 1, 13))
	require.EqualValues(t, 11, q.Window(minute+1500*ms))
	require.EqualValues(t, 5, q.Window(minute+2000*ms))
}

// The next call may come late. What was lent is in its own buckets even so,
// and forgotten when they are.
func TestQuota_BucketsOfWhichSomethingWasLentAreNotSkipped(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T) *Quota {
		t.Helper()
		q := newQuota(t, second, 4, false)
		require.True(t, q.Take(minute, 6, 10).OK)
		require.True(t, q.Take(minute+250*ms, 4, 10).OK)
		require.Equal(t, borrowed(minute+1000*ms, 750*time.Millisecond), borrow(q, minute+250*ms, 5, 10, second))
		require.Equal(t, borrowed(minute+1250*ms, 1000*time.Millisecond), borrow(q, minute+250*ms, 3, 10, second))
		return q
	}
	for at, want := range map[int64]Outcome{
		1000: refused(9, second), // 4 leave at 1250 ms, but 3 come
		1300: refused(8, 700*time.Millisecond),
		1700: refused(8, 300*time.Millisecond),
		1999: refused(8, time.Millisecond),
		2000: admitted(minute + 2000*ms),
		2300: admitted(minute + 2250*ms),
	} {
		q := setUp(t)
		require.Equal(t, want, q.Take(minute+at*ms, 4, 10), "@%d", at)
	}

	q := setUp(t)
	require.True(t, q.Take(minute+3_600_000*ms, 10, 10).OK, "an hour later nothing is left")
	require.EqualValues(t, 28, q.Admitted())

	q = setUp(t)
	require.True(t, q.Take(minute+1700*ms, 1, 10).OK)
	require.Equal(t, []int64{1000, 1250, 1500}, starts(q, minute+1700*ms))
	q.Refund(minute+1000*ms, 5) // is sealed: dropped
	require.EqualValues(t, 9, q.Window(minute+1700*ms))
	require.EqualValues(t, 4, q.Window(minute+2000*ms))
	require.EqualValues(t, 1, q.Window(minute+2250*ms))
}

// starts returns the starts of the live buckets, in ms after the minute.
func starts(q *Quota, now int64) (all []int64) {
	for w := range q.ring.Live(now) {
		all = append(all, (w.Start()-minute)/ms)
	}
	return all
}

// An opener that saw nothing lent, and is late, skips what was lent meanwhile. The
// bucket it opens keeps that: nothing is forgotten too early.
func TestQuota_LentWhileABucketAfterItIsOpened(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 4, false)
	require.True(t, q.Take(minute, 10, 10).OK)
	require.True(t, borrow(q, minute+250*ms, 5, 10, second).OK)
	require.True(t, borrow(q, minute+250*ms, 5, 10, second).OK)
	require.Equal(t, borrowed(minute+2000*ms, 1750*time.Millisecond), borrow(q, minute+250*ms, 3, 10, hour))
	require.Equal(t, borrowed(minute+2000*ms, 1750*time.Millisecond), borrow(q, minute+250*ms, 4, 10, hour))
	late := q.ring.Current(minute + 1700*ms).Value() // not by q.current, which would look
	require.EqualValues(t, 10, late.count())
	require.EqualValues(t, 27, q.Admitted())
	require.EqualValues(t, 10, q.Window(minute+1700*ms))
	require.EqualValues(t, 17, q.Window(minute+2000*ms), "until 2500 ms, although they could be forgotten")
	require.EqualValues(t, 7, q.Window(minute+2500*ms))
	q.Refund(minute+1000*ms, 5)
	require.EqualValues(t, 27, q.Admitted(), "dropped")
	require.Equal(t, refused(17, 800*time.Millisecond), q.Take(minute+1700*ms, 1, 10))
	require.Equal(t, admitted(minute+2500*ms), q.Take(minute+2500*ms, 3, 10))

	// What is out of every window is counted as admitted, and that is all.
	q = newQuota(t, second, 4, false)
	require.True(t, q.Take(minute, 10, 10).OK)
	require.True(t, borrow(q, minute+250*ms, 5, 10, second).OK)
	require.True(t, borrow(q, minute+250*ms, 10, 10, hour).OK)
	late = q.ring.Current(minute + 2000*ms).Value()
	require.EqualValues(t, 10, late.count())
	require.EqualValues(t, 15, late.before)
	require.EqualValues(t, 25, q.Admitted())
}

func TestQuota_BorrowWhenTimeGoesBack(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.True(t, q.Take(minute+500*ms, 10, 10).OK)
	// The newest bucket serves an older now, and so it is the one after it that lends.
	require.Equal(t, refused(10, 1500*time.Millisecond), borrow(q, minute, 1, 10, 1499*time.Millisecond))
	require.Equal(t, borrowed(minute+1500*ms, 1500*time.Millisecond), borrow(q, minute, 4, 10, 1500*time.Millisecond))
	require.Equal(t, borrowed(minute+1500*ms, hour+1500*time.Millisecond), borrow(q, minute-3_600_000*ms, 6, 10, 2*hour))
	require.Equal(t, refused(10, 2500*time.Millisecond), q.Take(minute, 1, 10))
	require.EqualValues(t, 10, q.Window(minute))
	q.Refund(minute+1500*ms, 6)
	require.False(t, q.Take(minute+1500*ms, 7, 10).OK)
	require.Equal(t, admitted(minute+1500*ms), borrow(q, minute, 6, 10, hour))
}

// The axis may begin anywhere.
func TestQuota_BorrowBeforeZero(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.Equal(t, admitted(-1500*ms), q.Take(-1001*ms, 3, 3))
	require.Equal(t, borrowed(-500*ms, 501*time.Millisecond), borrow(q, -1001*ms, 2, 3, second))
	require.Equal(t, borrowed(500*ms, 1501*time.Millisecond), borrow(q, -1001*ms, 2, 3, hour))
	require.EqualValues(t, 2, q.Window(-1))
	require.EqualValues(t, 2, q.Window(499*ms))
	require.Equal(t, admitted(0), q.Take(0, 1, 3))
	require.Equal(t, refused(3, halfSecond), q.Take(500*ms, 1, 3))
}

// An opener that is suspended has sealed both words. Those that borrow go on.
func TestQuota_BorrowFromASealedBucket(t *testing.T) {
	t.Parallel()
	for name, lentBefore := range map[string]bool{"something was lent before": true, "nothing was lent before": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuota(t, second, 10, false)
			require.True(t, q.Take(minute, 10, 10).OK)
			if lentBefore {
				require.True(t, borrow(q, minute, 3, 10, second).OK)
			}
			old := q.ring.Newest()
			abandon(q, minute+700*ms, old)
			require.Equal(t, borrowed(minute+1000*ms, second), borrow(q, minute, 2, 10, second))
			require.Equal(t, minute+100*ms, q.ring.Newest().Start())

			// One that has not noticed cannot write to the old bucket any more.
			_, ok := old.Value().announce()
			require.False(t, ok)
			require.Equal(t, lentBefore, old.Value().ahead.Load().closed())

			// The opener goes on, is beaten, and starts again.
			q.ring.Current(minute + 700*ms)
			require.EqualValues(t, q.Admitted()-10, q.Window(minute+1000*ms))
			require.False(t, q.Take(minute+700*ms, 1, 10).OK)
		})
	}
}

// It can be found too late that the room is gone. Then what was reserved is given
// back, also if another bucket has taken it over by then.
func TestQuota_RoomGoneBetweenLookAndReservation(t *testing.T) {
	t.Parallel()
	q := newQuota(t, second, 2, false)
	require.True(t, q.Take(minute, 10, 10).OK)
	require.True(t, q.Take(minute+500*ms, 1, 20).OK)
	require.False(t, q.reserve(minute+1000*ms, 10, 10), "somebody was admitted")
	require.False(t, q.reserve(minute+500*ms, 1, 10), "somebody has opened that bucket")
	require.True(t, q.reserve(minute+1000*ms, 9, 10))
	require.False(t, q.reserve(minute+1000*ms, 1, 10), "somebody has borrowed it")
	require.EqualValues(t, 20, q.Admitted())
}

// Not parallel: allocations are counted for the whole process.
func TestQuota_AllocatesForTheListOfLoansOnly(t *testing.T) {
	const limit = 1 << 40
	q := newQuota(t, second, 10, false)
	require.True(t, q.Take(minute, 10, 10).OK)
	require.True(t, borrow(q, minute+500*ms, 5, 10, second).OK)
	now := minute + 500*ms
	for name, f := range map[string]func(){
		"admitted beside a loan":    func() { q.Take(now, 1, limit) },
		"refused beside a loan":     func() { q.Take(now, 1, 10) },
		"taken and given back":      func() { q.Refund(q.Take(now, 1, limit).Ticket, 1) },
		"has to wait too long":      func() { borrow(q, now, 6, 10, 0) },
		"need not borrow":           func() { borrow(q, now, 1, limit, second) },
		"the window of a later one": func() { q.Window(now + 300*ms) },
		"the wait":                  func() { q.Wait(now, 12, 30) },
		"given back, but not lent":  func() { q.Refund(minute+1100*ms, 1) },
		"all that was admitted":     func() { q.Admitted() },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		q.Refund(borrow(q, now, 1, q.Admitted(), second).Ticket, 1)
	}), 4.0, "two lists, each with its array")
}

// A clock that jumps back further than a difference can hold: nobody waits so long, and everybody
// is told so.
func TestQuota_TimeGoesBackFurtherThanADifferenceCanHold(t *testing.T) {
	t.Parallel()
	const back = -1 << 62
	q := newQuota(t, second, 2, false)
	require.True(t, q.Take(3<<61, 10, 10).OK)
	for range 2 { // the second time, something is lent
		for _, now := range []int64{back, back - 3600*ms, math.MinInt64} {
			require.Equal(t, refused(10, math.MaxInt64), q.Take(now, 1, 10))
			require.Equal(t, refused(10, math.MaxInt64), q.Borrow(now, 1, 10, 24*hour))
			require.EqualValues(t, int64(math.MaxInt64), q.Wait(now, 1, 10))
			require.EqualValues(t, 10, q.Window(now))
		}
		require.True(t, q.Borrow(3<<61, 1, 10, hour).OK)
	}
	require.True(t, q.Take(3<<61+2000*ms, 9, 10).OK)
}

// Buckets at the end of the axis leave the window after it: nothing is lent of what follows, and
// nobody is told that there is room by now.
func TestQuota_EndOfTheAxis(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		q := newQuota(t, second, 2, strict)
		require.True(t, q.Take(math.MaxInt64, 10, 10).OK)
		for _, now := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - 3600*ms, 0, -1 << 62, math.MinInt64} {
			wait := time.Duration(math.MaxInt64 - max(now, 0))
			require.Equal(t, refused(10, wait), q.Take(now, 1, 10))
			require.Equal(t, refused(10, wait), q.Borrow(now, 1, 10, 24*hour))
			require.EqualValues(t, 10, q.Window(now))
		}
	}
	q := newQuota(t, second, 2, false)
	const full = math.MaxInt64 - 1700*ms
	require.True(t, q.Take(full, 10, 10).OK)
	require.False(t, q.Borrow(full, 1, 10, hour).OK, "it would leave after the end")
	require.Positive(t, q.Wait(full, 1, 10))
	require.True(t, q.Take(math.MaxInt64, 10, 10).OK)
}
