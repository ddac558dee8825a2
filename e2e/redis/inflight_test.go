//go:build e2e

package redis

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
)

// flight is what a process does with calls in flight.
type flight struct {
	Config portable
	Keep   bool // take one place with each goroutine, and keep it
}

// census counts the calls that are inside by themselves: KEYS[1] has those of each process, and
// a field for the most that there ever were of all.
const census = `
redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
local sum, high = 0, tonumber(redis.call('HGET', KEYS[1], 'high') or 0)
for i, value in ipairs(redis.call('HGETALL', KEYS[1])) do
	if i % 2 == 0 then sum = sum + tonumber(value) end
end
sum = sum - high
if sum > high then redis.call('HSET', KEYS[1], 'high', sum) end
return sum`

const counts = "inside"

func (f *flight) work(client leapredis.Client, j job) (all report) {
	l, err := leapredis.NewInFlight(client, usual(f.Config.Config))
	if err != nil {
		return report{Errors: map[string]int64{err.Error(): 1}}
	}
	var mu sync.Mutex // guards all
	var done sync.WaitGroup
	end := time.Now().Add(j.Lasting)
	for range j.Goroutines {
		done.Go(func() {
			r := f.enter(l, j.Addrs[0], end)
			mu.Lock()
			defer mu.Unlock()
			all.merge(r)
		})
	}
	done.Wait()
	_ = l.Close()
	return all
}

func (f *flight) enter(l *leapredis.InFlight, addr string, end time.Time) report {
	r := report{Errors: map[string]int64{}}
	conn, err := redistest.Dial(addr)
	if err != nil {
		r.Errors[err.Error()]++
		return r
	}
	defer conn.Close()
	add := func(n string) {
		if _, err := conn.Do("EVAL", census, "1", counts, strconv.Itoa(os.Getpid()), n); err != nil {
			r.Errors[err.Error()]++
		}
	}
	timer := time.NewTimer(0)
	<-timer.C
	pause := func(d time.Duration) {
		timer.Reset(d)
		<-timer.C
	}
	for before := time.Now(); before.Before(end); before = time.Now() {
		place, d, err := l.Acquire(context.Background(), hot)
		switch {
		case err != nil:
			r.Errors[err.Error()]++
		case d.Degraded:
			r.Degraded++
		case !d.Allowed:
			r.Refused++
			pause(time.Millisecond)
		default:
			add("1")
			r.Admissions = append(r.Admissions, admission{before.UnixMicro(), micros()})
			if f.Keep {
				pause(time.Until(end))
			}
			pause(time.Duration(rand.IntN(3000)) * time.Microsecond)
			add("-1")
		}
		place.Release()
	}
	return r
}

// Four processes want places, and one of them is killed with places taken: never more than the
// limit are inside, as a count of its own on the server says, and the places of the dead one are
// back when its leases end, and not before.
func TestE2E_InFlightWhileAProcessIsKilled(t *testing.T) {
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			const most, kept = 6, 4
			const lease = 5 * time.Second
			server := v.start(t)
			cfg := leapredis.Config{Prefix: "exports:", Limit: most, LeaseTime: lease, WhenAway: leapredis.Deny}
			j := job{
				Addrs: []string{server.Addr()}, Silent: patience, InFlight: &flight{Config: portable{Config: cfg}, Keep: true},
				Goroutines: kept, Lasting: time.Minute,
			}
			field := func(name string) int {
				reply, err := server.Do("HGET", counts, name)
				require.NoError(t, err)
				text, _ := reply.(string)
				n, _ := strconv.Atoi(text)
				return n
			}
			doomed := hire(t, 1, j)
			pid := strconv.Itoa(doomed.workers[0].cmd.Process.Pid)
			j.InFlight, j.Goroutines, j.Lasting = &flight{Config: portable{Config: cfg}}, 8, 9*time.Second
			others := hire(t, 3, j)

			begun := time.Now() // no lease of the doomed ends before so long from now
			doomed.begin()
			awaiting(t, "it has its places", func() bool { return field(pid) == kept })
			others.begin()
			sleep(t, 500*time.Millisecond)
			doomed.kill()
			sleep(t, time.Until(begun.Add(lease-1500*time.Millisecond)))
			still, high := field(pid), field("high")
			_, err := server.Do("HDEL", counts, pid, "high") // soon its leases end
			require.NoError(t, err)
			if time.Since(begun) >= lease {
				t.Skip("this machine stood still until the leases ended")
			}
			require.Equal(t, kept, still)
			require.Equal(t, most, high, "the others have what the dead one has not")

			r := others.end()[0]
			require.Empty(t, r.Errors)
			require.Zero(t, r.Degraded)
			require.Greater(t, len(r.Admissions), 500)
			require.Greater(t, r.Refused, int64(500))
			require.Equal(t, most, field("high"), "the places are back, and never one more")
			l, err := leapredis.NewInFlight(ways[1].client(t, server.Addr()), usual(cfg))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			d, err := l.Peek(t.Context(), hot)
			require.NoError(t, err)
			require.EqualValues(t, most, d.Remaining, "all are free at the end")
			t.Logf("%d calls were inside, %d were refused; never more than %d at a time", len(r.Admissions), r.Refused, most)
		})
	}
}

// A user that has the commands of the README only may do all that a place needs, and none of
// them can be left out. A call that outlasts its lease renews it.
func TestE2E_InFlightByTheREADME(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			try := func(w way, acl [][]string) error {
				for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"SET", "api:{}foreign", "x"}} {
					_, err := server.Do(command...)
					require.NoError(t, err)
				}
				become(t, server, slices.Concat(acl, aclOfClient(t, v, w)))
				var log lines
				l, err := leapredis.NewInFlight(w.as(t, "limits", "PASSWORD", server.Addr()), usual(leapredis.Config{
					Prefix: "api:", Limit: 2, LeaseTime: 10 * time.Second, WhenAway: leapredis.Deny, Logger: log.logger(),
				}))
				require.NoError(t, err)
				for range 2 {
					first, d, err := l.Acquire(t.Context(), "a")
					require.NoError(t, err)
					if !d.Allowed {
						return denied(t, server)
					}
					second, d, err := l.Acquire(t.Context(), "a")
					require.NoError(t, err)
					if !d.Allowed {
						return denied(t, server)
					}
					_, d, err = l.Acquire(t.Context(), "a")
					require.NoError(t, err)
					require.False(t, d.Allowed)
					_ = first.Renew(t.Context())
					first.Release()
					second.Release()
				}
				_, d, err := l.Acquire(t.Context(), "foreign")
				require.NoError(t, err)
				require.True(t, d.Degraded && !d.Allowed)
				awaiting(t, "of what type the value of another is has been asked, or denied", func() bool {
					return denied(t, server) != nil || log.count("holds=string") > 0
				})
				require.NoError(t, l.Close())
				return denied(t, server)
			}
			acl := aclOf(t, "All limiters", "NewInFlight")
			for _, w := range ways {
				require.NoError(t, try(w, acl), w.name)
			}
			for i, line := range acl {
				for j, field := range line {
					if strings.HasPrefix(field, "+") {
						less := slices.Clone(acl)
						less[i] = slices.Concat(line[:j], line[j+1:])
						require.Error(t, try(ways[0], less), "it does not need %s", field)
					}
				}
			}
		})
	}
}

func TestE2E_InFlightIsRenewedByItsCaller(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			cfg := usual(leapredis.Config{Limit: 1, LeaseTime: 4 * time.Second, WhenAway: leapredis.Deny})
			l, err := leapredis.NewInFlight(ways[0].client(t, server.Addr()), cfg)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			place, d, err := l.Acquire(t.Context(), "a")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			enters := func() bool {
				second, d, err := l.Acquire(t.Context(), "a")
				require.NoError(t, err)
				second.Release()
				return d.Allowed
			}
			for range 12 {
				sleep(t, 500*time.Millisecond)
				require.NoError(t, place.Renew(t.Context()))
				require.False(t, enters())
			}
			awaiting(t, "its lease ends", enters)
			require.ErrorIs(t, place.Renew(t.Context()), leapredis.ErrLeaseEnded)
			require.Empty(t, keysOf(t, server))
		})
	}
}
