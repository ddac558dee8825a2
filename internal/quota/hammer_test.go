package quota

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hammer lets goroutines take n of limit as fast as they can. A goroutine that is
// refused moves the shared clock on, by a step of 0 to 1.5 buckets, now and then
// by several: so in the bucket from which it moved there was no room left. From
// time to time they all are less greedy and move it after an admission too, so that
// buckets are sealed while there is room in them. It returns all admissions, and the
// buckets in which there was no room.
func hammer(q *Quota, goroutines int, n, limit, steps int64) (all []admissionAt, full map[int64]bool) {
	length := int64(q.ring.Length())
	var clock, moved atomic.Int64
	clock.Store(minute)
	var mu sync.Mutex // guards all and full while the goroutines end
	full = make(map[int64]bool)
	var done sync.WaitGroup
	for id := range goroutines {
		done.Go(func() {
			var mine []admissionAt
			var refusedAt []int64
			for turn := id; moved.Load() < steps; turn++ {
				now := clock.Load()
				if turn%16 == 0 {
					runtime.Gosched() // suspended with an old now
				}
				o, step := q.Take(now, n, limit), moved.Load()
				if o.OK {
					mine = append(mine, admissionAt{now, o.Ticket, n})
					if greedy := step/50%2 == 0; greedy || turn%2 == 0 {
						continue
					}
				}
				ahead := (step*7919)%(length*3/2) + 1
				if step%29 == 0 {
					ahead += 3 * length
				}
				if clock.CompareAndSwap(now, now+ahead) {
					moved.Add(1)
					if !o.OK {
						refusedAt = append(refusedAt, now-now%length)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			for _, start := range refusedAt {
				full[start] = true
			}
		})
	}
	done.Wait()
	return all, full
}

type admissionAt struct{ now, ticket, n int64 }

func mostIn(all []admissionAt, length int64) int64 {
	times := make([]stamped, len(all))
	for i, a := range all {
		times[i] = stamped{max(a.now, a.ticket), a.n}
	}
	return most(times, length)
}

// slowOpeners makes a goroutine that opens a bucket let others run between the sealing of
// the old one and the publication of the new.
func slowOpeners(t testing.TB, q *Quota) {
	whenOpening(t, q, func(int64) { runtime.Gosched() })
}

// The race: admissions against the openings that freeze, sum up and replace the
// bucket they go to. Nobody may get past the limit, and what there is to give is
// given, exactly.
func TestQuota_HammerTakersAgainstOpeners(t *testing.T) {
	t.Parallel()
	const limit = 40
	for _, strict := range []bool{false, true} {
		for _, goroutines := range []int{16, 64} {
			for _, n := range []int64{1, 7} {
				for _, slow := range []bool{false, true} {
					t.Run(fmt.Sprintf("strict=%v/goroutines=%d/n=%d/slow=%v", strict, goroutines, n, slow), func(t *testing.T) {
						t.Parallel()
						q := newQuota(t, time.Second, 10, strict)
						steps := int64(20_000)
						if slow {
							slowOpeners(t, q)
							steps = 4000
						}
						all, full := hammer(q, goroutines, n, limit, steps)
						requireExact(t, q, all, full, limit/n*n)
						if strict {
							require.Equal(t, limit/n*n, mostIn(all, int64(time.Second)), "the fullest interval, wherever it begins")
						}
					})
				}
			}
		}
	}
}

// requireExact holds all admissions against the most that a window can take.
func requireExact(t *testing.T, q *Quota, all []admissionAt, full map[int64]bool, most int64) {
	t.Helper()
	length, interval := int64(q.ring.Length()), q.interval
	perBucket := make(map[int64]int64)
	total := int64(0)
	for _, a := range all {
		perBucket[a.ticket] += a.n
		total += a.n
	}
	require.Equal(t, total, q.Admitted())
	require.Equal(t, most, mostAligned(perBucket, length, interval), "the fullest window")
	require.Greater(t, len(full), 100)
	for end := range full {
		sum := int64(0)
		for start := end; start > end-interval; start -= length {
			sum += perBucket[start]
		}
		require.Equal(t, most, sum, "the window of the bucket at %d, in which somebody was refused", end)
	}
}

// The race: a refund against the sealing of the bucket that was charged. What is
// kept never exceeds the limit in any window.
func TestQuota_HammerRefundsAgainstOpeners(t *testing.T) {
	t.Parallel()
	const limit = 10
	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow=%v", slow), func(t *testing.T) {
			t.Parallel()
			q := newQuota(t, time.Second, 4, false)
			steps := int64(100_000)
			if slow {
				slowOpeners(t, q)
				steps = 20_000
			}
			length, interval := int64(q.ring.Length()), q.interval
			var clock, moved, givenBack atomic.Int64
			clock.Store(minute)
			var mu sync.Mutex // guards kept
			kept := make(map[int64]int64)
			var done sync.WaitGroup
			for id := range 16 {
				done.Go(func() {
					mine := make(map[int64]int64)
					for turn := id; moved.Load() < steps; turn++ {
						now := clock.Load()
						n := int64(turn%3 + 1)
						o := q.Take(now, n, limit)
						switch {
						case o.OK && turn%4 != 0:
							if turn%8 == 1 {
								runtime.Gosched()
							}
							q.Refund(o.Ticket, n)
							givenBack.Add(n)
						case o.OK:
							mine[o.Ticket] += n
						}
						if turn%2 == 0 && clock.CompareAndSwap(now, now+length/3) {
							moved.Add(1)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					for start, n := range mine {
						kept[start] += n
					}
				})
			}
			done.Wait()
			total := int64(0)
			for _, n := range kept {
				total += n
			}
			require.LessOrEqual(t, mostAligned(kept, length, interval), int64(limit))
			require.GreaterOrEqual(t, q.Admitted(), total)
			require.LessOrEqual(t, q.Admitted(), total+givenBack.Load())
			for w := range q.ring.Live(clock.Load()) {
				require.GreaterOrEqual(t, w.Value().count(), kept[w.Start()], "a refund took what was another's")
			}
		})
	}
}

// The race: refunds and admissions on the one word of a bucket that nobody seals.
// Then nothing is dropped, and the count is exact.
func TestQuota_HammerRefundsWhileTheClockStands(t *testing.T) {
	t.Parallel()
	const limit, goroutines, turns = 20, 16, 20_000
	q := newQuota(t, time.Second, 10, false)
	var kept atomic.Int64
	var done sync.WaitGroup
	for range goroutines {
		done.Go(func() {
			for turn := range int64(turns) {
				n := turn%3 + 1
				o := q.Take(minute, n, limit)
				if !o.OK {
					continue
				}
				if held := q.Window(minute); held < n || held > limit {
					t.Errorf("the window holds %d of %d", held, limit)
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
	require.Equal(t, kept.Load(), q.Window(minute))
	require.Equal(t, kept.Load(), q.Admitted())
	require.Equal(t, int(limit-kept.Load()), try(q, minute, 2*limit, limit))
}

// The race: look, then count. However many look at once, one is admitted.
func TestQuota_HammerForTheLastPlace(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 50, 400
	q := newQuota(t, time.Second, 10, false)
	for round := range int64(rounds) {
		now := minute + round*1000*ms
		var won atomic.Int64
		var ready, done sync.WaitGroup
		start := make(chan struct{})
		for range goroutines {
			ready.Add(1)
			done.Go(func() {
				ready.Done()
				<-start
				if q.Take(now, 1, 1).OK {
					won.Add(1)
				}
			})
		}
		ready.Wait()
		close(start)
		done.Wait()
		require.EqualValues(t, 1, won.Load())
	}
	require.EqualValues(t, rounds, q.Admitted())
}
