package flow

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naivePacer does by one list what a pacer does.
type naivePacer struct {
	last  int64 // the latest turn that was given
	queue []*naiveTurn
}

type naiveTurn struct {
	gap, told int64 // told is when it was to come at the latest
	at        int64 // when it came
	came      bool
	turn      *turn
	called    *atomic.Bool // told that it comes sooner, since it was asked last
}

func (m *naivePacer) tail() int64 {
	tail := m.last
	for _, w := range m.queue {
		tail += w.gap
	}
	return tail
}

func (m *naivePacer) serve(now int64) {
	for len(m.queue) > 0 && m.last+m.queue[0].gap <= now {
		w := m.queue[0]
		m.last += w.gap
		w.at, w.came = m.last, true
		m.queue = m.queue[1:]
	}
}

// Any order of calls that come, leave, and ask, on any clock: the turns are those of a list from
// which a call that leaves is struck out.
func TestPacer_AgreesWithAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, now := newPacer(), int64(1<<60)
		m := &naivePacer{last: p.last.Load()}
		var turns []*naiveTurn // of those that may still ask or leave
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 4:
				gap := rapid.Int64Range(1, 5).Draw(t, "gap")
				longest := rapid.Int64Range(0, 25).Draw(t, "longest")
				waits := longest > 0 && rapid.IntRange(0, 9).Draw(t, "waits") > 0
				at, got, ok := p.take(now, 1, gap, longest, waits)
				// The lock-free ways look at the queue as it is; those that join it serve it first.
				want := max(now, m.tail()+gap)
				if want-now <= longest && (len(m.queue) > 0 || want > now && waits) {
					m.serve(now)
				}
				if at != want || ok != (want-now <= longest) || (got != nil) != (ok && waits && want > now) {
					t.Fatalf("turn %d, %v, queues: %v; want %d", at-now, ok, got != nil, want-now)
				}
				switch {
				case !ok:
				case got == nil && len(m.queue) > 0 && m.queue[len(m.queue)-1].turn == nil:
					m.queue[len(m.queue)-1].gap += gap // nobody waits for either
				case len(m.queue) > 0 || got != nil:
					w := &naiveTurn{gap: gap, told: at, turn: got, called: new(atomic.Bool)}
					m.queue = append(m.queue, w)
					if got != nil {
						turns = append(turns, w)
					}
				default:
					m.last = at
				}
			case step < 6:
				now += rapid.Int64Range(0, 6).Draw(t, "time")
			case step == 6:
				now -= rapid.Int64Range(0, 3).Draw(t, "time that goes back")
			case len(turns) > 0:
				i := rapid.IntRange(0, len(turns)-1).Draw(t, "who")
				w := turns[i]
				if step < 9 {
					w.called.Store(false)
					due := w.turn.due(now, func() { w.called.Store(true) })
					m.serve(now)
					if (due == 0) != w.came {
						t.Fatalf("due in %v, want it to have come: %v", due, w.came)
					}
					if due > 0 && now+int64(due) > w.told {
						t.Fatalf("due in %d, at %d; told %d", due, now+int64(due), w.told)
					}
					if first := len(m.queue) > 0 && m.queue[0] == w; first && now+int64(due) != m.last+w.gap {
						t.Fatalf("the first is due in %d, want %d", due, m.last+w.gap-now)
					}
					w.told = min(w.told, now+int64(due))
					break
				}
				w.turn.giveBack(now)
				m.serve(now)
				j := slices.Index(m.queue, w)
				switch {
				case j >= 0:
					m.queue = slices.Delete(m.queue, j, j+1)
				case m.last == w.at:
					m.last -= w.gap
				}
				if len(m.queue) > 0 && (j >= 0 || m.last == w.at-w.gap) { // the first cannot begin in the past
					m.last = max(m.last, now-m.queue[0].gap)
				}
				turns = slices.Delete(turns, i, i+1)
			}
			if got, want := p.next(0), m.tail(); got != want {
				t.Fatalf("the latest turn is %d, want %d", got-now, want-now)
			}
			if (p.last.Load() == queueing) != (len(m.queue) > 0) {
				t.Fatalf("queueing: %v, want %v", p.last.Load() == queueing, len(m.queue) > 0)
			}
			// A call that has been asked, and is the first by now, knows when its turn comes, or was called.
			if len(m.queue) > 0 {
				if w := m.queue[0]; w.turn != nil && w.turn.sooner != nil && !w.called.Load() && m.last+w.gap < w.told {
					t.Fatalf("the first was told %d, comes at %d, and was not called", w.told-now, m.last+w.gap-now)
				}
			}
		}
	})
}

// The race: calls that queue, leave and are served, beside calls that find none waiting, on a clock that
// some of them read late. The turns that were given and kept are a gap apart, and in the end nobody waits.
func TestPacer_HammerQueueing(t *testing.T) {
	t.Parallel()
	const goroutines, each, gap, longest = 32, 400, 1000, 5000
	p := newPacer()
	var now atomic.Int64
	now.Store(1 << 60)
	var mu sync.Mutex // guards kept
	var kept []int64
	var all sync.WaitGroup
	for id := range goroutines {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(id), 0))
			keep := func(at int64) {
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, at)
			}
			for range each {
				came := now.Load()
				if rng.IntN(8) == 0 {
					now.Add(rng.Int64N(3 * gap))
				}
				waits := rng.IntN(16) > 0
				at, turn, ok := p.take(came, 1, gap, longest, waits)
				switch {
				case !ok:
					now.Add(gap / 4)
					continue
				case turn == nil:
					if waits || at <= came { // else it may come sooner than told, and nobody learns when
						keep(at)
					}
					continue
				}
				patience := rng.IntN(40)
				for asked := came; ; asked = now.Load() {
					due := turn.due(asked, func() {})
					if due == 0 {
						if rng.IntN(10) == 0 {
							turn.giveBack(asked) // refused by another rule
						} else {
							keep(turn.at)
						}
						break
					}
					if asked+int64(due) > at {
						t.Errorf("told %d, and later %d", at, asked+int64(due))
					}
					if patience--; patience < 0 {
						turn.giveBack(asked)
						break
					}
					now.Add(rng.Int64N(gap / 4))
				}
			}
		})
	}
	all.Wait()
	now.Add(longest + gap)
	p.mu.Lock()
	p.serve(now.Load())
	p.mu.Unlock()
	require.Zero(t, p.queue.Len())
	require.NotEqual(t, int64(queueing), p.last.Load())
	slices.Sort(kept)
	for i := range kept[1:] {
		require.GreaterOrEqual(t, kept[i+1]-kept[i], int64(gap))
	}
}

// Calls of a rule in mode shadow, which was enforced before and still has a queue, take turns and no memory.
func TestPacer_ManyTurnsThatNobodyWaitsForAreOneInTheQueue(t *testing.T) {
	t.Parallel()
	const now, gap, longest, calls = 1 << 60, 10, 1 << 40, 1000
	p := newPacer()
	p.take(now, 1, gap, longest, true)
	_, first, _ := p.take(now, 1, gap, longest, true)
	for i := range calls {
		at, nobody, ok := p.take(now, 1, gap, longest, false)
		require.True(t, ok)
		require.Nil(t, nobody)
		require.Equal(t, now+int64(i+2)*gap, at)
	}
	_, last, _ := p.take(now, 1, gap, longest, true)
	require.Equal(t, 3, p.queue.Len())
	first.giveBack(now)
	require.NotZero(t, last.due(now+(calls+1)*gap-1, func() {}))
	require.Zero(t, last.due(now+(calls+1)*gap, func() {}))
	require.NotEqual(t, int64(queueing), p.last.Load())
}

// Clocks that jump further than a difference can hold neither end the gap nor panic.
func TestPacer_ClockJumpsFar(t *testing.T) {
	t.Parallel()
	for _, from := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 62, 0, math.MinInt64} {
		for _, to := range []int64{math.MaxInt64, 1 << 62, 0, -1 << 62, math.MinInt64} {
			p := newPacer()
			p.take(from, 1, 10, 0, true)
			_, first, _ := p.take(from, 1, 10, 100, true)
			at, second, ok := p.take(to, 1, 10, 100, true)
			if first != nil {
				first.due(to, func() {})
			}
			if ok && second == nil && to < math.MaxInt64 {
				require.GreaterOrEqual(t, at, from)
			}
			if to < 0 && from > 1<<60 {
				require.False(t, ok, "it would wait for ever")
			}
			if first != nil {
				first.giveBack(to)
			}
			if second != nil {
				require.LessOrEqual(t, second.due(to, func() {}), 100*time.Nanosecond)
				second.giveBack(to)
			}
			require.NotEqual(t, int64(queueing), p.last.Load(), "from %d to %d", from, to)
		}
	}
}
