package quota

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ledger is what goroutines were admitted and gave back: the truth about a quota.
type ledger struct {
	mu       sync.Mutex
	kept     []admissionAt // all admissions, less what was given back of them
	borrowed int           // of all admissions
	returned int           // of what was borrowed, before its bucket or in it
}

func (l *ledger) perBucket() (all map[int64]int64, total int64) {
	all = make(map[int64]int64)
	for _, a := range l.kept {
		all[a.ticket] += a.n
		total += a.n
	}
	return all, total
}

// borrowers lets goroutines take, borrow and give back as they please, and move the
// shared clock on: by 0 to 1.5 buckets, now and then by several. Two in three
// admissions are for good, so that the window gets full.
func borrowers(q *Quota, goroutines int, limit, steps int64, seed uint64) *ledger {
	length := int64(q.ring.Length())
	var clock, moved atomic.Int64
	clock.Store(minute)
	var l ledger
	var done sync.WaitGroup
	for id := range goroutines {
		done.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(id)))
			var kept []admissionAt
			var held []admissionAt // to be given back later
			var lent, returned int
			giveBack := func(a admissionAt) {
				if !q.refund(a.ticket, a.n) {
					kept = append(kept, a) // dropped: its bucket was sealed
				} else if a.ticket > a.now {
					returned++
				}
			}
			for moved.Load() < steps {
				now, step := clock.Load(), moved.Load()
				if random.IntN(16) == 0 {
					runtime.Gosched() // suspended with an old now
				}
				var o Outcome
				var n int64
				if random.IntN(2) == 0 {
					n = 1 + random.Int64N(2)
					o = q.Take(now, n, limit)
				} else {
					n = 1 + random.Int64N(4)
					o = q.Borrow(now, n, limit, time.Duration(random.Int64N(q.interval)))
				}
				if o.OK {
					if o.Wait > 0 {
						lent++
					}
					a := admissionAt{now, o.Ticket, n}
					switch random.IntN(6) {
					case 0:
						giveBack(a)
					case 1:
						held = append(held, a)
					default:
						kept = append(kept, a)
					}
				}
				if len(held) > 0 && random.IntN(4) == 0 {
					giveBack(held[0])
					held = held[1:]
				}
				if o.OK && random.IntN(8) != 0 {
					continue
				}
				ahead := (step*7919)%(length*3/2) + 1
				if step%29 == 0 {
					ahead += 3 * length
				}
				if clock.CompareAndSwap(now, now+ahead) {
					moved.Add(1)
				}
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.kept = append(append(l.kept, kept...), held...)
			l.borrowed += lent
			l.returned += returned
		})
	}
	done.Wait()
	return &l
}

// The race: those that take against those that borrow, all of them against those that
// give back and those that open. What is borrowed counts in the bucket of its ticket.
// No window may hold more than the limit, and the fullest holds exactly that.
func TestQuota_HammerBorrowers(t *testing.T) {
	t.Parallel()
	const limit = 20
	for _, strict := range []bool{false, true} {
		for _, goroutines := range []int{16, 64} {
			for _, slow := range []bool{false, true} {
				t.Run(fmt.Sprintf("strict=%v/goroutines=%d/slow=%v", strict, goroutines, slow), func(t *testing.T) {
					t.Parallel()
					q := newQuota(t, time.Second, 5, strict)
					steps := int64(30_000)
					if slow {
						slowOpeners(t, q)
						steps = 8000
					}
					l := borrowers(q, goroutines, limit, steps, 1)
					perBucket, total := l.perBucket()
					require.EqualValues(t, limit, mostAligned(perBucket, int64(q.ring.Length()), q.interval), "the fullest window")
					if strict {
						require.EqualValues(t, limit, mostIn(l.kept, int64(time.Second)), "the fullest interval, wherever it begins")
					}
					require.Greater(t, l.borrowed, 100)
					require.NotZero(t, l.returned)
					require.GreaterOrEqual(t, q.Admitted(), total, "somebody was admitted and not counted")
				})
			}
		}
	}
}

// The race: one word against the other. Each fits alone, and the two together do
// not, in a bucket to come. There is no other chance to notice than the look at the
// other word after the own was written.
func TestQuota_HammerTakersAgainstBorrowers(t *testing.T) {
	t.Parallel()
	const limit, goroutines, turns = 10, 16, 30_000
	q := newQuota(t, time.Second, 2, false)
	// At 500 ms there is room for 4 more, and at 1000 ms, when 5 have left, for 9.
	require.True(t, q.Take(minute, 5, limit).OK)
	require.True(t, q.Take(minute+500*ms, 1, limit).OK)
	var admitted, taken, lent atomic.Int64
	var done sync.WaitGroup
	for id := range goroutines {
		done.Go(func() {
			n, count, maxWait := int64(3), &taken, time.Duration(-1)
			if id%2 == 0 {
				n, count, maxWait = 7, &lent, 500*time.Millisecond
			}
			for turn := range turns {
				o := q.Borrow(minute+500*ms, n, limit, maxWait)
				if !o.OK {
					if turn%4 == 0 {
						runtime.Gosched() // to one of the others, of those that are here as often
					}
					continue
				}
				count.Add(1)
				if held := admitted.Add(n); held > limit-1 {
					t.Errorf("the window at 1000 ms holds %d of %d", held+1, limit)
				}
				if turn%64 == 0 {
					runtime.Gosched()
				}
				admitted.Add(-n)
				q.Refund(o.Ticket, n)
			}
		})
	}
	done.Wait()
	require.EqualValues(t, 6, q.Admitted(), "all was given back")
	require.NotZero(t, taken.Load())
	require.NotZero(t, lent.Load())
	t.Logf("%d taken, %d lent", taken.Load(), lent.Load())
}

// The race: nobody seals, so that nothing is dropped and the count of what is lent
// is exact.
func TestQuota_HammerLoansWhileTheClockStands(t *testing.T) {
	t.Parallel()
	const limit, goroutines, turns = 20, 16, 5000
	q := newQuota(t, time.Second, 10, false)
	require.True(t, q.Take(minute, limit, limit).OK)
	var kept atomic.Int64
	var done sync.WaitGroup
	for range goroutines {
		done.Go(func() {
			for turn := range int64(turns) {
				n := turn%3 + 1
				o := q.Borrow(minute+100*ms, n, limit, 900*time.Millisecond)
				if !o.OK {
					continue
				}
				if o.Ticket != minute+1000*ms {
					t.Errorf("borrowed from %d", o.Ticket)
				}
				if turn == turns/2 {
					kept.Add(n)
				} else {
					q.Refund(o.Ticket, n)
				}
			}
		})
	}
	done.Wait()
	require.EqualValues(t, limit+kept.Load(), q.Admitted())
	require.Equal(t, kept.Load(), q.Window(minute+1000*ms))
	require.Equal(t, int(limit-kept.Load()), try(q, minute+1000*ms, 2*limit, limit))
}
