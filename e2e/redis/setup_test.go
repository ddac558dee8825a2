//go:build e2e

package redis

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
	"github.com/leapgate-go/leapgate/leapredis/viarueidis"
	"github.com/leapgate-go/leapgate/limit"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" { // this is one of the processes of a hammer
		if err := work(os.Stdin, os.Stdout); err != nil {
			slog.Error("worker", "error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// limiter is what the limiters of leapredis have in common.
type limiter interface {
	limit.Limiter
	limit.Settler
	Peek(ctx context.Context, key string) (limit.Decision, error)
	Reset(ctx context.Context, key string) error
	Stats() limit.Stats
	Link() leapredis.Link
	Close() error
}

// version is a kind of server.
type version struct {
	name    string
	program func(t *testing.T) (redistest.Program, error)
}

// versions are the installed server, and the newer one. Where there is none, what needs it
// is skipped, and says so.
var versions = []version{
	{
		name:    "installed",
		program: func(*testing.T) (redistest.Program, error) { return redistest.Installed("redis-server") },
	},
	{
		name: "newer",
		program: func(t *testing.T) (redistest.Program, error) {
			t.Helper()
			root := os.Getenv(redistest.Env)
			if root == "" {
				t.Skip(redistest.Env + " names no system with a newer server: see doc.go")
			}
			return redistest.Unpacked(root, "redis-server")
		},
	},
}

func (v version) start(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	program, err := v.program(t)
	require.NoError(t, err)
	server, err := redistest.Start(program, args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server
}

// steady is for a Cluster that loses no server: none is replaced while the machine stands still.
var steady = []string{"--cluster-node-timeout", "60000", "--cluster-replica-no-failover", "yes"}

func (v version) startCluster(t *testing.T, args ...string) *redistest.Cluster {
	t.Helper()
	program, err := v.program(t)
	require.NoError(t, err)
	cluster, err := redistest.StartCluster(program, args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	return cluster
}

// way is a client library.
type way struct {
	name string
	dial func(to connection) (leapredis.Client, func(), error)
}

// connection is to a server, or to a Cluster.
type connection struct {
	addrs          []string
	user, password string
	silent         time.Duration // for how long it may be, before it is given up; 0: for how long it is in use
}

var ways = []way{{"rueidis", viaRueidis}, {"go-redis", viaGoRedis}}

func viaRueidis(to connection) (leapredis.Client, func(), error) {
	options := viarueidis.Options(to.addrs...)
	options.Username, options.Password = to.user, to.password
	if to.silent > 0 {
		options.ConnWriteTimeout, options.Dialer.Timeout = to.silent, to.silent
	}
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, nil, err
	}
	return viarueidis.New(client), client.Close, nil
}

func viaGoRedis(to connection) (leapredis.Client, func(), error) {
	client := goredis.NewUniversalClient(&goredis.UniversalOptions{
		Addrs: to.addrs, IsClusterMode: len(to.addrs) > 1, Username: to.user, Password: to.password,
		DialTimeout: to.silent, ReadTimeout: to.silent, WriteTimeout: to.silent,
	})
	return viagoredis.New(client), func() { _ = client.Close() }, nil
}

// patience is for servers that answer whatever they are asked: a machine that stands still for
// seconds ends no call.
const patience = time.Minute

func (w way) client(t *testing.T, addrs ...string) leapredis.Client {
	t.Helper()
	return w.connect(t, connection{addrs: addrs, silent: patience})
}

// prompt is a client of servers that may be away.
func (w way) prompt(t *testing.T, addrs ...string) leapredis.Client {
	t.Helper()
	return w.connect(t, connection{addrs: addrs})
}

// as connects as a user of a server, or of a Cluster.
func (w way) as(t *testing.T, user, password string, addrs ...string) leapredis.Client {
	t.Helper()
	return w.connect(t, connection{addrs, user, password, patience})
}

func (w way) connect(t *testing.T, to connection) leapredis.Client {
	t.Helper()
	client, hangUp, err := w.dial(to)
	require.NoError(t, err)
	t.Cleanup(hangUp)
	return client
}

func newCounter(t *testing.T, client leapredis.Client, cfg leapredis.Config) *leapredis.RateLimiter {
	t.Helper()
	l, err := leapredis.NewCounter(client, usual(cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func newLog(t *testing.T, client leapredis.Client, cfg leapredis.Config) *leapredis.RateLimiter {
	t.Helper()
	l, err := leapredis.NewLog(client, usual(cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func newBurst(t *testing.T, client leapredis.Client, cfg leapredis.Config) *leapredis.RateLimiter {
	t.Helper()
	l, err := leapredis.NewBurst(client, usual(cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// counted as Config.Instances lets usual leave processes to be counted.
const counted = -1

// usual fills in what a test does not care for: a long time for answers, so that a busy
// machine is not taken for a server that is away.
func usual(cfg leapredis.Config) leapredis.Config {
	if cfg.Prefix == "" {
		cfg.Prefix = "test:"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 20 * time.Second
	}
	switch cfg.Instances {
	case 0:
		cfg.Instances = 1 // nothing is on the server but what is tested
	case counted:
		cfg.Instances = 0
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return cfg
}

// kinds makes a counter and a log, each with its own prefix.
func kinds(t *testing.T, client leapredis.Client, cfg leapredis.Config) map[string]limiter {
	t.Helper()
	counter, log := cfg, cfg
	counter.Prefix, log.Prefix = "counter:", "log:"
	return map[string]limiter{"counter": newCounter(t, client, counter), "log": newLog(t, client, log)}
}

// awaiting calls try until it is true, for at most three minutes: what should come soon.
func awaiting(t *testing.T, what string, try func() bool) {
	t.Helper()
	require.Eventually(t, try, 3*time.Minute, 2*time.Millisecond, what)
}

// sleep waits for real time to pass, which the servers' windows are made of.
func sleep(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.FailNow()
	}
}

// keysOf returns all keys of a server.
func keysOf(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	reply, err := server.Do("KEYS", "*")
	require.NoError(t, err)
	var all []string
	for _, key := range reply.([]any) {
		all = append(all, key.(string))
	}
	return all
}

// heldIn is how much of a limiter's keys, which begin with prefix, a server holds: the sum
// of what its counters count, or of the admissions that its logs have.
func heldIn(t *testing.T, server *redistest.Server, prefix string) int64 {
	t.Helper()
	sum := int64(0)
	for _, key := range keysOf(t, server) {
		if strings.HasPrefix(key, prefix) {
			all, err := charges(server.Do, key, 0)
			require.NoError(t, err)
			for _, c := range all {
				sum += c.n
			}
		}
	}
	return sum
}
