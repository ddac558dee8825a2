package places

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// has reports whether a call that queued has its places.
func (w *Waiter) has() bool { return w.Due(0, func() {}) == 0 }

// plenty is more than anybody queues in these tests.
const plenty = 1_000_000

func of(limit int64) *Places {
	p := new(Places)
	p.SetLimit(limit)
	return p
}

// all returns the calls that queue, in order. The caller holds mu.
func (p *Places) all() (queue []*Waiter) {
	for e := p.queue.Front(); e != nil; e = e.Next() {
		queue = append(queue, e.Value.(*Waiter))
	}
	return queue
}

// quiet asserts what must hold while no goroutine is at it: so many places are taken, the
// bit is set if a call waits for places that there could be, and there is no room
// for the first of them.
func (p *Places) quiet(t testing.TB, taken int64) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, taken, p.Taken())
	queue := p.all()
	require.EqualValues(t, len(queue), p.waiting.Load())
	first := slices.IndexFunc(queue, func(w *Waiter) bool { return w.n <= p.limit })
	require.Equal(t, first >= 0, p.word.Load() < 0, "the bit")
	if first >= 0 {
		require.Greater(t, queue[first].n, p.limit-taken, "there is room for one that queues")
	}
}

func TestPlaces_NobodyOvertakesTheQueue(t *testing.T) {
	t.Parallel()
	p := of(4)
	for want := range int64(3) {
		taken, ok := p.Take(1, 4)
		require.True(t, ok)
		require.Equal(t, want, taken)
	}
	batch := p.Queue(2, plenty)
	_, ok := p.Take(1, 4) // it would fit, but is not its turn
	require.False(t, ok)
	one := p.Queue(1, plenty)
	require.False(t, batch.has())
	require.False(t, one.has())
	p.quiet(t, 3)

	p.GiveBack(1)
	require.True(t, batch.has())
	require.False(t, one.has())
	p.quiet(t, 4)
	batch.GiveBack(0) // the call was refused by another rule after its wait
	require.True(t, one.has())
	p.quiet(t, 3)
	_, ok = p.Take(1, 4) // the queue is empty
	require.True(t, ok)
}

func TestPlaces_GivingUpStrandsNoCall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		giveUp int   // which, of those that want 3, 1, 2 of 4 places while 2 are taken
		served []int // of those that are left
	}{
		{"head", 0, []int{1}},
		{"middle", 1, nil},
		{"tail", 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := of(4)
			p.Take(2, 4)
			var queue []*Waiter
			wants := []int64{3, 1, 2}
			for _, n := range wants {
				queue = append(queue, p.Queue(n, plenty))
			}
			queue[tt.giveUp].GiveBack(0)
			taken := int64(2)
			for i, w := range queue {
				if i == tt.giveUp {
					continue
				}
				require.Equal(t, slices.Contains(tt.served, i), w.has(), i)
				if w.has() {
					taken += wants[i]
				}
			}
			p.quiet(t, taken)
			p.GiveBack(2) // the others come one after the other
			for range wants {
				for i, w := range queue {
					if w != nil && i != tt.giveUp && w.has() {
						queue[i] = nil
						p.GiveBack(wants[i])
					}
				}
			}
			p.quiet(t, 0)
			require.Zero(t, p.queue.Len())
		})
	}
}

func TestPlaces_LimitOfTheQueueChanges(t *testing.T) {
	t.Parallel()
	p := of(2)
	p.Take(2, 2)
	two, one := p.Queue(2, plenty), p.Queue(1, plenty)
	p.SetLimit(1) // the first can never come; it lets the second pass
	p.GiveBack(1)
	require.False(t, one.has())
	p.GiveBack(1)
	require.True(t, one.has())
	require.False(t, two.has())
	p.quiet(t, 1)
	_, ok := p.Take(1, 1)
	require.False(t, ok)
	p.SetLimit(3)
	require.True(t, two.has(), "there is room, and nobody else comes")
	p.quiet(t, 3)
}

// naivePlaces do by one list what places do.
type naivePlaces struct {
	taken, limit int64
	queue        []*naiveWaiter
}

type naiveWaiter struct {
	n      int64
	waiter *Waiter
	called bool
}

// first is the first that queues and for which there could be places.
func (m *naivePlaces) first() (i int, ok bool) {
	i = slices.IndexFunc(m.queue, func(w *naiveWaiter) bool { return w.n <= m.limit })
	return i, i >= 0
}

func (m *naivePlaces) serve() {
	for {
		i, ok := m.first()
		if !ok || m.taken+m.queue[i].n > m.limit {
			return
		}
		m.taken += m.queue[i].n
		m.queue[i].called = true
		m.queue = slices.Delete(m.queue, i, i+1)
	}
}

func (m *naivePlaces) take(n int64) bool {
	if _, queueing := m.first(); queueing || m.taken+n > m.limit {
		return false
	}
	m.taken += n
	return true
}

func TestPlaces_AgreeWithAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &naivePlaces{limit: rapid.Int64Range(1, 6).Draw(t, "limit")}
		p := of(m.limit)
		var held []int64 // by calls that did not wait
		var waiters []*naiveWaiter
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 5: // as a call does that may wait
				n := rapid.Int64Range(1, 4).Draw(t, "n")
				before := m.taken
				want := m.take(n)
				taken, ok := p.Take(n, m.limit)
				if taken != before || ok != want {
					t.Fatalf("take(%d, %d) gave %d, %v; want %d, %v", n, m.limit, taken, ok, before, want)
				}
				if ok {
					held = append(held, n)
				} else if n <= m.limit && rapid.Bool().Draw(t, "waits") {
					if len(held) > 0 && rapid.Bool().Draw(t, "meanwhile") {
						m.taken -= held[0]
						p.GiveBack(held[0])
						held = held[1:]
						m.serve()
					}
					most := rapid.SampledFrom([]int{1, 2, plenty}).Draw(t, "most")
					full := len(m.queue) >= most
					w := &naiveWaiter{n: n, waiter: p.Queue(n, most)}
					if full != (w.waiter == nil) {
						t.Fatalf("refused: %v, want %v", w.waiter == nil, full)
					}
					if full {
						break
					}
					m.queue = append(m.queue, w)
					waiters = append(waiters, w)
					m.serve()
				}
			case step < 7 && len(held) > 0:
				i := rapid.IntRange(0, len(held)-1).Draw(t, "who")
				m.taken -= held[i]
				p.GiveBack(held[i])
				held = slices.Delete(held, i, i+1)
				m.serve()
			case step < 9 && len(waiters) > 0: // it ends, or gives up
				i := rapid.IntRange(0, len(waiters)-1).Draw(t, "who")
				w := waiters[i]
				if j := slices.Index(m.queue, w); j >= 0 {
					m.queue = slices.Delete(m.queue, j, j+1)
				} else {
					m.taken -= w.n
				}
				if w.called && rapid.Bool().Draw(t, "ends") {
					p.GiveBack(w.n)
				} else {
					w.waiter.GiveBack(0)
				}
				waiters = slices.Delete(waiters, i, i+1)
				m.serve()
			case step == 9:
				m.limit = rapid.Int64Range(1, 6).Draw(t, "limit")
				p.SetLimit(m.limit)
				m.serve()
			}
			if p.Taken() != m.taken {
				t.Fatalf("%d taken, want %d", p.Taken(), m.taken)
			}
			for i, w := range waiters {
				if w.waiter.has() != w.called {
					t.Fatalf("waiter %d of %d was called: %v, want %v", i, len(waiters), !w.called, w.called)
				}
			}
			if p.queue.Len() != len(m.queue) {
				t.Fatalf("%d queue, want %d", p.queue.Len(), len(m.queue))
			}
		}
	})
}

// The race: the first that queues finds no room and sets the bit, while the last that is
// inside gives back and finds no bit.
func TestPlaces_RaceOfTheFirstToQueueAndTheLastToGiveBack(t *testing.T) {
	t.Parallel()
	rounds := gatetest.Rounds(int64(30_000))
	p := of(1)
	var round, done atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := int64(1); i <= rounds; i++ {
			for spin := 0; round.Load() < i; spin++ {
				if spin > 1000 {
					runtime.Gosched()
				}
			}
			for range i * 7 % 61 { // now a little earlier, now a little later
				done.Load()
			}
			p.GiveBack(1)
			done.Store(i)
		}
	})
	stranded := 0
	for i := int64(1); i <= rounds; i++ {
		_, ok := p.Take(1, 1)
		assert.True(t, ok)
		round.Store(i)
		w := p.Queue(1, plenty)
		for done.Load() < i {
			runtime.Gosched()
		}
		if !w.has() {
			stranded++
			p.SetLimit(1)
		}
		p.GiveBack(1)
	}
	wg.Wait()
	require.Zero(t, stranded, "the place is free, and nobody gets it")
	p.quiet(t, 0)
}

// The race: those that find no room and queue, against those that give back and look
// whether anybody queues. At the end of each round nobody is at it, but some hold
// places and some queue.
func TestPlaces_HammerNoCallIsStrandedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, each, limit = 16, 60, 150, 5
	type hold struct {
		n      int64
		waiter *Waiter // nil: taken at once
	}
	p := of(limit)
	var inside atomic.Int64
	enter := func(n int64) { assert.LessOrEqual(t, inside.Add(n), int64(limit)) }
	mine := make([][]hold, goroutines)
	for round := range rounds {
		var wg sync.WaitGroup
		for id := range goroutines {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(id), uint64(round)))
				entered := make(map[*Waiter]bool) // those whose turn came
				for range each {
					if n := 1 + rng.Int64N(3); len(mine[id]) < 2 {
						if _, ok := p.Take(n, limit); ok {
							enter(n)
							mine[id] = append(mine[id], hold{n: n})
						} else {
							mine[id] = append(mine[id], hold{n, p.Queue(n, plenty)})
						}
					}
					i := rng.IntN(len(mine[id]))
					h := mine[id][i]
					in := h.waiter == nil || entered[h.waiter]
					if !in && h.waiter.has() {
						enter(h.n)
						in, entered[h.waiter] = true, true
					}
					switch {
					case in:
						inside.Add(-h.n)
						p.GiveBack(h.n)
					case rng.IntN(2) == 0:
						h.waiter.GiveBack(0) // its turn may come at this very moment
					default:
						continue
					}
					mine[id] = slices.Delete(mine[id], i, i+1)
				}
			})
		}
		wg.Wait()
		taken := int64(0)
		for _, holds := range mine {
			for _, h := range holds {
				if h.waiter == nil || h.waiter.has() {
					taken += h.n
				}
			}
		}
		p.quiet(t, taken)
		require.LessOrEqual(t, taken, int64(limit))
		// Whose turn came while nobody looked is inside from now on.
		inside.Store(taken)
		for id, holds := range mine {
			for i, h := range holds {
				if h.waiter != nil && h.waiter.has() {
					mine[id][i].waiter = nil
				}
			}
		}
	}
	for _, holds := range mine {
		for _, h := range holds {
			if h.waiter == nil {
				p.GiveBack(h.n)
			} else {
				h.waiter.GiveBack(0)
			}
		}
	}
	p.quiet(t, 0)
	require.Zero(t, p.word.Load())
	require.Zero(t, p.queue.Len())
}

// The race: those that join against those that leave. Never do more wait than may.
func TestQueue_HammerNeverMoreWaitThanMay(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, most = 64, 300, 5
	p := of(1)
	_, ok := p.Take(1, 1)
	require.True(t, ok)
	var waiting, longest, full atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range rounds {
				w := p.Queue(1, most)
				if w == nil {
					full.Add(1)
					continue
				}
				for now := waiting.Add(1); ; {
					old := longest.Load()
					if now <= old || longest.CompareAndSwap(old, now) {
						break
					}
				}
				waiting.Add(-1)
				w.GiveBack(0)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, longest.Load(), int64(most))
	p.quiet(t, 1)
	require.Zero(t, p.queue.Len())
	p.GiveBack(1)
	require.Zero(t, p.word.Load())
}

// Leaving takes the same time wherever a call stands: 100,000 calls that all leave from the end
// would look at five billion others if each searched for itself.
func TestQueue_LeavingDoesNotSearch(t *testing.T) {
	t.Parallel()
	const calls = 100_000
	p := of(1)
	p.Take(1, 1)
	queue := make([]*Waiter, calls)
	for i := range queue {
		queue[i] = p.Queue(1, calls)
		require.NotNil(t, queue[i])
	}
	require.Nil(t, p.Queue(1, calls))
	for i := calls - 1; i >= 0; i-- {
		queue[i].GiveBack(0)
	}
	p.quiet(t, 1)
}
