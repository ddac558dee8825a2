package limit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// The race: look, then count. 64 goroutines want one key; what it has is given, and
// nothing more.
func TestLimiter_HammerOneKey(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int64{1, 7} {
				const goroutines = 64
				limit := gatetest.Rounds(int64(40_000))
				l, clock := a.new(t, Config{Limit: limit})
				for round := range int64(3) {
					clock.Store(minute + round*a.carry*second)
					var admitted atomic.Int64
					gatetest.AtOnce(goroutines, func(int) {
						mine := int64(0)
						for range limit / goroutines / n * 4 {
							if d, err := l.AllowN(t.Context(), "a", n); err == nil && d.Allowed {
								mine += n
							}
						}
						admitted.Add(mine)
					})
					require.EqualValues(t, limit/n*n, admitted.Load())
				}
			}
		})
	}
}

func TestLimiter_HammerTenThousandKeys(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const limit, goroutines = 3, 64
			many := gatetest.Rounds(10_000)
			l, _ := a.new(t, Config{Limit: limit, MaxKeys: many})
			names := make([]string, many)
			for i := range names {
				names[i] = fmt.Sprintf("client %d", i)
			}
			admitted := make([]atomic.Int64, many)
			gatetest.AtOnce(goroutines, func(id int) {
				for i := range many {
					if i%16 == id%16 { // four goroutines a key, which ask twice each
						for range 2 {
							if d, err := l.AllowN(t.Context(), names[i], 1); err == nil && d.Allowed {
								admitted[i].Add(1)
							}
						}
					}
				}
			})
			s := l.Stats()
			require.Equal(t, many, s.Keys)
			require.Zero(t, s.Evicted+s.Crowded)
			for i := range admitted {
				if n := admitted[i].Load(); n != limit {
					t.Fatalf("%s: %d admitted, want %d", names[i], n, limit)
				}
			}
		})
	}
}

// The race: the first callers of a new window, or of a new epoch, against each other. The
// clock stands at each step, so the number is that of one goroutine, exactly.
func TestLimiter_HammerStepByStep(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int64{1, 3} {
				cfg := Config{Limit: 20, Window: 600 * time.Millisecond}
				if a.name == "bucketed" || a.name == "strict" {
					cfg.Buckets = 6
				}
				l, _ := a.new(t, cfg)
				one, _ := a.new(t, cfg)
				now := minute
				steps := int64(300)
				if gatetest.Race || testing.Short() {
					steps = 80 // all pairs of what is done every fifth and every eighth time
				}
				for step := range steps {
					now += step * 7919 % 250 * ms
					if step%5 == 4 {
						now += int64(cfg.Window) * (1<<(10+step%8) - 1)
					}
					want := int64(0)
					for one.AllowNAt(now, "a", n).Allowed {
						want += n
					}
					var got atomic.Int64
					gatetest.AtOnce(16, func(int) {
						for range cfg.Limit/n + 1 {
							if l.AllowNAt(now, "a", n).Allowed {
								got.Add(n)
							}
						}
					})
					require.Equal(t, want, got.Load(), "step %d", step)
				}
			}
		})
	}
}

// The race: the turn of the window against admissions, with readings of the clock that
// are old by a little or much. Whatever the interleaving, no window was charged more
// than the limit. (With window and counts in two words, it is up to twice that.)
func TestCounter_HammerTurns(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms[:2] {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const limit, goroutines = 100, 16
			steps := gatetest.Rounds(int64(60_000))
			l, clock := a.new(t, Config{Limit: limit, Window: time.Second})
			var moved atomic.Int64
			var mu sync.Mutex // guards perWindow while the goroutines end
			perWindow := make(map[int64]int64)
			var done sync.WaitGroup
			for id := range goroutines {
				done.Go(func() {
					mine := make(map[int64]int64)
					for turn := id; moved.Load() < steps; turn++ {
						now := clock.Load()
						n := int64(turn%3 + 1)
						var d Decision
						if turn%64 == 0 {
							runtime.Gosched() // suspended with an old now
							d = l.AllowNAt(now, "a", n)
						} else {
							d, _ = l.AllowN(t.Context(), "a", n)
						}
						if d.Allowed {
							mine[d.Ticket] += n
							if turn%5 == 0 {
								_ = l.Refund(t.Context(), "a", d, n)
								mine[d.Ticket] -= n
							}
						}
						step := moved.Load()
						ahead := second / 2
						if step%29 == 0 {
							ahead += 3 * second // nothing is left then, and there is room for a limit
						}
						if (!d.Allowed || turn%32 == 0 && step/200%2 == 0) && clock.CompareAndSwap(now, now+ahead) {
							moved.Add(1)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					for window, n := range mine {
						perWindow[window] += n
					}
				})
			}
			done.Wait()
			full := 0
			for window, n := range perWindow {
				// A refund that came late was dropped: then less was kept than was charged.
				require.LessOrEqual(t, n, int64(limit), "window %d", window)
				if n > limit-3 {
					full++
				}
			}
			require.Positive(t, full)
		})
	}
}

// The race: two that come first in a window, on two processors, within nanoseconds of each
// other. One of them turns it, and what the other has charged is not lost. A nanosecond
// before the end of the window, 1 of what was charged in the one before still counts.
func TestCounter_HammerTheFirstOfAWindow(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms[:2] {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const limit, goroutines = 4, 2
			rounds := gatetest.Rounds(int64(100_000))
			// When all have arrived, the clock is in the next window, for all of them at once.
			var admitted, arrived atomic.Int64
			l, err := a.make(Config{Limit: limit, Now: func() int64 {
				return minute + arrived.Load()/goroutines*second + second - 1
			}})
			require.NoError(t, err)
			require.True(t, allow(t, l, limit).Allowed)
			var done sync.WaitGroup
			for range goroutines {
				done.Go(func() {
					for round := range rounds {
						arrived.Add(1)
						for spins := 0; arrived.Load() < (round+1)*goroutines; spins++ {
							if spins > 1000 {
								runtime.Gosched()
							}
						}
						for range limit {
							if d, _ := l.AllowN(t.Context(), "a", 1); d.Allowed {
								admitted.Add(1)
							}
						}
					}
				})
			}
			done.Wait()
			require.EqualValues(t, rounds*(limit-1), admitted.Load())
		})
	}
}

// The race: a sweep takes out a key that a caller has found and not yet charged. Limit 1,
// and each round all keys have expired: exactly one passes for each key, whichever call sweeps.
func TestLimiter_HammerSweepAgainstHolders(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const many = 4
			rounds := gatetest.Rounds(int64(5000))
			l, clock := a.new(t, Config{Limit: 1, MaxKeys: 1000, WhenFull: Deny})
			var admitted [many]atomic.Int64
			for round := range rounds {
				clock.Store(minute + round*a.carry*second)
				gatetest.AtOnce(8, func(id int) {
					if id%2 == 0 {
						l.Sweep()
						return
					}
					for k := range many {
						if d, err := l.AllowN(t.Context(), string(rune('a'+(k+id)%many)), 1); err == nil && d.Allowed {
							admitted[(k+id)%many].Add(1)
						}
					}
				})
				for k := range admitted {
					require.EqualValues(t, 1, admitted[k].Swap(0), "round %d", round)
				}
			}
			require.Zero(t, l.Stats().Crowded)
		})
	}
}

// The race: eviction of what is live against callers that hold it. What is charged is
// charged to the count that is in the table: when nobody is evicted any more, each key has
// its limit, exactly.
func TestLimiter_HammerEvictionAgainstHolders(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const limit = 50
			l, _ := a.new(t, Config{Limit: limit, MaxKeys: 8})
			var charged, evicted atomic.Int64
			gatetest.AtOnce(16, func(id int) {
				for i := range gatetest.Rounds(3000) {
					key := fmt.Sprint("k", (i*7+id)%24)
					if d := l.AllowNAt(minute, key, 1); d.Allowed {
						charged.Add(1)
						if d.Crowded {
							evicted.Add(1)
						}
					}
				}
			})
			s := l.Stats()
			require.LessOrEqual(t, s.Keys, 8)
			require.Positive(t, s.Evicted)
			require.Zero(t, s.Crowded+evicted.Load(), "Evict always finds a place")
			// What was admitted is what the evicted held, a limit at most, and what is there.
			require.LessOrEqual(t, charged.Load(), (s.Evicted+8)*limit)
			for i := range 24 {
				key := fmt.Sprint("k", i)
				admitted := int64(0)
				for l.AllowNAt(minute, key, 1).Allowed {
					admitted++
				}
				require.LessOrEqual(t, admitted, int64(limit))
			}
		})
	}
}

// The race: refunds, settlements and admissions on one key. Nothing is lost, nothing is
// invented.
func TestLimiter_HammerRefunds(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const limit, goroutines = 20, 16
			turns := gatetest.Rounds(int64(5000))
			l, _ := a.new(t, Config{Limit: limit})
			var kept, most atomic.Int64
			var inside atomic.Int64
			gatetest.AtOnce(goroutines, func(id int) {
				for turn := range turns {
					n := turn%3 + 1
					d := l.AllowNAt(minute, "a", n)
					if !d.Allowed {
						continue
					}
					if now := inside.Add(n); now > most.Load() {
						most.Store(now)
					}
					switch {
					case turn == turns/2 && id%4 == 0:
						kept.Add(n)
					case turn%2 == 0:
						inside.Add(-n)
						_ = l.Refund(t.Context(), "a", d, n)
					default:
						inside.Add(-n)
						_ = l.Settle(t.Context(), "a", d, 0)
					}
				}
			})
			require.LessOrEqual(t, most.Load(), int64(limit))
			require.EqualValues(t, limit-kept.Load(), l.Peek("a").Remaining)
		})
	}
}

// The race: refunds that come late, and out of order, against admissions, rings that grow
// and get smaller, and sweeps. Nothing panics, and what was never given back is within the
// limit in every true window.
func TestLimiter_HammerLateRefunds(t *testing.T) {
	t.Parallel()
	for _, a := range []variant{algorithms[2], algorithms[4]} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			const limit, goroutines = 40, 16
			turns := gatetest.Rounds(20_000)
			l, clock := a.new(t, Config{Limit: limit})
			var mu sync.Mutex // guards kept while the goroutines end
			var kept []charged
			gatetest.AtOnce(goroutines, func(id int) {
				random := rand.New(rand.NewPCG(uint64(id), 7))
				var open []Decision
				var mine []charged
				for turn := range turns {
					switch random.IntN(16) {
					case 0:
						clock.Add(random.Int64N(second / 8))
					case 1:
						if id == 0 && turn%64 == 0 {
							l.Sweep()
						}
						if random.IntN(64) == 0 {
							clock.Add(2 * second)
						}
					case 2, 3, 4, 5, 6, 7:
						if len(open) > 0 {
							i := random.IntN(len(open))
							_ = l.Refund(t.Context(), "a", open[i], open[i].Charged)
							open = slices.Delete(open, i, i+1)
						}
					default:
						d, _ := l.AllowN(t.Context(), "a", random.Int64N(3)+1)
						switch {
						case !d.Allowed:
						case random.IntN(4) == 0:
							mine = append(mine, charged{at: d.Ticket, n: d.Charged})
						default:
							open = append(open, d)
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, mine...)
			})
			require.NotEmpty(t, kept)
			require.LessOrEqual(t, fullest(kept, second), int64(limit))
			clock.Add(3 * second)
			l.Sweep()
			require.Zero(t, l.Stats().Keys)
			require.Zero(t, l.Stats().Bytes)
		})
	}
}
