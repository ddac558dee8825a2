//go:build e2e

package redis

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// aboveBurst is by how many the admissions are above what a burst may have admitted in any
// stretch of time: each lies between Sent and Seen.
func aboveBurst(all []admission, most, burst int64, window time.Duration) (above int64) {
	bySeen := slices.SortedFunc(slices.Values(all), func(a, b admission) int { return int(a.Seen - b.Seen) })
	above = -burst
	for _, first := range all {
		n := int64(0)
		for _, a := range bySeen {
			if a.Sent >= first.Sent {
				n++
				above = max(above, n-burst-(a.Seen-first.Sent)*most/window.Microseconds())
			}
		}
	}
	return above
}

func TestJudges_SeeABurstThatIsTooLarge(t *testing.T) {
	t.Parallel()
	const window = 100 * time.Microsecond
	all := []admission{{0, 4}, {1, 5}, {2, 12}}
	require.Zero(t, aboveBurst(all, 10, 2, window))
	require.EqualValues(t, 1, aboveBurst(append(all, admission{3, 13}), 10, 2, window))
}

// Four processes ask for one key as fast as they can, and one is killed: in no stretch of time
// are there more admissions than Burst and what is paid in it; and all of the rate is used.
func TestE2E_BurstWhileAProcessIsKilled(t *testing.T) {
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			const most, burst = 397, 40
			server := v.start(t)
			cfg := leapredis.Config{Prefix: "burst:", Limit: most, Burst: burst, Window: time.Second, WhenAway: leapredis.Deny}
			c := hire(t, 4, job{
				Addrs: []string{server.Addr()}, Silent: patience, Limiters: []portable{{Config: cfg}}, Kinds: []string{"burst"},
				Goroutines: 8, Lasting: 6 * time.Second,
			})
			c.begin()
			sleep(t, 2*time.Second)
			c.kill()
			killed := micros()
			r := c.end()[0]
			require.Empty(t, r.Errors)
			require.Zero(t, r.Degraded)
			require.Positive(t, r.Refused)
			after := 0
			for _, a := range r.Admissions {
				if a.Sent > killed {
					after++
				}
			}
			require.LessOrEqual(t, aboveBurst(r.Admissions, most, burst, time.Second), int64(0))
			require.Greater(t, after, 2*most, "nothing was lost with the dead one")
			t.Logf("%d admitted by three of four, %d refused, %d round trips", len(r.Admissions), r.Refused, r.Link.RoundTrips)
		})
	}
}

// A limiter on a server and one in memory are asked the same; the time of each decision is read
// out of it, to the microsecond, and given to the one in memory.
func TestE2E_BurstDecidesAsTheTwinInMemory(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			client := ways[0].client(t, server.Addr())
			for _, cfg := range []leapredis.Config{{Limit: 1000, Burst: 7}, {Limit: 333, Burst: 1}, {Limit: 7, Burst: 20, Window: 50 * time.Millisecond}} {
				cfg.Prefix, cfg.WhenAway, cfg.LeaseTime = "twin"+time.Duration(cfg.Limit).String(), leapredis.Deny, time.Millisecond
				remote := newBurst(t, client, cfg)
				now := int64(0)
				twin, err := limit.NewBurst(limit.Config{Limit: cfg.Limit, Burst: cfg.Burst, Window: cfg.Window, Now: func() int64 { return now }})
				require.NoError(t, err)
				admitted := 0
				for range 600 {
					n := 1 + rand.Int64N(3)
					if cfg.Burst == 1 {
						n = 1
					}
					d, err := remote.AllowN(t.Context(), "a", n)
					require.NoError(t, err)
					if !d.Allowed { // it tells no time; and has changed nothing
						sleep(t, time.Duration(rand.IntN(3000))*time.Microsecond)
						continue
					}
					admitted++
					now = d.Ticket * 1000
					local := twin.AllowNAt(now, "a", n)
					require.True(t, local.Allowed)
					require.Equal(t, local.Remaining, d.Remaining)
					require.Equal(t, up(local.ResetAfter), d.ResetAfter)
				}
				require.Greater(t, admitted, 50)
			}
		})
	}
}
