package isolation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inside counts the calls inside, and remembers the most.
type inside struct{ now, most atomic.Int64 }

func (in *inside) enter(n int64) {
	now := in.now.Add(n)
	for most := in.most.Load(); now > most && !in.most.CompareAndSwap(most, now); {
		most = in.most.Load()
	}
}

func (in *inside) leave(n int64) { in.now.Add(-n) }

// rest tells what must hold when all calls have ended: so many have passed, and so many
// not, all of them held back by the rule.
func (g *gate) rest(t testing.TB, passed, blocked int64) {
	t.Helper()
	require.Zero(t, g.taken(t, "a", "few"))
	controllers := controllersOf(g.guard, "a")
	require.Zero(t, controllers[0].state.places.Waiting())
	require.Equal(t, []int64{passed, passed, blocked, 0, 0}, g.totals("a"))
	s := g.rule(t, "a", "few")
	require.Equal(t, []int64{passed, blocked, 0}, []int64{s.Admitted, s.Blocked, s.WouldBlock})
}

// The race: entries, exits by panics and a second time, and reloads that give
// the rule another controller.
func TestRule_HammerAThousandForAHundredPlaces(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, limit = 1000, 50, 100
	g := newGate(t, true, Rule{ID: "few", Resource: "a", MaxInFlight: limit})
	handle := g.Resource("a")
	stop := make(chan struct{})
	var loader sync.WaitGroup
	loader.Go(func() {
		for i := int64(1); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			rules := []Rule{{ID: "few", Resource: "a", MaxInFlight: limit, Source: fmt.Sprint(i % 2)}}
			if i%3 == 0 {
				rules = append([]Rule{{ID: "more", Resource: "a", MaxInFlight: 1e6 + i, Mode: rule.Mode(i % 2)}}, rules...)
			}
			g.load(t, rules...)
		}
	})
	var in inside
	var passed, blocked atomic.Int64
	count := func(err error) {
		if err == nil {
			passed.Add(1)
			return
		}
		assert.ErrorIs(t, err, callerror.ErrBlocked)
		blocked.Add(1)
	}
	for round := range rounds {
		var ready, done sync.WaitGroup
		start := make(chan struct{})
		for id := range goroutines {
			ready.Add(1)
			done.Go(func() {
				ready.Done()
				<-start
				switch (id + round) % 3 {
				case 0:
					e, err := handle.Entry()
					count(err)
					if err == nil {
						in.enter(1)
						in.leave(1)
					}
					e.Exit()
					e.Exit()
				case 1:
					_, err := resource.Call(t.Context(), handle, func(context.Context) (int, error) {
						in.enter(1)
						defer in.leave(1)
						return 0, nil
					})
					count(err)
				case 2:
					defer func() {
						if recover() != nil {
							count(nil)
						}
					}()
					_, err := resource.Call(t.Context(), handle, func(context.Context) (int, error) {
						in.enter(1)
						defer in.leave(1)
						panic("inside")
					})
					count(err)
				}
			})
		}
		ready.Wait()
		close(start)
		done.Wait()
		require.Zero(t, g.Resource("a").Snapshot().Concurrency)
		require.Zero(t, in.now.Load())
	}
	close(stop)
	loader.Wait()
	require.LessOrEqual(t, in.most.Load(), int64(limit))
	require.Equal(t, int64(goroutines*rounds), passed.Load()+blocked.Load())
	g.load(t, Rule{ID: "few", Resource: "a", MaxInFlight: limit})
	g.rest(t, passed.Load(), blocked.Load())
	require.Len(t, g.hold(t, "a", goroutines), limit)
}

// All wait at once: none is refused, and no two batches are inside beyond the limit.
func TestWait_HammerAllPassInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const goroutines, limit = 1000, 7
		g := newGate(t, false, Rule{ID: "few", Resource: "a", MaxInFlight: limit, MaxWait: time.Hour})
		handle := g.Resource("a")
		var in inside
		var wg sync.WaitGroup
		passed := int64(0)
		for id := range goroutines {
			n := int64(1 + id%limit)
			passed += n
			wg.Go(func() {
				e, err := handle.EntryContext(t.Context(), resource.WithCount(n))
				assert.NoError(t, err)
				defer e.Exit()
				in.enter(n)
				defer in.leave(n)
				time.Sleep(time.Duration(id%5) * time.Millisecond)
			})
		}
		wg.Wait()
		require.Equal(t, int64(limit), in.most.Load())
		g.rest(t, passed, 0)
	})
}

// The race: turns that come, against waits that time out or are cancelled, often at the
// very moment, while the limit is raised and lowered.
func TestWait_HammerWithCancellationsAndReloads(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const goroutines, each = 60, 40
				rule := Rule{ID: "few", Resource: "a", MaxInFlight: 6, MaxWait: 5 * time.Millisecond}
				g := newGate(t, false, rule)
				handle := g.Resource("a")
				var in inside
				var calls sync.WaitGroup
				var passed, blocked, cancelled atomic.Int64
				for id := range goroutines {
					calls.Go(func() {
						rng := rand.New(rand.NewPCG(seed, uint64(id)))
						for range each {
							func() {
								n := 1 + rng.Int64N(3)
								ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(9))*time.Millisecond)
								defer cancel()
								e, err := handle.EntryContext(ctx, resource.WithCount(n))
								defer e.Exit()
								if err != nil {
									assert.ErrorIs(t, err, callerror.ErrBlocked)
									if errors.Is(err, context.DeadlineExceeded) {
										cancelled.Add(n)
									}
									blocked.Add(n)
									return
								}
								passed.Add(n)
								in.enter(n)
								defer in.leave(n)
								time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
							}()
						}
					})
				}
				stop := make(chan struct{})
				var loader sync.WaitGroup
				loader.Go(func() {
					for i := int64(0); ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(3 * time.Millisecond): //nolint:forbidigo // fake time
							rule.MaxInFlight = 2 + i%5
							g.load(t, rule)
						}
					}
				})
				calls.Wait()
				close(stop)
				loader.Wait()
				require.LessOrEqual(t, in.most.Load(), int64(6))
				require.Positive(t, cancelled.Load())
				require.Greater(t, blocked.Load(), cancelled.Load())
				require.Positive(t, passed.Load())
				g.rest(t, passed.Load(), blocked.Load())
			})
		})
	}
}
