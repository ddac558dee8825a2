package isolation

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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// has tells whether a call that queued has its places.
func (w *waiter) has() bool { return w.Due(0, func() {}) == 0 }

// plenty is more than anybody queues in these tests.
const plenty = MostMaxQueue

// all gives those who queue, in order. The caller holds mu.
func (p *places) all() (queue []*waiter) {
	for e := p.queue.Front(); e != nil; e = e.Next() {
		queue = append(queue, e.Value.(*waiter))
	}
	return queue
}

// quiet tells what must hold while nobody is at it: so many places are taken, the
// bit is set if somebody waits for places that there could be, and there is no room
// for the first of them.
func (p *places) quiet(t testing.TB, taken int64) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, taken, p.taken())
	queue := p.all()
	require.EqualValues(t, len(queue), p.waiting.Load())
	first := slices.IndexFunc(queue, func(w *waiter) bool { return w.n <= w.limit })
	require.Equal(t, first >= 0, p.word.Load() < 0, "the bit")
	if first >= 0 {
		require.Greater(t, queue[first].n, queue[first].limit-taken, "there is room for one who queues")
	}
}

func TestPlaces_NobodyOvertakesTheQueue(t *testing.T) {
	t.Parallel()
	var p places
	for want := range int64(3) {
		taken, ok := p.take(1, 4)
		require.True(t, ok)
		require.Equal(t, want, taken)
	}
	batch := p.wait(2, 4, plenty)
	_, ok := p.take(1, 4) // it would fit, but is not its turn
	require.False(t, ok)
	one := p.wait(1, 4, plenty)
	require.False(t, batch.has())
	require.False(t, one.has())
	p.quiet(t, 3)

	p.giveBack(1)
	require.True(t, batch.has())
	require.False(t, one.has())
	p.quiet(t, 4)
	batch.giveUp() // the call was refused by another rule after its wait
	require.True(t, one.has())
	p.quiet(t, 3)
	_, ok = p.take(1, 4) // the queue is empty
	require.True(t, ok)
}

func TestPlaces_WhoGivesUpStrandsNobody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		giveUp int   // who, of those that want 3, 1, 2 of 4 places while 2 are taken
		served []int // of those who are left
	}{
		{"head", 0, []int{1}},
		{"middle", 1, nil},
		{"tail", 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var p places
			p.take(2, 4)
			var queue []*waiter
			wants := []int64{3, 1, 2}
			for _, n := range wants {
				queue = append(queue, p.wait(n, 4, plenty))
			}
			queue[tt.giveUp].giveUp()
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
			p.giveBack(2) // the others come one after the other
			for range wants {
				for i, w := range queue {
					if w != nil && i != tt.giveUp && w.has() {
						queue[i] = nil
						p.giveBack(wants[i])
					}
				}
			}
			p.quiet(t, 0)
			require.Zero(t, p.queue.Len())
		})
	}
}

func TestPlaces_LimitOfThoseWhoQueueChanges(t *testing.T) {
	t.Parallel()
	var p places
	p.take(2, 2)
	two, one := p.wait(2, 2, plenty), p.wait(1, 2, plenty)
	p.setLimit(1) // the first can never come; it lets the second pass
	p.giveBack(1)
	require.False(t, one.has())
	p.giveBack(1)
	require.True(t, one.has())
	require.False(t, two.has())
	p.quiet(t, 1)
	_, ok := p.take(1, 1)
	require.False(t, ok)
	p.setLimit(3)
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
	waiter *waiter
	called bool
}

// first is the first who queues and for whom there could be places.
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
		p := &places{}
		m := &naivePlaces{limit: rapid.Int64Range(1, 6).Draw(t, "limit")}
		var held []int64 // by calls that did not wait
		var waiters []*naiveWaiter
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 5: // as a call does that may wait
				n := rapid.Int64Range(1, 4).Draw(t, "n")
				before := m.taken
				want := m.take(n)
				taken, ok := p.take(n, m.limit)
				if taken != before || ok != want {
					t.Fatalf("take(%d, %d) gave %d, %v; want %d, %v", n, m.limit, taken, ok, before, want)
				}
				if ok {
					held = append(held, n)
				} else if n <= m.limit && rapid.Bool().Draw(t, "waits") {
					if len(held) > 0 && rapid.Bool().Draw(t, "meanwhile") {
						m.taken -= held[0]
						p.giveBack(held[0])
						held = held[1:]
						m.serve()
					}
					most := rapid.SampledFrom([]int{1, 2, plenty}).Draw(t, "most")
					full := len(m.queue) >= most
					w := &naiveWaiter{n: n, waiter: p.wait(n, m.limit, most)}
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
				p.giveBack(held[i])
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
					p.giveBack(w.n)
				} else {
					w.waiter.giveUp()
				}
				waiters = slices.Delete(waiters, i, i+1)
				m.serve()
			case step == 9:
				m.limit = rapid.Int64Range(1, 6).Draw(t, "limit")
				p.setLimit(m.limit)
				m.serve()
			}
			if p.taken() != m.taken {
				t.Fatalf("%d taken, want %d", p.taken(), m.taken)
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

// The race: the first who queues finds no room and sets the bit, while the last who is
// inside gives back and finds no bit.
func TestPlaces_RaceOfTheFirstWhoQueuesAndTheLastWhoGivesBack(t *testing.T) {
	t.Parallel()
	const rounds = 30_000
	var p places
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
			p.giveBack(1)
			done.Store(i)
		}
	})
	stranded := 0
	for i := int64(1); i <= rounds; i++ {
		_, ok := p.take(1, 1)
		assert.True(t, ok)
		round.Store(i)
		w := p.wait(1, 1, plenty)
		for done.Load() < i {
			runtime.Gosched()
		}
		if !w.has() {
			stranded++
			p.setLimit(1)
		}
		p.giveBack(1)
	}
	wg.Wait()
	require.Zero(t, stranded, "the place is free, and nobody gets it")
	p.quiet(t, 0)
}

// The race: those who find no room and queue, against those who give back and look
// whether anybody queues. At the end of each round nobody is at it, but some hold
// places and some queue.
func TestPlaces_HammerNobodyIsStrandedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, each, limit = 16, 60, 150, 5
	type hold struct {
		n      int64
		waiter *waiter // nil: taken at once
	}
	var p places
	var inside atomic.Int64
	enter := func(n int64) { assert.LessOrEqual(t, inside.Add(n), int64(limit)) }
	mine := make([][]hold, goroutines)
	for round := range rounds {
		var wg sync.WaitGroup
		for id := range goroutines {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(id), uint64(round)))
				entered := make(map[*waiter]bool) // those whose turn came
				for range each {
					if n := 1 + rng.Int64N(3); len(mine[id]) < 2 {
						if _, ok := p.take(n, limit); ok {
							enter(n)
							mine[id] = append(mine[id], hold{n: n})
						} else {
							mine[id] = append(mine[id], hold{n, p.wait(n, limit, plenty)})
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
						p.giveBack(h.n)
					case rng.IntN(2) == 0:
						h.waiter.giveUp() // its turn may come at this very moment
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
				p.giveBack(h.n)
			} else {
				h.waiter.giveUp()
			}
		}
	}
	p.quiet(t, 0)
	require.Zero(t, p.word.Load())
	require.Zero(t, p.queue.Len())
}
