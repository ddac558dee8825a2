//go:build e2e

package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// oddKeys are what clients may send.
func oddKeys() []string {
	all := []string{
		"plain", "{", "}", "{}", "{a}", "a{b}c", "}{", "{{}}", "{}{a}", "a{", "\x00", "a\x00b", "\r\n", "*1\r\n$4\r\nPING\r\n",
		"\xff\xfe\x80", "\xc3\x28", "ключ", "🔑", " ", `"`, "*", "?", "[a]", "192.0.2.1", "2001:db8::1",
		strings.Repeat("k", limit.MaxKeyLength), strings.Repeat("{", limit.MaxKeyLength), strings.Repeat("\x00", limit.MaxKeyLength),
	}
	for b := range 256 {
		all = append(all, "byte "+string([]byte{byte(b)}))
	}
	return all
}

// Keys of any bytes each have a count of their own, on one server and on a cluster, through
// either client; and all that the limiters write has the prefix, and expires.
func TestKeys_OfAnyBytes(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			single := []*redistest.Server{v.start(t)}
			cluster := v.startCluster(t, steady...).Nodes
			for _, w := range ways {
				for where, servers := range map[string][]*redistest.Server{"server": single, "cluster": cluster} {
					var addrs []string
					for _, s := range servers {
						_, err := s.Do("FLUSHALL")
						require.True(t, err == nil || strings.HasPrefix(err.Error(), "READONLY"), "%v", err)
						addrs = append(addrs, s.Addr())
					}
					client := w.client(t, addrs...)
					kinds := kinds(t, client, leapredis.Config{Limit: 3, Window: time.Hour})
					kinds["leases"] = newCounter(t, client, leapredis.Config{Prefix: "leases:", Limit: 3, Window: time.Hour, Lease: 10})
					for name, l := range kinds {
						what := name + ", " + w.name + ", " + where
						anyBytes(t, what, l)
						require.Zero(t, l.Link().Failures, what)
					}
					spread := 0
					for _, s := range servers {
						role, err := s.Do("ROLE")
						require.NoError(t, err)
						keys := keysOf(t, s)
						if role.([]any)[0] != "master" || len(keys) == 0 {
							continue
						}
						spread++
						for _, key := range keys {
							prefix := strings.HasPrefix(key, "counter:") || strings.HasPrefix(key, "log:") || strings.HasPrefix(key, "leases:")
							require.True(t, prefix, "%q", key)
							left, err := s.Do("PTTL", key)
							require.NoError(t, err)
							require.Positive(t, left, "%q expires", key)
							require.LessOrEqual(t, left, 2*time.Hour.Milliseconds()+10, "%q", key)
						}
					}
					require.True(t, spread == 1 || spread == 3, "the keys are on all primaries")
				}
			}
		})
	}
}

func anyBytes(t *testing.T, what string, l limiter) {
	t.Helper()
	ctx := t.Context()
	keys := oddKeys()
	for i, key := range keys {
		d, err := l.AllowN(ctx, key, int64(1+i%3))
		require.NoError(t, err, "%s, %q", what, key)
		require.True(t, d.Allowed && !d.Degraded, "%s, %q: %+v", what, key, d)
	}
	for i, key := range keys {
		n := int64(1 + i%3)
		d, err := l.Peek(ctx, key)
		require.NoError(t, err)
		require.Equal(t, 3-n, d.Remaining, "%s, %q", what, key)
		d, err = l.AllowN(ctx, key, 4-n)
		require.NoError(t, err)
		require.False(t, d.Allowed || d.Degraded, "%s, %q: %+v", what, key, d)
		if n == 2 {
			require.NoError(t, l.Reset(ctx, key))
			d, err = l.AllowN(ctx, key, 3)
			require.NoError(t, err)
			require.True(t, d.Allowed && !d.Degraded, "%s, %q: %+v", what, key, d)
			require.NoError(t, l.Refund(ctx, key, d, 3))
			d, err = l.Peek(ctx, key)
			require.NoError(t, err)
			require.EqualValues(t, 3, d.Remaining, "%s, %q", what, key)
		}
	}
}

// What nobody asks for any more leaves nothing on the server.
func TestKeys_Expire(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			cfg := leapredis.Config{Limit: 1000, Window: 200 * time.Millisecond}
			kinds := kinds(t, ways[0].client(t, server.Addr()), cfg)
			for _, l := range kinds {
				for range 50 {
					d, err := l.AllowN(t.Context(), hot, 2)
					require.NoError(t, err)
					require.NoError(t, l.Refund(t.Context(), hot, d, 1))
					require.NoError(t, l.Settle(t.Context(), hot, d, 3))
				}
				require.NoError(t, l.Reset(t.Context(), hot))
				_, err := l.AllowN(t.Context(), hot, 2)
				require.NoError(t, err)
				require.NoError(t, l.Reset(t.Context(), "another"))
			}
			sleep(t, 2*cfg.Window+50*time.Millisecond)
			require.Empty(t, keysOf(t, server))
		})
	}
}
