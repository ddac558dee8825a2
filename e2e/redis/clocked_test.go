//go:build e2e

package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// clocked is a client whose scripts read a given clock instead of the server's: all else
// is done by the server. It can do so since it is asked for the text of what it does not
// know.
type clocked struct {
	leapredis.Client
	now atomic.Int64 // µs
}

const readsClock = `call('TIME')`

func (*clocked) EvalSHA(context.Context, string, string, ...string) ([]int64, error) {
	return nil, &leapredis.ReplyError{Text: "NOSCRIPT No matching script."}
}

func (c *clocked) Eval(ctx context.Context, script, key string, args ...string) ([]int64, error) {
	now := c.now.Load()
	second := now / 1_000_000
	script = strings.Replace(script, "redis."+readsClock, readsClock, 1)
	script = strings.Replace(script, readsClock, fmt.Sprintf("{ARGV[%d], ARGV[%d]}", len(args)+1, len(args)+2), 1)
	return c.Client.Eval(ctx, script, key, append(append([]string(nil), args...), fmt.Sprint(second), fmt.Sprint(now-second*1_000_000))...)
}

// table is a limiter on a server with a given clock, and its twin with the same.
type table struct {
	t      *testing.T
	clock  *clocked
	remote limiter
	local  twin
	carry  int64 // how many windows what was admitted matters
	window time.Duration
	alone  bool // the twin is not asked
}

// minute is a whole minute, and a multiple of every window here. Keys on the server live
// in real time, which is much shorter than these windows.
const minute = 1_800_000_000 * int64(time.Second)

// onTables runs test with each kind of limiter.
func onTables(t *testing.T, cfg leapredis.Config, test func(x *table)) {
	t.Helper()
	v := versions[0]
	server := v.start(t)
	for _, isLog := range []bool{false, true} {
		name := map[bool]string{false: "counter", true: "log"}[isLog]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &table{t: t, clock: &clocked{Client: ways[0].client(t, server.Addr())}, carry: 2, window: cfg.Window}
			cfg := cfg
			cfg.Prefix, cfg.LeaseTime = name+":", time.Millisecond
			twinCfg := limit.Config{Name: cfg.Name, Limit: cfg.Limit, Window: cfg.Window, Now: func() int64 { return x.clock.now.Load() * 1000 }}
			var err error
			if isLog {
				x.carry, x.remote = 1, newLog(t, x.clock, cfg)
				x.local, err = limit.NewLog(twinCfg)
			} else {
				x.remote = newCounter(t, x.clock, cfg)
				x.local, err = limit.NewCounter(twinCfg)
			}
			require.NoError(t, err)
			x.set(0)
			test(x)
		})
	}
}

// set sets the clock to so long after the minute.
func (x *table) set(d time.Duration) { x.clock.now.Store((minute + int64(d)) / 1000) }

func (x *table) add(d time.Duration) { x.clock.now.Add(d.Microseconds()) }

// allow asks both, and returns what the server's says.
func (x *table) allow(key string, n int64) charged {
	x.t.Helper()
	remote, err := x.remote.AllowN(x.t.Context(), key, n)
	require.NoError(x.t, err)
	if !remote.Allowed { // it is believed for a millisecond of real time
		sleep(x.t, 1100*time.Microsecond)
	}
	if x.alone {
		return charged{remote: remote}
	}
	local, err := x.local.AllowN(x.t.Context(), key, n)
	require.NoError(x.t, err)
	if remote.Charged > 0 {
		x.add(time.Microsecond) // a log has one admission at a time
	}
	c := charged{remote: remote, local: local}
	local, remote = said(local), said(remote)
	local.RetryAfter, local.ResetAfter = up(local.RetryAfter), up(local.ResetAfter)
	local.MoreAfter, remote.MoreAfter = bothTell(local, remote)
	require.Equal(x.t, local, remote, "%d of %q, %v after the minute", n, key, time.Duration(x.clock.now.Load()*1000-minute))
	return c
}

func (x *table) left(key string) int64 {
	x.t.Helper()
	return x.allow(key, 0).remote.Remaining
}

func (x *table) refund(key string, c charged, n int64) {
	x.t.Helper()
	require.NoError(x.t, x.remote.Refund(x.t.Context(), key, c.remote, n))
	require.NoError(x.t, x.local.Refund(x.t.Context(), key, c.local, n))
}

func (x *table) settle(key string, c charged, actual int64) {
	x.t.Helper()
	x.add(time.Microsecond) // as in allow
	require.NoError(x.t, x.remote.Settle(x.t.Context(), key, c.remote, actual))
	require.NoError(x.t, x.local.Settle(x.t.Context(), key, c.local, actual))
	x.add(time.Microsecond)
}

func TestTables_WithinTheLimitBeyondItAndAfterTheWindow(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Name: "ten", Limit: 10, Window: time.Minute}, func(x *table) {
		for range 10 {
			require.True(x.t, x.allow("a", 1).remote.Allowed)
		}
		refused := x.allow("a", 1)
		for range 20 {
			require.False(x.t, x.allow("a", 1).remote.Allowed)
		}
		x.add(refused.remote.RetryAfter - time.Microsecond)
		require.False(x.t, x.allow("a", 1).remote.Allowed)
		x.add(time.Microsecond)
		require.True(x.t, x.allow("a", 1).remote.Allowed)
		x.add(time.Duration(x.carry) * x.window)
		require.EqualValues(x.t, 9, x.allow("a", 1).remote.Remaining)
	})
}

// The example of the field: 60 in the minute before, 20 in this one, half of it over.
func TestTables_Estimate(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 100, Window: time.Minute}, func(x *table) {
		x.allow("a", 60)
		x.add(time.Minute)
		x.allow("a", 20)
		x.add(30 * time.Second)
		if x.carry == 2 {
			require.EqualValues(x.t, 50, x.left("a"))
			require.False(x.t, x.allow("a", 51).remote.Allowed)
			require.True(x.t, x.allow("a", 50).remote.Allowed)
		}
	})
}

func TestTables_TheShareIsExact(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 3, Window: 4 * time.Minute}, func(x *table) {
		x.allow("a", 3)
		third := 60 * time.Second / 3
		for _, at := range []time.Duration{
			4*time.Minute - 1000, 4 * time.Minute, 5*time.Minute + third, 5*time.Minute + third + 1000,
			6*time.Minute + 2*third, 6*time.Minute + 2*third + 1000, 8*time.Minute - 1000, 8 * time.Minute,
		} {
			x.set(at)
			for n := range int64(5) {
				x.allow("a", n-n/4) // 3 twice: what passes is refused then
			}
		}
	})
}

func TestTables_GradualReturn(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 3, Window: 4 * time.Minute}, func(x *table) {
		for begin := range 4 {
			key := fmt.Sprint("from ", begin)
			x.set(time.Duration(begin) * time.Minute)
			for range 12 {
				x.allow(key, 1)
				x.add(time.Minute)
			}
		}
	})
}

func TestTables_WeightsAskingAndNever(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 10, Window: time.Minute}, func(x *table) {
		for _, n := range []int64{0, 11, 7, 4, 0, 3, 1, 0, 11, 1 << 40, 1<<63 - 1} {
			x.allow("a", n)
			x.add(time.Second)
		}
	})
}

func TestTables_RefundsGoToTheWindowThatWasCharged(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 5, Window: time.Minute}, func(x *table) {
		first := x.allow("a", 4)
		x.refund("a", first, 1)
		require.EqualValues(x.t, 2, x.left("a"))
		x.refund("a", first, 0)
		x.refund("a", first, 3)
		require.EqualValues(x.t, 5, x.left("a"))
		x.refund("a", first, 3)
		require.EqualValues(x.t, 5, x.left("a"), "nothing is left to give back")

		early := x.allow("a", 5)
		x.add(time.Duration(x.carry) * x.window)
		x.allow("a", 5)
		x.refund("a", early, 5)
		require.Zero(x.t, x.left("a"))
	})
}

func TestTables_Settle(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 100, Window: time.Minute}, func(x *table) {
		for _, step := range []struct{ reserved, actual, left int64 }{{40, 40, 60}, {40, 10, 50}, {40, 0, 50}, {20, 30, 20}, {20, 200, 0}} {
			x.settle("a", x.allow("a", step.reserved), step.actual)
			require.Equal(x.t, step.left, x.left("a"), "%d was %d", step.reserved, step.actual)
		}
		wait := x.allow("a", 1).remote.RetryAfter
		x.add(wait - time.Microsecond)
		require.False(x.t, x.allow("a", 1).remote.Allowed)
		x.add(time.Microsecond)
		require.True(x.t, x.allow("a", 1).remote.Allowed)
		x.add(2 * x.window)
		x.settle("a", charged{}, 30)
		require.EqualValues(x.t, 70, x.left("a"), "what was refused charged nothing")
	})
}

func TestTables_ResetForgets(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 5, Window: time.Minute}, func(x *table) {
		early := x.allow("a", 5)
		for _, key := range []string{"a", "never seen"} {
			require.NoError(x.t, x.remote.Reset(x.t.Context(), key))
			x.local.Reset(key)
		}
		require.EqualValues(x.t, 5, x.left("a"))
		x.allow("a", 5)
		x.refund("a", early, 5)
		require.False(x.t, x.allow("a", 1).remote.Allowed)
	})
}

// The server's clock goes back: nobody is admitted twice for it, and the wait is to when the
// latest time is reached again, and on. (A log keeps one admission for each microsecond, so
// it may be one later than its twin's.)
func TestTables_ClockGoesBack(t *testing.T) {
	t.Parallel()
	onTables(t, leapredis.Config{Limit: 5, Window: time.Minute}, func(x *table) {
		x.alone = x.carry == 1
		for _, back := range []time.Duration{1000, 30 * time.Second, time.Minute, 2 * time.Minute, time.Hour, 40_000 * time.Minute} {
			key := back.String()
			x.set(0)
			require.True(x.t, x.allow(key, 3).remote.Allowed)
			x.add(-back)
			require.True(x.t, x.allow(key, 2).remote.Allowed)
			refused := x.allow(key, 1).remote
			require.False(x.t, refused.Allowed)
			x.add(refused.RetryAfter - time.Microsecond)
			require.False(x.t, x.allow(key, 0).remote.Allowed)
			x.add(time.Microsecond)
			require.True(x.t, x.allow(key, 1).remote.Allowed)
		}
	})
}

// At random, over many windows: what is asked for is close to what is left.
func TestTables_AtRandom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, most := range []int64{1, 9, 16_777_214, 16_777_215, 1<<40 + 7, leapredis.MaxLimit} {
		for _, window := range []time.Duration{time.Minute, 61_000_003 * time.Microsecond, limit.MaxWindow} {
			t.Run(fmt.Sprintf("%d in %v", most, window), func(t *testing.T) {
				t.Parallel()
				onTables(t, leapredis.Config{Limit: most, Window: window}, func(x *table) {
					random := rand.New(rand.NewPCG(seed, uint64(most)))
					for range 150 {
						key := fmt.Sprint(random.IntN(2))
						switch random.IntN(5) {
						case 0:
							x.add(time.Duration(random.Int64N(int64(window)/2)) + 1000)
						case 1:
							x.add(time.Duration(random.IntN(100)) * time.Microsecond)
						}
						left := x.left(key)
						switch random.IntN(4) {
						case 0:
							x.allow(key, left+1)
						case 1:
							x.allow(key, left)
						case 2:
							x.allow(key, 1+random.Int64N(most))
						default:
							x.allow(key, max(0, left-random.Int64N(3)))
						}
					}
				})
			})
		}
	}
}

// The arithmetic of the script beside rational numbers, for any state that a key can have:
// n fit if ⌈previous × rest ÷ length⌉ + current + n ≤ limit. What is asked for is at the
// edge, where doubles would be wrong.
func TestCounter_ArithmeticAgreesWithRationalNumbers(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			// Of any size, not mostly large ones.
			upTo := func(most int64) int64 { return random.Int64N(min(most, 1<<random.IntN(50))) + 1 }
			client := &clocked{Client: ways[0].client(t, server.Addr())}
			edges := 0
			for trial := range 250 {
				length := max(limit.MinWindow.Microseconds(), upTo(limit.MaxWindow.Microseconds()))
				most := upTo(leapredis.MaxLimit)
				prefix := fmt.Sprintf("t%d:", trial)
				l := newCounter(t, client, leapredis.Config{
					Prefix: prefix, Limit: most, Window: time.Duration(length) * time.Microsecond, LeaseTime: time.Millisecond,
				})
				number := minute / 1000 / length
				elapsed := random.Int64N(length)
				client.now.Store(number*length + elapsed)
				for range 10 {
					previous, current := upTo(most), random.Int64N(most)
					if random.IntN(3) == 0 { // products that differ little: the share is nearly whole
						previous = max(1, min(most, length*random.Int64N(1+most/length)+random.Int64N(3)-1))
					}
					value := counterValue(number, previous, current)
					held := new(big.Int).Mul(big.NewInt(previous), big.NewInt(length-elapsed))
					held.Add(held, big.NewInt(length-1)).Div(held, big.NewInt(length)).Add(held, big.NewInt(current))
					room := new(big.Int).Sub(big.NewInt(most), held).Int64()
					for _, n := range []int64{room - 1, room, room + 1, upTo(most)} {
						if n < 1 || n > most {
							continue
						}
						edges++
						_, err := server.Do("SET", prefix+"{}a", value)
						require.NoError(t, err)
						d, err := l.AllowN(t.Context(), "a", n)
						require.NoError(t, err)
						require.Equal(t, n <= room, d.Allowed, "%d of %d in %d µs, %d before, %d now, %d elapsed", n, most, length, previous, current, elapsed)
						if d.Allowed {
							require.Equal(t, room-n, d.Remaining)
							got, err := server.Do("GET", prefix+"{}a")
							require.NoError(t, err)
							require.Equal(t, counterValue(number, previous, current+n), got)
						} else {
							require.Equal(t, max(0, room), d.Remaining)
							sleep(t, 1100*time.Microsecond) // the refusal is believed so long
						}
					}
				}
				require.NoError(t, l.Close())
				_, err := server.Do("FLUSHALL")
				require.NoError(t, err)
			}
			require.Greater(t, edges, 1000)
		})
	}
}

// counterValue is what a counter keeps under a key: see counter.lua.
func counterValue(number, previous, current int64) string {
	value := binary.BigEndian.AppendUint64(nil, uint64(number))[2:]
	value = append(value, 0, 0, 0, 0) // never reset
	for _, n := range []int64{previous, current} {
		value = append(value, binary.BigEndian.AppendUint64(nil, uint64(n))[1:]...)
	}
	return string(value)
}
