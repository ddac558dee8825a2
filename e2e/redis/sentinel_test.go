//go:build e2e

package redis

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
	"github.com/leapgate-go/leapgate/leapredis/viarueidis"
)

const primaryName = "shop"

// The primary is killed, and the sentinels put its replica in its place: a limiter finds it
// by itself, and keeps what was counted.
func TestSentinel_Failover(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		client func(t *testing.T, sentinels []string) leapredis.Client
	}{
		{"rueidis", func(t *testing.T, sentinels []string) leapredis.Client {
			t.Helper()
			options := viarueidis.Options(sentinels...)
			options.Sentinel = rueidis.SentinelOption{MasterSet: primaryName}
			client, err := rueidis.NewClient(options)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			return viarueidis.New(client)
		}},
		{"go-redis", func(t *testing.T, sentinels []string) leapredis.Client {
			t.Helper()
			client := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: primaryName, SentinelAddrs: sentinels})
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			return viagoredis.New(client)
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			primary := versions[0].start(t)
			replica := versions[0].start(t, "--repl-diskless-sync-delay", "0")
			host, port, err := net.SplitHostPort(primary.Addr())
			require.NoError(t, err)
			_, err = replica.Do("REPLICAOF", host, port)
			require.NoError(t, err)
			awaiting(t, "the replica is in step", func() bool {
				info, err := replica.Info("replication", "INFO", "replication")
				return err == nil && info["master_link_status"] == "up"
			})
			sentinels := startSentinels(t, host, port)

			l := newLog(t, way.client(t, sentinels), leapredis.Config{
				Limit: 20, Window: time.Hour, WhenAway: leapredis.Deny, Timeout: time.Second,
			})
			awaiting(t, "the limiter has a server", func() bool {
				d, err := l.Peek(t.Context(), "a")
				return err == nil && !d.Degraded
			})
			for range 7 {
				awaiting(t, "a call is admitted", func() bool {
					d, err := l.Allow(t.Context(), "a")
					return err == nil && d.Allowed
				})
			}
			reached, err := primary.Do("WAIT", "1", "10000")
			require.NoError(t, err)
			require.EqualValues(t, 1, reached, "the replica knows")
			held := heldIn(t, primary, "test:")

			primary.Kill()
			killed := time.Now()
			awaiting(t, "another server answers", func() bool {
				d, err := l.Peek(t.Context(), "a")
				return err == nil && !d.Degraded
			})
			t.Logf("%s: the replica has answered %v after the end of the primary", way.name, time.Since(killed).Round(time.Millisecond))
			awaiting(t, "the new primary, which has hung up on everyone", func() bool {
				_, err := replica.Do("PING")
				return err == nil
			})
			require.Equal(t, held, heldIn(t, replica, "test:"))
			for range 40 {
				_, err := l.Allow(t.Context(), "a")
				require.NoError(t, err)
			}
			awaiting(t, "the limit is used up", func() bool {
				d, err := l.Allow(t.Context(), "a")
				return err == nil && !d.Allowed && !d.Degraded
			})
			require.EqualValues(t, 20, heldIn(t, replica, "test:"))
		})
	}
}

// startSentinels starts three that watch a primary, and returns their addresses when each
// knows the others and the replica.
func startSentinels(t *testing.T, host, port string) []string {
	t.Helper()
	program, err := versions[0].program(t)
	require.NoError(t, err)
	var all []*redistest.Server
	for range 3 {
		// A sentinel writes what it learns into its configuration, so it must have a file.
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		sentinel, err := redistest.Start(append(program[:len(program):len(program)], file), "--sentinel")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, sentinel.Close()) })
		for _, command := range [][]string{
			{"SENTINEL", "MONITOR", primaryName, host, port, "2"},
			{"SENTINEL", "SET", primaryName, "down-after-milliseconds", "1000", "failover-timeout", "2000"},
		} {
			_, err := sentinel.Do(command...)
			require.NoError(t, err)
		}
		all = append(all, sentinel)
	}
	var addrs []string
	for _, sentinel := range all {
		addrs = append(addrs, sentinel.Addr())
		awaiting(t, "the sentinels know each other and the replica", func() bool {
			others, err := sentinel.Do("SENTINEL", "SENTINELS", primaryName)
			require.NoError(t, err)
			replicas, err := sentinel.Do("SENTINEL", "REPLICAS", primaryName)
			require.NoError(t, err)
			return len(others.([]any)) == 2 && len(replicas.([]any)) == 1
		})
	}
	return addrs
}
