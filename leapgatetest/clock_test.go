package leapgatetest_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/leapgatetest"
)

func TestClock_StandsUntilItIsMoved(t *testing.T) {
	t.Parallel()
	c := leapgatetest.NewClock()
	start := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	require.Equal(t, start, c.Now())
	c.Advance(time.Second)
	require.Equal(t, start+1e9, c.Now())
	c.Set(start)
	require.Equal(t, start, c.Now())
	require.PanicsWithValue(t, "leapgatetest: Advance by -1ns; want 0 or more (Set may go back)", func() { c.Advance(-1) })
}

func TestClock_ASleeperHasReturnedBeforeAdvanceDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := leapgatetest.NewClock()
		var woken atomic.Bool
		go func() {
			_ = c.Sleep(t.Context(), 100*time.Millisecond)
			woken.Store(true)
		}()
		synctest.Wait()
		require.Equal(t, 1, c.Sleepers())
		c.Advance(99 * time.Millisecond)
		synctest.Wait()
		require.False(t, woken.Load())
		c.Advance(time.Millisecond)
		require.Zero(t, c.Sleepers())
		synctest.Wait()
		require.True(t, woken.Load())
	})
}

func TestClock_SleepersWakeInOrderEachAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := leapgatetest.NewClock()
		start := c.Now()
		woken := make(chan int64, 4)
		for _, d := range []time.Duration{30, 10, 20, 10} {
			go func() {
				_ = c.Sleep(t.Context(), d)
				woken <- int64(d)
			}()
			synctest.Wait()
		}
		c.Set(start + 25)
		synctest.Wait()
		require.Len(t, woken, 3)
		c.Advance(math.MaxInt64)
		synctest.Wait()
		require.Len(t, woken, 4)
	})
}

func TestClock_SleepsAreAsLongWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := leapgatetest.NewClock()
		woken := make(chan error, 2)
		for _, d := range []time.Duration{1, 2} {
			go func() { woken <- c.Sleep(t.Context(), d*time.Second) }()
			synctest.Wait()
		}
		c.Set(c.Now() - int64(time.Hour))
		c.Advance(time.Second)
		synctest.Wait()
		require.Len(t, woken, 1)
		c.Advance(time.Second)
		synctest.Wait()
		require.Len(t, woken, 2)
	})
}

func TestClock_AContextEndsASleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := leapgatetest.NewClock()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- c.Sleep(ctx, time.Hour) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-got, context.Canceled)
		require.Zero(t, c.Sleepers())
		require.ErrorIs(t, c.Sleep(ctx, time.Hour), context.Canceled, "it has ended before")
		require.NoError(t, c.Sleep(t.Context(), 0))
		require.NoError(t, c.Sleep(t.Context(), -time.Hour))
		go func() { got <- c.Sleep(t.Context(), math.MaxInt64) }()
		synctest.Wait()
		c.Advance(100 * 365 * 24 * time.Hour)
		require.Equal(t, 1, c.Sleepers(), "for ever")
		c.Set(math.MaxInt64)
		require.NoError(t, <-got)
	})
}

// Sleeps that end by the clock, by a context or by both at once leave nothing behind.
func TestClock_ManySleepersMoversAndContexts(t *testing.T) {
	t.Parallel()
	const sleepers, rounds = 32, 200
	c := leapgatetest.NewClock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				c.Advance(3)
			}
		}
	}()
	ended := make(chan int, sleepers)
	for id := range sleepers {
		go func() {
			n := 0
			for i := range rounds {
				ctx, cancel := context.WithCancel(context.Background())
				if (id+i)%2 == 0 {
					go cancel()
				}
				before := c.Now()
				if err := c.Sleep(ctx, 7); err == nil && c.Now()-before < 7 {
					n = -sleepers * rounds
				}
				n++
				cancel()
			}
			ended <- n
		}()
	}
	sum := 0
	for range sleepers {
		sum += <-ended
	}
	close(stop)
	<-stopped
	require.Equal(t, sleepers*rounds, sum)
	require.Zero(t, c.Sleepers())
}
