package leapredis

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Processes that seldom ask have not heard of each other when the server goes away. None
// takes itself for the only one for that.
func TestLocal_ProcessesThatSeldomAsk(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		var all []limiter
		for range 4 {
			l := k.start(t, s, Config{Limit: 100, Instances: count})
			all = append(all, l)
			allow(t, l, "a", 1)
			synctest.Wait()
			time.Sleep(beatLasts + time.Second)
		}
		b.set(errCut)
		require.LessOrEqual(t, admitted(t, "b", all...), 100)
		b.set(nil)
	})
}

// The process that asks first counts itself alone: when all start at once, and when the server has
// lost what it held. No process takes that for all there are.
func TestLocal_TheCountBegins(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"all start": 0, "the server was started anew": 15 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				s := newServer()
				b := s.breakable()
				var all []limiter
				for range 4 {
					all = append(all, k.start(t, s, Config{Limit: 100, Instances: count}))
				}
				ask := func(of ...limiter) {
					for _, l := range of {
						allow(t, l, "a", 1)
						synctest.Wait()
					}
				}
				for end := time.Now().Add(before); time.Now().Before(end); time.Sleep(time.Second) {
					ask(all...)
				}
				s.mu.Lock()
				clear(s.beats)
				s.mu.Unlock()
				for i := range all { // the last is the last to be heard of
					ask(all[:i+1]...)
					time.Sleep(beatEvery)
				}
				b.set(errCut)
				require.LessOrEqual(t, admitted(t, "b", all...), 100)
				b.set(nil)
			})
		})
	}
}

// So many that they are more than is assumed know so at once.
func TestLocal_MoreThanAreAssumed(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		var all []limiter
		for range 2 * AssumedInstances {
			all = append(all, k.start(t, s, Config{Limit: 100, Instances: count}))
		}
		for range 2 {
			for _, l := range all {
				allow(t, l, "a", 1)
				synctest.Wait()
			}
			time.Sleep(beatEvery)
		}
		for _, l := range all {
			require.EqualValues(t, 2*AssumedInstances, l.Link().Instances)
		}
	})
}

// However long the server is away, those that were there when it went are.
func TestLocal_TheCountStaysWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		all := []limiter{k.start(t, s, Config{Limit: 100, Instances: count}), k.start(t, s, Config{Limit: 100, Instances: count})}
		ask := func() {
			for range 20 {
				for _, l := range all {
					allow(t, l, "a", 1)
				}
				time.Sleep(time.Second)
			}
		}
		ask()
		b.set(errCut)
		ask()
		require.EqualValues(t, 2, all[0].Link().Instances)
		require.EqualValues(t, 50, allow(t, all[0], "b", 1).Limit)
		b.set(nil)
	})
}

// What cannot be divided goes to the first, in the order of their names: nothing of the limit
// is lost, and nothing is admitted beyond.
func TestLocal_TheRemainderGoesToTheFirst(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		b := s.breakable()
		var all []limiter
		for range 4 {
			all = append(all, k.start(t, s, Config{Limit: 11, Instances: count}))
		}
		for range 7 {
			for _, l := range all {
				allow(t, l, "a", 1)
			}
			synctest.Wait()
			time.Sleep(beatEvery)
		}
		b.set(errCut)
		slices.SortFunc(all, func(l, m limiter) int {
			return cmp.Compare(k.core(l).instances.name, k.core(m).instances.name)
		})
		var shares []int64
		for _, l := range all {
			shares = append(shares, l.Link().Share)
		}
		require.Equal(t, []int64{3, 3, 3, 2}, shares)
		require.Equal(t, 11, admitted(t, "b", all...))
		b.set(nil)
	})
}

// Whichever processes come, go and are silent, and whatever the server forgets: the shares of the
// processes that know of all others sum to at most the limit. One that does not, since it is
// new or was silent for long, has at most what there is for one of those that are assumed.
func TestLocal_SharesNeverSumToMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now().UnixMicro() * microsecond
		s := newServer()
		s.now = func() int64 { return now / microsecond }
		most := rapid.Int64Range(AssumedInstances, 25).Draw(t, "limit")
		var all []*RateLimiter
		defer func() {
			for _, l := range all {
				_ = l.Close()
			}
		}()
		ask := func(l *RateLimiter) {
			_, err := l.Allow(context.Background(), "a")
			require.NoError(t, err)
			l.beside.busy.Wait()
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			one := 0
			if len(all) > 0 {
				one = rapid.IntRange(0, len(all)-1).Draw(t, "which")
			}
			switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
			case what < 3 && len(all) < 40:
				l, err := NewCounter(s, Config{Prefix: "p:", Limit: most, Timeout: time.Minute, Logger: quiet})
				require.NoError(t, err)
				l.link.clock.Given = func() int64 { return now }
				all = append(all, l)
			case what == 3 && len(all) > 0:
				_ = all[one].Close()
				all = slices.Delete(all, one, one+1)
			case what == 4:
				clear(s.beats)
			case what < 8 && len(all) > 0: // only this one is called
				for range rapid.IntRange(1, 8).Draw(t, "calls") {
					ask(all[one])
					now += int64(beatEvery)
				}
			default:
				silent := rapid.Uint64().Draw(t, "silent")
				for i, l := range all {
					if silent>>i&1 == 0 {
						ask(l)
					}
				}
				now += rapid.Int64Range(0, int64(3*beatEvery)).Draw(t, "pause")
			}
			sum := int64(0)
			for _, l := range all {
				share := l.Link().Share
				if l.instances.count().heard == 0 {
					require.LessOrEqual(t, share, most/AssumedInstances)
					continue
				}
				sum += share
			}
			require.LessOrEqual(t, sum, most)
		}
	})
}
