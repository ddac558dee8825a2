//go:build e2e

package redis

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// Four limiters with clients of their own, whose limit moves and whose calls have limits of
// their own or want as many as there is room for: no more than the largest limit pass, and as
// many as that when it stays.
func TestE2E_LimitsThatMove(t *testing.T) {
	t.Parallel()
	const small, large = 300, 3000
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			var processes []map[string]limiter
			for range 4 {
				cfg := leapredis.Config{Limit: large, Window: time.Hour}
				all := kinds(t, ways[0].client(t, server.Addr()), cfg)
				cfg.Prefix, cfg.Lease = "leases:", 20
				all["leases"] = newCounter(t, ways[1].client(t, server.Addr()), cfg)
				processes = append(processes, all)
			}
			for kind := range processes[0] {
				var charged atomic.Int64
				gatetest.AtOnce(32, func(id int) {
					l := processes[id%4][kind].(*leapredis.RateLimiter)
					for i := range 60 {
						if id < 4 {
							assert.NoError(t, l.SetLimit([]int64{small, large}[i%2]))
						}
						var d limit.Decision
						var err error
						switch i % 3 {
						case 0:
							d, err = l.Allow(t.Context(), "a")
						case 1:
							d, err = l.AllowAtMost(t.Context(), "a", 4)
						default:
							d, err = l.AllowLimit(t.Context(), "a", 2, []int64{small, large / 2}[id%2])
						}
						assert.NoError(t, err)
						assert.False(t, d.Degraded)
						charged.Add(d.Charged)
					}
				})
				require.LessOrEqual(t, charged.Load(), int64(large), kind)
				for _, all := range processes {
					l := all[kind].(*leapredis.RateLimiter)
					require.NoError(t, l.SetLimit(large))
					d, err := l.AllowAtMost(t.Context(), "a", large)
					require.NoError(t, err)
					charged.Add(d.Charged)
				}
				awaiting(t, "what was leased is back, and all of the limit is taken", func() bool {
					d, err := processes[0][kind].(*leapredis.RateLimiter).AllowAtMost(t.Context(), "a", large)
					return err == nil && charged.Add(d.Charged) == large
				})
				d, err := processes[1][kind].AllowN(t.Context(), "a", 1)
				require.NoError(t, err)
				require.False(t, d.Allowed, kind)
			}
		})
	}
}

// Plans, a ban, those that are exempt, and shadow mode, on a real server.
func TestE2E_LimitsOfKeysAndShadow(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			client := ways[0].client(t, server.Addr())
			for kind, made := range kinds(t, client, leapredis.Config{
				Name: "calls", Limit: 3, MaxLimit: 7, Window: time.Hour, LimitFor: func(key string) int64 {
					plan, _, _ := strings.Cut(key, " ")
					if of, ok := map[string]int64{"pro": 7, "ban": 0, "free": limit.Exempt}[plan]; ok {
						return of
					}
					return limit.Default
				},
			}) {
				l := made.(*leapredis.RateLimiter)
				passed := func(key string) (n int) {
					for range 10 {
						d, err := l.Allow(t.Context(), key)
						require.NoError(t, err)
						require.False(t, d.Degraded)
						if d.Allowed {
							n++
						}
					}
					return n
				}
				require.Equal(t, []int{3, 7, 0, 10}, []int{passed("a"), passed("pro 1"), passed("ban 1"), passed("free 1")}, kind)
				require.NoError(t, l.SetMode(rule.Shadow))
				require.Equal(t, []int{10, 10, 10, 10}, []int{passed("a"), passed("pro 1"), passed("ban 1"), passed("b")}, kind)
				require.EqualValues(t, 10+10+10+7, l.Stats().WouldRefuse, kind)
				collector, err := leapprom.New(leapgate.Must(leapgate.Config{}), leapprom.Config{Limiters: []leapprom.Limiter{l}})
				require.NoError(t, err)
				require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP leapgate_limiter_limit What a limiter admits for each key in its window, where the key has no limit of its own.
# TYPE leapgate_limiter_limit gauge
leapgate_limiter_limit{gate="default",limiter="calls"} 3
# HELP leapgate_limiter_would_refuse_total Calls that a limiter admitted only because it is in mode shadow.
# TYPE leapgate_limiter_would_refuse_total counter
leapgate_limiter_would_refuse_total{gate="default",limiter="calls"} 37
`), "leapgate_limiter_limit", "leapgate_limiter_would_refuse_total"))
				require.NoError(t, l.SetMode(rule.Enforce))
				require.Zero(t, passed("b"), kind)
			}
		})
	}
}
