package limit

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What every limiter does, whatever its way to count.

func TestLimiter_WithinTheLimitBeyondItAndAfterTheWindow(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, clock := a.new(t, Config{Name: "ten", Limit: 10})
			for i := range int64(10) {
				d := allow(t, l, 1)
				require.True(t, d.Allowed)
				require.Equal(t, 9-i, d.Remaining)
				require.EqualValues(t, 10, d.Limit)
				require.EqualValues(t, 1, d.Charged)
				require.Equal(t, "ten", d.Name)
				require.Zero(t, d.RetryAfter)
				require.Positive(t, d.ResetAfter)
			}
			for range 100 { // what is refused is not counted
				d := allow(t, l, 1)
				require.False(t, d.Allowed)
				require.Zero(t, d.Remaining)
				require.Zero(t, d.Charged)
				require.Equal(t, "ten", d.Name)
				require.Positive(t, d.RetryAfter)
			}
			clock.Add(a.carry * second)
			require.EqualValues(t, 9, allow(t, l, 1).Remaining)
		})
	}
}

func TestLimiter_KeysAreIndependent(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 2})
			for _, key := range []string{"a", "b", "ab", "a\x00", "a\n", "\xff\xfe", strings.Repeat("a", MaxKeyLength)} {
				for i, want := range []bool{true, true, false} {
					d, err := l.AllowN(t.Context(), key, 1)
					require.NoError(t, err)
					require.Equal(t, want, d.Allowed, "%q, call %d", key, i)
				}
			}
			require.Equal(t, 7, l.Stats().Keys)
		})
	}
}

func TestLimiter_RemainingTenThenNine(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 11})
			require.EqualValues(t, 11, l.Peek("a").Remaining)
			require.EqualValues(t, 10, allow(t, l, 1).Remaining)
			require.EqualValues(t, 9, allow(t, l, 1).Remaining)
			require.EqualValues(t, 9, l.Peek("a").Remaining, "looking takes nothing")
		})
	}
}

// Three in four seconds, one a second: the fourth is refused, and two seconds later
// one passes. A counter takes the calls of the window before for evenly spread: when all
// three lie in one window from its first second on, that is a second later.
func TestLimiter_GradualReturn(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for begin := range int64(4) {
				l, clock := a.new(t, Config{Limit: 3, Window: 4 * time.Second, Buckets: 4 * boolToInt(a.name == "bucketed")})
				if a.name == "strict" || a.carry == 2 && begin != 1 {
					continue
				}
				clock.Add(begin * second)
				for i, want := range []bool{true, true, true, false} {
					require.Equal(t, want, allow(t, l, 1).Allowed, "call %d", i)
					clock.Add(second)
				}
				clock.Add(second) // two seconds after the fourth
				require.True(t, allow(t, l, 1).Allowed, "from second %d", begin)
			}
		})
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestLimiter_WeightsCountAsMany(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 10})
			require.EqualValues(t, 3, allow(t, l, 7).Remaining)
			d := allow(t, l, 4)
			require.False(t, d.Allowed)
			require.EqualValues(t, 3, d.Remaining, "what does not fit takes nothing")
			require.True(t, allow(t, l, 3).Allowed)
			require.False(t, allow(t, l, 1).Allowed)
		})
	}
}

func TestLimiter_AskingTakesNothing(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 2})
			for range 5 {
				require.Equal(t, Decision{Allowed: true, Limit: 2, Remaining: 2}, allow(t, l, 0))
				require.Equal(t, Decision{Allowed: true, Limit: 2, Remaining: 2}, l.Peek("a"))
			}
			require.Zero(t, l.Stats().Keys, "nor a place")
			allow(t, l, 2)
			d := allow(t, l, 0)
			require.False(t, d.Allowed, "one more would not pass")
			require.Equal(t, d, l.Peek("a"))
			require.Equal(t, d.RetryAfter, allow(t, l, 1).RetryAfter)
		})
	}
}

func TestLimiter_WhatCanNeverPass(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, limit := range []int64{0, 5} {
				l, _ := a.new(t, Config{Limit: limit})
				for _, n := range []int64{limit + 1, 1 << 40, math.MaxInt64} {
					d := allow(t, l, n)
					require.False(t, d.Allowed)
					require.Equal(t, Never, d.RetryAfter)
					require.Equal(t, limit, d.Remaining)
				}
				require.Zero(t, l.Stats().Keys, "what was never charged needs no place")
			}
			l, _ := a.new(t, Config{})
			require.False(t, l.Peek("a").Allowed, "a limit of 0 refuses all")
			require.False(t, allow(t, l, 0).Allowed)

			l, _ = a.new(t, Config{Limit: 5})
			allow(t, l, 1)
			require.Equal(t, Never, allow(t, l, 6).RetryAfter, "of a key that is known, too")
		})
	}
}

func TestLimiter_ErrorsAreNoRefusals(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 5})
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			huge := strings.Repeat("k", 1<<20)
			for name, test := range map[string]struct {
				end  bool // the context has ended
				key  string
				n    int64
				want error
			}{
				"an empty key":      {false, "", 1, ErrKey},
				"a long key":        {false, huge[:MaxKeyLength+1], 1, ErrKey},
				"a megabyte of key": {false, huge, 1, ErrKey},
				"n is -1":           {false, "a", -1, ErrCount},
				"n is lowest":       {false, "a", math.MinInt64, ErrCount},
				"an ended context":  {true, "a", 1, context.Canceled},
			} {
				ctx := t.Context()
				if test.end {
					ctx = ended
				}
				d, err := l.AllowN(ctx, test.key, test.n)
				require.ErrorIs(t, err, test.want, name)
				require.NotErrorIs(t, err, ErrBlocked, name)
				require.Less(t, len(err.Error()), 250, name)
				require.Zero(t, d, name)
				if !test.end {
					d := l.AllowNAt(minute, test.key, test.n)
					require.False(t, d.Allowed, name)
					require.Equal(t, Never, d.RetryAfter, name)
				}
			}
			require.False(t, l.Peek("").Allowed)
			l.Reset("")
			require.ErrorIs(t, l.Refund(t.Context(), "", Decision{}, 0), ErrKey)
			require.ErrorIs(t, l.Settle(t.Context(), huge, Decision{}, 0), ErrKey)
			require.Zero(t, l.Stats().Keys)

			d, err := l.AllowN(nil, "a", 1) //nolint:staticcheck // a nil context never ends
			require.NoError(t, err)
			require.True(t, d.Allowed)
		})
	}
}

func TestLimiter_CloseIsFinalAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 5})
			d := allow(t, l, 1)
			require.NoError(t, l.Close())
			require.NoError(t, l.Close())
			_, err := l.AllowN(t.Context(), "a", 1)
			require.ErrorIs(t, err, ErrClosed)
			require.NotErrorIs(t, err, ErrBlocked)
			require.ErrorIs(t, l.Refund(t.Context(), "a", d, 1), ErrClosed)
			require.ErrorIs(t, l.Settle(t.Context(), "a", d, 1), ErrClosed)
			require.False(t, l.AllowNAt(minute, "a", 1).Allowed)
			require.False(t, l.Peek("a").Allowed)
			l.Reset("a")
			l.Sweep()
		})
	}
}

func TestLimiter_RefundGivesBackToTheWindowThatWasCharged(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, clock := a.new(t, Config{Limit: 5, Buckets: boolToInt(a.name == "bucketed" || a.name == "strict")})
			d := allow(t, l, 4)
			require.NoError(t, l.Refund(t.Context(), "a", d, 1))
			require.EqualValues(t, 2, l.Peek("a").Remaining)
			require.NoError(t, l.Refund(t.Context(), "a", d, 0))
			require.NoError(t, l.Refund(t.Context(), "a", d, 3))
			require.Equal(t, Decision{Allowed: true, Limit: 5, Remaining: 5}, l.Peek("a"))
			require.NoError(t, l.Refund(t.Context(), "a", d, 3), "nothing is left to give back")
			require.EqualValues(t, 5, l.Peek("a").Remaining)
			require.ErrorIs(t, l.Refund(t.Context(), "a", d, 5), ErrCount)
			require.ErrorIs(t, l.Refund(t.Context(), "a", d, -1), ErrCount)
			require.ErrorIs(t, l.Refund(t.Context(), "a", Decision{}, 1), ErrCount, "a refusal charged nothing")

			// A refund that comes late finds that window gone, and does not touch another.
			early := allow(t, l, 5)
			clock.Add(a.carry * second)
			allow(t, l, 5)
			require.NoError(t, l.Refund(t.Context(), "a", early, 5))
			require.Zero(t, l.Peek("a").Remaining)
		})
	}
}

// Windows that are so many apart look alike in 16 bits.
func TestLimiter_RefundAfterTheNumbersWrapAround(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, windows := range []int64{1 << 8, 1 << 13, 1 << 15, 1 << 16, 1 << 17, 1<<32 - 1, 1 << 32, 1 << 33} {
				l, clock := a.new(t, Config{Limit: 5, Window: 10 * time.Millisecond})
				clock.Store(0)
				early := allow(t, l, 5)
				clock.Store(windows * 10 * ms)
				require.EqualValues(t, 5, l.Peek("a").Remaining, "%d windows later", windows)
				require.True(t, allow(t, l, 5).Allowed)
				require.NoError(t, l.Refund(t.Context(), "a", early, 5))
				require.Zero(t, l.Peek("a").Remaining)
			}
		})
	}
}

func TestLimiter_ResetForgets(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 5})
			early := allow(t, l, 5)
			l.Reset("a")
			l.Reset("never seen")
			require.EqualValues(t, 5, l.Peek("a").Remaining)
			require.True(t, allow(t, l, 5).Allowed)
			require.NoError(t, l.Refund(t.Context(), "a", early, 5))
			require.False(t, allow(t, l, 1).Allowed, "a refund of what was charged before the reset changes nothing")
		})
	}
}

func TestLimiter_Settle(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, clock := a.new(t, Config{Limit: 100})
			settle := func(d Decision, actual int64) { require.NoError(t, l.Settle(t.Context(), "a", d, actual)) }
			settle(allow(t, l, 40), 40)
			require.EqualValues(t, 60, l.Peek("a").Remaining, "as much as was reserved")
			settle(allow(t, l, 40), 10)
			require.EqualValues(t, 50, l.Peek("a").Remaining, "less")
			settle(allow(t, l, 40), 0)
			require.EqualValues(t, 50, l.Peek("a").Remaining, "nothing at all")
			settle(allow(t, l, 20), 30)
			require.EqualValues(t, 20, l.Peek("a").Remaining, "more")
			settle(allow(t, l, 20), 200)
			d := l.Peek("a")
			require.False(t, d.Allowed)
			require.Zero(t, d.Remaining, "beyond the limit, and never negative")
			require.Positive(t, d.RetryAfter)

			// The debt is paid with time, and the wait is the true one.
			clock.Add(int64(d.RetryAfter) - 1)
			require.False(t, l.Peek("a").Allowed)
			clock.Add(1)
			require.True(t, allow(t, l, 1).Allowed)
			clock.Add(2 * a.carry * second)
			require.EqualValues(t, 100, l.Peek("a").Remaining)

			require.ErrorIs(t, l.Settle(t.Context(), "a", d, -1), ErrCount)
			require.ErrorIs(t, l.Settle(t.Context(), "a", d, MaxLimit+1), ErrCount)
			for range 10 {
				settle(Decision{}, MaxLimit) // of a key that is deep in debt
			}
			require.Zero(t, l.Peek("a").Remaining)
			clock.Add(2 * a.carry * second)
			require.EqualValues(t, 100, l.Peek("a").Remaining)

			settle(Decision{}, 30)
			require.EqualValues(t, 70, l.Peek("a").Remaining, "a refused decision charged nothing")
			l.Reset("a")
			settle(Decision{}, 30)
			require.EqualValues(t, 70, l.Peek("a").Remaining, "of a key that is not known")

			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, l.Settle(ended, "a", Decision{}, 30), "the cost remains, whether or not the client waits")
			require.EqualValues(t, 40, l.Peek("a").Remaining)
		})
	}
}

// A clock that goes back is taken for the latest time that the key has seen: nobody is
// admitted twice for it.
func TestLimiter_ClockGoesBack(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, back := range []int64{1, 500 * ms, second, 2 * second, 3600 * second, 40_000 * second, 1_000_000 * second} {
				l, clock := a.new(t, Config{Limit: 5})
				require.True(t, allow(t, l, 3).Allowed)
				clock.Add(-back)
				require.True(t, allow(t, l, 2).Allowed)
				d := allow(t, l, 1)
				require.False(t, d.Allowed, "%v back", time.Duration(back))
				// The wait is to when the latest time is reached again, and on.
				clock.Add(int64(d.RetryAfter) - 1)
				require.False(t, l.Peek("a").Allowed)
				clock.Add(1)
				require.True(t, l.Peek("a").Allowed)
			}
		})
	}
}

func TestLimiter_ClockStandsStill(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 1000})
			admitted := 0
			for range 5000 {
				if allow(t, l, 1).Allowed {
					admitted++
				}
			}
			require.Equal(t, 1000, admitted)
		})
	}
}

// Times that no clock tells make no wait below 0 and no second limit.
func TestLimiter_ClockTellsNonsense(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			times := []int64{math.MinInt64, math.MinInt64 + 1, -minute, -1, 0, 1, minute, math.MaxInt64 - 1, math.MaxInt64}
			for _, first := range times {
				for _, second := range times {
					l, _ := a.new(t, Config{Limit: 5, Window: time.Hour})
					require.True(t, l.AllowNAt(first, "a", 5).Allowed)
					for range 2 {
						d := l.AllowNAt(second, "a", 5)
						require.GreaterOrEqual(t, d.RetryAfter, time.Duration(0), "%d then %d", first, second)
						require.GreaterOrEqual(t, d.ResetAfter, time.Duration(0), "%d then %d", first, second)
						if second <= first {
							require.False(t, d.Allowed, "%d then %d", first, second)
						}
					}
				}
			}
		})
	}
}

func TestLimiter_KeysAreKeptAsCopies(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, _ := a.new(t, Config{Limit: 5})
			buffer := []byte("GET /orders?client=a HTTP/1.1")
			require.True(t, l.AllowNAt(minute, string(buffer[19:20]), 5).Allowed)
			buffer[19] = 'b'
			require.False(t, allow(t, l, 1).Allowed)
		})
	}
}

func TestWaitError_IsBothErrors(t *testing.T) {
	t.Parallel()
	err := error(&WaitError{Name: "x\n", N: 3, RetryAfter: time.Second, Cause: context.DeadlineExceeded})
	require.ErrorIs(t, err, ErrBlocked)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, `limit: the wait for 3 of "x\n" ended, with 1s to go: context deadline exceeded`)
	var w *WaitError
	require.ErrorAs(t, err, &w)
}
