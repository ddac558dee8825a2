package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every step of the race between who takes a key out and who holds it, in the order that
// would hurt. The hammers meet it by chance only.

func held[V any](find func(hash uint64, key string) *V, hash func(string) uint64) *V {
	return find(hash("a"), "a")
}

func TestNarrow_WhoHoldsADeadCellSeesIt(t *testing.T) {
	t.Parallel()
	l, _ := algorithms[0].new(t, Config{Limit: 5})
	e := l.(*Counter).narrow
	l.AllowNAt(minute, "a", 5)
	c := held(e.keys.Find, e.keys.Hash)
	word := c.Value.Load()
	e.sweep(minute + 2*second)
	require.EqualValues(t, dead, c.Value.Load()&countMask)
	require.False(t, c.Value.CompareAndSwap(word, word+1), "who looked before cannot charge it")

	// It was charged between the look at it and its end.
	l.AllowNAt(minute+2*second, "a", 1)
	c = held(e.keys.Find, e.keys.Hash)
	_, expired := e.judge(c, minute+4*second)
	require.True(t, expired)
	l.AllowNAt(minute+4*second, "a", 1)
	require.False(t, e.kill(c, minute+4*second, false))
	require.Same(t, c, held(e.keys.Find, e.keys.Hash))
	require.EqualValues(t, 1, c.Value.Load()&countMask)
}

func TestWide_WhoHoldsADeadAccountSeesIt(t *testing.T) {
	t.Parallel()
	l, _ := algorithms[1].new(t, Config{Limit: 5})
	e := l.(*Counter).engine.(*wide)
	l.AllowNAt(minute, "a", 5)
	node := held(e.keys.Find, e.keys.Hash)
	require.False(t, e.kill(node, minute+second, false))
	e.sweep(minute + 2*second)
	_, alive := e.ask(node, minute+2*second, 1, true)
	require.False(t, alive)
	require.False(t, e.add(&node.Value, minute+2*second, 1))
	require.Nil(t, held(e.keys.Find, e.keys.Hash))
}

func TestJournals_WhoHoldsADeadJournalSeesIt(t *testing.T) {
	t.Parallel()
	l, _ := algorithms[2].new(t, Config{Limit: 5})
	e := l.(*Log).engine.(*journals)
	l.AllowNAt(minute, "a", 5)
	p := held(e.keys.Find, e.keys.Hash)
	require.False(t, e.kill(p, minute+second-1, false))
	e.sweep(minute + second)
	_, alive, _ := e.ask(p, minute+second, 1, true)
	require.False(t, alive)
	require.False(t, e.spend(&p.Value, minute+second, 1))
	require.Nil(t, held(e.keys.Find, e.keys.Hash))
}
