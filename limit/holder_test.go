package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every step of the race between a goroutine that takes a key out and one that holds it, in the order that
// would hurt. The hammers meet it by chance only.

func held[V any](find func(hash uint64, key string) *V, hash func(string) uint64) *V {
	return find(hash("a"), "a")
}

func TestPackedCounter_DeadCellIsSeenByItsHolder(t *testing.T) {
	t.Parallel()
	l, _ := algorithms[0].new(t, Config{Limit: 5})
	e := l.(*RateLimiter).packed
	l.AllowNAt(minute, "a", 5)
	c := held(e.store.keys.Find, e.store.keys.Hash)
	word := c.Value.Load()
	e.store.sweep(minute + 2*second)
	require.EqualValues(t, dead, c.Value.Load()&countMask)
	require.False(t, c.Value.CompareAndSwap(word, word+1), "a caller that looked before cannot charge it")

	// It was charged between the look at it and its end.
	l.AllowNAt(minute+2*second, "a", 1)
	c = held(e.store.keys.Find, e.store.keys.Hash)
	_, expired := e.inspect(c, minute+4*second)
	require.True(t, expired)
	l.AllowNAt(minute+4*second, "a", 1)
	require.False(t, e.kill(c, minute+4*second, false))
	require.Same(t, c, held(e.store.keys.Find, e.store.keys.Hash))
	require.EqualValues(t, 1, c.Value.Load()&countMask)
}

func TestLockedCounter_DeadAccountIsSeenByItsHolder(t *testing.T) {
	t.Parallel()
	l, _ := algorithms[1].new(t, Config{Limit: 5})
	e := l.(*RateLimiter).engine.(*store[account]).algorithm.(*lockedCounter)
	l.AllowNAt(minute, "a", 5)
	node := held(e.store.keys.Find, e.store.keys.Hash)
	require.False(t, e.kill(node, minute+second, false))
	e.store.sweep(minute + 2*second)
	_, alive := e.answer(node, question{now: minute + 2*second, limit: 5, n: 1, take: true})
	require.False(t, alive)
	require.False(t, e.add(node, question{now: minute + 2*second, n: 1}))
	require.Nil(t, held(e.store.keys.Find, e.store.keys.Hash))
}

func TestExactLog_DeadLogIsSeenByItsHolder(t *testing.T) {
	t.Parallel()
	l, _ := algorithms[2].new(t, Config{Limit: 5})
	e := l.(*RateLimiter).engine.(*store[keyLog]).algorithm.(*exactLog)
	l.AllowNAt(minute, "a", 5)
	p := held(e.store.keys.Find, e.store.keys.Hash)
	require.False(t, e.kill(p, minute+second-1, false))
	e.store.sweep(minute + second)
	_, alive := e.answer(p, question{now: minute + second, limit: 5, n: 1, take: true})
	require.False(t, alive)
	require.False(t, e.add(p, question{now: minute + second, n: 1}))
	require.Nil(t, held(e.store.keys.Find, e.store.keys.Hash))
}
