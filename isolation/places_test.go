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

// called tells whether a turn has come.
func called(turn <-chan struct{}) bool {
	select {
	case <-turn:
		return true
	default:
		return false
	}
}

// quiet tells what must hold while nobody is at it: so many places are taken, the
// bit is set if somebody waits for places that there could be, and there is no room
// for the first of them.
func (p *places) quiet(t testing.TB, taken int64) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, taken, p.taken())
	first := slices.IndexFunc(p.queue, func(w *waiter) bool { return w.n <= w.limit })
	require.Equal(t, first >= 0, p.word.Load() < 0, "the bit")
	if first >= 0 {
		require.Greater(t, p.queue[first].n, p.queue[first].limit-taken, "there is room for one who queues")
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
	batch, turnOfBatch := p.wait(2, 4)
	_, ok := p.take(1, 4) // it would fit, but is not its turn
	require.False(t, ok)
	_, turnOfOne := p.wait(1, 4)
	require.False(t, called(turnOfBatch))
	require.False(t, called(turnOfOne))
	p.quiet(t, 3)

	p.giveBack(1)
	require.True(t, called(turnOfBatch))
	require.False(t, called(turnOfOne))
	p.quiet(t, 4)
	p.giveUp(batch, 2) // the call was refused by another rule after its wait
	require.True(t, called(turnOfOne))
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
			var tickets []int64
			var turns []<-chan struct{}
			wants := []int64{3, 1, 2}
			for _, n := range wants {
				ticket, turn := p.wait(n, 4)
				tickets, turns = append(tickets, ticket), append(turns, turn)
			}
			p.giveUp(tickets[tt.giveUp], wants[tt.giveUp])
			taken := int64(2)
			for i, turn := range turns {
				require.Equal(t, slices.Contains(tt.served, i), called(turn), i)
				if called(turn) {
					taken += wants[i]
				}
			}
			p.quiet(t, taken)
			p.giveBack(2) // the others come one after the other
			for range wants {
				for i, turn := range turns {
					if turn != nil && i != tt.giveUp && called(turn) {
						turns[i] = nil
						p.giveBack(wants[i])
					}
				}
			}
			p.quiet(t, 0)
			require.Empty(t, p.queue)
		})
	}
}

func TestPlaces_LimitOfThoseWhoQueueChanges(t *testing.T) {
	t.Parallel()
	var p places
	p.take(2, 2)
	_, two := p.wait(2, 2)
	_, one := p.wait(1, 2)
	p.setLimit(1) // the first can never come; it lets the second pass
	p.giveBack(1)
	require.False(t, called(one))
	p.giveBack(1)
	require.True(t, called(one))
	require.False(t, called(two))
	p.quiet(t, 1)
	_, ok := p.take(1, 1)
	require.False(t, ok)
	p.setLimit(3)
	require.True(t, called(two), "there is room, and nobody else comes")
	p.quiet(t, 3)
}

// naivePlaces do by one list what places do.
type naivePlaces struct {
	taken, limit int64
	queue        []*naiveWaiter
}

type naiveWaiter struct {
	n, ticket int64
	turn      <-chan struct{}
	called    bool
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
					w := &naiveWaiter{n: n}
					w.ticket, w.turn = p.wait(n, m.limit)
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
					p.giveUp(w.ticket, w.n)
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
				if called(w.turn) != w.called {
					t.Fatalf("waiter %d of %d was called: %v, want %v", i, len(waiters), !w.called, w.called)
				}
			}
			if len(p.queue) != len(m.queue) {
				t.Fatalf("%d queue, want %d", len(p.queue), len(m.queue))
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
		_, turn := p.wait(1, 1)
		for done.Load() < i {
			runtime.Gosched()
		}
		if !called(turn) {
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
		n, ticket int64
		turn      <-chan struct{} // nil: taken at once
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
				entered := make(map[int64]bool) // those with a turn that came, by ticket
				for range each {
					if n := 1 + rng.Int64N(3); len(mine[id]) < 2 {
						if _, ok := p.take(n, limit); ok {
							enter(n)
							mine[id] = append(mine[id], hold{n: n})
						} else {
							ticket, turn := p.wait(n, limit)
							mine[id] = append(mine[id], hold{n, ticket, turn})
						}
					}
					i := rng.IntN(len(mine[id]))
					h := mine[id][i]
					in := h.turn == nil || entered[h.ticket]
					if !in && called(h.turn) {
						enter(h.n)
						in, entered[h.ticket] = true, true
					}
					switch {
					case in:
						inside.Add(-h.n)
						p.giveBack(h.n)
					case rng.IntN(2) == 0:
						p.giveUp(h.ticket, h.n) // its turn may come at this very moment
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
				if h.turn == nil || called(h.turn) {
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
				if h.turn != nil && called(h.turn) {
					mine[id][i].turn = nil
				}
			}
		}
	}
	for _, holds := range mine {
		for _, h := range holds {
			if h.turn == nil {
				p.giveBack(h.n)
			} else {
				p.giveUp(h.ticket, h.n)
			}
		}
	}
	p.quiet(t, 0)
	require.Zero(t, p.word.Load())
	require.Empty(t, p.queue)
}
