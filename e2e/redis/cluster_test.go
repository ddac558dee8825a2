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

	"github.com/leapgate-go/leapgate/e2e/internal/lateness"
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

// One primary of three is lost. Meanwhile, at least 99 in 100 decisions about keys of the
// others are made by them, and when it is back, so are those about its own. That needs a client that
// names the nodes. With rueidis, which does not, the server decides again when the primary is back.
func TestCluster_ALostPrimaryTakesNoOtherAlong(t *testing.T) {
	for _, how := range lost {
		for _, w := range ways {
			t.Run(how.name+", "+w.name, func(t *testing.T) {
				inTime(t, func(timeout time.Duration) trial {
					cluster := versions[0].startCluster(t,
						"--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes")
					defer func() { require.NoError(t, cluster.Close()) }()
					c := newCounter(t, w.prompt(t, cluster.Addrs()...), leapredis.Config{
						Limit: 1 << 40, Window: time.Hour, Timeout: timeout, Instances: 4,
					})
					p := placed(t, cluster)
					calls := askEverywhere(t, c, timeout, p)
					awaiting(t, "all primaries decide", func() bool { return calls.before.deciding() })
					victim := cluster.Nodes[p.victim]
					calls.now.Store(&calls.during)
					require.NoError(t, how.inflict(victim))
					sleep(t, 5*time.Second)
					calls.now.Store(&calls.after)
					require.NoError(t, how.mend(victim))
					awaiting(t, "the primary that is back decides", func() bool { return calls.after.lost.shared.Load() > 0 })
					return calls.end(how.name+", "+w.name, w.name == "go-redis")
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

// spread is calls for all keys, however long they take: 3,000 a second with the default
// timeout, and so many fewer with a longer one that as many wait for a primary that is lost.
type spread struct {
	t        *testing.T
	stop     func()
	done     sync.WaitGroup
	late     *lateness.Meter
	longest  atomic.Int64
	failures atomic.Int64

	now                   atomic.Pointer[phase] // one of these
	before, during, after phase
}

// phase is how calls that began in it were decided.
type phase struct {
	healthy, lost struct{ calls, shared atomic.Int64 }
}

// deciding reports whether both kinds of keys were decided by the servers.
func (p *phase) deciding() bool { return p.healthy.shared.Load() > 500 && p.lost.shared.Load() > 250 }

func askEverywhere(t *testing.T, l limit.Limiter, timeout time.Duration, p places) *spread {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &spread{t: t, stop: stop, late: lateness.Measure(ctx, 1, timeout/4)}
	s.now.Store(&s.before)
	s.done.Go(func() {
		tick := time.NewTicker(timeout / 50)
		defer tick.Stop()
		for sent := 0; ctx.Err() == nil; <-tick.C {
			for range 3 {
				i := sent * 7 % len(p.keys)
				sent++
				s.done.Go(func() { s.call(l, p.keys[i], p.lost[i]) })
			}
		}
	})
	t.Cleanup(func() { stop(); s.done.Wait(); s.late.Wait() })
	return s
}

func (s *spread) call(l limit.Limiter, key string, lost bool) {
	began := time.Now()
	counts := &s.now.Load().healthy
	if lost {
		counts = &s.now.Load().lost
	}
	d, err := l.AllowN(context.Background(), key, 1)
	took := int64(time.Since(began))
	if err != nil {
		s.failures.Add(1)
		return
	}
	counts.calls.Add(1)
	if !d.Degraded {
		counts.shared.Add(1)
	}
	for {
		longest := s.longest.Load()
		if took <= longest || s.longest.CompareAndSwap(longest, took) {
			return
		}
	}
}

func (s *spread) end(what string, named bool) trial {
	s.t.Helper()
	s.stop()
	s.done.Wait()
	require.Zero(s.t, s.failures.Load())
	calls, shared := s.during.healthy.calls.Load(), s.during.healthy.shared.Load()
	of := s.during.lost.calls.Load()
	s.t.Logf("%s: the healthy primaries decided %d of %d calls for their keys (%.2f %%), the lost one %d of %d; the longest call took %v; timers were up to %v late",
		what, shared, calls, 100*float64(shared)/float64(max(1, calls)), s.during.lost.shared.Load(), of,
		time.Duration(s.longest.Load()).Round(time.Millisecond), s.late.Wait())
	require.Less(s.t, s.during.lost.shared.Load(), of, "it was not lost")
	var doubts []string
	if named && (calls < 100 || shared*100 < calls*99) {
		doubts = append(doubts, fmt.Sprintf("%d of %d decisions for keys on healthy primaries were made there", shared, calls))
	}
	return trial{s.late.Wait(), doubts}
}
