package breaker

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// A breaker can be closed for months: that both numbers overflow does not matter.
func TestTally_DifferencesAreRightWhenTheWordOverflows(t *testing.T) {
	t.Parallel()
	for _, begin := range []uint64{0, badMask - 2, math.MaxUint64 - 3, 5*oneCall - 1, math.MaxUint64 - 3*oneCall} {
		var s tally
		s.word.Store(begin)
		for i := range int64(1000) {
			require.Equal(t, counts{i + 1, (i + 2) / 2}, since(s.add(i%2 == 0), begin))
		}
	}
	require.Equal(t, counts{1<<34 - 1, 1<<30 - 1}, since(math.MaxUint64, 0))
}

// Every add sees all numbers as of one moment: never more bad ones than there can be.
func TestTally_HammerBothNumbersAreOfOneMoment(t *testing.T) {
	t.Parallel()
	const goroutines, adds = 8, 20_000
	var s tally
	gatetest.AtOnce(goroutines, func(id int) {
		for range adds {
			c := since(s.add(id%2 == 0), 0)
			if c.bad > c.total || c.bad > goroutines/2*adds {
				t.Errorf("%+v", c)
				return
			}
		}
	})
	require.Equal(t, counts{goroutines * adds, goroutines * adds / 2}, since(s.word.Load(), 0))
}

// No result is lost or counted twice when buckets turn.
func TestResults_HammerTurningBuckets(t *testing.T) {
	t.Parallel()
	const goroutines, adds = 8, 20_000
	r := &Rule{Interval: 1_000_000, Buckets: 10}
	s := newResults(r, nil)
	clock := gatetest.ClockAt(0)
	gatetest.AtOnce(goroutines, func(int) {
		for range adds {
			s.at(clock.Now())
			s.calls.add(true)
			clock.Advance(7) // in the end half of all are in the window
		}
	})
	now := clock.Now()
	require.EqualValues(t, goroutines*adds*7, now)
	inWindow := since(s.calls.word.Load(), s.at(now).window.errors)
	require.InDelta(t, 1_000_000/7, inWindow.total, 100_000/7+goroutines, "but for the bucket that has left")
	now += r.Interval.Nanoseconds()
	require.Zero(t, since(s.calls.word.Load(), s.at(now).window.errors))
}

func TestResults_AddingAllocatesNothing(t *testing.T) {
	s := newResults(&Rule{Interval: defaultInterval, Buckets: defaultBuckets}, nil)
	s.at(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.at(5)
		s.calls.add(false)
	}))
}
