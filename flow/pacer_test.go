package flow

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The race: 64 goroutines take turns, and half of them give theirs back, on a clock
// that they move. Turns that are kept are never closer than the gap, and none of
// those in the queue is skipped unless somebody gave it back.
func TestPacer_HammerTurnsAndGivingBack(t *testing.T) {
	t.Parallel()
	const goroutines, each, gap, longest = 64, 500, 1000, 20_000
	for _, givers := range []int{0, 2} {
		p := newPacer()
		var now atomic.Int64
		now.Store(1 << 60)
		var mu sync.Mutex // guards kept
		var kept, lost []int64
		var all sync.WaitGroup
		for id := range goroutines {
			all.Go(func() {
				var mine, gone []int64
				for i := range each {
					at := now.Load()
					turn, _, ok := p.take(at, 1, gap, longest, false)
					switch {
					case ok && givers > 0 && (id+i)%givers == 0:
						p.giveBack(turn, gap)
						gone = append(gone, turn)
					case ok:
						mine = append(mine, turn)
						if turn < at || turn > at+longest {
							t.Errorf("at %d the turn is %d", at, turn)
						}
					default:
						now.Add(gap / 10)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				kept, lost = append(kept, mine...), append(lost, gone...)
			})
		}
		all.Wait()
		slices.Sort(kept)
		for i := range kept[1:] {
			require.GreaterOrEqual(t, kept[i+1]-kept[i], int64(gap))
		}
		span := kept[len(kept)-1] - kept[0]
		if givers == 0 {
			require.Empty(t, lost)
			require.EqualValues(t, (len(kept)-1)*gap, span, "the queue never was empty, so every turn is there")
		}
		require.LessOrEqual(t, len(kept), int(span/gap)+1)
	}
}

func TestPacer_TheFirstTurnIsNow(t *testing.T) {
	t.Parallel()
	for _, now := range []int64{math.MinInt64 / 8, -1, 0, 1, 1 << 60} {
		p := newPacer()
		turn, _, ok := p.take(now, 1, math.MaxInt64/8, 0, false)
		require.True(t, ok)
		require.Equal(t, now, turn)
	}
}

// A turn that nobody waits for is given back only if no later one was given, and never
// further than to where it was.
func TestPacer_GivingBack(t *testing.T) {
	t.Parallel()
	p := newPacer()
	first, _, _ := p.take(1000, 1, 100, 500, false)
	second, _, _ := p.take(1000, 1, 100, 500, false)
	third, _, _ := p.take(1000, 1, 100, 500, false)
	require.Equal(t, []int64{1000, 1100, 1200}, []int64{first, second, third})
	p.giveBack(second, 100)
	require.Equal(t, int64(1300), p.next(100), "somebody is behind it")
	p.giveBack(third, 100)
	require.Equal(t, int64(1200), p.next(100))
	p.giveBack(third, 100)
	require.Equal(t, int64(1200), p.next(100), "only once")
}

// The race: all take at one instant, and nobody is refused. Each turn is given once.
func TestPacer_HammerEachTurnOnce(t *testing.T) {
	t.Parallel()
	const goroutines, each = 64, 5000
	p := newPacer()
	turns := make([][]int64, goroutines)
	start := make(chan struct{})
	var all sync.WaitGroup
	for id := range goroutines {
		all.Go(func() {
			<-start
			for range each {
				turn, _, _ := p.take(0, 1, 10, math.MaxInt64/8, false)
				turns[id] = append(turns[id], turn)
			}
		})
	}
	close(start)
	all.Wait()
	sorted := slices.Sorted(slices.Values(slices.Concat(turns...)))
	for i, turn := range sorted {
		require.EqualValues(t, i*10, turn)
	}
}

// Every call that joins or leaves the queue asks how far apart calls are. Only a smaller answer costs a walk over the
// queue, or 40,000 waiting calls of a warm-up would slow each other down.
func TestPacer_QueueIsExaminedOnlyWhenSpacingFalls(t *testing.T) {
	t.Parallel()
	p, spacing := newPacer(), 1000.0
	p.load(0, spacing, func(int64) float64 { return spacing })
	var last *turn
	for range 4 {
		_, turn, ok := p.take(0, 3, 3*int64(spacing), math.MaxInt64/8, true)
		require.True(t, ok)
		last = turn
	}
	p.serve(1)
	last.gap++ // visible only to a walk
	p.serve(1)
	require.EqualValues(t, 3001, last.gap)
	last.gap--
	spacing = 500
	p.serve(2)
	require.EqualValues(t, 1500, last.gap)
	require.EqualValues(t, 4500, p.tail.Load(), "after two calls that move up as well")
}
