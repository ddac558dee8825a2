package places

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call finds no room, the limit rises, and then the call queues: it must not be held to
// the limit that it saw, beside free places and with all others behind it.
func TestPlaces_LimitRisesBeforeACallQueues(t *testing.T) {
	t.Parallel()
	p := of(1)
	p.Take(1, 1)
	_, ok := p.Take(1, 1)
	require.False(t, ok)
	p.SetLimit(5)
	w := p.Queue(1, plenty)
	require.True(t, w.has())
	_, ok = p.Take(1, 5)
	require.True(t, ok)
	p.quiet(t, 3)
}

func TestPlaces_LimitFallsBelowWhatIsTaken(t *testing.T) {
	t.Parallel()
	p := of(4)
	for range 4 {
		p.Take(1, 4)
	}
	w := p.Queue(1, plenty)
	p.SetLimit(2)
	for range 2 {
		p.GiveBack(1)
		require.False(t, w.has(), "as many as the limit are still inside")
	}
	p.GiveBack(1)
	require.True(t, w.has())
	p.quiet(t, 2)
}

func TestPlaces_CallsThatWaitAreLetInWhenTheLimitRises(t *testing.T) {
	t.Parallel()
	p := of(1)
	p.Take(1, 1)
	var queue []*Waiter
	var called atomic.Int64
	for range 10 {
		w := p.Queue(1, plenty)
		w.Due(0, func() { called.Add(1) })
		queue = append(queue, w)
	}
	for limit := int64(2); limit <= 11; limit++ {
		p.SetLimit(limit)
		require.Equal(t, limit-1, called.Load())
		require.True(t, queue[limit-2].has())
		p.quiet(t, limit)
	}
	require.Zero(t, p.Waiting())
}

// The race: calls that take, wait, give up and give back, against a limit that moves.
// Moving it excludes only the loading of the limit with its use, so that what stood at an
// admission is known. From the last admission on, fewer are taken. So just after a call was
// admitted, no more are than the largest limit that stood since that call began.
func TestPlaces_HammerLimitThatMoves(t *testing.T) {
	t.Parallel()
	const goroutines, calls, moves, largest = 64, 400, 2000, 40
	p := of(1)
	var stood [moves + 2]int64 // limits, by version; written before version is
	stood[0] = 1
	var version, admitted, waited, over atomic.Int64
	var moving sync.RWMutex
	admit := func(since int64) {
		now := p.Taken()
		admitted.Add(1)
		most := int64(0)
		for v := since; v <= version.Load(); v++ {
			most = max(most, stood[v])
		}
		if now > most {
			over.Add(1)
		}
	}
	move := func(limit int64) {
		moving.Lock()
		defer moving.Unlock()
		v := version.Load() + 1
		stood[v] = limit
		version.Store(v)
		p.SetLimit(limit)
	}
	var all, mover sync.WaitGroup
	var ended atomic.Bool
	mover.Go(func() {
		rng := rand.New(rand.NewPCG(3, 7))
		for i := 0; i < moves && !ended.Load(); i++ {
			move(rng.Int64N(largest)) // 0 lets no call in
			for range rng.IntN(20) {
				runtime.Gosched()
			}
		}
		move(3) // so that all that still wait come in
	})
	for id := range goroutines {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(id), 1))
			for range calls {
				n := 1 + rng.Int64N(3)
				since := max(0, version.Load()-1) // the queue is told of a version a moment later
				moving.RLock()
				taken, ok := p.Take(n, stood[version.Load()])
				moving.RUnlock()
				assert.GreaterOrEqual(t, taken, int64(0))
				if !ok {
					w := p.Queue(n, goroutines/2)
					if w == nil {
						continue
					}
					waited.Add(1)
					came := make(chan struct{}, goroutines)
					due := w.Due(0, func() {
						admit(since)
						came <- struct{}{}
					})
					if due != 0 && rng.IntN(3) == 0 {
						w.GiveBack(0) // its turn may come at this very moment
						continue
					}
					if due != 0 {
						<-came
					}
				} else {
					admit(since)
				}
				if rng.IntN(4) == 0 {
					runtime.Gosched()
				}
				p.GiveBack(n)
			}
		})
	}
	all.Wait()
	ended.Store(true)
	mover.Wait()
	require.Zero(t, over.Load(), "of %d admissions, %d of which waited", admitted.Load(), waited.Load())
	require.NotZero(t, waited.Load())
	p.quiet(t, 0)
	require.Zero(t, p.word.Load())
	require.Zero(t, p.Waiting())
}
