//go:build e2e

package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// twin is a limiter of package limit, which decides at the time it is given.
type twin interface {
	limit.Limiter
	limit.Settler
	AllowNAt(now int64, key string, n int64) limit.Decision
	Reset(key string)
}

// pair asks a limiter on a server and its in-memory twin the same, and compares all of
// their decisions.
//
// A server's clock cannot be set, but it can be read out of each decision, to the
// microsecond: a counter's ResetAfter tells how far the end of its window is, and a log
// keeps the time of each admission, from which ResetAfter counts. At that time the twin
// is asked. The clock is this machine's, so the time must lie between those at which the
// question was sent and the answer came, or one of the two is wrong.
type pair struct {
	t      *testing.T
	server *redistest.Server
	remote limiter
	local  twin
	prefix string
	isLog  bool
	window time.Duration
	now    int64 // clock of the twin

	lastSent, lastSeen int64 // µs: around the latest decision
	longest            int64 // µs: that an answer of the server took
}

// charged is a decision of both.
type charged struct {
	remote, local limit.Decision
	window        int64 // number of the counter's window
}

func newPair(t *testing.T, server *redistest.Server, client leapredis.Client, cfg leapredis.Config, isLog bool) *pair {
	t.Helper()
	p := &pair{t: t, server: server, prefix: cfg.Prefix, isLog: isLog, window: cfg.Window}
	twinCfg := limit.Config{Name: cfg.Name, Limit: cfg.Limit, Window: cfg.Window, Now: func() int64 { return p.now }}
	var err error
	if isLog {
		p.remote = newLog(t, client, cfg)
		p.local, err = limit.NewLog(twinCfg)
	} else {
		p.remote = newCounter(t, client, cfg)
		p.local, err = limit.NewCounter(twinCfg)
	}
	require.NoError(t, err)
	return p
}

// onPairs runs test with each kind of limiter on each version, one key prefix for each.
func onPairs(t *testing.T, cfg leapredis.Config, test func(p *pair)) {
	t.Helper()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			client := ways[0].client(t, server.Addr())
			for name, isLog := range map[string]bool{"counter": false, "log": true} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					cfg := cfg
					cfg.Prefix = name + ":"
					test(newPair(t, server, client, cfg, isLog))
				})
			}
		})
	}
}

// up rounds up to the microseconds that a server's clock tells.
func up(d time.Duration) time.Duration {
	if d == limit.Never {
		return d
	}
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

func micros() int64 { return time.Now().UnixMicro() }

// slack is what the clocks of two processes may differ by: Redis 7 and later read the
// time once for a script and a bit before it, and Go's clock steps when the system's is set.
const slack = 2000

// at returns when the server decided, in µs; not if its answer was read so late that all it had
// charged has left the window since.
func (p *pair) at(key string, d limit.Decision) (at int64, ok bool) {
	window := p.window.Microseconds()
	reset := d.ResetAfter.Microseconds()
	require.Zero(p.t, d.ResetAfter%time.Microsecond, "the server's clock tells whole microseconds")
	switch {
	case d.ResetAfter == 0: // nothing is held: any time is as good
		return p.lastSeen, true
	case p.isLog:
		newest := p.newest(key)
		if d.Charged > 0 {
			return newest, newest != 0
		}
		return newest + window - reset, newest != 0
	}
	// The window, or the one after it, ends then. Which, the time tells.
	mid := (p.lastSent + p.lastSeen) / 2
	off := (mid + reset) % window
	if off > window/2 {
		off -= window
	}
	return mid - off, true
}

func (p *pair) newest(key string) int64 {
	newest := int64(0)
	for _, c := range p.charges(key) {
		newest = max(newest, c.at)
	}
	return newest
}

// allow asks both, and fails if they do not say the same.
func (p *pair) allow(key string, n int64) charged {
	p.t.Helper()
	trips := p.remote.Link().RoundTrips
	p.lastSent = micros()
	remote, err := p.remote.AllowN(p.t.Context(), key, n)
	p.lastSeen = micros()
	require.NoError(p.t, err)
	if !p.isLog && p.lastSeen-p.lastSent > p.window.Microseconds()/4 { // nobody can tell in which window it was
		p.forget(key)
		remote.Charged = 0
		return charged{remote: remote, local: remote}
	}
	at, ok := p.at(key, remote)
	if !ok { // neither holds anything of the key now
		require.GreaterOrEqual(p.t, micros()-p.lastSent+slack, remote.ResetAfter.Microseconds(), "%+v is lost", remote)
		p.local.Reset(key)
		remote.Charged = 0
		return charged{remote: remote, local: remote}
	}
	slack := int64(slack)
	if p.remote.Link().RoundTrips == trips {
		// It remembers, and its waits go on from when the answer came. That may have been
		// long on its way.
		slack += p.longest
	} else {
		p.longest = max(p.longest, p.lastSeen-p.lastSent)
	}
	require.GreaterOrEqual(p.t, at, p.lastSent-slack, "%+v", remote)
	require.LessOrEqual(p.t, at, p.lastSeen+slack, "%+v", remote)
	local := p.local.AllowNAt(at*1000, key, n)
	if p.isLog && p.remote.Link().RoundTrips == trips && n > 1 {
		// It remembers that it was refused as many, and does not know what has left the
		// window since.
		require.LessOrEqual(p.t, remote.Remaining, local.Remaining)
		local.Remaining = remote.Remaining
		// It may have been fewer that were refused, which had no longer to wait.
		require.LessOrEqual(p.t, remote.RetryAfter, up(local.RetryAfter))
		local.RetryAfter = remote.RetryAfter
	}
	p.same(local, remote, "%d of %q at %d µs, in %v", n, key, at, p.window)
	return charged{remote, local, at / p.window.Microseconds()}
}

// same compares whole decisions but for the tickets, which only their makers read.
func (p *pair) same(local, remote limit.Decision, format string, args ...any) {
	p.t.Helper()
	local, remote = said(local), said(remote)
	local.RetryAfter, local.ResetAfter = up(local.RetryAfter), up(local.ResetAfter)
	local.MoreAfter, remote.MoreAfter = bothTell(local, remote)
	require.Equalf(p.t, local, remote, format, args...)
}

// said is what a decision tells its caller, without what a limiter keeps in it for itself.
func said(d limit.Decision) limit.Decision {
	return limit.Decision{
		Allowed: d.Allowed, Degraded: d.Degraded, Crowded: d.Crowded, Unavailable: d.Unavailable,
		Name: d.Name, Limit: d.Limit, Remaining: d.Remaining, Charged: d.Charged,
		RetryAfter: d.RetryAfter, MoreAfter: d.MoreAfter, ResetAfter: d.ResetAfter,
	}
}

// bothTell makes two values of MoreAfter comparable: not every decision tells one, and where
// nothing is held the twins do not agree on the time.
func bothTell(local, remote limit.Decision) (time.Duration, time.Duration) {
	if local.MoreAfter == 0 || remote.MoreAfter == 0 || local.ResetAfter == 0 {
		return 0, 0
	}
	return up(local.MoreAfter), remote.MoreAfter
}

// forget makes both forget a key.
func (p *pair) forget(key string) {
	p.t.Helper()
	require.NoError(p.t, p.remote.Reset(p.t.Context(), key))
	p.local.Reset(key)
}

// refund gives back to both, unless the window of a counter may have turned: whether
// there is something to give back then, the twins see differently. It reports whether it did. If
// it has turned on the way, since the machine stood still, both forget the key.
func (p *pair) refund(key string, c charged, n int64) bool {
	p.t.Helper()
	if !p.within(c) {
		return false
	}
	require.NoError(p.t, p.remote.Refund(p.t.Context(), key, c.remote, n))
	if !p.within(c) {
		p.forget(key)
		return true
	}
	require.NoError(p.t, p.local.Refund(p.t.Context(), key, c.local, n))
	return true
}

// within reports whether what was charged is in its window for some time yet.
func (p *pair) within(c charged) bool {
	ends := (c.window + 1) * p.window.Microseconds()
	return p.isLog || micros() < ends-20_000
}

// next waits until shortly after a window of the counter has begun.
func (p *pair) next() {
	window := p.window.Microseconds()
	sleep(p.t, time.Duration(window-micros()%window)*time.Microsecond+time.Millisecond)
}

func TestTwins_WithinTheLimitBeyondItAndAfterTheWindow(t *testing.T) {
	t.Parallel()
	onPairs(t, leapredis.Config{Name: "ten", Limit: 10, Window: 8 * time.Second}, func(p *pair) {
		p.next()
		for i := range int64(10) {
			require.Equal(p.t, 9-i, p.allow("a", 1).remote.Remaining)
		}
		for range 100 {
			require.False(p.t, p.allow("a", 1).remote.Allowed)
		}
		refused := p.allow("a", 1).remote
		sleep(p.t, refused.RetryAfter)
		require.True(p.t, p.allow("a", 1).remote.Allowed, "as long as it said")
		sleep(p.t, 2*p.window)
		require.EqualValues(p.t, 9, p.allow("a", 1).remote.Remaining)
	})
}

func TestTwins_WeightsAndAsking(t *testing.T) {
	t.Parallel()
	onPairs(t, leapredis.Config{Limit: 10, Window: time.Minute}, func(p *pair) {
		for _, step := range []struct{ n, left int64 }{
			{0, 10}, {11, 10}, {7, 3}, {4, 3}, {0, 3}, {3, 0}, {1, 0}, {0, 0}, {1 << 40, 0}, {11, 0},
		} {
			require.Equal(p.t, step.left, p.allow("a", step.n).remote.Remaining, "after %d", step.n)
		}
		d, err := p.remote.Peek(p.t.Context(), "a")
		require.NoError(p.t, err)
		require.False(p.t, d.Allowed)
		require.Positive(p.t, d.RetryAfter)
		require.True(p.t, p.allow("another", 10).remote.Allowed)
	})
}

func TestTwins_NothingIsAdmittedByZero(t *testing.T) {
	t.Parallel()
	onPairs(t, leapredis.Config{Limit: 0, Window: time.Minute}, func(p *pair) {
		for _, n := range []int64{0, 1, 1 << 40} {
			p.allow("a", n)
		}
		require.Empty(p.t, p.charges("a"))
	})
}

func TestTwins_RefundSettleReset(t *testing.T) {
	t.Parallel()
	onPairs(t, leapredis.Config{Limit: 100, Window: 10 * time.Second}, func(p *pair) {
		ctx := p.t.Context()
		if left := p.window - time.Duration(micros()%p.window.Microseconds())*time.Microsecond; left < 3*time.Second {
			sleep(p.t, left) // all of it lies in one window
		}
		settle := func(key string, c charged, actual int64) {
			require.NoError(p.t, p.remote.Settle(ctx, key, c.remote, actual))
			p.now = p.newest(key) * 1000
			require.NoError(p.t, p.local.Settle(ctx, key, c.local, actual))
		}
		first := p.allow("a", 40)
		require.True(p.t, p.refund("a", first, 15))
		require.EqualValues(p.t, 74, p.allow("a", 1).remote.Remaining)
		require.True(p.t, p.refund("a", first, 25))
		require.True(p.t, p.refund("a", first, 25), "what is not there is not given back")
		require.ErrorIs(p.t, p.remote.Refund(ctx, "a", first.remote, 41), limit.ErrCount)
		require.EqualValues(p.t, 98, p.allow("a", 1).remote.Remaining)
		settle("a", p.allow("a", 40), 40)
		require.EqualValues(p.t, 57, p.allow("a", 1).remote.Remaining)
		settle("a", p.allow("a", 40), 10)
		require.EqualValues(p.t, 46, p.allow("a", 1).remote.Remaining)
		settle("a", p.allow("a", 20), 30)
		require.EqualValues(p.t, 15, p.allow("a", 1).remote.Remaining)
		settle("a", p.allow("a", 5), 200)
		require.Zero(p.t, p.allow("a", 0).remote.Remaining, "in debt")
		require.False(p.t, p.allow("a", 1).remote.Allowed)

		early := p.allow("b", 100)
		p.forget("b")
		p.allow("b", 100)
		require.True(p.t, p.refund("b", early, 100))
		require.False(p.t, p.allow("b", 1).remote.Allowed, "a refund of what was charged before the reset changes nothing")
	})
}

// Whatever is asked, in whatever order and over windows that turn, both say the same.
func TestTwins_AtRandom(t *testing.T) {
	t.Parallel()
	for _, cfg := range []leapredis.Config{
		{Limit: 7, Window: 300 * time.Millisecond},
		{Limit: 1_000_003, Window: 333_333 * time.Microsecond},
		{Limit: leapredis.MaxLimit, Window: 400 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d in %v", cfg.Limit, cfg.Window), func(t *testing.T) {
			t.Parallel()
			onPairs(t, cfg, func(p *pair) {
				seed := rand.Uint64()
				p.t.Logf("seed %d", seed)
				random := rand.New(rand.NewPCG(seed, 0))
				amount := func() int64 {
					switch random.IntN(6) {
					case 0:
						return 0
					case 1:
						return random.Int64N(cfg.Limit + 2)
					default:
						return 1 + random.Int64N(max(1, cfg.Limit/5))
					}
				}
				known := map[string]charged{}
				for began := time.Now(); time.Since(began) < 4*time.Second; {
					key := fmt.Sprint("key", random.IntN(3))
					switch random.IntN(10) {
					case 0:
						sleep(p.t, time.Duration(random.Int64N(int64(p.window))))
					case 1:
						if c, ok := known[key]; ok && c.remote.Charged > 0 {
							n := random.Int64N(c.remote.Charged) + 1
							if p.refund(key, c, n) {
								delete(known, key)
							}
						}
					default:
						known[key] = p.allow(key, amount())
					}
				}
			})
		})
	}
}
