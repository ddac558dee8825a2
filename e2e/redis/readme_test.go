//go:build e2e

package redis

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
)

// readme is that of leapredis.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../leapredis/README.md")
	require.NoError(t, err)
	return string(text)
}

// aclOf returns the commands that the README has below the lines "# WHAT".
func aclOf(t *testing.T, whats ...string) (commands [][]string) {
	t.Helper()
	for _, what := range whats {
		_, below, ok := strings.Cut(readme(t), "\n# "+what+"\n")
		require.True(t, ok, what)
		line, _, _ := strings.Cut(below, "\n")
		fields := strings.Fields(line)
		require.Greater(t, len(fields), 3, what)
		require.Equal(t, []string{"ACL", "SETUSER", "limits"}, fields[:3], what)
		commands = append(commands, fields)
	}
	return commands
}

// become makes the user "limits" of a server by those commands, and of nothing else.
func become(t *testing.T, server *redistest.Server, acl [][]string) {
	t.Helper()
	for _, c := range append([][]string{{"ACL", "SETUSER", "limits", "reset"}, {"ACL", "LOG", "RESET"}}, acl...) {
		_, err := server.Do(c...)
		require.NoError(t, err)
	}
}

// denied is what the server has denied since.
func denied(t *testing.T, server *redistest.Server) error {
	t.Helper()
	found, err := server.Do("ACL", "LOG", "1")
	require.NoError(t, err)
	if len(found.([]any)) > 0 {
		return fmt.Errorf("the server denied: %v", found)
	}
	return nil
}

// exercised does all that a limiter does on a server, and returns an error if it was denied
// anything of it.
func exercised(t *testing.T, v version, kind string, server *redistest.Server, client leapredis.Client) error {
	t.Helper()
	_, err := server.Do("FLUSHALL")
	require.NoError(t, err)
	_, err = server.Do("SCRIPT", "FLUSH")
	require.NoError(t, err)
	_, err = server.Do("XADD", "api:{}foreign", "*", "a", "b")
	require.NoError(t, err)
	var log lines
	cfg := leapredis.Config{Prefix: "api:", Limit: 20, Window: time.Hour, WhenAway: leapredis.Deny, Logger: log.logger()}
	if kind == "heartbeat" {
		cfg.WhenAway, kind, cfg.Instances = leapredis.Local, "counter", counted
	}
	l := kindOf(t, kind, client, cfg)
	all := []error{}
	note := func(err error) { all = append(all, err) }
	ctx := t.Context()
	for i := range 3 {
		first, err := l.AllowN(ctx, "a", 4)
		note(err)
		second, err := l.AllowN(ctx, "a", 2)
		note(err)
		third, err := l.AllowN(ctx, "a", 1)
		note(err)
		_, err = l.AllowN(ctx, "a", 14+5) // what must leave first is looked up
		note(err)
		note(l.Settle(ctx, "a", first, 1))
		note(l.Refund(ctx, "a", third, third.Charged))
		if i == 1 {
			note(l.Settle(ctx, "a", second, 3))
			note(l.Reset(ctx, "a"))
		}
		_, err = l.Peek(ctx, "a")
		note(err)
		only, err := l.AllowN(ctx, fmt.Sprint("b", i), 1)
		note(err)
		note(l.Refund(ctx, fmt.Sprint("b", i), only, only.Charged))
	}
	if n := l.Link().Failures; n > 0 {
		note(fmt.Errorf("%d failures: %s", n, log.String()))
	}
	_, err = l.AllowN(ctx, "foreign", 1)
	note(err)
	awaiting(t, "what goes on beside the calls has been done, or denied", func() bool {
		counted := cfg.WhenAway != leapredis.Local || slices.Contains(keysOf(t, server), cfg.Prefix)
		return denied(t, server) != nil || counted && log.count("\n") > 0
	})
	if log.count("holds=stream") == 0 {
		note(fmt.Errorf("of what type the value of another is was not logged: %s", log.String()))
	}
	note(l.Close())
	note(denied(t, server))
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// aclFor is what the README has for what a limiter is called here.
var aclFor = map[string]string{
	"counter":   "NewCounter",
	"log":       "NewLog",
	"burst":     "NewBurst",
	"heartbeat": "The count of processes",
}

// aclOfClient is what a client sends besides what it is told to.
func aclOfClient(t *testing.T, v version, w way) [][]string {
	t.Helper()
	acl := aclOf(t, "The client "+w.name)
	if v.name == "newer" {
		acl = append(acl, aclOf(t, "Either client, from Redis 7.2 on")...)
	}
	return acl
}

// A user that may do what the README says, and nothing else, is denied nothing by any limiter
// through any client; and nothing of it can be left out.
func TestE2E_ReadmeACLIsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			kinds := map[string][]string{"heartbeat": {"NewCounter", aclFor["heartbeat"]}}
			for _, kind := range rateLimiters {
				kinds[kind] = []string{aclFor[kind]}
			}
			for kind, whats := range kinds {
				acl := append(aclOf(t, "All limiters"), aclOf(t, whats...)...)
				try := func(w way, acl [][]string) error {
					become(t, server, slices.Concat(acl, aclOfClient(t, v, w)))
					return exercised(t, v, kind, server, w.as(t, "limits", "PASSWORD", server.Addr()))
				}
				for _, w := range ways {
					require.NoError(t, try(w, acl), "%s, %s", w.name, kind)
				}
				for i, line := range acl {
					for j, field := range line {
						if strings.HasPrefix(field, "+") {
							less := slices.Clone(acl)
							less[i] = slices.Concat(line[:j], line[j+1:])
							require.Error(t, try(ways[0], less), "%s does not need %s", kind, field)
						}
					}
				}
			}
		})
	}
}

// In a Cluster, clients ask where keys are.
func TestE2E_ReadmeACLInACluster(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			cluster := v.startCluster(t, steady...)
			for _, w := range ways {
				for _, node := range cluster.Nodes {
					become(t, node, append(aclOf(t, "All limiters", "NewCounter"), aclOfClient(t, v, w)...))
				}
				client := w.as(t, "limits", "PASSWORD", cluster.Addrs()...)
				l := newCounter(t, client, leapredis.Config{Prefix: "api:", Limit: 5, Window: time.Hour, WhenAway: leapredis.Deny})
				for i := range 100 {
					key := fmt.Sprint("key", i)
					d, err := l.AllowN(t.Context(), key, 1)
					require.NoError(t, err)
					require.True(t, d.Allowed, w.name)
					require.NoError(t, l.Refund(t.Context(), key, d, 1))
				}
				require.Zero(t, l.Link().Failures)
				for _, node := range cluster.Nodes {
					require.NoError(t, denied(t, node), w.name)
				}
			}
		})
	}
}

// What MEMORY USAGE says of a key is within 5 % what the README says: a server's skip lists are
// random, and tables grow by doubling.
func TestE2E_ReadmeMemory(t *testing.T) {
	t.Parallel()
	rows := map[string]string{"counter": "Counter, a string", "burst": "Burst, a string", "log": "Log, a sorted set"}
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			client := ways[0].client(t, server.Addr())
			for _, kind := range rateLimiters {
				_, told, ok := strings.Cut(readme(t), "\n| "+rows[kind]+" | ")
				require.True(t, ok, rows[kind])
				told, _, _ = strings.Cut(told, " |\n")
				for i, told := range strings.Split(told, " | ") {
					admissions := []int{1, 10, 100, 1000}[i]
					_, err := server.Do("FLUSHALL")
					require.NoError(t, err)
					l := kindOf(t, kind, client, leapredis.Config{Prefix: "api:", Limit: 1 << 20, Window: time.Hour})
					for range admissions {
						d, err := l.AllowN(t.Context(), "client-0000000000001", 1)
						require.NoError(t, err)
						require.True(t, d.Allowed)
					}
					bytes, err := server.Do("MEMORY", "USAGE", "api:{}client-0000000000001", "SAMPLES", "0")
					require.NoError(t, err)
					t.Logf("%s, %d admissions: %d bytes", kind, admissions, bytes)
					want, err := strconv.ParseFloat(strings.ReplaceAll(told, ",", ""), 64)
					require.NoError(t, err)
					assert.InEpsilon(t, want, bytes.(int64), 0.05, "%s, %d admissions", kind, admissions)
				}
			}
		})
	}
}
