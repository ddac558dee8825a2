//go:build e2e

package redis

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(what string) int { return strings.Count(l.String(), what) }

// needed are the commands that the first admission of a key needs, besides EVALSHA and EVAL,
// and later those for more. They are in the documentation of leapredis.
var needed, later = map[string][]string{
	"counter":   {"time", "get", "set"},
	"burst":     {"time", "get", "set"},
	"log":       {"time", "zrange", "zadd", "pexpire"},
	"heartbeat": {"time", "zrangebyscore", "zadd", "pexpire", "zcount", "zrank"},
}, map[string][]string{
	"counter":   {"setrange"},
	"log":       {"zrangebyscore", "zrank", "zcard", "zrem", "zremrangebyscore", "pttl", "unlink"},
	"heartbeat": {"zrem"},
}

// asUser connects as a user of the server who may run those commands.
func (w way) asUser(t *testing.T, server *redistest.Server, user string, commands []string) leapredis.Client {
	t.Helper()
	acl := []string{"ACL", "SETUSER", user, "reset", "on", ">secret", "~*", "+@connection", "+evalsha", "+eval", "+type"}
	for _, c := range commands {
		acl = append(acl, "+"+c)
	}
	_, err := server.Do(acl...)
	require.NoError(t, err)
	return w.as(t, user, "secret", server.Addr())
}

// A user who may not run one of the commands of a script is not decided for: that counts as
// a server that is away, nothing is left on it, and the log names the command.
func TestDenied_ACommandOfAScript(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			for _, w := range ways {
				for _, kind := range rateLimiters {
					commands := needed[kind]
					for i, denied := range commands {
						what := fmt.Sprintf("%s, %s without %s", w.name, kind, denied)
						_, err := server.Do("FLUSHALL")
						require.NoError(t, err)
						rest := slices.Concat(commands[:i], commands[i+1:], later[kind])
						var log lines
						l := kindOf(t, kind, w.asUser(t, server, fmt.Sprintf("user-%s-%d", kind, i), rest), leapredis.Config{
							Limit: 5, Window: time.Hour, WhenAway: leapredis.Deny, Logger: log.logger(),
						})
						for range 20 {
							d, err := l.AllowN(t.Context(), "a secret key", 1)
							require.NoError(t, err, what)
							require.False(t, d.Allowed, what)
							require.True(t, d.Degraded, what)
							require.GreaterOrEqual(t, d.RetryAfter, 10*time.Millisecond, what)
						}
						require.Equal(t, leapredis.Open, l.Link().State, what)
						require.Equal(t, 1, log.count(fmt.Sprintf("denied=%q", "the command "+strings.ToUpper(denied))), "%s\n%s", what, log.String())
						require.NotContains(t, log.String(), "a secret key")
						require.Empty(t, keysOf(t, server), what)
					}
				}
			}
		})
	}
}

// What a limiter needs is what the documentation says.
func TestDenied_NothingThatIsNeeded(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			for _, kind := range rateLimiters {
				_, err := server.Do("FLUSHALL")
				require.NoError(t, err)
				client := ways[0].asUser(t, server, "user", slices.Concat(needed[kind], later[kind]))
				l := kindOf(t, kind, client, leapredis.Config{Limit: 5, Window: time.Hour, WhenAway: leapredis.Deny})
				var first limit.Decision
				for i := range 10 {
					d, err := l.AllowN(t.Context(), "a", 1)
					require.NoError(t, err)
					require.False(t, d.Degraded)
					require.Equal(t, i < 5, d.Allowed)
					if i == 0 {
						first = d
					}
				}
				d, err := l.AllowN(t.Context(), "a", 3) // what must leave first is looked up
				require.NoError(t, err)
				require.False(t, d.Degraded || d.Allowed)
				require.NoError(t, l.Settle(t.Context(), "a", first, 2))
				require.NoError(t, l.Refund(t.Context(), "a", first, 1))
				require.NoError(t, l.Reset(t.Context(), "a"))
				d, err = l.AllowN(t.Context(), "a", 1)
				require.NoError(t, err)
				require.NoError(t, l.Refund(t.Context(), "a", d, 1))
				require.Zero(t, l.Link().Failures)
			}
		})
	}
}

// A heartbeat that is denied is logged, and decisions go on.
func TestDenied_TheHeartbeat(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			for i, denied := range needed["heartbeat"] {
				if denied == "time" {
					continue // decisions need it, too
				}
				may := append(append([]string(nil), needed["counter"]...), later["counter"]...)
				for _, command := range needed["heartbeat"] {
					if command != denied {
						may = append(may, command)
					}
				}
				var log lines
				cfg := usual(leapredis.Config{Limit: 1000, Window: time.Hour, Logger: log.logger()})
				cfg.Instances = 0
				l, err := leapredis.NewCounter(ways[0].asUser(t, server, fmt.Sprint("beats-", i), may), cfg)
				require.NoError(t, err)
				for range 2 {
					d, err := l.AllowN(t.Context(), "a", 1)
					require.NoError(t, err)
					require.False(t, d.Degraded)
				}
				awaiting(t, "it is logged", func() bool {
					return log.count("the processes that share the limit are not counted") == 1
				})
				require.Contains(t, log.String(), "the command "+strings.ToUpper(denied))
				require.Zero(t, l.Link().Openings)
				require.NoError(t, l.Close())
			}
		})
	}
}

// A value of another at one key is left as it is. That key is decided by the policy, and no
// other; the log tells of what type it is and of what prefix, but not which.
func TestForeign_ValuesOfEveryType(t *testing.T) {
	t.Parallel()
	values := map[string][][]string{
		"string": {{"SET", "KEY", "7"}, {"SET", "KEY", "hello"}, {"SET", "KEY", strings.Repeat("x", 100)}},
		"list":   {{"RPUSH", "KEY", "a", "b"}},
		"set":    {{"SADD", "KEY", "a", "b"}},
		"zset":   {{"ZADD", "KEY", "1", "a", "2", "b"}, {"ZADD", "KEY", "1e15", strings.Repeat("x", 100)}},
		"hash":   {{"HSET", "KEY", "a", "b"}, {"HSET", "KEY", "m", "n"}},
		"stream": {{"XADD", "KEY", "*", "a", "b"}},
	}
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			for _, w := range ways {
				client := w.client(t, server.Addr())
				for _, kind := range rateLimiters {
					for found, commands := range values {
						for _, command := range commands {
							_, err := server.Do("FLUSHALL")
							require.NoError(t, err)
							what := fmt.Sprintf("%s, %s, %v", w.name, kind, command)
							prefix := "pre\nfix:"
							name := prefix + "{}a secret key"
							_, err = server.Do(append([]string{command[0], name}, command[2:]...)...)
							require.NoError(t, err)
							before, err := server.Do("DUMP", name)
							require.NoError(t, err)
							var log lines
							l := kindOf(t, kind, client, leapredis.Config{
								Prefix: prefix, Limit: 5, Window: time.Hour, WhenAway: leapredis.Deny, Logger: log.logger(),
							})
							for range 20 {
								d, err := l.AllowN(t.Context(), "a secret key", 1)
								require.NoError(t, err)
								require.True(t, d.Degraded && !d.Allowed, what)
								require.GreaterOrEqual(t, d.RetryAfter, 10*time.Millisecond)
							}
							for range 5 {
								d, err := l.AllowN(t.Context(), "another", 1)
								require.NoError(t, err)
								require.True(t, d.Allowed && !d.Degraded, what)
							}
							require.Zero(t, l.Link().Openings, what)
							if found != "zset" { // a log is one, too
								var replied *leapredis.ReplyError
								require.ErrorAs(t, l.Reset(t.Context(), "a secret key"), &replied, what)
							}
							awaiting(t, "it is logged", func() bool { return log.count("\n") > 0 })
							require.Equal(t, 1, log.count("\n"), log.String())
							require.Contains(t, log.String(), "prefix=pre?fix: holds="+found+" ", what)
							require.NotContains(t, log.String(), "a secret key")
							after, err := server.Do("DUMP", name)
							require.NoError(t, err)
							require.Equal(t, before, after, what)
							left, err := server.Do("PTTL", name)
							require.NoError(t, err)
							require.EqualValues(t, -1, left, what)
						}
					}
				}
			}
		})
	}
}

// rateLimiters are the names of the limiters that kindOf makes.
var rateLimiters = []string{"counter", "burst", "log"}

func kindOf(t *testing.T, name string, client leapredis.Client, cfg leapredis.Config) limiter {
	t.Helper()
	switch name {
	case "counter":
		return newCounter(t, client, cfg)
	case "burst":
		return newBurst(t, client, cfg)
	}
	return newLog(t, client, cfg)
}
