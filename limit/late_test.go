package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// What is given back, or turns out dearer, long after it was charged.

// The two that are left in a ring of eight lie at its end when the second half of it goes.
func TestLog_RefundedOutOfOrderInARingThatGetsSmaller(t *testing.T) {
	t.Parallel()
	l, clock := algorithms[2].new(t, Config{Limit: 10})
	at := func(now int64) Decision {
		clock.Store(minute + now*ms)
		d := allow(t, l, 1)
		require.True(t, d.Allowed)
		return d
	}
	for i := range int64(7) {
		at(i)
	}
	a := at(900)
	b := at(1500)
	require.NoError(t, l.Refund(t.Context(), "a", b, 1))
	require.NoError(t, l.Refund(t.Context(), "a", a, 1))
	at(1600)
	for i := range int64(9) {
		require.EqualValues(t, 8-i, at(1700+i).Remaining)
	}
	l.Sweep()
	require.Equal(t, 1, l.Stats().Keys)
}

// Nothing is left of what was given back, so it takes no place from what comes.
func TestLog_IsExactAfterLateRefunds(t *testing.T) {
	t.Parallel()
	l, clock := algorithms[2].new(t, Config{Limit: 4})
	var all []Decision
	for i := range int64(4) {
		clock.Store(minute + i*ms)
		all = append(all, allow(t, l, 1))
	}
	for _, d := range all[1:3] {
		require.NoError(t, l.Refund(t.Context(), "a", d, 1))
	}
	clock.Store(minute + 900*ms)
	require.True(t, allow(t, l, 1).Allowed)
	clock.Store(minute + 1100*ms)
	require.EqualValues(t, 3, l.Peek("a").Remaining)
	require.Zero(t, l.Stats().Coarse)
}

// What was charged beyond the limit leaves the window as it came into it.
func TestLog_IsExactAfterSettlingBeyondTheLimit(t *testing.T) {
	t.Parallel()
	l, clock := algorithms[2].new(t, Config{Limit: 4})
	for i := range int64(8) {
		clock.Store(minute + i*100*ms)
		require.NoError(t, l.Settle(t.Context(), "a", Decision{}, 1))
	}
	for i := range int64(4) {
		clock.Store(minute + second + (i+4)*100*ms - 1)
		require.Equal(t, i, l.Peek("a").Remaining)
		clock.Add(1)
		require.Equal(t, i+1, l.Peek("a").Remaining)
	}
	require.Zero(t, l.Stats().Coarse)
}

// lateKey is a key of a limiter, beside its model.
type lateKey struct {
	name  string
	model model
	taken []lateCharge // that may still be given back
}

// lateCharge is what a decision has charged and was not given back.
type lateCharge struct {
	d    Decision
	c    *charged // nil: it was charged before a Reset
	left int64
}

// late is a limiter beside a naive model of it for each of a few keys.
type late struct {
	t       *testing.T
	random  *rand.Rand
	limiter limiter
	clock   *fake
	window  int64
	begin   func() model
	keys    []lateKey
}

func (a variant) newLate(t *testing.T, random *rand.Rand) *late {
	t.Helper()
	cfg := Config{
		Limit:   random.Int64N(41),
		Window:  []time.Duration{6 * time.Millisecond, 6*time.Millisecond + 6, 1200 * time.Millisecond, time.Minute}[random.IntN(4)],
		MaxKeys: 64,
	}
	if a.name == "bucketed" || a.name == "strict" {
		cfg.Buckets = []int{1, 2, 3, 6}[random.IntN(4)]
	}
	w := &late{t: t, random: random, window: int64(cfg.Window), begin: func() model { return a.model(cfg) }}
	w.limiter, w.clock = a.new(t, cfg)
	for i := range 3 {
		w.keys = append(w.keys, lateKey{name: fmt.Sprint("key ", i), model: w.begin()})
	}
	return w
}

// step does one thing of those that a program does.
func (w *late) step() {
	k := &w.keys[w.random.IntN(len(w.keys))]
	switch w.random.IntN(100) {
	default:
		w.allow(k)
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27:
		w.giveBack(k)
	case 28, 29:
		w.charge(k, w.random.Int64N(6))
	case 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44:
		w.clock.Add(w.random.Int64N(w.window / 40))
	case 45, 46, 47:
		w.clock.Add(w.random.Int64N(w.window))
	case 48:
		w.clock.Add(w.random.Int64N(3 * w.window))
	case 49:
		if w.random.IntN(10) == 0 {
			w.limiter.Reset(k.name)
			k.model = w.begin()
			for i := range k.taken {
				k.taken[i].c = nil
			}
		} else {
			w.limiter.Sweep()
		}
	}
}

func (w *late) allow(k *lateKey) {
	now, n := w.clock.Load(), w.random.Int64N(3)+1
	d, err := w.limiter.AllowN(w.t.Context(), k.name, n)
	k.model.touch(now)
	fits, remaining := k.model.ask(now, n)
	if fits {
		c := lateCharge{d, k.model.charge(now, n), n}
		_, remaining = k.model.ask(now, 0)
		if len(k.taken) < 50 {
			k.taken = append(k.taken, c)
		} else {
			k.taken[w.random.IntN(len(k.taken))] = c // one that is never given back
		}
	}
	if err != nil || d.Allowed != fits || d.Remaining != remaining {
		w.t.Fatalf("%d of %q at %d: %+v, %v; the model says %v, %d remain", n, k.name, now, d, err, fits, remaining)
	}
}

// giveBack refunds a part of a charge of any age, or settles it.
func (w *late) giveBack(k *lateKey) {
	if len(k.taken) == 0 {
		return
	}
	i := w.random.IntN(len(k.taken))
	if w.random.IntN(2) == 0 {
		i = max(0, len(k.taken)-1-w.random.IntN(4)) // mostly it is young
	}
	c := &k.taken[i]
	less := w.random.Int64N(c.left + 1)
	if c.left == c.d.Charged && w.random.IntN(2) == 0 {
		less = c.left - w.random.Int64N(c.left+4)
		require.NoError(w.t, w.limiter.Settle(w.t.Context(), k.name, c.d, c.left-less))
		c.left = max(0, less) // it is settled once
	} else {
		require.NoError(w.t, w.limiter.Refund(w.t.Context(), k.name, c.d, less))
	}
	switch {
	case less < 0:
		k.model.charge(w.clock.Load(), -less)
	case c.c != nil:
		k.model.refund(c.c, less)
	}
	if c.left -= max(0, less); c.left == 0 {
		k.taken = slices.Delete(k.taken, i, i+1)
	}
}

// charge settles what was never asked for.
func (w *late) charge(k *lateKey, n int64) {
	require.NoError(w.t, w.limiter.Settle(w.t.Context(), k.name, Decision{}, n))
	if n > 0 {
		k.model.charge(w.clock.Load(), n)
	}
}

// In sum ten million steps of admissions, refunds and settlements that come late, of rings
// that grow and get smaller: every answer is that of a naive model.
func TestLimiter_AgreesWithANaiveModelOfLateRefunds(t *testing.T) {
	t.Parallel()
	const steps = 2500
	rounds := 10_000_000 / steps / len(algorithms)
	if gatetest.Race || testing.Short() {
		rounds /= 50
	}
	for i, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for round := range rounds {
				w := a.newLate(t, rand.New(rand.NewPCG(uint64(i), uint64(round))))
				for range steps {
					w.step()
				}
				w.end()
			}
		})
	}
}

// end lets everything expire.
func (w *late) end() {
	w.t.Helper()
	w.checkRings()
	w.clock.Add(3 * w.window)
	w.limiter.Sweep()
	s := w.limiter.Stats()
	require.Zero(w.t, s.Keys)
	require.Zero(w.t, s.Bytes)
	require.Zero(w.t, s.Coarse)
}

// checkRings looks whether the parts of the rings fit each other, and are counted.
func (w *late) checkRings() {
	w.t.Helper()
	e := exactLogOf(w.limiter)
	if e == nil {
		return
	}
	bytes := int64(0)
	for _, k := range w.keys {
		if j := e.of(k.name); j != nil {
			require.Less(w.t, j.first, len(j.ring))
			require.LessOrEqual(w.t, j.count, len(j.ring))
			bytes += ringBytes(len(j.ring))
		}
	}
	require.Equal(w.t, bytes, w.limiter.Stats().Bytes)
}

// exactLogOf returns nil for what has none.
func exactLogOf(l limiter) *exactLog {
	if s, ok := l.(*RateLimiter).engine.(*store[keyLog]); ok {
		return s.algorithm.(*exactLog)
	}
	return nil
}
