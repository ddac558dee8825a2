package limit

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// Settled at ten times the limit, a key is let in again when nine tenths of the next
// window are over: the limit fits into a word, and what was settled does not.
func TestCounter_SettlesBeyondWhatAWordHolds(t *testing.T) {
	t.Parallel()
	const limit = 10_000_000
	for _, a := range algorithms[:2] {
		l, clock := a.new(t, Config{Limit: limit, Window: time.Minute})
		require.NoError(t, l.Settle(t.Context(), "a", allow(t, l, limit), 10*limit))
		d := l.Peek("a")
		require.Equal(t, time.Minute+54*time.Second+600, d.RetryAfter.Truncate(100), a.name)
		for _, step := range []struct{ at, left int64 }{
			{0, 0}, {24, 0}, {53, 0}, {54, 0}, {57, limit / 2}, {60, limit},
		} {
			clock.Store(minute + 60*second + step.at*second)
			require.Equal(t, step.left, l.Peek("a").Remaining, "%s at %d s", a.name, step.at)
		}
	}
}

// What a word holds and what it does not, in all that a program does: the same as where
// counts are not packed.
func TestCounter_ExcessIsCountedAsWithoutAWord(t *testing.T) {
	t.Parallel()
	steps := 400_000
	if gatetest.Race || testing.Short() {
		steps = 20_000
	}
	random := rand.New(rand.NewPCG(5, 8))
	for _, limit := range []int64{10, 10_000_000, maxPacked - 1, maxPacked} {
		cfg := Config{Limit: limit, Window: 600 * time.Millisecond, MaxKeys: 2}
		word, clock := algorithms[0].new(t, cfg)
		count, other := algorithms[1].new(t, cfg)
		require.NotNil(t, word.(*RateLimiter).packed)
		var words, counts []Decision
		for step := range steps / 4 {
			key := string(rune('a' + random.IntN(2)))
			actual := random.Int64N(3 * maxPacked)
			var a, b error
			switch i := len(words) - 1; random.IntN(10) {
			case 0:
				clock.Add(random.Int64N(int64(cfg.Window)))
				other.Store(clock.Load())
			case 1:
				a = word.Settle(t.Context(), key, Decision{}, actual)
				b = count.Settle(t.Context(), key, Decision{}, actual)
			case 2:
				if i >= 0 {
					a = word.Settle(t.Context(), "a", words[i], actual%(words[i].Charged+5))
					b = count.Settle(t.Context(), "a", counts[i], actual%(words[i].Charged+5))
					words, counts = words[:i], counts[:i]
				}
			case 3:
				if random.IntN(50) == 0 {
					word.Sweep()
					count.Sweep()
				}
			default:
				n := random.Int64N(limit) + 1
				x, y := word.AllowNAt(clock.Load(), "a", n), count.AllowNAt(clock.Load(), "a", n)
				if x.Allowed && y.Allowed {
					words, counts = append(words, x), append(counts, y)
				}
				x.generation, y.generation = generation{}, generation{}
				require.Equal(t, y, x, "step %d", step)
			}
			require.NoError(t, a)
			require.NoError(t, b)
			require.Equal(t, count.Peek(key), word.Peek(key), "step %d", step)
		}
		clock.Add(3 * int64(cfg.Window))
		word.Sweep()
		require.Empty(t, word.(*RateLimiter).packed.excess.of, "they go with their cells")
	}
}

// The race: settlements beyond what a word holds, refunds down to it, admissions, and
// turns of the window. Nothing is lost, nothing is invented.
func TestCounter_HammerExcess(t *testing.T) {
	t.Parallel()
	const goroutines, turns = 16, 2000
	l, clock := algorithms[0].new(t, Config{Limit: maxPacked, Window: time.Second})
	e := l.(*RateLimiter).packed
	d := allow(t, l, goroutines*turns)
	gatetest.AtOnce(goroutines, func(id int) {
		for turn := range turns {
			_ = l.Settle(t.Context(), "a", Decision{}, maxPacked/goroutines/8)
			_ = l.Refund(t.Context(), "a", d, 1)
			l.AllowNAt(clock.Load(), "a", maxPacked)
			if turn%100 == id {
				runtime.Gosched()
			}
		}
	})
	c := held(e.store.keys.Find, e.store.keys.Hash)
	_, is := e.read(c, minute/second, 0)
	require.EqualValues(t, int64(maxPacked/goroutines/8*goroutines*turns), is.current)

	// The same with a window that turns: what the last two were charged is what is held.
	var mu sync.Mutex // guards total
	total := make(map[int64]int64)
	now := minute + 10*second
	for round := range int64(50) {
		gatetest.AtOnce(goroutines, func(id int) {
			at := now + round*second + int64(id)
			for range 20 {
				e.store.charge("a", question{now: at, n: maxPacked / 4})
				mu.Lock()
				total[at/second] += maxPacked / 4
				mu.Unlock()
			}
		})
		number := (now + round*second) / second
		_, is := e.read(c, number, 0)
		require.Equal(t, total[number], is.current)
		require.Equal(t, total[number-1], is.previous)
	}
}
