package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClock_Given(t *testing.T) {
	t.Parallel()
	now := int64(1000)
	c := New(func() int64 { return now })
	require.EqualValues(t, 1000, c.Now())
	now = 2000
	require.EqualValues(t, 2000, c.Now())
	now = -5
	require.EqualValues(t, -5, c.Now(), "it may say what it likes")
	require.Equal(t, time.Unix(0, 1234), c.Wall(1234), "a given clock is its own wall")

	copied := c
	require.EqualValues(t, -5, copied.Now())
}

// In a bubble of synctest time goes on only when all sleep, and exactly so far.
func TestClock_RealAdvancesExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := New(nil)
		require.Equal(t, start.UnixNano(), c.Now(), "begins at the Unix time")
		last := c.Now()
		require.Equal(t, last, c.Now())
		for _, d := range []time.Duration{1, 999, time.Millisecond, 24 * time.Hour, 365 * 24 * time.Hour} {
			time.Sleep(d)
			require.Equal(t, last+int64(d), c.Now())
			require.Equal(t, c.Now(), c.Real())
			last = c.Now()
		}
		copied := c
		require.Equal(t, last, copied.Now())
		require.Equal(t, time.Now(), c.Wall(0), "not what the axis says")
		require.True(t, c.Wall(c.Now()).Equal(start.Add(time.Duration(last-start.UnixNano()))))
	})
}

// The system's clock is set by an hour after the clock was made: that is as if the
// clock had been made with an hour less on it.
func TestClock_SystemClockIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		c.unix -= int64(time.Hour)
		made := c.Now()
		require.Equal(t, time.Now().Add(-time.Hour).UnixNano(), made)
		time.Sleep(time.Minute)
		require.Equal(t, made+int64(time.Minute), c.Now())
		require.Equal(t, time.Now(), c.Wall(c.Now()), "people are shown the time of the system")
	})
}

// Two clocks are on one axis, whenever they were made.
func TestClock_MadeLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := New(nil)
		time.Sleep(1500 * time.Millisecond)
		second := New(nil)
		require.Equal(t, first.Now(), second.Now())
		time.Sleep(time.Nanosecond)
		require.Equal(t, first.Now(), second.Now())
	})
}

// The real clock, outside of a bubble.
func TestClock_RealNeverGoesBack(t *testing.T) {
	t.Parallel()
	c := New(nil)
	last := c.Now()
	for range 1000 {
		now := c.Now()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}

func TestClock_ReadingAllocatesNothing(t *testing.T) {
	c, given := New(nil), New(func() int64 { return 1 })
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Now(); given.Now(); c.Wall(0); given.Wall(0) }))
}
