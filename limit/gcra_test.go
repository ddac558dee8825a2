package limit

import (
	"context"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func newBurst(t require.TestingT, cfg Config) (*RateLimiter, *fake) {
	l, clock := burst.new(t, cfg)
	return l.(*RateLimiter), clock
}

func TestBurst_SoManyAtOnceThenEvenly(t *testing.T) {
	t.Parallel()
	l, clock := newBurst(t, Config{Limit: 5, Burst: 8})
	for _, step := range []struct {
		at   int64 // ms
		want int
	}{{0, 8}, {199, 0}, {200, 1}, {1000, 4}, {1001, 0}, {3000, 8}, {9000, 8}} {
		clock.Store(minute + step.at*ms)
		require.Equal(t, step.want, passed(t, l, "a", 20), "at %d ms", step.at)
	}
}

// The cost of a call is no whole number of nanoseconds; all the same as many come back in a
// window as it says, to the nanosecond.
func TestBurst_LimitsThatDoNotDivideTheWindow(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{3, 7, 97, 999_983, 1<<24 - 3, 1<<31 - 1} {
		l, clock := newBurst(t, Config{Limit: limit})
		for range 20 {
			require.True(t, allow(t, l, limit).Allowed)
			require.False(t, allow(t, l, 1).Allowed)
			clock.Add(second - 1)
			require.False(t, allow(t, l, limit).Allowed)
			clock.Add(1)
		}
		for i := range min(limit, 2000) { // one at a time, on time
			require.True(t, allow(t, l, 1).Allowed)
			clock.Store(minute + 20*second + (i+1)*second/limit + boolTo64((i+1)*second%limit != 0))
		}
	}
}

func boolTo64(b bool) int64 { return int64(boolToInt(b)) }

func TestBurst_SmallerThanTheLimit(t *testing.T) {
	t.Parallel()
	l, clock := newBurst(t, Config{Limit: 100, Burst: 1})
	require.Equal(t, 1, passed(t, l, "a", 9))
	require.Equal(t, Never, allow(t, l, 2).RetryAfter, "more than ever pass at once")
	require.Equal(t, 10*time.Millisecond, allow(t, l, 1).RetryAfter)
	clock.Add(10 * ms)
	require.Equal(t, 1, passed(t, l, "a", 9))
	d, err := l.AllowAtMost(t.Context(), "b", 50)
	require.NoError(t, err)
	require.EqualValues(t, 1, d.Charged)
}

// Another limit changes how fast a key is paid off, and not how many calls it holds.
func TestBurst_AnotherLimitKeepsTheCalls(t *testing.T) {
	t.Parallel()
	l, clock := newBurst(t, Config{Limit: 1, Burst: 10, MaxLimit: 100})
	require.True(t, allow(t, l, 10).Allowed)
	require.NoError(t, l.SetLimit(100))
	require.Equal(t, 10*time.Millisecond, allow(t, l, 1).RetryAfter)
	clock.Add(10*ms - 1)
	require.Equal(t, time.Duration(1), allow(t, l, 1).RetryAfter)
	clock.Add(1)
	require.True(t, allow(t, l, 1).Allowed)
	require.NoError(t, l.SetLimit(10))
	d := allow(t, l, 1)
	require.Equal(t, 100*time.Millisecond, d.RetryAfter)
	require.Zero(t, d.Remaining)
	require.Equal(t, time.Second, d.ResetAfter)

	ask := func(limit int64) Decision {
		d, err := l.AllowLimit(t.Context(), "a", 1, limit)
		require.NoError(t, err)
		return d
	}
	require.Equal(t, time.Second, ask(1).RetryAfter)
	require.Equal(t, 10*time.Millisecond, ask(100).RetryAfter)
	clock.Add(5 * ms) // half a call is paid
	require.Equal(t, 500*time.Millisecond, ask(1).RetryAfter)
	require.Equal(t, 50*time.Millisecond, ask(10).RetryAfter)

	require.NoError(t, l.SetLimit(0))
	require.Equal(t, Never, allow(t, l, 1).RetryAfter)
	require.NoError(t, l.Settle(t.Context(), "a", Decision{}, 5))
	require.NoError(t, l.SetLimit(10))
	require.Equal(t, 550*time.Millisecond, allow(t, l, 1).RetryAfter)
}

// Calls that were given turns keep them. A higher limit puts no later call before them.
func TestBurst_AHigherLimitPassesNoTurn(t *testing.T) {
	t.Parallel()
	l, _ := newBurst(t, Config{Limit: 1, Burst: 1})
	turn := func(limit int64) int64 {
		q := question{now: minute, limit: limit, n: 1, take: true, patience: maxTime}
		return (l.engine.decide("a", q).Ticket - minute) / ms
	}
	require.Equal(t, []int64{0, 1000, 2000}, []int64{turn(1), turn(1), turn(1)})
	require.Equal(t, []int64{3000, 3010, 3020}, []int64{turn(100), turn(100), turn(100)})
}

// What a settlement adds delays calls, and none of them waits for a turn: a refund counts.
func TestBurst_RefundsAfterASettlementBeyondTheBurst(t *testing.T) {
	t.Parallel()
	l, _ := newBurst(t, Config{Limit: 10})
	first := allow(t, l, 4)
	require.NoError(t, l.Settle(t.Context(), "a", allow(t, l, 5), 25))
	require.Equal(t, 2*time.Second, allow(t, l, 1).RetryAfter)
	require.NoError(t, l.Refund(t.Context(), "a", first, 4))
	require.Equal(t, 1600*time.Millisecond, allow(t, l, 1).RetryAfter)
}

// The same where the last admission had a turn, which has come.
func TestBurst_RefundsAfterASettlementWhenTurnsHaveCome(t *testing.T) {
	t.Parallel()
	l, clock := newBurst(t, Config{Limit: 1})
	allow(t, l, 1)
	q := question{now: minute, limit: 1, n: 1, take: true, patience: maxTime}
	last := l.engine.decide("a", q)
	require.Equal(t, time.Second, last.RetryAfter)
	clock.Add(second)
	require.NoError(t, l.Settle(t.Context(), "a", last, 5)) // the key holds 5, of which 1 fits
	require.Equal(t, 5*time.Second, allow(t, l, 1).RetryAfter)
	require.NoError(t, l.Refund(t.Context(), "a", last, 1))
	require.Equal(t, 4*time.Second, allow(t, l, 1).RetryAfter)
}

func TestBurst_SettledForMoreIsPaidWithTime(t *testing.T) {
	t.Parallel()
	l, clock := newBurst(t, Config{Limit: 100})
	require.NoError(t, l.Settle(t.Context(), "a", allow(t, l, 20), 300))
	require.Zero(t, l.Peek("a").Remaining)
	require.Equal(t, 2010*time.Millisecond, l.Peek("a").RetryAfter)
	clock.Add(2010*ms - 1)
	require.False(t, allow(t, l, 1).Allowed)
	clock.Add(1)
	d := allow(t, l, 1)
	require.True(t, d.Allowed)
	clock.Add(second)
	require.NoError(t, l.Settle(t.Context(), "a", allow(t, l, 50), 10))
	require.EqualValues(t, 90, l.Peek("a").Remaining)
	for range 10 {
		require.NoError(t, l.Settle(t.Context(), "a", Decision{}, MaxLimit))
	}
	require.LessOrEqual(t, l.Peek("a").RetryAfter, time.Duration(maxTime))
	require.False(t, l.Peek("a").Allowed)
}

func TestBurst_ARefundGivesBackLessTheTimeSince(t *testing.T) {
	t.Parallel()
	l, clock := newBurst(t, Config{Limit: 10})
	first, second := allow(t, l, 4), allow(t, l, 5)
	clock.Add(100 * ms) // one is paid
	require.EqualValues(t, 2, l.Peek("a").Remaining)
	require.NoError(t, l.Refund(t.Context(), "a", first, 4))
	require.EqualValues(t, 5, l.Peek("a").Remaining)
	require.NoError(t, l.Refund(t.Context(), "a", second, 5))
	require.EqualValues(t, 9, l.Peek("a").Remaining)
	clock.Add(100 * ms)
	require.Equal(t, Decision{Allowed: true, Limit: 10, Remaining: 10}, l.Peek("a"))

	late := allow(t, l, 5)
	clock.Add(500 * ms)
	allow(t, l, 10)
	require.NoError(t, l.Refund(t.Context(), "a", late, 5))
	require.Zero(t, l.Peek("a").Remaining, "it was paid by then")
}

func TestBurst_AnOlderTimeFindsLess(t *testing.T) {
	t.Parallel()
	l, _ := newBurst(t, Config{Limit: 5})
	require.True(t, l.AllowNAt(minute, "a", 3).Allowed)
	require.False(t, l.AllowNAt(minute-400*ms, "a", 1).Allowed)
	d := l.AllowNAt(minute-600*ms, "a", 1)
	require.False(t, d.Allowed)
	require.Equal(t, 400*time.Millisecond, d.RetryAfter)
	require.True(t, l.AllowNAt(minute-200*ms, "a", 1).Allowed)
	require.Equal(t, 1, passed(t, l, "a", 9))
}

func TestBurst_SizeOfAKey(t *testing.T) {
	t.Parallel()
	require.Equal(t, uintptr(24), unsafe.Sizeof(debt{}))
	require.Equal(t, uintptr(32), unsafe.Sizeof(debtor{}), "beside the bytes of the key")
}

// burstModel is the naive truth: the time at which all is paid, as a fraction.
type burstModel struct {
	limit, burst, window int64
	paid                 *big.Rat
}

func (m *burstModel) cost(n int64) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(n, 1), big.NewRat(m.window, m.limit))
}

// owed is what is to be paid at now.
func (m *burstModel) owed(now int64) *big.Rat {
	owes := new(big.Rat).Sub(m.paid, big.NewRat(now, 1))
	if owes.Sign() < 0 {
		owes.SetInt64(0)
	}
	return owes
}

func (m *burstModel) fits(now, n int64) bool {
	owes := m.owed(now)
	return m.limit > 0 && owes.Add(owes, m.cost(n)).Cmp(m.cost(m.burst)) <= 0
}

func (m *burstModel) charge(now, n int64) {
	owes := m.owed(now)
	m.paid = owes.Add(owes, m.cost(n)).Add(owes, big.NewRat(now, 1))
}

func (m *burstModel) refund(began, now, n int64) {
	back := m.cost(n)
	back.Sub(back, big.NewRat(max(0, now-began), 1))
	if back.Sign() > 0 {
		if left := new(big.Rat).Sub(m.owed(now), back); left.Sign() > 0 {
			m.paid = left.Add(left, big.NewRat(now, 1))
		} else if m.owed(now).Sign() > 0 {
			m.paid = big.NewRat(now, 1)
		}
	}
}

func TestBurst_AgreesWithRationalNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Limit:  rapid.SampledFrom([]int64{1, 2, 3, 5, 7, 12, 97, 1_000_003, 1<<31 - 1}).Draw(t, "limit"),
			Burst:  rapid.Int64Range(1, 20).Draw(t, "burst"),
			Window: rapid.SampledFrom([]time.Duration{time.Millisecond, 7*time.Millisecond + 1, time.Second, 102 * time.Second, 720*time.Hour - 1}).Draw(t, "window"),
		}
		l, clock := newBurst(t, cfg)
		now := rapid.Int64Range(-5*second, 5*second).Draw(t, "begin")
		m := &burstModel{cfg.Limit, cfg.Burst, int64(cfg.Window), big.NewRat(now, 1)}
		gap := max(1, m.window/m.limit)
		var all []Decision
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				now = max(now, drawNow(t, now, min(m.window, 8*gap, 1000*second)))
				clock.Store(now)
				d := l.Peek("a")
				for n := int64(1); n <= cfg.Burst+1; n++ {
					require.Equal(t, m.fits(now, n), n <= d.Remaining, "%d of %+v", n, d)
				}
			},
			"allow": func(t *rapid.T) {
				n := rapid.Int64Range(1, cfg.Burst).Draw(t, "n")
				d := l.AllowNAt(now, "a", n)
				require.Equal(t, m.fits(now, n), d.Allowed)
				if d.Allowed {
					m.charge(now, n)
					all = append(all, d)
					return
				}
				require.True(t, m.fits(now+int64(d.RetryAfter), n))
				require.False(t, m.fits(now+int64(d.RetryAfter)-1, n))
			},
			"settle": func(t *rapid.T) {
				n := rapid.Int64Range(1, 9).Draw(t, "n")
				require.NoError(t, l.Settle(t.Context(), "a", Decision{}, n))
				m.charge(now, n)
			},
			"refund": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing to give back")
				}
				i := rapid.IntRange(max(0, len(all)-6), len(all)-1).Draw(t, "which")
				require.NoError(t, l.Refund(t.Context(), "a", all[i], all[i].Charged))
				m.refund(all[i].Ticket, now, all[i].Charged)
				all = slices.Delete(all, i, i+1)
			},
		})
	})
}

// Whatever is admitted, given back and waited for: what is kept is at most Limit + Burst − 1
// in any true window, by brute force; and what was never there does as if it had not been, or
// is given less.
func TestBurst_WorstCaseInATrueWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Limit:  rapid.Int64Range(1, 12).Draw(t, "limit"),
			Burst:  rapid.Int64Range(1, 12).Draw(t, "burst"),
			Window: rapid.SampledFrom([]time.Duration{6 * time.Millisecond, 6*time.Millisecond + 5}).Draw(t, "window"),
		}
		l, _ := newBurst(t, cfg)
		now := int64(0)
		type admission struct {
			d    Decision
			back bool
		}
		var all []*admission
		for range rapid.IntRange(1, 150).Draw(t, "calls") {
			now += rapid.Int64Range(0, int64(cfg.Window)/rapid.Int64Range(1, 4*cfg.Limit).Draw(t, "part")).Draw(t, "later")
			switch {
			case len(all) > 0 && rapid.IntRange(0, 2).Draw(t, "refund") == 0:
				which := all[rapid.IntRange(max(0, len(all)-6), len(all)-1).Draw(t, "which")]
				if !which.back {
					which.back = true
					l.engine.refund("a", which.d, question{now: now, limit: cfg.Limit, n: which.d.Charged})
				}
			default:
				q := question{now: now, limit: cfg.Limit, n: rapid.Int64Range(1, cfg.Burst).Draw(t, "n"), take: true}
				if rapid.Bool().Draw(t, "wait") {
					q.patience = cfg.Window
				}
				if d := l.engine.decide("a", q); d.Allowed {
					all = append(all, &admission{d: d})
				}
			}
		}
		var kept []charged
		for _, a := range all {
			if !a.back {
				kept = append(kept, charged{a.d.Ticket, a.d.Charged})
			}
		}
		if got := fullest(kept, int64(cfg.Window)); got > cfg.Limit+cfg.Burst-1 {
			t.Fatalf("some window of %v holds %d, with a limit of %d and a burst of %d", cfg.Window, got, cfg.Limit, cfg.Burst)
		}
		// In every stretch, not only in windows, but for the nanosecond to which turns are rounded.
		slices.SortStableFunc(kept, func(a, b charged) int { return int(a.at - b.at) })
		for i := range kept {
			sum := int64(0)
			for _, c := range kept[i:] {
				sum += c.n
				// sum ≤ Burst + Limit × time / Window
				require.LessOrEqual(t, (sum-cfg.Burst)*int64(cfg.Window), (c.at-kept[i].at+1)*cfg.Limit)
			}
		}
	})
}

func TestBurst_HammerWhileTimePasses(t *testing.T) {
	t.Parallel()
	const limit, most, steps = 50, 20, 300
	l, clock := newBurst(t, Config{Limit: limit, Burst: most})
	begin := clock.Load()
	var admitted atomic.Int64
	for step := range int64(steps) {
		clock.Store(begin + step*second/1000)
		gatetest.AtOnce(8, func(int) {
			for range 4 {
				if d, err := l.Allow(t.Context(), "a"); err == nil && d.Allowed {
					admitted.Add(1)
				}
			}
		})
		require.Equal(t, most+step*limit/1000, admitted.Load(), "as many as there was time for, exactly")
	}
}

func TestBurst_WaitersHaveTurnsInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := NewBurst(Config{Limit: 10, Burst: 1})
		require.NoError(t, err)
		start := time.Now()
		var mu sync.Mutex // guards order and at
		var order []int
		var at []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 6 {
			go func() {
				of := t.Context()
				if i == 2 {
					of = ctx
				}
				if d, err := l.Wait(of, "a", 1); err == nil && d.Allowed {
					mu.Lock()
					defer mu.Unlock()
					order, at = append(order, i), append(at, time.Since(start).Round(time.Millisecond))
				}
			}()
			synctest.Wait()
		}
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, 450*time.Millisecond+100*time.Millisecond, l.Peek("a").RetryAfter, "behind those that wait")
		cancel()
		synctest.Wait()
		d, err := l.Wait(t.Context(), "a", 2)
		require.NoError(t, err)
		require.Equal(t, Never, d.RetryAfter)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 3, 4, 5}, order)
		require.Equal(t, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond, 500 * time.Millisecond}, at)
		require.Equal(t, [2]int64{5, 2}, answered(l))
	})
}

func TestBurst_TheLastWhoGivesUpLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := NewBurst(Config{Limit: 10, Burst: 1})
		require.NoError(t, err)
		for range 3 {
			allow(t, l, 1)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(30*time.Millisecond, cancel)
			_, err = l.Wait(ctx, "a", 1)
			assert.ErrorIs(t, err, ErrBlocked)
			require.Equal(t, 70*time.Millisecond, l.Peek("a").RetryAfter)
			time.Sleep(70 * time.Millisecond)
		}
	})
}
