//go:build e2e

package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
)

// line is a server, and the proxy before it.
type line struct {
	t      *testing.T
	server *redistest.Server
	proxy  *redistest.Proxy
}

func newLine(t *testing.T) *line {
	t.Helper()
	server := versions[0].start(t, "--enable-debug-command", "local")
	proxy, err := redistest.NewProxy(server.Addr())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return &line{t, server, proxy}
}

func (l *line) do(args ...string) {
	l.t.Helper()
	_, err := l.server.Do(args...)
	require.NoError(l.t, err, args)
}

func (l *line) set(f redistest.Fault) {
	l.t.Helper()
	require.NoError(l.t, l.proxy.Set(f))
}

// fault is what goes wrong, and how it is mended. late is more than calls wait.
type fault struct {
	name    string
	inflict func(l *line, late time.Duration)
	mend    func(l *line)
	loses   bool // the server loses what it held
	unheard bool // it may have done what nobody heard of
	reads   bool // the server answers, and rejects writes
}

func faults() []fault {
	command := func(args ...string) func(l *line, _ time.Duration) {
		return func(l *line, _ time.Duration) { l.do(args...) }
	}
	proxied := func(name string, f func(late time.Duration) redistest.Fault) fault {
		return fault{
			name: name, unheard: true,
			inflict: func(l *line, late time.Duration) { l.set(f(late)) },
			mend:    func(l *line) { l.set(redistest.Fault{}) },
		}
	}
	swallow := redistest.Stream{Swallow: true}
	return []fault{
		{
			name: "killed", loses: true,
			inflict: func(l *line, _ time.Duration) { l.server.Kill() },
			mend:    func(l *line) { require.NoError(l.t, l.server.Restart()) },
		},
		{
			name: "READONLY", reads: true, inflict: command("REPLICAOF", "127.0.0.1", "1"),
			mend: func(l *line) { l.do("REPLICAOF", "NO", "ONE") },
		},
		{
			name: "OOM", reads: true, inflict: command("CONFIG", "SET", "maxmemory", "1"),
			mend: func(l *line) { l.do("CONFIG", "SET", "maxmemory", "0") },
		},
		{name: "LOADING", inflict: reload, unheard: true, mend: func(l *line) {
			awaiting(l.t, "it has loaded", func() bool { _, err := l.server.Do("GET", "a"); return err == nil })
		}},
		proxied("latency", func(late time.Duration) redistest.Fault {
			return redistest.Fault{ToClient: redistest.Stream{Latency: late}}
		}),
		proxied("cut in mid-reply", func(time.Duration) redistest.Fault {
			return redistest.Fault{ToClient: redistest.Stream{CutAfter: 5}}
		}),
		proxied("half-open", func(time.Duration) redistest.Fault {
			return redistest.Fault{ToServer: swallow, ToClient: swallow}
		}),
		proxied("unheard", func(time.Duration) redistest.Fault {
			return redistest.Fault{ToClient: swallow}
		}),
		proxied("refused", func(time.Duration) redistest.Fault {
			return redistest.Fault{Refuse: true}
		}),
	}
}

// reload has the server write what it holds to its disk, and read it again slowly, for 2s and late.
func reload(l *line, late time.Duration) {
	l.do("DEBUG", "POPULATE", strconv.Itoa(200+int(late/(10*time.Millisecond))), "key", "100")
	l.do("CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
	l.do("CONFIG", "SET", "key-load-delay", "10000")
	conn, err := redistest.Dial(l.server.Addr())
	require.NoError(l.t, err)
	l.t.Cleanup(conn.Close)
	require.NoError(l.t, conn.Send("DEBUG", "RELOAD"))
	awaiting(l.t, "it loads", func() bool {
		_, err := l.server.Do("GET", "a")
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
}

// trial is what some calls during a fault have shown, and what was wrong that time may be the cause of:
// that of the limiter, or that in which this machine stood still.
type trial struct {
	late   time.Duration // of timers alone, meanwhile
	doubts []string
}

// inTime makes trials until one is clean: it leaves no doubts, and this machine alone did not
// make timers late by half of the time for an answer. That time is the default at first, and
// up to sixteen times as long later. A machine stands still in some trials; a limiter that
// waits too long does so in all of them. What is no matter of time, each trial must show.
// A machine that is late in nearly all trials cannot judge times: the test is skipped then.
func inTime(t *testing.T, try func(timeout time.Duration) trial) {
	t.Helper()
	const trials = 4
	timeout, prompt := leapredis.DefaultTimeout, 0
	var seen trial
	for range trials {
		seen = try(timeout)
		punctual := seen.late <= timeout/2
		if punctual {
			prompt++
		}
		if punctual && len(seen.doubts) == 0 {
			return
		}
		t.Logf("not clean: timers alone were up to %v late; %q", seen.late, seen.doubts)
		timeout = min(4*timeout, 16*leapredis.DefaultTimeout)
	}
	if prompt < 2 {
		t.Skipf("this machine made timers alone late in %d of %d trials, up to %v in the last", trials-prompt, trials, seen.late)
	}
	t.Fatalf("none of %d trials was clean; timers were on time in %d", trials, prompt)
}

// Whatever goes wrong: no call waits longer than its time, what answers is marked as
// degraded, the server is asked again within a second of its return, and nothing is
// counted twice.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		for _, w := range ways {
			t.Run(f.name+", "+w.name, func(t *testing.T) {
				t.Parallel()
				inTime(t, func(timeout time.Duration) trial {
					return suffer(t, f, w, timeout)
				})
			})
		}
	}
}

func suffer(t *testing.T, f fault, w way, timeout time.Duration) trial {
	t.Helper()
	l := newLine(t)
	lines := new(journal)
	c := newCounter(t, w.prompt(t, l.proxy.Addr()), leapredis.Config{
		Name: "orders", Limit: 1 << 40, Window: time.Hour, Timeout: timeout, Instances: 4, Logger: slog.New(lines),
	})
	warmUp(t, c)
	calls := askFor(t, c, timeout)
	sleep(t, 300*time.Millisecond)
	inflicted := time.Now()
	f.inflict(l, 4*timeout)
	sleep(t, time.Second+2*timeout)
	during := c.Stats()
	f.mend(l)
	mended := time.Now()
	awaiting(t, "the server is asked again", func() bool { return count(calls.since(mended), shared) > 0 })
	sleep(t, time.Second+4*timeout)
	answers := calls.end()
	after, link := c.Stats(), c.Link()
	require.Positive(t, count(answers, func(a answer) bool { return a.began.After(inflicted) && a.Degraded }))
	require.Equal(t, count(answers, degraded), after.Degraded)
	told := lines.all()
	changes := int(2 * link.Openings) // away and back
	if after.Away {
		changes--
	}
	if f.reads {
		changes++ // it rejects writes
	}
	require.Len(t, told, changes, "it went away, and is back: %q", told)
	require.NotContains(t, strings.Join(told, "\n"), hot)
	doubts := append(calls.notInTime(f.name), calls.notBackInTime(mended)...)
	if !f.loses {
		held, took := heldIn(t, l.server, "test:"), count(answers, admitted)
		require.GreaterOrEqual(t, held, took, "all that was admitted is counted")
		require.LessOrEqual(t, held, took+link.Failures, "and once at most")
		if !f.unheard && held > took { // but what was done too late is
			doubts = append(doubts, fmt.Sprintf("the server has counted %d, and said so of %d", held, took))
		}
	}
	if n := count(answers, func(a answer) bool { return a.ended.Before(inflicted) && a.Degraded }); n > 0 {
		doubts = append(doubts, fmt.Sprintf("%d calls were decided without the server while all was well", n))
	}
	if during.Away == f.reads || after.Away || link.Openings > 2 {
		doubts = append(doubts, fmt.Sprintf("it was away: %t, it is away: %t, it was taken for away %d times", during.Away, after.Away, link.Openings))
	}
	return trial{calls.late.Wait(), doubts}
}

// warmUp asks until the server answers, and takes nothing.
func warmUp(t *testing.T, l limiter) {
	t.Helper()
	awaiting(t, "the server answers", func() bool {
		d, err := l.Peek(t.Context(), hot)
		return err == nil && !d.Degraded
	})
}

// While the server is away, its policy answers.
func TestFaults_Policies(t *testing.T) {
	t.Parallel()
	for _, policy := range []leapredis.Policy{leapredis.Local, leapredis.Allow, leapredis.Deny} {
		for _, kind := range []string{"counter", "log"} {
			t.Run(policy.String()+", "+kind, func(t *testing.T) {
				t.Parallel()
				inTime(t, func(timeout time.Duration) trial {
					return endure(t, policy, kind == "log", timeout)
				})
			})
		}
	}
}

func endure(t *testing.T, policy leapredis.Policy, isLog bool, timeout time.Duration) trial {
	t.Helper()
	l := newLine(t)
	client := ways[0].prompt(t, l.proxy.Addr())
	cfg := leapredis.Config{Limit: 40, Window: time.Hour, Timeout: timeout, Instances: 4, WhenAway: policy}
	var c limiter
	if isLog {
		c = newLog(t, client, cfg)
	} else {
		c = newCounter(t, client, cfg)
	}
	warmUp(t, c)
	l.server.Kill()
	calls := askFor(t, c, timeout)
	sleep(t, 500*time.Millisecond)
	require.NoError(t, l.server.Restart())
	awaiting(t, "the server is asked again", func() bool { return count(calls.since(time.Time{}), shared) > 0 })
	answers := calls.end()
	away := count(answers, degraded)
	passed := count(answers, func(a answer) bool { return a.Degraded && a.Allowed })
	switch policy {
	case leapredis.Local:
		require.EqualValues(t, 10, passed, "a quarter of 40")
	case leapredis.Allow:
		require.Equal(t, away, passed)
	case leapredis.Deny:
		require.Zero(t, passed)
	}
	doubts := calls.notInTime(policy.String())
	if away <= 100 {
		doubts = append(doubts, fmt.Sprintf("%d calls in half a second", away))
	}
	return trial{calls.late.Wait(), doubts}
}

// A server that has forgotten the scripts is told them again, and that is all.
func TestFaults_ScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			for _, w := range ways {
				server := v.start(t)
				for name, l := range kinds(t, w.client(t, server.Addr()), leapredis.Config{Limit: 1000, Window: time.Hour}) {
					for range 3 {
						var last int64
						for range 5 {
							d, err := l.AllowN(t.Context(), hot, 1)
							require.NoError(t, err)
							require.True(t, d.Allowed && !d.Degraded)
							last = d.Remaining
						}
						_, err := server.Do("SCRIPT", "FLUSH")
						require.NoError(t, err)
						d, err := l.Peek(t.Context(), hot)
						require.NoError(t, err)
						require.Equal(t, last, d.Remaining, "%s, %s: nothing is lost, and nothing counted twice", name, w.name)
					}
					require.Zero(t, l.Link().Failures, "%s, %s", name, w.name)
				}
			}
		})
	}
}

// A caller that does not wait any longer says nothing about the server.
func TestFaults_CancelledCallsAreNone(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		l := newLine(t)
		c := newCounter(t, w.prompt(t, l.proxy.Addr()), leapredis.Config{Limit: 1 << 40, Window: time.Hour})
		warmUp(t, c)
		l.set(redistest.Fault{ToClient: redistest.Stream{Latency: 100 * time.Millisecond}})
		gatetest.AtOnce(50, func(int) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			d, err := c.AllowN(ctx, hot, 1)
			if err == nil || ctx.Err() == nil || d.Degraded {
				t.Errorf("%s: %+v, %v; want that its context has ended", w.name, d, err)
			}
		})
		l.set(redistest.Fault{})
		require.Equal(t, leapredis.Closed, c.Link().State)
		d, err := c.AllowN(t.Context(), hot, 1)
		require.NoError(t, err)
		require.True(t, d.Allowed && !d.Degraded)
	}
}

// A primary is killed, and its replica takes over.
func TestFaults_Failover(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(timeout time.Duration) trial {
				return survive(t, w, timeout)
			})
		})
	}
}

func survive(t *testing.T, w way, timeout time.Duration) trial {
	t.Helper()
	cluster := versions[0].startCluster(t)
	c := newCounter(t, w.prompt(t, cluster.Addrs()...), leapredis.Config{
		Limit: 1 << 40, Window: time.Hour, Timeout: timeout, WhenAway: leapredis.Deny, Instances: 4,
	})
	warmUp(t, c)
	calls := askFor(t, c, timeout)
	sleep(t, 300*time.Millisecond)
	owner, err := cluster.Owner("test:{}" + hot)
	require.NoError(t, err)
	cluster.Nodes[owner].Kill()
	require.NoError(t, cluster.Await())
	returned := time.Now()
	awaiting(t, "the new primary is asked", func() bool { return count(calls.since(returned), shared) > 0 })
	sleep(t, time.Second)
	answers := calls.end()
	owner, err = cluster.Owner("test:{}" + hot)
	require.NoError(t, err)
	held, took := heldIn(t, cluster.Nodes[owner], "test:"), count(answers, admitted)
	t.Logf("%d of %d calls were decided without a server; %d admitted, %d on the new primary: %d acknowledged and not replicated",
		count(answers, degraded), len(answers), took, held, max(0, took-held))
	require.LessOrEqual(t, held, took+c.Link().Failures)
	return trial{calls.late.Wait(), append(calls.notInTime("failover"), calls.notBackInTime(returned)...)}
}

// Processes that share a limit count each other, by a heartbeat that goes with their
// calls; when the server goes away, each has its part.
func TestFaults_InstancesAreCounted(t *testing.T) {
	t.Parallel()
	server := versions[0].start(t)
	var all []*leapredis.RateLimiter
	for range 3 {
		cfg := usual(leapredis.Config{Limit: 30, Window: time.Hour})
		cfg.Instances = 0 // count them
		l, err := leapredis.NewCounter(ways[0].client(t, server.Addr()), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		all = append(all, l)
	}
	awaiting(t, "each knows of three", func() bool {
		known := 0
		for _, l := range all {
			_, err := l.AllowN(t.Context(), "another", 1)
			require.NoError(t, err)
			if l.Link().Instances == 3 {
				known++
			}
		}
		return known == 3
	})
	server.Kill()
	for _, l := range all {
		passed := 0
		for range 100 {
			d, err := l.AllowN(t.Context(), hot, 1)
			require.NoError(t, err)
			require.True(t, d.Degraded)
			if d.Allowed {
				passed++
			}
		}
		require.Equal(t, 10, passed, "a third of 30")
	}
}
