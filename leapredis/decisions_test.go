package leapredis

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/limit"
)

// Whatever is called, the answers are those of the limiter of package limit: to the
// microsecond, and what is refused without asking is refused by both.
func TestProperty_DecidesAsTheTwinInMemory(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { compare(t, k, false) })
		})
	}
}

// The same while the limit moves, and with calls that have limits of their own, or want as many
// as there is room for.
func TestProperty_DecidesAsTheTwinInMemoryUnderAnyLimit(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		if k.name == "Burst" { // a key keeps its time on the server when a limit moves, and its calls in memory
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { compare(t, k, true) })
		})
	}
}

func compare(rt *rapid.T, k kind, moves bool) {
	most := rapid.SampledFrom([]int64{0, 1, 2, 5, 100, 1 << 40}).Draw(rt, "limit")
	if k.name == "Burst" {
		most = min(most, 1<<31-1) // the twin rounds beyond
	}
	window := rapid.SampledFrom([]time.Duration{time.Millisecond, 7777 * time.Microsecond, time.Second, time.Hour}).Draw(rt, "window")
	now := time.Now().UnixMicro() * microsecond
	s := newServer()
	s.now = func() int64 { return now / microsecond }
	largest := most
	if moves {
		largest = 3*most + 5
	}
	l, err := k.make(s, Config{Limit: most, MaxLimit: largest, Window: window, Prefix: "p", WhenAway: Deny, Timeout: time.Minute})
	require.NoError(rt, err)
	defer l.Close()
	k.core(l).link.clock.Given = func() int64 { return now }
	tw, err := k.twin(limit.Config{Limit: most, MaxLimit: largest, Window: window, Now: func() int64 { return now }})
	require.NoError(rt, err)
	ctx := context.Background()

	type charge struct {
		mine, twins limit.Decision
	}
	var charges []charge
	same := func(what string, mine, twins limit.Decision, asked bool) {
		require.False(rt, mine.Degraded)
		require.Equal(rt, twins.Allowed, mine.Allowed, what)
		require.Equal(rt, twins.Charged, mine.Charged, what)
		require.Equal(rt, twins.Limit, mine.Limit, what)
		up := func(wait time.Duration) time.Duration {
			if wait == limit.Never {
				return wait
			}
			return (wait + microsecond - 1) / microsecond * microsecond
		}
		require.Equal(rt, up(twins.ResetAfter), mine.ResetAfter, what)
		wait := up(twins.RetryAfter)
		known := k.name == "Counter" || k.name == "Burst"
		if twins.MoreAfter > 0 && (known || asked && mine.MoreAfter > 0) {
			require.Equal(rt, up(twins.MoreAfter), mine.MoreAfter, what)
		}
		if asked || known {
			require.Equal(rt, twins.Remaining, mine.Remaining, what)
			require.Equal(rt, wait, mine.RetryAfter, what)
		} else { // it knows only what a smaller call was told
			require.LessOrEqual(rt, mine.Remaining, twins.Remaining, what)
			require.LessOrEqual(rt, mine.RetryAfter, wait, what)
			require.Positive(rt, mine.RetryAfter, what)
		}
	}
	amounts := rapid.SampledFrom([]int64{0, 1, 1, 1, 2, 3, most / 2, most, most + 1})
	for range rapid.IntRange(1, 60).Draw(rt, "steps") {
		if rapid.Bool().Draw(rt, "pauses") {
			now += rapid.Int64Range(0, window.Microseconds()*3/2).Draw(rt, "pause") * microsecond
		}
		if k.name != "Counter" {
			now += microsecond // no two admissions have one time
		}
		if tw.Stats().Coarse > 0 {
			return // it has joined two admissions, since settlements are more than the limit
		}
		n := amounts.Draw(rt, "n")
		calls := []string{"allow", "allow", "allow", "allow", "peek", "refund", "settle", "reset"}
		if moves {
			calls = append(calls, "limit", "own limit", "own limit", "at most", "at most")
		}
		switch what := rapid.SampledFrom(calls).Draw(rt, "what"); what {
		case "limit":
			to := rapid.Int64Range(0, largest).Draw(rt, "to")
			require.NoError(rt, tw.SetLimit(to))
			require.NoError(rt, l.SetLimit(to))
		case "allow", "own limit", "at most":
			own := rapid.Int64Range(limit.Exempt, largest).Draw(rt, "own")
			call := func(l interface {
				limit.Limiter
				AllowLimit(ctx context.Context, key string, n, limit int64) (limit.Decision, error)
				AllowAtMost(ctx context.Context, key string, n int64) (limit.Decision, error)
			},
			) (limit.Decision, error) {
				switch what {
				case "own limit":
					return l.AllowLimit(ctx, "a", n, own)
				case "at most":
					return l.AllowAtMost(ctx, "a", n)
				default:
					return l.AllowN(ctx, "a", n)
				}
			}
			twins, err := call(tw)
			require.NoError(rt, err)
			if tw.Stats().Coarse > 0 {
				return
			}
			before := l.Link().RoundTrips
			mine, err := call(l)
			require.NoError(rt, err)
			same(what, mine, twins, twins.Allowed || l.Link().RoundTrips > before)
			if mine.Charged > 0 {
				charges = append(charges, charge{mine, twins})
			}
		case "peek":
			mine, err := l.Peek(ctx, "a")
			require.NoError(rt, err)
			same(what, mine, tw.Peek("a"), true)
		case "reset":
			tw.Reset("a")
			require.NoError(rt, l.Reset(ctx, "a"))
		default:
			if len(charges) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(charges)-1).Draw(rt, "which")
			c := charges[i]
			charges = append(charges[:i], charges[i+1:]...)
			actual := rapid.Int64Range(0, c.mine.Charged).Draw(rt, "actual")
			if what == "settle" {
				actual = rapid.Int64Range(0, 2*c.mine.Charged).Draw(rt, "actual")
				require.NoError(rt, tw.Settle(ctx, "a", c.twins, actual))
				require.NoError(rt, l.Settle(ctx, "a", c.mine, actual))
				continue
			}
			require.NoError(rt, tw.Refund(ctx, "a", c.twins, actual))
			require.NoError(rt, l.Refund(ctx, "a", c.mine, actual))
		}
	}
}

func TestAllow_TheServersClockGoesBack(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		var back time.Duration
		s.now = func() int64 { return time.Now().Add(-back).UnixMicro() }
		l := k.start(t, s, Config{Limit: 3})
		require.True(t, allow(t, l, "a", 2).Allowed)
		back = 5 * time.Second
		require.True(t, allow(t, l, "a", 1).Allowed)
		d := allow(t, l, "a", 1)
		require.False(t, d.Allowed)
		require.Greater(t, d.RetryAfter, 5*time.Second)
		time.Sleep(50 * time.Millisecond)
		before := s.called(k.script)
		require.Equal(t, d.RetryAfter-50*time.Millisecond, allow(t, l, "a", 1).RetryAfter)
		require.Equal(t, before, s.called(k.script), "it is answered here")
	})
}

func TestAllow_AfterTheWaitThatWasToldItPasses(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 7})
		for n := int64(1); n <= 7; n++ {
			d := allow(t, l, "a", n)
			if d.Allowed {
				continue
			}
			time.Sleep(d.RetryAfter - time.Microsecond)
			require.False(t, allow(t, l, "a", n).Allowed)
			time.Sleep(time.Microsecond)
			require.True(t, allow(t, l, "a", n).Allowed)
		}
	})
}

func TestAllow_BadCalls(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 5})
		for _, key := range []string{"", strings.Repeat("k", limit.MaxKeyLength+1)} {
			_, err := l.Allow(t.Context(), key)
			require.ErrorIs(t, err, limit.ErrKey)
			_, err = l.Peek(t.Context(), key)
			require.ErrorIs(t, err, limit.ErrKey)
			require.ErrorIs(t, l.Reset(t.Context(), key), limit.ErrKey)
			require.ErrorIs(t, l.Refund(t.Context(), key, limit.Decision{}, 0), limit.ErrKey)
			require.ErrorIs(t, l.Settle(t.Context(), key, limit.Decision{}, 0), limit.ErrKey)
		}
		_, err := l.AllowN(t.Context(), "a", -1)
		require.ErrorIs(t, err, limit.ErrCount)
		require.ErrorIs(t, l.Refund(t.Context(), "a", limit.Decision{Charged: 1}, 2), limit.ErrCount)
		require.ErrorIs(t, l.Settle(t.Context(), "a", limit.Decision{}, -1), limit.ErrCount)
		require.ErrorIs(t, l.Settle(t.Context(), "a", limit.Decision{}, limit.MaxLimit+1), limit.ErrCount)
		for i, n := range []int64{6, MaxLimit, limit.MaxLimit, math.MaxInt64} {
			d := allow(t, l, fmt.Sprint("too many ", i), n) // each is asked for
			require.Equal(t, limit.Never, d.RetryAfter)
			require.EqualValues(t, 5, d.Remaining)
			require.False(t, d.Degraded)
		}

		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		_, err = l.Allow(t.Context(), "a")
		require.ErrorIs(t, err, limit.ErrClosed)
		require.ErrorIs(t, l.Reset(t.Context(), "a"), limit.ErrClosed)
	})
}

func TestAllow_ANilContextNeverEnds(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		l := k.start(t, newServer(), Config{Limit: 1})
		d, err := l.Allow(nil, "a") //nolint:staticcheck // it is allowed
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.NoError(t, l.Refund(nil, "a", d, 1)) //nolint:staticcheck // it is allowed
		require.True(t, allow(t, l, "a", 1).Allowed)
	})
}

// Every name has the prefix, no two keys have one, and no braces of a key name a slot.
func TestWire_AnyBytes(t *testing.T) {
	t.Parallel()
	c := counter(t, newServer(), Config{Prefix: "p:"})
	names := map[string]string{}
	for _, key := range []string{
		"a", "{", "}", "{}", "{}{", "{a}", "{}{a}", "a{b}c", "{{}}", "}{", "\x00", "\xff{\xfe}", " ", "p:", "{}a", "a{}",
	} {
		name := c.wire(key)
		require.True(t, strings.HasPrefix(name, "p:"))
		require.NotEqual(t, "p:", name)
		require.Empty(t, names[name])
		names[name] = key
		require.Equal(t, name, hashed(name), "%q", key)
	}
}

// Where a Prefix is the beginning of another, no key of one is a key of the other, whatever
// clients send, nor is it where the processes of the other are counted.
func TestWire_PrefixesThatBeginAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringOfN(rapid.SampledFrom([]rune("a:v2 ")), 1, 6, -1)
		key := rapid.StringOfN(rapid.SampledFrom([]rune("a:v2 {}")), 1, 6, -1)
		one, other := &RateLimiter{}, &RateLimiter{}
		one.cfg.Prefix, other.cfg.Prefix = prefix.Draw(t, "one"), prefix.Draw(t, "other")
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		require.Equal(t, one.cfg.Prefix == other.cfg.Prefix && a == b, one.wire(a) == other.wire(b))
		require.NotEqual(t, one.cfg.Prefix, other.wire(b))
		require.Equal(t, one.wire(a), hashed(one.wire(a)))
	})
}

// "v2:7" of one limiter is not "7" of another, whose Prefix continues with "v2:".
func TestAllow_LimitersWhosePrefixesBeginAlike(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		short := k.start(t, s, Config{Prefix: "api:", Limit: 10, Window: time.Minute, Instances: count})
		long := k.start(t, s, Config{Prefix: "api:v2:", Limit: 10, Window: time.Minute, Instances: count})
		require.True(t, allow(t, short, "v2:7", 10).Allowed)
		require.True(t, allow(t, long, "7", 10).Allowed)
		require.True(t, allow(t, short, "v2:", 10).Allowed)
		synctest.Wait()
		require.Zero(t, short.Link().Failures+long.Link().Failures)
	})
}

// hashed is the part of a name that chooses its slot: what is between the first "{" and
// the first "}" after it, unless that is nothing (Redis Cluster specification).
func hashed(name string) string {
	if _, rest, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return name
}

func TestReset_WhatWasChargedBeforeDoesNotComeBack(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 4, Window: time.Minute})
		old := allow(t, l, "a", 3)
		require.NoError(t, l.Reset(t.Context(), "a"))
		time.Sleep(time.Microsecond)
		require.True(t, allow(t, l, "a", 3).Allowed)
		require.NoError(t, l.Refund(t.Context(), "a", old, 3))
		require.False(t, allow(t, l, "a", 2).Allowed)
	})
}

func TestNoScript_TheTextIsSentOnceToEachServer(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		l := k.start(t, s, Config{Limit: 1 << 40})
		for range 2 {
			for range 10 {
				require.False(t, allow(t, l, "a", 1).Degraded)
				time.Sleep(time.Microsecond)
			}
			s.mu.Lock()
			clear(s.known) // it was started anew
			s.mu.Unlock()
		}
		require.Equal(t, 20, s.called(k.script))
		require.Zero(t, l.Link().Failures)
		require.Equal(t, 2, s.called("NOSCRIPT"))
	})
}

// Another wrote something else there: that key is decided without the server, and the
// others with it.
func TestWrongType_IsOfOneKey(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		bad := true
		s.fault = func(name string, _ bool) error {
			if name == k.script && bad {
				return &ReplyError{"WRONGTYPE Operation against a key holding the wrong kind of value"}
			}
			return nil
		}
		var log logs
		l := k.start(t, s, Config{Limit: 3, Logger: log.logger()})
		for range 20 {
			require.True(t, allow(t, l, "a", 1).Degraded)
		}
		var replied *ReplyError
		require.ErrorAs(t, l.Settle(t.Context(), "a", limit.Decision{}, 1), &replied)
		synctest.Wait()
		bad = false
		require.False(t, allow(t, l, "b", 1).Degraded)
		require.Equal(t, 1, log.count("WRONGTYPE"))
		require.Equal(t, 1, log.count("prefix=test: holds=none"))
		require.Zero(t, l.Link().Openings)
	})
}

func TestGroup_TheSharedLimitIsAskedFirstAndGetsItBack(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		shared := k.start(t, s, Config{Name: "shared", Limit: 100, Window: time.Hour})
		own, err := limit.NewCounter(limit.Config{Name: "own", Limit: 2})
		require.NoError(t, err)
		g := limit.All(own, shared)
		require.True(t, g.Remote())
		require.Equal(t, "shared", g.Describe()[0].Name)
		for i := range 10 {
			d := allow(t, g, "a", 1)
			require.Equal(t, i < 2, d.Allowed, i)
			if !d.Allowed {
				require.Equal(t, "own", d.Name)
			}
			time.Sleep(time.Microsecond)
		}
		require.EqualValues(t, 2, s.held("test:{}a"))
		require.Equal(t, 8, s.called(k.script+" refund"))

		time.Sleep(2 * time.Second)
		d := allow(t, g, "a", 2)
		require.True(t, d.Allowed)
		require.NoError(t, g.Settle(t.Context(), "a", d, 1))
		p, err := shared.Peek(t.Context(), "a")
		require.NoError(t, err)
		assert.EqualValues(t, 97, p.Remaining)
	})
}

func TestConfig_EveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	bad := Config{
		Name: strings.Repeat("n", 2000), Limit: MaxLimit + 1, Window: time.Second + 1, Prefix: "a{b}", Timeout: -1,
		WhenAway: 9, Instances: -1, Lease: -1, LeaseTime: time.Hour, MaxKeys: -1,
	}
	_, err := NewCounter(nil, bad)
	require.ErrorIs(t, err, limit.ErrConfig)
	text := err.Error()
	for _, field := range []string{
		"client", "Name", "Limit", "Window", "Prefix", "Timeout", "WhenAway", "Instances", "Lease", "LeaseTime", "MaxKeys",
	} {
		require.Contains(t, text, ": "+field+" is ")
	}
	require.Len(t, strings.Split(text, "\n"), 11)

	_, err = NewLog(newServer(), Config{Limit: 10, Prefix: "p", Lease: 2})
	require.EqualError(t, err, `limit: bad configuration of Log: Lease is 2; want 0 or 1: only a Counter has leases, since a Log would have to know when each permit is used`)
	_, err = NewCounter(newServer(), Config{Limit: 10})
	require.EqualError(t, err, `limit: bad configuration of Counter: Prefix is ""; want 1 to 128 bytes without { and }`)
}

func TestNames(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]fmt.Stringer{
		"Local": Local, "Allow": Allow, "Deny": Deny, "Policy(3)": Policy(3),
		"Closed": Closed, "Open": Open, "HalfOpen": HalfOpen, "State(3)": State(3),
	} {
		require.Equal(t, want, got.String())
	}
}
