//go:build e2e

package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// lost are the ways in which a primary of a cluster is lost. None of them is replaced.
var lost = []struct {
	name    string
	inflict func(s *redistest.Server) error
	mend    func(s *redistest.Server) error
}{
	{"stopped", (*redistest.Server).Pause, (*redistest.Server).Resume},
	{"killed", func(s *redistest.Server) error { s.Kill(); return nil }, (*redistest.Server).Restart},
}

// One primary of three is lost. At least 99 in 100 decisions about keys of the others are
// made by them in every second, and when it is back, all are.
func TestCluster_ALostPrimaryTakesNoOtherAlong(t *testing.T) {
	for _, how := range lost {
		for _, w := range ways {
			t.Run(how.name+", "+w.name, func(t *testing.T) {
				inTime(t, func(timeout time.Duration) trial {
					cluster := versions[0].startCluster(t,
						"--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes")
					defer func() { require.NoError(t, cluster.Close()) }()
					c := newCounter(t, w.client(t, cluster.Addrs()...), leapredis.Config{
						Limit: 1 << 40, Window: time.Hour, Timeout: timeout, Instances: 4,
					})
					p := placed(t, cluster)
					calls := askEverywhere(t, c, timeout, p)
					sleep(t, time.Second)
					victim := cluster.Nodes[p.victim]
					require.NoError(t, how.inflict(victim))
					sleep(t, 5*time.Second)
					require.NoError(t, how.mend(victim))
					sleep(t, 6*time.Second) // a primary that was marked as failed is not asked at once
					return calls.end(how.name + ", " + w.name)
				})
			})
		}
	}
}

// places tells of keys on which primary they are.
type places struct {
	keys   []string
	lost   []bool // the key is on the primary that is lost
	victim int
}

// placed makes keys, and chooses the primary that is lost: one on which there is not what a
// limiter keeps besides keys.
func placed(t *testing.T, cluster *redistest.Cluster) (p places) {
	t.Helper()
	on := func(name string) int {
		slot, err := cluster.Nodes[0].Do("CLUSTER", "KEYSLOT", name)
		require.NoError(t, err)
		return int(slot.(int64)) * 3 / 16384
	}
	p.victim = (on("test:") + 1) % 3
	for i := range 3000 {
		key := fmt.Sprintf("client-%d", i)
		p.keys = append(p.keys, key)
		p.lost = append(p.lost, on("test:{}"+key) == p.victim)
	}
	return p
}

// spread is 3,000 calls a second for all keys, however long they take, and how those for keys
// on healthy primaries were decided.
type spread struct {
	t        *testing.T
	stop     func()
	done     sync.WaitGroup
	late     *load
	began    time.Time
	seconds  [60]struct{ calls, shared, lostShared, lostCalls atomic.Int64 }
	longest  atomic.Int64
	failures atomic.Int64
}

func askEverywhere(t *testing.T, l limit.Limiter, timeout time.Duration, p places) *spread {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &spread{t: t, stop: stop, began: time.Now(), late: &load{t: t, timeout: timeout}}
	s.late.done.Go(func() { s.late.measure(ctx) })
	s.done.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for sent := 0; ctx.Err() == nil; <-tick.C {
			for ; sent < int(time.Since(s.began)*3/time.Millisecond); sent++ {
				i := (sent * 7) % len(p.keys)
				s.done.Go(func() { s.call(l, p.keys[i], p.lost[i]) })
			}
		}
	})
	t.Cleanup(func() { stop(); s.done.Wait(); s.late.done.Wait() })
	return s
}

func (s *spread) call(l limit.Limiter, key string, lost bool) {
	began := time.Now()
	d, err := l.AllowN(context.Background(), key, 1)
	took := int64(time.Since(began))
	if err != nil {
		s.failures.Add(1)
		return
	}
	second := &s.seconds[int(began.Sub(s.began)/time.Second)]
	calls, shared := &second.calls, &second.shared
	if lost {
		calls, shared = &second.lostCalls, &second.lostShared
	}
	calls.Add(1)
	if !d.Degraded {
		shared.Add(1)
	}
	for {
		longest := s.longest.Load()
		if took <= longest || s.longest.CompareAndSwap(longest, took) {
			return
		}
	}
}

func (s *spread) end(what string) trial {
	s.t.Helper()
	s.stop()
	s.done.Wait()
	s.late.done.Wait()
	require.Zero(s.t, s.failures.Load())
	var doubts []string
	told := ""
	last := 0
	for i := range s.seconds {
		second := &s.seconds[i]
		calls, shared := second.calls.Load(), second.shared.Load()
		if calls == 0 {
			break
		}
		last = i
		told += fmt.Sprintf(" %.1f%%/%.0f%%", 100*float64(shared)/float64(calls), 100*float64(second.lostShared.Load())/float64(max(1, second.lostCalls.Load())))
		if shared*100 < calls*99 {
			doubts = append(doubts, fmt.Sprintf("in second %d, %d of %d decisions for keys on healthy primaries were made there", i, shared, calls))
		}
	}
	s.t.Logf("%s: decided by the servers, on healthy ones/on the lost one, second by second:%s; the longest call took %v; timers were up to %v late",
		what, told, time.Duration(s.longest.Load()).Round(time.Millisecond), s.late.lateness)
	if back := &s.seconds[last]; back.lostShared.Load() < back.lostCalls.Load() {
		doubts = append(doubts, fmt.Sprintf("in the last second, %d of %d decisions for keys on the primary that is back were made there", back.lostShared.Load(), back.lostCalls.Load()))
	}
	return trial{s.late, doubts}
}
