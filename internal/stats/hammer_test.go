package stats

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/stat"
)

// A writer puts the same number of calls into each second while others read. One that is
// held up between the marks and the totals must notice: the totals would be from
// long after.
func TestStat_HammerTotalsAreNotFromAfterTheWindow(t *testing.T) {
	t.Parallel()
	const perSecond, seconds = 3, 10_000
	s := New()
	var clock atomic.Int64
	clock.Store(minute)
	var over atomic.Bool
	var wg sync.WaitGroup
	for _, look := range []func(now int64) (found, most int64){
		func(now int64) (int64, int64) {
			found := int64(0)
			for _, second := range s.History(now) {
				found = max(found, second.Pass, second.Success)
			}
			return found, perSecond
		},
		func(now int64) (int64, int64) { return s.Recent(now).Count(), 10 * perSecond },
		func(now int64) (int64, int64) { return s.Minute(now).Count(), 60 * perSecond },
	} {
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				now := clock.Load()
				if found, most := look(now); found > most {
					t.Errorf("at %d: found %d, want at most %d", now, found, most)
					return
				}
				if i%32 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for i := range int64(seconds) {
		clock.Store(minute + i*sec)
		for range perSecond {
			call(s, minute+i*sec, 1, time.Microsecond, false)
		}
	}
	over.Store(true)
	wg.Wait()
	require.EqualValues(t, seconds*perSecond, s.Meter().Total(meter.Success))
}

// Several goroutines bring the first event of the same resource: what one of them
// counts must not go to rings that are thrown away.
func TestStat_HammerFirstUse(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 1_000
	stats := make([]*Stats, rounds)
	for i := range stats {
		stats[i] = New()
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for _, s := range stats {
				call(s, minute, 1, time.Millisecond, true)
			}
		})
	}
	wg.Wait()
	want := stat.Second{Start: minute, Pass: goroutines, Success: goroutines, Exception: goroutines, AvgRT: time.Millisecond}
	for i, s := range stats {
		second := s.History(minute)[60]
		second.MaxConcurrency = 0
		require.Equal(t, want, second, "round %d", i)
		require.EqualValues(t, goroutines, s.Recent(minute).Count())
		require.EqualValues(t, goroutines, s.Minute(minute).Count())
	}
}

// Calls come from eight goroutines while the clock goes on for less than a minute.
// A reader finds no negative second meanwhile; in the end the seconds add up to
// what was counted.
func TestHistory_HammerSecondsAddUp(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 2_500
	s := New()
	var clock atomic.Int64
	clock.Store(minute)
	var left atomic.Int64
	left.Store(goroutines)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			defer left.Add(-1)
			for i := range int64(calls) {
				now := clock.Add(55 * sec / (goroutines * calls))
				call(s, now, 1+i%2, time.Microsecond, i%4 == 0)
				if i%8 == 0 {
					s.Meter().Add(now, meter.Block, 1)
				}
			}
		})
	}
	wg.Go(func() {
		for left.Load() > 0 {
			now := clock.Load()
			for _, second := range s.History(now) {
				if second.Pass < 0 || second.Block < 0 || second.Success < 0 || second.Exception < 0 || second.AvgRT < 0 || second.MaxConcurrency < 0 {
					t.Errorf("at %d: %+v", now, second)
					return
				}
			}
			if s.Recent(now).Count() < 0 || s.Minute(now).Count() < 0 || s.Recent(now).Quantile(0.99) < 0 {
				t.Errorf("at %d: fewer than no calls", now)
				return
			}
			runtime.Gosched()
		}
	})
	wg.Wait()
	var sum stat.Second
	for _, second := range s.History(clock.Load()) {
		sum.Pass += second.Pass
		sum.Block += second.Block
		sum.Success += second.Success
		sum.Exception += second.Exception
	}
	const all = goroutines * calls
	// Calls in pairs of one and two; of four, the first fails, and is one call.
	require.Equal(t, stat.Second{Pass: all * 3 / 2, Success: all * 3 / 2, Exception: (all + 3) / 4, Block: goroutines * ((calls + 7) / 8)}, sum)
	require.EqualValues(t, all*3/2, s.Minute(clock.Load()).Count())
}
