package leapredis

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Processes that seldom ask have not heard of each other when the server goes away. None
// takes itself for the only one for that.
func TestLocal_ProcessesThatSeldomAsk(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := withFields()
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

// Whoever asks first counts itself alone: when all start at once, and when the server has
// lost what it held. No process takes that for all there are.
func TestLocal_TheCountBegins(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"all start": 0, "the server was started anew": 15 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				s := withFields()
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
		s := withFields()
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
		s := withFields()
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
