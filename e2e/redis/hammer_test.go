//go:build e2e

package redis

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
)

const (
	processes  = 8
	goroutines = 16
)

// subject is a limiter of a hammer.
type subject struct {
	name  string
	cfg   leapredis.Config
	isLog bool
}

func subjects(window time.Duration) []subject {
	return []subject{
		{"counter", leapredis.Config{Prefix: "counter:", Limit: 1000, Window: window}, false},
		{"counter with leases", leapredis.Config{Prefix: "leases:", Limit: 10_000, Window: window, Lease: 50}, false},
		{"log", leapredis.Config{Prefix: "log:", Limit: 1000, Window: window}, true},
	}
}

func jobOf(subjects []subject, addrs []string) job {
	j := job{Addrs: addrs, Silent: patience, Goroutines: goroutines}
	for _, s := range subjects {
		j.Limiters = append(j.Limiters, portable{Config: s.cfg})
		j.Kinds = append(j.Kinds, map[bool]string{true: "log"}[s.isLog])
	}
	return j
}

// TestHammer: 8 processes × 16 goroutines ask each limiter for five windows. No limit is
// exceeded, by one, in any window. See judge_test.go for why what is judged is the truth.
// Not parallel: it takes all of the machine.
func TestHammer(t *testing.T) {
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			server := v.start(t)
			for slower := 0; !hammer(t, v, server, min(slower, 2)); slower++ {
				if slower == 4 {
					t.Skip("this machine stands still for seconds")
				}
				t.Log("once more, and slower: this machine stood still for a window")
			}
		})
	}
}

// hammer is false if it could not see all that the server did. If it is to be slower, windows
// are longer, and all pause between calls, so that the one that looks gets CPU too; still more is asked
// than the limits admit.
func hammer(t *testing.T, v version, server *redistest.Server, slower int) bool {
	t.Helper()
	window := 2 * time.Second << slower
	subjects := subjects(window)
	_, err := server.Do("FLUSHALL") // what was before is not to be counted
	require.NoError(t, err)
	j := jobOf(subjects, []string{server.Addr()})
	j.Lasting = 5 * window
	if slower > 0 {
		j.Pause = 3 * time.Millisecond << slower
	}
	c := hire(t, processes, j)
	s := sample(window/10, []*redistest.Server{server}, subjects)
	c.begin()
	reports := c.end()
	held, gap := s.end()
	if gap > window*9/10 {
		return false
	}
	for i, subject := range subjects {
		r, most := reports[i], subject.cfg.Limit
		admitted, charged := int64(len(r.Admissions)), total(held[i])
		require.Empty(t, r.Errors, subject.name)
		require.Zero(t, r.Degraded, subject.name)
		require.Positive(t, r.Refused, "%s: it was not hammered", subject.name)
		require.Greater(t, admitted, 3*most, "%s: it admits what it may", subject.name)
		if subject.cfg.Lease > 1 {
			require.LessOrEqual(t, admitted, charged, subject.name)
			require.Positive(t, r.Link.Leased, subject.name)
		} else {
			require.Equal(t, admitted, charged, "%s: each admission is one on the server", subject.name)
		}
		var inAWindow, bound, above int64
		if subject.isLog {
			inAWindow, bound = mostInAWindow(held[i], window), most
			above = inAWindow - bound
		} else {
			inAWindow, bound = mostPossible(r.Admissions, window), 2*most
			above = max(inAWindow-bound, excess(r.Admissions, held[i], most, window))
		}
		t.Logf("%-20s %6d admitted, %6d charged, %6d refused, %6d round trips; most in a true window %d, which may have %d; above what it may: %d",
			subject.name, admitted, charged, r.Refused, r.Link.RoundTrips, inAWindow, bound, max(0, above))
		require.LessOrEqual(t, above, int64(0), subject.name)
	}
	return true
}

// TestHammer_Failover: in the middle, the primary that keeps all keys is killed, and its
// replica takes over. What the old one had acknowledged and not yet replicated is lost,
// and so much more may be admitted in that window; it is measured and printed. While there
// is no primary, nothing is admitted: the policy here is Deny, so that everything that was
// admitted was admitted by a server.
func TestHammer_Failover(t *testing.T) {
	t.Run("replica in step", func(t *testing.T) { failOver(t, 0) })
	// On one machine, a replica is in step to the microsecond. So that there is something
	// to lose, its link is cut shortly before, and it is not let in again.
	t.Run("replica behind", func(t *testing.T) { failOver(t, 200*time.Millisecond) })
}

func failOver(t *testing.T, behind time.Duration) {
	t.Helper()
	v := versions[0]
	cluster := v.startCluster(t)
	const window = 6 * time.Second
	subjects := subjects(window)
	for i := range subjects {
		cfg := &subjects[i].cfg
		cfg.Limit, cfg.Timeout, cfg.WhenAway = 12_000, 200*time.Millisecond, leapredis.Deny
		cfg.Prefix = keptBy(t, cluster, 0, subjects[i])
	}
	j := jobOf(subjects, cluster.Addrs())
	j.Silent = 0
	j.Lasting = 10 * time.Second
	j.Pause = 25 * time.Millisecond // 5,000 a second: none is at its limit when the primary is killed
	c := hire(t, processes, j)
	s := sample(window/6, cluster.Nodes, subjects)
	// A counter's window begins, so that all of it lies in one.
	sleep(t, window-time.Duration(micros()%window.Microseconds())*time.Microsecond+50*time.Millisecond)
	c.begin()
	sleep(t, 1500*time.Millisecond)
	inStep := replicated(t, cluster.Nodes[0], cluster.Nodes[3])
	if behind > 0 {
		for _, command := range [][]string{{"CONFIG", "SET", "requirepass", "secret"}, {"CLIENT", "KILL", "TYPE", "replica"}} {
			_, err := cluster.Nodes[0].Do(command...)
			require.NoError(t, err)
		}
		sleep(t, behind)
	}
	cluster.Nodes[0].Kill()
	killed := micros()
	s.forget(cluster.Nodes[0])
	require.NoError(t, cluster.Await())
	t.Logf("the replica has taken over after %v", time.Duration(micros()-killed)*time.Microsecond)
	reports := c.end()
	held, _ := s.end()
	for i, subject := range subjects {
		r, most := reports[i], subject.cfg.Limit
		require.Empty(t, r.Errors, subject.name)
		before, after, last := acknowledged(r.Admissions, inStep, killed, subject.cfg.Lease > 1)
		require.Positive(t, before, subject.name)
		require.Positive(t, after, "%s: it goes on afterwards", subject.name)
		// What the new primary has, it has by the rules; what was admitted beyond that, the
		// old one had acknowledged and not replicated. (With leases, what was charged and
		// neither used nor handed back hides some of it.)
		lost := int64(len(r.Admissions)) - total(held[i])
		above := mostCertain(r.Admissions, window) - most
		if subject.isLog {
			require.LessOrEqual(t, mostInAWindow(held[i], window), most, subject.name)
		} else {
			above = 0
			for _, c := range held[i] {
				require.LessOrEqual(t, c.n, most, subject.name)
				above = max(above, int64(len(certain(r.Admissions, c.at, c.at+window.Microseconds())))-most)
			}
		}
		t.Logf("%-20s %5d admitted before, %5d after; %d acknowledged and not replicated; above the limit in a true window: %d; refused %d, without a server %d; longest call %v",
			subject.name, before, after, max(0, lost), max(0, above), r.Refused, r.Degraded, r.Longest)
		require.LessOrEqual(t, above, max(0, lost), subject.name)
		require.LessOrEqual(t, lost, last, "%s: what is lost is no more than was acknowledged since the replica was in step", subject.name)
	}
}

// replicated waits until the replica has all that its primary had, and returns when that was.
func replicated(t *testing.T, primary, replica *redistest.Server) (at int64) {
	t.Helper()
	offset := func(s *redistest.Server, field string) int64 {
		info, err := s.Info("replication", "INFO", "replication")
		require.NoError(t, err)
		n, err := strconv.ParseInt(info[field], 10, 64)
		require.NoError(t, err, field)
		return n
	}
	at = micros()
	had := offset(primary, "master_repl_offset")
	awaiting(t, "the replica is in step", func() bool { return offset(replica, "slave_repl_offset") >= had })
	return at
}

// acknowledged counts the admissions before and after the kill. last is how many of them the old
// primary may have acknowledged since the replica was in step. With leases, it has also
// acknowledged those that a process serves for DefaultLeaseTime after the kill.
func acknowledged(all []admission, inStep, killed int64, leases bool) (before, after, last int64) {
	until := killed
	if leases {
		until += leapredis.DefaultLeaseTime.Microseconds()
	}
	for _, a := range all {
		if a.Sent > killed {
			after++
		} else {
			before++
		}
		if a.Seen > inStep && a.Sent <= until {
			last++
		}
	}
	return before, after, last
}

// keptBy finds a prefix whose hot key a node of the cluster keeps.
func keptBy(t *testing.T, cluster *redistest.Cluster, node int, s subject) string {
	t.Helper()
	client := ways[0].prompt(t, cluster.Addrs()...)
	for i := range 100 {
		cfg := s.cfg
		cfg.Prefix = fmt.Sprintf("%d-%s", i, s.cfg.Prefix)
		var l limiter
		if s.isLog {
			l = newLog(t, client, cfg)
		} else {
			l = newCounter(t, client, cfg)
		}
		awaiting(t, "a server decides", func() bool {
			d, err := l.AllowN(t.Context(), hot, 1)
			return err == nil && d.Allowed
		})
		found := heldIn(t, cluster.Nodes[node], cfg.Prefix) > 0
		awaiting(t, "it is forgotten", func() bool { return l.Reset(t.Context(), hot) == nil })
		if found {
			return cfg.Prefix
		}
	}
	t.Fatal("no prefix will do")
	return ""
}
